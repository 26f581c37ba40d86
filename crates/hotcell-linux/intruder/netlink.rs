//! Attacks on the kernel's network code that take a capability, in a network namespace of the intruder's own.
//!
//! They change the network that they find themselves in, so they first make sure that it is not the host's: its
//! namespace is an argument.

use alloc::vec::Vec;

use crate::arguments::Arguments;
use crate::posture::namespace;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[("traffic-control", traffic_control), ("packet-filter", packet_filter)];

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

const NETLINK_ROUTE: usize = 0;
const NETLINK_NETFILTER: usize = 12;

/// `traffic-control HOST-NAMESPACE`: gives the loopback interface another queue.
fn traffic_control(arguments: Arguments) {
    const RTM_NEWQDISC: u16 = 36;
    const LOOPBACK: i32 = 1;
    const HANDLE: u32 = 0x1_0000;
    const ROOT: u32 = u32::MAX;
    const KIND: u16 = 1;
    if !in_own_network(arguments) {
        return;
    }
    let mut body = alloc::vec![0u8; 4];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(HANDLE.to_ne_bytes());
    body.extend(ROOT.to_ne_bytes());
    body.extend([0; 4]);
    attribute(&mut body, KIND, b"pfifo\0");
    let message = message(RTM_NEWQDISC, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, &body);
    ask("a queue on an interface", NETLINK_ROUTE, &message);
}

/// `packet-filter HOST-NAMESPACE`: makes a table of packet filter rules.
fn packet_filter(arguments: Arguments) {
    const BATCH_BEGIN: u16 = 0x10;
    const BATCH_END: u16 = 0x11;
    const NF_TABLES: u8 = 10;
    const NEW_TABLE: u16 = (NF_TABLES as u16) << 8;
    const IPV4: u8 = 2;
    const NAME: u16 = 1;
    if !in_own_network(arguments) {
        return;
    }
    // Family, version, and the subsystem that a batch is for.
    let batch = [0, 0, 0, NF_TABLES];
    let mut table = alloc::vec![IPV4, 0, 0, 0];
    attribute(&mut table, NAME, b"hotcell\0");
    let mut messages = message(BATCH_BEGIN, REQUEST, &batch);
    messages.extend(message(NEW_TABLE, REQUEST | ACKNOWLEDGE | CREATE, &table));
    messages.extend(message(BATCH_END, REQUEST, &batch));
    ask("a table of packet filter rules", NETLINK_NETFILTER, &messages);
}

fn in_own_network(arguments: Arguments) -> bool {
    match namespace("net") {
        Some(own) if own != arguments.text(0) => true,
        Some(_) => {
            report::line(format_args!("refused network namespace: it is the host's"));
            false
        }
        // Without knowing, nothing is tried and nothing can be said.
        None => sys::exit(3),
    }
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    const HEADER: usize = 16;
    let mut message = Vec::new();
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence and sender.
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends messages and reads the kernel's answer.
fn ask(what: &str, protocol: usize, messages: &[u8]) {
    const FAMILY: usize = 16;
    const RAW: usize = 3;
    const MSG_DONTWAIT: usize = 0x40;
    let mut answer = [0u8; 1024];
    let answered = sys::call(nr::SOCKET, &[FAMILY, RAW, protocol]).and_then(|socket| {
        sys::call(nr::SENDTO, &[socket, messages.as_ptr() as usize, messages.len(), 0, 0, 0])?;
        // The kernel answers before the call above returns.
        sys::call(nr::RECVFROM, &[socket, answer.as_mut_ptr() as usize, answer.len(), MSG_DONTWAIT, 0, 0])
    });
    let result = answered.and_then(|_| {
        // A header, then the error: zero or negative.
        let error = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        if error == 0 { Ok(0) } else { Err(sys::Errno(error.wrapping_neg())) }
    });
    report::success(what, result);
}
