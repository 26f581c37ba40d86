//! Everything that leaves the box, or comes in.
//!
//! The controls talk to the loopback only. Whether somewhere else could be reached is found out by asking the kernel for a
//! way there, which sends nothing.

use hotcell::SpawnConfig;
use hotcell::policy::NetworkMode;

use crate::arena::Arena;
use crate::check::Group::Network;
use crate::check::{Check, Impact, Need, Seen, Supervised, call, check};
use crate::target::Boxed;

pub(super) const CHECKS: &[Check] = &[
    check("network.loopback-tcp4", Network, "talk to a service on the host's 127.0.0.1")
        .safe("the box's loopback is its own, and nobody listens there")
        .impact(Impact::Lateral)
        .intruder(&["dial", "tcp", "127.0.0.1", "{tcp4}"]),
    check("network.loopback-tcp6", Network, "talk to a service on the host's ::1")
        .safe("the box's loopback is its own, and nobody listens there")
        .impact(Impact::Lateral)
        .intruder(&["dial", "tcp", "::1", "{tcp6}"]),
    check("network.loopback-aliases", Network, "reach the host's loopback as 0.0.0.0, ::, or an IPv4 address in IPv6")
        .safe("they all mean the box's own loopback")
        .impact(Impact::Lateral)
        .intruder(&[
            "dial",
            "tcp",
            "0.0.0.0",
            "{tcp4}",
            "tcp",
            "::ffff:127.0.0.1",
            "{tcp4}",
            "tcp",
            "::ffff:0.0.0.0",
            "{tcp4}",
            "tcp",
            "::",
            "{tcp6}",
        ]),
    check("network.host-address", Network, "talk to a service on the host's address in its own network")
        .safe("there is no way to it")
        .impact(Impact::Lateral)
        .cves(&["CVE-2025-9074"])
        .needs(&[Need::Address])
        .intruder(&["dial", "tcp", "{address}", "{address-port}"]),
    check("network.udp", Network, "send datagrams to the host's loopback, over IPv4 and IPv6")
        .safe("nothing arrives")
        .impact(Impact::Exfil)
        .intruder(&["dial", "udp", "127.0.0.1", "{udp4}", "udp", "::1", "{udp6}"]),
    check("network.fast-open", Network, "send data with the first TCP packet, past checks of connect")
        .safe("nothing arrives")
        .impact(Impact::Exfil)
        .intruder(&["dial", "fast-open", "127.0.0.1", "{tcp4}", "fast-open", "::1", "{tcp6}"]),
    check("network.mptcp", Network, "connect by multipath TCP, which rules about TCP do not know")
        .safe("such a socket cannot be made, and nothing arrives")
        .impact(Impact::Exfil)
        .intruder(&["dial", "mptcp", "127.0.0.1", "{tcp4}", "mptcp", "::1", "{tcp6}"]),
    check("network.io-uring-connect", Network, "connect through an io_uring, which no system call filter sees")
        .safe("there is no io_uring, and nobody to connect to")
        .impact(Impact::Exfil)
        .intruder(&["dial-uring", "127.0.0.1", "{tcp4}"]),
    check("network.abstract-socket", Network, "connect to an abstract local socket of the host's")
        .safe("the name means nothing in the box")
        .impact(Impact::Escape)
        .cves(&["CVE-2020-15257"])
        .intruder(&["dial-unix", "stream", "@{abstract}"]),
    check("network.abstract-on-open-network", Network, "do the same in a box that shares the host's network")
        .safe("Landlock's scope ends at the box")
        .impact(Impact::Escape)
        .cves(&["CVE-2020-15257"])
        .grant(|policy, _| policy.network(NetworkMode::Open))
        .needs(&[Need::Landlock(6)])
        .intruder(&["dial-unix", "stream", "@{abstract}"]),
    check("network.unix-socket", Network, "connect to a local socket of the host's by its path")
        .safe("the path does not exist in the box")
        .impact(Impact::Escape)
        .intruder(&["dial-unix", "stream", "{socket}"]),
    check("network.unix-datagram", Network, "send a datagram to a local socket of the host's by its path")
        .safe("the path does not exist in the box")
        .impact(Impact::Escape)
        .intruder(&["dial-unix", "datagram", "{datagram}"]),
    check("network.internet", Network, "find a way to the Internet, over IPv4 and IPv6")
        .safe("the kernel knows none")
        .impact(Impact::Exfil)
        .cves(&["CVE-2025-66479"])
        .intruder(&["route", "1.1.1.1", "8.8.8.8", "2001:4860:4860::8888"]),
    check("network.metadata", Network, "find a way to the metadata services of clouds, by all their addresses")
        .safe("the kernel knows none")
        .impact(Impact::HostLeak)
        .intruder(&[
            "route",
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
        ]),
    check(
        "network.private-networks",
        Network,
        "find a way to networks around the host, and to container engines in them",
    )
    .safe("the kernel knows none")
    .impact(Impact::Lateral)
    .cves(&["CVE-2025-9074"])
    .intruder(&["route", "10.0.0.1", "172.17.0.1", "192.168.0.1", "192.168.65.7", "100.64.0.1", "fd00::1"]),
    check("network.resolver", Network, "find the host's name servers, through which data leaves in names")
        .safe("the box does not know any, nor a way to one")
        .impact(Impact::Exfil)
        .cves(&["CVE-2024-29018"])
        .intruder(&["resolver"]),
    check("network.listen", Network, "listen on a port and be called from the host")
        .safe("the port is one of the box's own network")
        .impact(Impact::Lateral)
        .intruder(&["listen", "{called-port}"]),
    check(
        "network.shared-port",
        Network,
        "join a listener of the host's on its port, in a box with the host's network",
    )
    .safe("the port cannot be shared")
    .impact(Impact::HostLeak)
    .grant(|policy, _| policy.network(NetworkMode::Open))
    .intruder(&["share-port", "{shared-port}"]),
    check("network.between-boxes", Network, "reach another box by its loopback port and its abstract socket")
        .safe("every box has a loopback and names of its own")
        .impact(Impact::Lateral)
        .supervised(Supervised {
            naive: visit_without_boxes,
            hotcell: |boxed, arena| Box::pin(visit_between_boxes(boxed, arena)),
        }),
    check("network.interfaces", Network, "ask the kernel for the host's network interfaces")
        .safe("there is none but the box's loopback")
        .impact(Impact::HostLeak)
        .intruder(&["interfaces"]),
    check("network.routes", Network, "ask the kernel for a default route")
        .safe("there is none")
        .impact(Impact::Exfil)
        .intruder(&["routes"]),
    check("network.proc-tables", Network, "read the host's interfaces, routes and neighbours from /proc/net")
        .safe("the tables are those of the box's own network")
        .impact(Impact::HostLeak)
        .intruder(&["proc-net"]),
    check("network.proc-sockets", Network, "find the host's sockets in /proc/net")
        .safe("the tables are those of the box's own network")
        .impact(Impact::HostLeak)
        .intruder(&["proc-sockets", "{abstract}", "{tcp4}", "{tcp6}", "{udp4}", "{udp6}"]),
    check("network.sysfs-interfaces", Network, "read the host's interfaces from /sys/class/net")
        .safe("there is no sysfs in the box")
        .impact(Impact::HostLeak)
        .intruder(&["sys-class-net"]),
    check("network.join-namespace", Network, "enter the network namespace of a process of the host's")
        .safe("neither its files nor its number exist in the box")
        .impact(Impact::Escape)
        .needs(&[Need::Root])
        .intruder(&["join-network", "{victim}"]),
    check(
        "network.raw-sockets",
        Network,
        "open raw and ICMP sockets, with a user namespace of its own if it can get one",
    )
    .safe("they are refused before their own code runs")
    .impact(Impact::Exfil)
    .nested_calls(&[
        call("socket", &["2", "3", "1"]),
        call("socket", &["2", "3", "255"]),
        call("socket", &["10", "3", "58"]),
        call("socket", &["2", "2", "1"]),
    ]),
    check("network.packet-sockets", Network, "open packet sockets, which hear everything on an interface")
        .safe("they are refused before their own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2020-14386", "CVE-2017-7308"])
        .nested_calls(&[call("socket", &["17", "3", "0"]), call("socket", &["17", "2", "0"])]),
    check("network.netlink", Network, "open netlink to the packet filter, to IPsec, and to the list of all sockets")
        .safe("they are refused before their own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-32250", "CVE-2023-32233", "CVE-2024-1086"])
        .nested_calls(&[
            call("socket", &["16", "3", "12"]),
            call("socket", &["16", "3", "6"]),
            call("socket", &["16", "3", "4"]),
            call("socket", &["16", "3", "16"]),
        ]),
    check("network.vsock", Network, "open a socket to the hypervisor")
        .safe("it is refused before its own code runs")
        .impact(Impact::Escape)
        .intruder(&["vsock"]),
    check("network.multicast", Network, "listen to what is sent to all hosts of the host's network")
        .safe("there is no such network")
        .impact(Impact::HostLeak)
        .intruder(&["multicast"]),
    check(
        "network.change-interface",
        Network,
        "change an interface, with a user namespace of its own if it can get one",
    )
    .safe("nobody in the box has the right to")
    .impact(Impact::InternalEsc)
    .intruder(&["nested", "set-interface"]),
    check("network.tun", Network, "open the device that network interfaces are made with")
        .safe("the device does not exist in the box")
        .impact(Impact::Escape)
        .needs(&[Need::Root])
        .intruder(&["tun"]),
    check("network.privileged-options", Network, "mark packets, and take other machines' addresses")
        .safe("nobody in the box has the right to")
        .impact(Impact::Exfil)
        .intruder(&["nested", "privileged-options"]),
    check("network.socket-programs", Network, "load programs, protocols and packet filters into sockets")
        .safe("the options are refused before their own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2021-22555", "CVE-2016-4997"])
        .intruder(&["nested", "socket-programs"]),
    check("network.urgent-data", Network, "send urgent data over a local socket")
        .safe("it is refused before its own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2025-38236"])
        .intruder(&["urgent-data"]),
];

/// A port and a name for one box to serve and another to visit.
fn meeting_point(arena: &Arena) -> Result<[String; 2], String> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let name = arena.expand("@{marker}").map_err(|error| error.to_string())?;
    Ok([port.map_err(|error| error.to_string())?.port().to_string(), name.to_string_lossy().into_owned()])
}

/// Two processes without boxes.
fn visit_without_boxes(arena: &Arena) -> Seen {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let [port, name] = meeting_point(arena)?;
    let words = |error: std::io::Error| error.to_string();
    let mut server = Command::new(arena.intruder())
        .args(["serve", arena.token(), &port, &name])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(words)?;
    let mut line = String::new();
    if let Some(output) = server.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(words)?;
    }
    let visit = Command::new(arena.intruder()).args(["visit", &port, &name]).output().map_err(words);
    let _ = server.kill();
    let _ = server.wait();
    Ok(String::from_utf8_lossy(&visit?.stdout).into_owned())
}

/// Two boxes of the same engine.
async fn visit_between_boxes(boxed: &Boxed, arena: &Arena) -> Seen {
    let [port, name] = meeting_point(arena)?;
    let words = |error: hotcell::EngineError| error.to_string();
    let policy = hotcell::Policy::builder().read(arena.program()).cwd("/").build();
    let policy = boxed.accept(policy.map_err(|error| error.to_string())?);
    let intruder = |arguments: &[&str]| SpawnConfig::new(arena.intruder()).args(arguments.iter().copied());
    let engine = boxed.engine().await?;
    let serve = intruder(&["serve", arena.token(), &port, &name]);
    let mut server = engine.start(&policy, serve).await.map_err(words)?;
    if let Some(mut output) = server.take_io().output {
        // Its first words are that it serves.
        output.next().await;
    }
    let visit = engine.run_with(&policy, intruder(&["visit", &port, &name])).await.map_err(words);
    let destroyed = server.destroy().await.map_err(|error| error.to_string());
    engine.close().await;
    destroyed?;
    Ok(String::from_utf8_lossy(&visit?.stdout.bytes()).into_owned())
}
