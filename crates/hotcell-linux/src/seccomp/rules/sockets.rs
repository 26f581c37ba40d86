//! Sockets.
//!
//! Where a connection may go is decided by the network namespace; the filter decides which protocol
//! code of the kernel can be reached at all. Families are an allow-list: a family that nobody
//! listed (vsock, which talks to the hypervisor, the crypto API, packet sockets, and some forty
//! others) does not exist in the box.

use super::super::Network;
use super::super::condition::Argument::{First, Fourth, Second, Third};
use super::super::condition::{Condition, int, int_bits};
use super::{Action, Group, call};

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;

const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
const SOCK_SEQPACKET: u32 = 5;
/// The type argument without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const SOCKET_TYPE: u32 = !(0x80000 | 0x800);

/// "The usual one", TCP and UDP. Not among them: MPTCP, SCTP and SMC, which are large and pass by
/// rules that know only TCP; ICMP, which would let the box map a network; everything raw.
const INTERNET_PROTOCOLS: &[u32] = &[0, 6, 17];
/// `NETLINK_ROUTE`, through which C libraries, Go and Java list interfaces and addresses. Changing
/// anything needs a capability. Not among them: netfilter, audit, socket diagnostics.
const NETLINK_ROUTE: u32 = 0;

/// socket(int family, int type, int protocol)
const ORDINARY_SOCKET: Condition = Condition::Any(&[
    LOCAL_SOCKET,
    Condition::All(&[
        int(First, &[AF_INET, AF_INET6]),
        int_bits(Second, SOCKET_TYPE, &[SOCK_STREAM, SOCK_DGRAM]),
        int(Third, INTERNET_PROTOCOLS),
    ]),
    Condition::All(&[
        int(First, &[AF_NETLINK]),
        // For netlink the two types mean the same, and C libraries ask for the raw one.
        int_bits(Second, SOCKET_TYPE, &[SOCK_RAW, SOCK_DGRAM]),
        int(Third, &[NETLINK_ROUTE]),
    ]),
]);

const LOCAL_SOCKET: Condition = Condition::All(&[
    int(First, &[AF_UNIX]),
    int_bits(Second, SOCKET_TYPE, &[SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET]),
]);

/// setsockopt(fd, int level, int name, …)
const HARMFUL_OPTIONS: Condition = Condition::Any(&[
    Condition::All(&[
        int(Second, &[1]), // SOL_SOCKET
        int(
            Third,
            &[
                26, // SO_ATTACH_FILTER: a program that runs on every packet, in the kernel
                50, // SO_ATTACH_BPF
                51, // SO_ATTACH_REUSEPORT_CBPF
                52, // SO_ATTACH_REUSEPORT_EBPF
            ],
        ),
    ]),
    Condition::All(&[
        int(Second, &[6]), // SOL_TCP
        int(Third, &[31]), // TCP_ULP: loads another protocol onto a connection, such as kernel TLS
    ]),
    Condition::All(&[
        int(Second, &[0, 41]), // SOL_IP, SOL_IPV6
        // Replacing and feeding the tables of iptables, arptables and ebtables. It needs a
        // capability as well, but its past faults were found by exactly this call.
        int(Third, &[64, 65, 96, 97, 128, 129]),
    ]),
    Condition::All(&[
        // On the host's network a second TCP listener of the same user can join a port that the
        // first one marked as shareable, and get part of its connections.
        Condition::On(Network::Host),
        int(Second, &[1]), // SOL_SOCKET
        int(Third, &[15]), // SO_REUSEPORT
    ]),
]);

/// `MSG_OOB`
const OUT_OF_BAND: u32 = 1;
const WHY_NO_OUT_OF_BAND: &str = "sends, except urgent data: almost nobody uses it, and on local sockets it has been a \
                                  way out of a sandbox (CVE-2025-38236)";

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "local, TCP and UDP sockets, and the list of network interfaces",
        action: Action::AllowIf(ORDINARY_SOCKET),
        calls: &[call("socket", 41, 198)],
    },
    Group {
        why: "pairs exist for local sockets only",
        // socketpair(int family, int type, …)
        action: Action::AllowIf(LOCAL_SOCKET),
        calls: &[call("socketpair", 53, 199)],
    },
    Group {
        why: "uses a socket that the rule for making one let through",
        action: Action::Allow,
        calls: &[
            call("bind", 49, 200),
            call("connect", 42, 203),
            call("listen", 50, 201),
            call("accept", 43, 202),
            call("accept4", 288, 242),
            call("shutdown", 48, 210),
            call("getsockname", 51, 204),
            call("getpeername", 52, 205),
            call("getsockopt", 55, 209),
            call("recvfrom", 45, 207),
            call("recvmsg", 47, 212),
            call("recvmmsg", 299, 243),
        ],
    },
    Group {
        why: WHY_NO_OUT_OF_BAND,
        // sendto(fd, buf, len, unsigned int flags, …), sendmmsg(fd, msgs, len, unsigned int flags)
        action: Action::AllowUnless(int_bits(Fourth, OUT_OF_BAND, &[OUT_OF_BAND])),
        calls: &[call("sendto", 44, 206), call("sendmmsg", 307, 269)],
    },
    Group {
        why: WHY_NO_OUT_OF_BAND,
        // sendmsg(fd, msg, unsigned int flags)
        action: Action::AllowUnless(int_bits(Third, OUT_OF_BAND, &[OUT_OF_BAND])),
        calls: &[call("sendmsg", 46, 211)],
    },
    Group {
        why: "options of a socket, except those that load programs or other protocols into the kernel, \
              and on the host's network the one that shares a port",
        action: Action::AllowUnless(HARMFUL_OPTIONS),
        calls: &[call("setsockopt", 54, 208)],
    },
];
