//! Reaching into the box, and from one box into another.

use core::net::{IpAddr, Ipv4Addr};

use super::{
    AF_INET, AF_UNIX, SO_REUSEADDR, SO_REUSEPORT, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, SocketAddress, accept, bind,
    connect, listen_on, patience, set_option, socket,
};
use crate::arguments::Arguments;
use crate::sys::{self, Errno, Fd};
use crate::{nr, report};

const EAGAIN: Errno = Errno(11);
const ETIMEDOUT: Errno = Errno(110);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// `listen PORT`: waits a moment for somebody from outside, who says something.
pub fn listen(arguments: Arguments) {
    let heard = || {
        let socket = socket(AF_INET, SOCK_STREAM, 0)?;
        set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1)?;
        bind(socket, &SocketAddress::internet(IpAddr::V4(Ipv4Addr::UNSPECIFIED), arguments.number(0) as u16))?;
        listen_on(socket)?;
        patience(socket, 250);
        let caller = accept(socket).map_err(|errno| if errno == EAGAIN { ETIMEDOUT } else { errno })?;
        patience(caller, 500);
        sys::read_all(caller, 256)
    };
    match heard() {
        Ok(bytes) => report::content("from a caller", &bytes),
        Err(errno) => report::refused("be called from outside", errno),
    }
}

/// `share-port PORT`: joins a listener of the host's on its port, to get part of its connections.
pub fn share_port(arguments: Arguments) {
    let join = || {
        let socket = socket(AF_INET, SOCK_STREAM, 0)?;
        match set_option(socket, SOL_SOCKET, SO_REUSEPORT, 1) {
            Ok(_) => {}
            Err(errno) => report::refused("setsockopt", errno),
        }
        bind(socket, &SocketAddress::internet(LOOPBACK, arguments.number(0) as u16))?;
        listen_on(socket)
    };
    report::success("a port of the host's", join());
}

/// `serve TOKEN PORT NAME`: gives the token to everybody who comes, by TCP and by an abstract local socket, until it is
/// ended or some seconds have passed.
pub fn serve(arguments: Arguments) {
    let open = |family, address: &SocketAddress| -> sys::Result<Fd> {
        let socket = sys::call(nr::SOCKET, &[family, SOCK_STREAM | SOCK_NONBLOCK, 0])? as Fd;
        bind(socket, address)?;
        listen_on(socket)?;
        Ok(socket)
    };
    let port = SocketAddress::internet(LOOPBACK, arguments.number(1) as u16);
    let sockets = [open(AF_INET, &port), open(AF_UNIX, &SocketAddress::local(arguments.text(2)))];
    report::line(format_args!("serving"));
    for _ in 0..2000 {
        for socket in sockets.iter().flatten() {
            if let Ok(visitor) = accept(*socket) {
                sys::write_all(visitor, arguments.text(0));
                sys::close(visitor);
            }
        }
        sys::sleep_ms(2);
    }
}

/// `visit PORT NAME`: goes there.
pub fn visit(arguments: Arguments) {
    let visit = |family, address: &SocketAddress| {
        let socket = socket(family, SOCK_STREAM, 0)?;
        connect(socket, address)?;
        sys::read_all(socket, 256)
    };
    let port = SocketAddress::internet(LOOPBACK, arguments.number(0) as u16);
    for (what, heard) in [
        ("by TCP", visit(AF_INET, &port)),
        ("by an abstract socket", visit(AF_UNIX, &SocketAddress::local(arguments.text(1)))),
    ] {
        match heard {
            Ok(bytes) => report::content(what, &bytes),
            Err(errno) => report::refused(format_args!("connect {what}"), errno),
        }
    }
}
