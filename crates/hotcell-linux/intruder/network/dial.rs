//! Talking to somebody outside.

use core::net::IpAddr;

use super::{AF_UNIX, SOCK_DGRAM, SOCK_STREAM, SocketAddress, connect, family, socket};
use crate::arguments::Arguments;
use crate::sys::{self, Errno, Fd};
use crate::{nr, report};

const MESSAGE: &[u8] = b"hello from the box\n";
const EINVAL: Errno = Errno(22);

/// `dial HOW ADDRESS PORT [HOW ADDRESS PORT]…`: says hello to each; who listens there hears it. HOW is `tcp`, `udp`,
/// `fast-open` (TCP without connect) or `mptcp`.
pub fn dial(arguments: Arguments) {
    let mut rest = arguments;
    while rest.len() >= 3 {
        let (how, port) = (rest.text(0), rest.number(2) as u16);
        let what = format_args!("socket {} to {} port {port}", rest.display(0), rest.display(1));
        match rest.display(1).parse().map_err(|_| EINVAL).and_then(|address| say_hello(how, address, port)) {
            Ok(()) => report::line(format_args!("sent {what}")),
            Err(errno) => report::refused(what, errno),
        }
        rest = rest.skip(3);
    }
}

fn say_hello(how: &[u8], address: IpAddr, port: u16) -> sys::Result<()> {
    const MPTCP: usize = 262;
    const MSG_FASTOPEN: usize = 0x2000_0000;
    let (kind, protocol) = match how {
        b"udp" => (SOCK_DGRAM, 0),
        b"mptcp" => (SOCK_STREAM, MPTCP),
        _ => (SOCK_STREAM, 0),
    };
    let socket = socket(family(address), kind, protocol)?;
    let to = SocketAddress::internet(address, port);
    match how {
        b"udp" => {
            connect(socket, &to)?;
            sys::write(socket, MESSAGE)?;
            // The first datagram is always sent; the second hears what became of it.
            sys::write(socket, MESSAGE)?
        }
        b"fast-open" => {
            let (message, length) = (MESSAGE.as_ptr() as usize, MESSAGE.len());
            sys::call(nr::SENDTO, &[socket as usize, message, length, MSG_FASTOPEN, to.pointer(), to.len()])?
        }
        _ => {
            connect(socket, &to)?;
            sys::write(socket, MESSAGE)?
        }
    };
    sys::close(socket);
    Ok(())
}

/// `dial-unix stream|datagram NAME`: the same to a local socket.
pub fn dial_unix(arguments: Arguments) {
    let datagram = arguments.text(0) == b"datagram";
    let to = SocketAddress::local(arguments.text(1));
    let hello = || {
        let socket = socket(AF_UNIX, if datagram { SOCK_DGRAM } else { SOCK_STREAM }, 0)?;
        connect(socket, &to)?;
        sys::write(socket, MESSAGE)
    };
    match hello() {
        Ok(_) => report::line(format_args!("sent to {}", arguments.display(1))),
        Err(errno) => report::refused(format_args!("connect to {}", arguments.display(1)), errno),
    }
}

/// `dial-uring ADDRESS PORT`: connects through an io_uring, where no filter of system calls sees it.
pub fn dial_uring(arguments: Arguments) {
    let connected = arguments.display(0).parse().map_err(|_| EINVAL).and_then(|address| {
        let socket = socket(family(address), SOCK_STREAM, 0)?;
        uring_connect(socket, &SocketAddress::internet(address, arguments.number(1) as u16))
    });
    match connected {
        Ok(_) => report::line(format_args!("connected through an io_uring")),
        Err(errno) => report::refused("io_uring_setup for a connection", errno),
    }
}

fn uring_connect(socket: Fd, to: &SocketAddress) -> sys::Result<usize> {
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    const OFFSET_RING: usize = 0;
    const OFFSET_ENTRIES: usize = 0x1000_0000;
    const OP_CONNECT: u64 = 16;
    const WAIT_FOR_EVENTS: usize = 1;
    // struct io_uring_params: 10 words, then the places of the fields of both rings.
    let mut parameters = [0u32; 30];
    let ring = sys::call(nr::IO_URING_SETUP, &[1, parameters.as_mut_ptr() as usize])?;
    let map = |offset| sys::call(nr::MMAP, &[0, 4096, READ_WRITE, SHARED, ring, offset]);
    let (queue, entries) = (map(OFFSET_RING)?, map(OFFSET_ENTRIES)?);
    let (tail, array) = (parameters[11] as usize, parameters[16] as usize);
    let completed = parameters[25] as usize;
    let first = u64::from(socket as u32) << 32 | OP_CONNECT;
    // struct io_uring_sqe: code and descriptor, offset (here the length of the address), address.
    let entry = [first, to.len() as u64, to.pointer() as u64, 0, 0, 0, 0, 0];
    // SAFETY: the kernel gave these pages to this process and says where in them the fields are; a ring with a single
    // entry fits in one page.
    unsafe {
        (entries as *mut [u64; 8]).write(entry);
        ((queue + array) as *mut u32).write(0);
        ((queue + tail) as *mut u32).write_volatile(1);
    }
    sys::call(nr::IO_URING_ENTER, &[ring, 1, 1, WAIT_FOR_EVENTS])?;
    // SAFETY: as above; a completion is the caller's word, then the result.
    let result = unsafe { ((queue + completed + 8) as *const i32).read_volatile() };
    if result < 0 { Err(Errno(-result)) } else { Ok(result as usize) }
}

/// `route ADDRESS…`: asks the kernel for a way to each. Connecting a UDP socket sends nothing.
pub fn route(arguments: Arguments) {
    for index in 0..arguments.len() {
        let what = format_args!("a way to {}", arguments.display(index));
        match arguments.display(index).parse() {
            Ok(address) => report::success(what, find_way(address, 53).map(|_| 0)),
            Err(_) => {
                report::refused(what, EINVAL);
                false
            }
        };
    }
}

fn find_way(address: IpAddr, port: u16) -> sys::Result<Fd> {
    let socket = socket(family(address), SOCK_DGRAM, 0)?;
    connect(socket, &SocketAddress::internet(address, port))?;
    Ok(socket)
}

/// `resolver`: looks for a way to the name servers of the host. Only one on the loopback is spoken to, about a name
/// that it answers by itself.
pub fn resolver(_: Arguments) {
    let servers = match sys::read_file(c"/etc/resolv.conf", 4096) {
        Ok(servers) => servers,
        Err(errno) => return report::refused("open /etc/resolv.conf", errno),
    };
    for line in servers.split(|byte| *byte == b'\n') {
        let Some(server) = line.strip_prefix(b"nameserver ").and_then(|name| core::str::from_utf8(name).ok()) else {
            continue;
        };
        let Ok(address) = server.trim().parse::<IpAddr>() else { continue };
        let what = format_args!("the name server {address}");
        let answer = find_way(address, 53).and_then(|socket| if address.is_loopback() { ask(socket) } else { Ok(0) });
        report::success(what, answer);
    }
}

/// Asks a name server about `localhost`.
fn ask(socket: Fd) -> sys::Result<usize> {
    const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01";
    sys::write(socket, QUERY)?;
    sys::read(socket, &mut [0; 512])
}
