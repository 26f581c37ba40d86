//! Sockets of the host's that no box must be able to talk to.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, sockopt};

/// What listens, by name.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<(String, Listener, OsString)>);

#[derive(Debug)]
enum Listener {
    Unix(UnixListener),
    Datagram(UnixDatagram),
    Tcp(TcpListener),
    Udp(UdpSocket),
    Pipe(File),
}

impl Listeners {
    /// Opens the listener of this name, and says where it is.
    pub(super) fn open(&mut self, name: &str, directory: &Path, marker: &str) -> io::Result<OsString> {
        if let Some((_, _, place)) = self.0.iter().find(|(opened, _, _)| opened == name) {
            return Ok(place.clone());
        }
        let (listener, place) = match name {
            "socket" | "shown-socket" => {
                let path = directory.join(if name == "socket" { "host/socket" } else { "shown/socket" });
                let listener = UnixListener::bind(&path)?;
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
                (Listener::Unix(listener), path.into_os_string())
            }
            "fifo" => {
                let path = directory.join("shown/pipe");
                rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o666))?;
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
                let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
                let reader = File::options().read(true).custom_flags(flags).open(&path)?;
                (Listener::Pipe(reader), path.into_os_string())
            }
            "datagram" => {
                let path = directory.join("host/datagram");
                let socket = UnixDatagram::bind(&path)?;
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
                (Listener::Datagram(socket), path.into_os_string())
            }
            "address-port" => {
                let address = own_address().ok_or(ErrorKind::AddrNotAvailable)?;
                let listener = TcpListener::bind((address, 0))?;
                let port = listener.local_addr()?.port();
                (Listener::Tcp(listener), OsString::from(port.to_string()))
            }
            "shared-port" => {
                let listener = shareable()?;
                let port = listener.local_addr()?.port();
                (Listener::Tcp(listener), OsString::from(port.to_string()))
            }
            "abstract" => {
                let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(marker)?)?;
                (Listener::Unix(listener), OsString::from(marker))
            }
            "tcp4" | "tcp6" => {
                let listener = TcpListener::bind(if name == "tcp4" { "127.0.0.1:0" } else { "[::1]:0" })?;
                let port = listener.local_addr()?.port();
                (Listener::Tcp(listener), OsString::from(port.to_string()))
            }
            _ => {
                let socket = UdpSocket::bind(if name == "udp4" { "127.0.0.1:0" } else { "[::1]:0" })?;
                let port = socket.local_addr()?.port();
                (Listener::Udp(socket), OsString::from(port.to_string()))
            }
        };
        match &listener {
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
            Listener::Datagram(socket) => socket.set_nonblocking(true)?,
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
            Listener::Udp(socket) => socket.set_nonblocking(true)?,
            Listener::Pipe(_) => {}
        }
        self.0.push((name.to_owned(), listener, place.clone()));
        Ok(place)
    }

    /// Which of them heard something since they were opened.
    pub(super) fn heard(&self) -> Vec<String> {
        let heard = |listener: &Listener| match listener {
            Listener::Unix(listener) => came(listener.accept().map(drop)),
            Listener::Datagram(socket) => came(socket.recv(&mut [0; 16]).map(drop)),
            Listener::Tcp(listener) => came(listener.accept().map(drop)),
            Listener::Udp(socket) => came(socket.recv_from(&mut [0; 16]).map(drop)),
            // A pipe that nobody writes to is at its end.
            Listener::Pipe(reader) => matches!((&*reader).read(&mut [0; 16]), Ok(1..)),
        };
        self.0.iter().filter(|(_, listener, _)| heard(listener)).map(|(name, _, _)| name.clone()).collect()
    }
}

/// Whether there was something: any answer but "nothing yet" means that somebody knocked.
fn came(result: io::Result<()>) -> bool {
    !matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// An address of this machine that is not of its loopback. Asking for a way to somewhere sends nothing.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// A listener whose port others may listen on too, if they are of the same user.
fn shareable() -> io::Result<TcpListener> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    rustix::net::listen(&socket, 16)?;
    Ok(TcpListener::from(socket))
}
