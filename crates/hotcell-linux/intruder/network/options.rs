//! Changing the network, and protocol code of the kernel that a box has no use for.

use super::{AF_INET, AF_INET6, AF_UNIX, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, set_option, socket};
use crate::arguments::Arguments;
use crate::sys::{self, Fd};
use crate::{nr, report};

/// `join-network PID…`: enters the network namespaces of processes of the host's.
pub fn join_network(arguments: Arguments) {
    const NEWNET: usize = 0x4000_0000;
    for index in 0..arguments.len() {
        let path = alloc::format!("/proc/{}/ns/net\0", arguments.display(index));
        let by_file = core::ffi::CStr::from_bytes_with_nul(path.as_bytes())
            .map_err(|_| sys::EPERM)
            .and_then(|path| sys::open(path, sys::O_RDONLY, 0))
            .and_then(|namespace| sys::call(nr::SETNS, &[namespace as usize, NEWNET]));
        report::success(format_args!("setns to the network of {}", arguments.display(index)), by_file);
        let by_process = sys::call(nr::PIDFD_OPEN, &[arguments.number(index), 0])
            .and_then(|process| sys::call(nr::SETNS, &[process, NEWNET]));
        report::success(format_args!("setns by pidfd to the network of {}", arguments.display(index)), by_process);
    }
}

/// `multicast`: joins the groups of all hosts of a network. (Nobody announces that, so nothing is sent.)
pub fn multicast(_: Arguments) {
    const IP: usize = 0;
    const IP_ADD_MEMBERSHIP: usize = 35;
    const IPV6: usize = 41;
    const IPV6_ADD_MEMBERSHIP: usize = 20;
    // The group, then no interface in particular.
    let all_hosts = [224u8, 0, 0, 1, 0, 0, 0, 0];
    let mut all_nodes = [0u8; 20];
    (all_nodes[0], all_nodes[1], all_nodes[15]) = (0xff, 0x02, 1);
    let join = |family, level, option, request: &[u8]| {
        let socket = socket(family, SOCK_DGRAM, 0)?;
        sys::call(nr::SETSOCKOPT, &[socket as usize, level, option, request.as_ptr() as usize, request.len()])
    };
    report::success("multicast to all hosts", join(AF_INET, IP, IP_ADD_MEMBERSHIP, &all_hosts));
    report::success("multicast to all IPv6 nodes", join(AF_INET6, IPV6, IPV6_ADD_MEMBERSHIP, &all_nodes));
}

/// `set-interface`: sets the flags of the loopback interface to what they are. Who may do that may do anything to the
/// network.
pub fn set_interface(_: Arguments) {
    const GET_FLAGS: usize = 0x8913;
    const SET_FLAGS: usize = 0x8914;
    let set = || {
        let socket = socket(AF_INET, SOCK_DGRAM, 0)?;
        let mut request = [0u8; 40];
        request[..2].copy_from_slice(b"lo");
        let pointer = request.as_mut_ptr() as usize;
        sys::call(nr::IOCTL, &[socket as usize, GET_FLAGS, pointer])?;
        sys::call(nr::IOCTL, &[socket as usize, SET_FLAGS, pointer])
    };
    report::success("change of an interface", set());
}

/// `tun`: opens the device that interfaces are made with.
pub fn tun(_: Arguments) {
    const GET_FEATURES: usize = 0x8004_54cf;
    let features = sys::open(c"/dev/net/tun", sys::O_RDWR, 0).and_then(|device| {
        let mut features = 0u32;
        sys::call(nr::IOCTL, &[device as usize, GET_FEATURES, &raw mut features as usize])
    });
    report::success("open /dev/net/tun", features);
}

/// `vsock`: binds a socket to the hypervisor's network, at any port.
pub fn vsock(_: Arguments) {
    const AF_VSOCK: usize = 40;
    const ANY: u32 = u32::MAX;
    for kind in [SOCK_STREAM, SOCK_DGRAM] {
        // struct sockaddr_vm: family, port, machine.
        let address = [AF_VSOCK as u32, ANY, ANY, 0];
        let bound = socket(AF_VSOCK, kind, 0).and_then(|socket| {
            sys::call(nr::BIND, &[socket as usize, address.as_ptr() as usize, size_of_val(&address)])
        });
        report::call("socket of the hypervisor's network", bound);
    }
}

/// `privileged-options`: socket options that steer packets past the rules of the machine.
pub fn privileged_options(_: Arguments) {
    const SO_MARK: usize = 36;
    const SO_RCVBUFFORCE: usize = 33;
    const IP: usize = 0;
    const IP_TRANSPARENT: usize = 19;
    for (name, level, option, value) in [
        ("SO_MARK", SOL_SOCKET, SO_MARK, 1),
        ("SO_RCVBUFFORCE", SOL_SOCKET, SO_RCVBUFFORCE, 4096),
        ("IP_TRANSPARENT", IP, IP_TRANSPARENT, 1),
    ] {
        let set = socket(AF_INET, SOCK_DGRAM, 0).and_then(|socket| set_option(socket, level, option, value));
        report::success(name, set);
    }
}

/// `socket-programs`: options that load a program, another protocol or a packet filter into the kernel, from an address
/// that leads nowhere.
pub fn socket_programs(_: Arguments) {
    const TCP: usize = 6;
    const IP: usize = 0;
    const IPV6: usize = 41;
    const NOWHERE: usize = 1;
    for (name, level, option, length) in [
        ("SO_ATTACH_FILTER", SOL_SOCKET, 26, 16),
        ("SO_ATTACH_REUSEPORT_CBPF", SOL_SOCKET, 51, 16),
        ("TCP_ULP", TCP, 31, 4),
        ("IPT_SO_SET_REPLACE", IP, 64, 96),
        ("IP6T_SO_SET_REPLACE", IPV6, 64, 96),
    ] {
        let family = if level == IPV6 { AF_INET6 } else { AF_INET };
        let set = socket(family, SOCK_STREAM, 0)
            .and_then(|socket| sys::call(nr::SETSOCKOPT, &[socket as usize, level, option, NOWHERE, length]));
        report::call(format_args!("setsockopt {name}"), set);
    }
}

/// `urgent-data`: sends a byte out of band over a pair of local sockets.
pub fn urgent_data(_: Arguments) {
    const OUT_OF_BAND: usize = 1;
    let mut ends = [0 as Fd; 2];
    let sent = sys::call(nr::SOCKETPAIR, &[AF_UNIX, SOCK_STREAM, 0, ends.as_mut_ptr() as usize]).and_then(|_| {
        let byte = b"x";
        sys::call(nr::SENDTO, &[ends[0] as usize, byte.as_ptr() as usize, 1, OUT_OF_BAND, 0, 0])
    });
    report::call("sendto out of band", sent);
}
