//! Asking the kernel for its tables of the network.

use alloc::vec::Vec;

use super::socket;
use crate::nr;
use crate::sys;

const AF_NETLINK: usize = 16;
const SOCK_RAW: usize = 3;
const ROUTE: usize = 0;
const HEADER: usize = 16;
const END: u16 = 3;
const ERROR: u16 = 2;

/// What the kernel answers to a request for a whole table: the messages, without their headers.
pub fn dump(request: u16) -> sys::Result<Vec<Vec<u8>>> {
    const REQUEST_DUMP: u16 = 0x1 | 0x300;
    let socket = socket(AF_NETLINK, SOCK_RAW, ROUTE)?;
    // The header, then a message that asks for nothing in particular; 16 bytes is the longest of those.
    let mut message = [0u8; HEADER + 16];
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&request.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    sys::call(nr::SENDTO, &[socket as usize, message.as_ptr() as usize, message.len(), 0, 0, 0])?;
    let mut table = Vec::new();
    let mut buffer = [0u8; 16384];
    loop {
        let count = sys::read(socket, &mut buffer)?;
        let mut rest = buffer.get(..count).unwrap_or_default();
        while let Some((kind, content, tail)) = next(rest) {
            if kind == END || kind == ERROR {
                sys::close(socket);
                return Ok(table);
            }
            table.push(content.to_vec());
            rest = tail;
        }
    }
}

/// The first message: its kind, its content, and what comes after it.
fn next(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let content = bytes.get(HEADER..length)?;
    Some((kind, content, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// An attribute of a message, whose fixed part is `fixed` bytes long.
pub fn attribute(message: &[u8], fixed: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(fixed..)?;
    loop {
        let length = u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let content = rest.get(4..length)?;
        if kind == wanted {
            return Some(content);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}
