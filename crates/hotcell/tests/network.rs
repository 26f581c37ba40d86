//! Which connections a box can make.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use common::*;
use hotcell::Policy;
use hotcell::policy::NetworkMode;

/// Everything on the host that a box could try to reach.
struct Host {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    abstract_name: String,
    abstract_socket: UnixListener,
}

impl Host {
    fn listen() -> Self {
        // On every address, so that the box can try each that the host has.
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let tcp6 = TcpListener::bind(("::1", port)).ok();
        let udp = UdpSocket::bind(("0.0.0.0", port)).unwrap();
        let abstract_name = format!("hotcell-test-{}", marker());
        let abstract_socket =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        tcp.set_nonblocking(true).unwrap();
        tcp6.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        udp.set_nonblocking(true).unwrap();
        abstract_socket.set_nonblocking(true).unwrap();
        Self { tcp, tcp6, udp, abstract_name, abstract_socket }
    }

    /// Tries to reach it in every way, and prints which worked.
    fn probe(&self) -> String {
        let port = self.tcp.local_addr().unwrap().port();
        let own = own_address().map(|address| format!(", '{address}'")).unwrap_or_default();
        let name = &self.abstract_name;
        format!(
            r"
import socket
def attempt(name, way):
    try:
        way()
        print(name)
    except OSError:
        pass
def connect(family, address):
    def way():
        made = socket.socket(family)
        made.settimeout(3)
        made.connect(address)
        made.sendall(b'x')
    return way
for address in ['127.0.0.1', '127.0.0.2', '0.0.0.0'{own}]:
    attempt('tcp ' + address, connect(socket.AF_INET, (address, {port})))
attempt('tcp ::1', connect(socket.AF_INET6, ('::1', {port})))
attempt('tcp mapped', connect(socket.AF_INET6, ('::ffff:127.0.0.1', {port})))
attempt('fast open', lambda: socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {port})))
attempt('multipath', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(('127.0.0.1', {port})))
attempt('udp', lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port})))
attempt('abstract', connect(socket.AF_UNIX, '\0{name}'))
print('done')
"
        )
    }

    /// What arrived.
    fn arrivals(&self) -> Vec<&'static str> {
        let mut arrived = Vec::new();
        if self.tcp.accept().is_ok() {
            arrived.push("tcp");
        }
        if self.tcp6.as_ref().is_some_and(|socket| socket.accept().is_ok()) {
            arrived.push("tcp6");
        }
        if self.udp.recv(&mut [0; 8]).is_ok() {
            arrived.push("udp");
        }
        if self.abstract_socket.accept().is_ok() {
            arrived.push("abstract");
        }
        arrived
    }
}

/// The address under which the host is known outside, if it has one. Nothing is sent.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

#[tokio::test]
async fn without_a_network_nothing_of_the_host_is_reached() {
    let Some(engine) = engine("without_a_network_nothing_of_the_host_is_reached").await else { return };
    let host = Host::listen();
    let output = engine.run(python(&host.probe())).await.unwrap();
    // A datagram to nobody is sent without an error: what counts is what arrives.
    let seen = stdout(&output);
    assert!(seen.lines().all(|line| line == "done" || line == "udp"), "{seen}");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(host.arrivals(), Vec::<&str>::new());
    // The same probe reaches all of it from outside.
    let outside = python_outside(&host.probe());
    assert!(outside.contains("tcp 127.0.0.1\n") && outside.contains("abstract\n"), "{outside}");
    let arrived = host.arrivals();
    assert!(["tcp", "udp", "abstract"].iter().all(|kind| arrived.contains(kind)), "{arrived:?}");
}

#[tokio::test]
async fn without_a_network_there_is_only_the_loopback() {
    let Some(engine) = engine("without_a_network_there_is_only_the_loopback").await else { return };
    let probe = r"
import socket
print([name for _, name in socket.if_nameindex()])
for family, address in [(socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')]:
    server = socket.socket(family)
    server.bind((address, 0))
    server.listen()
    client = socket.create_connection(server.getsockname()[:2], 5)
    client.sendall(b'hello')
    print(server.accept()[0].recv(5))
for address in ['192.0.2.1', '169.254.169.254', '8.8.8.8', '10.0.0.1', '224.0.0.1']:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            made = socket.socket(type=kind)
            made.settimeout(3)
            made.connect((address, 53))
            print('reached', address)
        except OSError as error:
            pass
try:
    print(socket.getaddrinfo('example.com', 80))
except OSError:
    pass
print(socket.gethostbyname('localhost'))
";
    let output = engine.run(python(probe)).await.unwrap();
    assert_eq!(stdout(&output), "['lo']\nb'hello'\nb'hello'\n127.0.0.1\n");
}

#[tokio::test]
async fn boxes_do_not_reach_each_other() {
    let Some(engine) = engine("boxes_do_not_reach_each_other").await else { return };
    let (server, client) =
        (engine.create(&Policy::default()).await.unwrap(), engine.create(&Policy::default()).await.unwrap());
    let serve = r"
import socket, time
name = '\0hotcell-between-boxes'
tcp, local = socket.create_server(('127.0.0.1', 5151)), socket.socket(socket.AF_UNIX)
local.bind(name)
local.listen()
print('ready', flush=True)
time.sleep(600)
";
    let connect = r"
import socket
for make in [lambda: socket.create_connection(('127.0.0.1', 5151), 3), lambda: socket.socket(socket.AF_UNIX).connect('\0hotcell-between-boxes')]:
    try:
        make()
        print('connected')
    except OSError:
        print('refused')
";
    let mut process = server.spawn(python(serve)).await.unwrap();
    let mut output = process.take_io().output.unwrap();
    assert_eq!(output.next().await.unwrap().bytes, b"ready\n");
    assert_eq!(stdout(&run_in(&*client, python(connect)).await), "refused\nrefused\n");
    // Inside one box the same works.
    assert_eq!(stdout(&run_in(&*server, python(connect)).await), "connected\nconnected\n");
}

#[tokio::test]
async fn an_open_network_is_the_hosts() {
    let Some(engine) = engine("an_open_network_is_the_hosts").await else { return };
    let policy = Policy::builder().network(NetworkMode::Open).build().unwrap();
    let host = Host::listen();
    let output = engine.run_with(&policy, python(&host.probe())).await.unwrap();
    let seen = stdout(&output);
    assert!(seen.contains("tcp 127.0.0.1\n") && seen.contains("udp\n"), "{seen}");
    let arrived = host.arrivals();
    assert!(arrived.contains(&"tcp") && arrived.contains(&"udp"), "{arrived:?}");
    // A network is not a way to the services of the host's own users.
    let scoped = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version: Vec<u32> = scoped.split('.').take(2).filter_map(|part| part.parse().ok()).collect();
    if version >= vec![6, 12] {
        assert!(!seen.contains("abstract") && !arrived.contains(&"abstract"), "{seen} {arrived:?}");
    } else {
        skip("an_open_network_is_the_hosts", "abstract sockets are kept apart from Linux 6.12 on");
    }
}
