//! Attacks on the network: what can be reached from the box, what of it can be seen, and what reaches into the box.

mod between;
mod dial;
mod listing;
mod netlink;
mod options;

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::sys::{self, Fd};
use crate::{Attack, nr};

pub const ATTACKS: &[Attack] = &[
    ("dial", dial::dial),
    ("dial-unix", dial::dial_unix),
    ("dial-uring", dial::dial_uring),
    ("route", dial::route),
    ("resolver", dial::resolver),
    ("listen", between::listen),
    ("share-port", between::share_port),
    ("serve", between::serve),
    ("visit", between::visit),
    ("interfaces", listing::interfaces),
    ("proc-net", listing::proc_net),
    ("proc-sockets", listing::proc_sockets),
    ("sys-class-net", listing::sys_class_net),
    ("routes", listing::routes),
    ("join-network", options::join_network),
    ("multicast", options::multicast),
    ("set-interface", options::set_interface),
    ("tun", options::tun),
    ("vsock", options::vsock),
    ("privileged-options", options::privileged_options),
    ("socket-programs", options::socket_programs),
    ("urgent-data", options::urgent_data),
];

const AF_UNIX: usize = 1;
const AF_INET: usize = 2;
const AF_INET6: usize = 10;
const SOCK_STREAM: usize = 1;
const SOCK_DGRAM: usize = 2;
const SOCK_NONBLOCK: usize = sys::O_NONBLOCK;
const SOL_SOCKET: usize = 1;
const SO_REUSEADDR: usize = 2;
const SO_REUSEPORT: usize = 15;
const SO_RCVTIMEO: usize = 20;
const SO_SNDTIMEO: usize = 21;

/// An address as the kernel takes it.
struct SocketAddress(Vec<u8>);

impl SocketAddress {
    fn internet(address: IpAddr, port: u16) -> Self {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(family(address) as u16).to_ne_bytes());
        bytes.extend_from_slice(&port.to_be_bytes());
        match address {
            IpAddr::V4(address) => {
                bytes.extend_from_slice(&address.octets());
                bytes.resize(16, 0);
            }
            IpAddr::V6(address) => {
                bytes.extend_from_slice(&[0; 4]);
                bytes.extend_from_slice(&address.octets());
                bytes.resize(28, 0);
            }
        }
        Self(bytes)
    }

    /// A path, or with an `@` before it a name that is in no directory.
    fn local(name: &[u8]) -> Self {
        let mut bytes = (AF_UNIX as u16).to_ne_bytes().to_vec();
        match name {
            [b'@', name @ ..] => {
                bytes.push(0);
                bytes.extend_from_slice(name);
            }
            path => {
                bytes.extend_from_slice(path);
                bytes.push(0);
            }
        }
        Self(bytes)
    }

    fn pointer(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

fn family(address: IpAddr) -> usize {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

/// A socket that waits for nothing longer than a moment.
fn socket(family: usize, kind: usize, protocol: usize) -> sys::Result<Fd> {
    let socket = sys::call(nr::SOCKET, &[family, kind, protocol])? as Fd;
    patience(socket, 500);
    Ok(socket)
}

/// Sets how long calls on a socket wait.
fn patience(socket: Fd, milliseconds: usize) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1000];
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        let _ = sys::call(nr::SETSOCKOPT, &[socket as usize, SOL_SOCKET, option, time.as_ptr() as usize, 16]);
    }
}

fn set_option(socket: Fd, level: usize, option: usize, value: i32) -> sys::Result<usize> {
    sys::call(nr::SETSOCKOPT, &[socket as usize, level, option, &raw const value as usize, size_of::<i32>()])
}

fn connect(socket: Fd, address: &SocketAddress) -> sys::Result<usize> {
    sys::call(nr::CONNECT, &[socket as usize, address.pointer(), address.len()])
}

fn bind(socket: Fd, address: &SocketAddress) -> sys::Result<usize> {
    sys::call(nr::BIND, &[socket as usize, address.pointer(), address.len()])
}

fn listen_on(socket: Fd) -> sys::Result<usize> {
    sys::call(nr::LISTEN, &[socket as usize, 16])
}

fn accept(socket: Fd) -> sys::Result<Fd> {
    sys::call(nr::ACCEPT4, &[socket as usize, 0, 0, 0]).map(|fd| fd as Fd)
}
