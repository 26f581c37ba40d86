//! System calls as data: the number and the arguments come from the command line.

use crate::arguments::{Arguments, parse_number};
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[("calls", calls)];

/// `calls NAME NUMBER ARGUMENT… [, NAME NUMBER ARGUMENT…]…`
///
/// An argument is a number, `bad` (a pointer to nowhere), `buffer` (a zeroed page), or `s:TEXT` (a string).
fn calls(arguments: Arguments) {
    let mut rest = arguments;
    while rest.len() >= 2 {
        let mut values = alloc::vec::Vec::new();
        let mut length = 2;
        while length < rest.len() && rest.text(length) != b"," {
            values.push(value(rest, length));
            length += 1;
        }
        report::call(rest.display(0), sys::call(rest.number(1), &values));
        rest = rest.skip(length + 1);
    }
}

fn value(arguments: Arguments, index: usize) -> usize {
    static BUFFER: [core::sync::atomic::AtomicU64; 512] = [const { core::sync::atomic::AtomicU64::new(0) }; 512];
    match arguments.text(index) {
        b"bad" => 1,
        b"buffer" => {
            BUFFER.iter().for_each(|word| word.store(0, core::sync::atomic::Ordering::Relaxed));
            BUFFER.as_ptr() as usize
        }
        [b's', b':', text @ ..] => text.as_ptr() as usize,
        text => parse_number(text).unwrap_or_else(|| {
            // Another argument than what was meant would try something else.
            report::line(format_args!("no argument: {}", arguments.display(index)));
            sys::exit(2)
        }),
    }
}

/// Tries to become powerful in namespaces of its own, as an attacker would before calls that want capabilities; outside of
/// a box it keeps what the attack does away from the machine.
pub fn enter_namespaces() {
    const USER: usize = 0x1000_0000;
    // Mount, UTS, IPC, network.
    const OTHERS: usize = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x4000_0000;
    let (uid, gid) = (sys::call(nr::GETUID, &[]).unwrap_or(0), sys::call(nr::GETGID, &[]).unwrap_or(0));
    match sys::call(nr::UNSHARE, &[USER | OTHERS]) {
        Ok(_) => {
            write_map(c"/proc/self/setgroups", format_args!("deny"));
            write_map(c"/proc/self/uid_map", format_args!("0 {uid} 1"));
            write_map(c"/proc/self/gid_map", format_args!("0 {gid} 1"));
            report::line(format_args!("nested: in namespaces of its own"));
        }
        Err(errno) => match sys::call(nr::UNSHARE, &[OTHERS]) {
            Ok(_) => {
                // Without a user namespace, what is mounted here would show up on the host.
                const RECURSIVE_PRIVATE: usize = 0x4000 | 0x40000;
                let private = sys::call(nr::MOUNT, &[0, sys::c(c"/"), 0, RECURSIVE_PRIVATE]);
                report::line(format_args!("nested: in namespaces of its own, without a user namespace ({errno})"));
                stop_if_harmful(private.is_err());
            }
            Err(_) => {
                report::refused("unshare", errno);
                stop_if_harmful(true);
            }
        },
    }
}

/// Ends the attack if nothing stands between it and the machine: real root, in the namespaces of the machine.
fn stop_if_harmful(exposed: bool) {
    let map = sys::read_file(c"/proc/self/uid_map", 4096).unwrap_or_default();
    let whole_machine = core::str::from_utf8(&map).unwrap_or_default().trim_end().ends_with("4294967295");
    if exposed && whole_machine && sys::call(nr::GETEUID, &[]).unwrap_or(0) == 0 {
        report::line(format_args!("nested: it would harm the machine"));
        sys::exit(3)
    }
}

fn write_map(path: &core::ffi::CStr, text: core::fmt::Arguments<'_>) {
    if let Ok(file) = sys::open(path, sys::O_WRONLY, 0) {
        sys::write_all(file, alloc::fmt::format(text).as_bytes());
        sys::close(file);
    }
}
