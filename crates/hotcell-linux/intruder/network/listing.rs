//! Seeing the host's network.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use super::{AF_INET, SOCK_DGRAM, netlink, socket};
use crate::arguments::Arguments;
use crate::sys::{self, Errno};
use crate::{nr, report};

const UP: u32 = 1;
const LOOPBACK: u32 = 8;
const NONE: Errno = Errno(19);

/// An interface that packets of the host's go through. A fresh network namespace may have others, which are down.
fn is_of_the_host(flags: u32) -> bool {
    flags & UP != 0 && flags & LOOPBACK == 0
}

/// Says which of the interfaces are the host's.
fn tell(source: &str, interfaces: impl Iterator<Item = (String, u32)>) {
    let mut found = false;
    for (name, _) in interfaces.filter(|(_, flags)| is_of_the_host(*flags)) {
        found = true;
        report::reached("interface", format_args!("{name}, by {source}"));
    }
    if !found {
        report::refused(format_args!("interfaces by {source}"), NONE);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_matches(['\0', ' ', '\n']).into()
}

/// `interfaces`: asks for the interfaces by netlink.
pub fn interfaces(_: Arguments) {
    const GET_LINK: u16 = 18;
    const FIXED: usize = 16;
    const NAME: u16 = 3;
    match netlink::dump(GET_LINK) {
        Ok(links) => tell(
            "netlink",
            links.iter().filter_map(|link| {
                let flags = u32::from_ne_bytes(link.get(8..12)?.try_into().ok()?);
                Some((text(netlink::attribute(link, FIXED, NAME)?), flags))
            }),
        ),
        Err(errno) => report::refused("interfaces by netlink", errno),
    }
}

/// `routes`: asks for the ways out by netlink.
pub fn routes(_: Arguments) {
    const GET_ROUTE: u16 = 26;
    const UNICAST: u8 = 1;
    // struct rtmsg: family, length of the destination, …, type.
    let is_default = |route: &&Vec<u8>| route.get(1) == Some(&0) && route.get(7) == Some(&UNICAST);
    match netlink::dump(GET_ROUTE).map(|routes| routes.iter().filter(is_default).count()) {
        Ok(0) => report::refused("a default route", NONE),
        Ok(count) => report::reached("default routes", count),
        Err(errno) => report::refused("a default route", errno),
    }
}

/// `proc-net`: reads interfaces, routes and neighbours from files.
pub fn proc_net(_: Arguments) {
    match sys::read_file(c"/proc/net/dev", 1 << 16) {
        Ok(table) => tell(
            "/proc/net/dev",
            table.split(|byte| *byte == b'\n').filter_map(|line| {
                let name = text(line.split(|byte| *byte == b':').next().filter(|name| name.len() < line.len())?);
                let flags = flags_of(&name)?;
                Some((name, flags))
            }),
        ),
        Err(errno) => report::refused("open /proc/net/dev", errno),
    }
    for path in [c"/proc/net/route", c"/proc/net/arp"] {
        let name = path.to_str().unwrap_or_default();
        match sys::read_file(path, 1 << 16).map(|table| table.iter().filter(|byte| **byte == b'\n').count()) {
            // The first line is the heading.
            Ok(0 | 1) => report::refused(format_args!("entries of {name}"), NONE),
            Ok(lines) => report::reached(format_args!("entries of {name}"), lines - 1),
            Err(errno) => report::refused(format_args!("open {name}"), errno),
        }
    }
}

fn flags_of(name: &str) -> Option<u32> {
    const GET_FLAGS: usize = 0x8913;
    let mut request = [0u8; 40];
    request.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let socket = socket(AF_INET, SOCK_DGRAM, 0).ok()?;
    let result = sys::call(nr::IOCTL, &[socket as usize, GET_FLAGS, request.as_mut_ptr() as usize]);
    sys::close(socket);
    result.ok()?;
    Some(u32::from(u16::from_ne_bytes([request[16], request[17]])))
}

/// `proc-sockets NAME PORT…`: looks for sockets of the host's in the lists of all sockets.
pub fn proc_sockets(arguments: Arguments) {
    look_for(c"/proc/net/unix", arguments.text(0));
    for index in 1..arguments.len() {
        let port = format!(":{:04X} ", arguments.number(index));
        for table in [c"/proc/net/tcp", c"/proc/net/tcp6", c"/proc/net/udp", c"/proc/net/udp6"] {
            look_for(table, port.as_bytes());
        }
    }
}

fn look_for(table: &CStr, wanted: &[u8]) {
    let what = table.to_str().unwrap_or_default();
    match sys::read_file(table, 1 << 22) {
        Ok(content) if content.windows(wanted.len()).any(|window| window == wanted) => {
            report::reached("a socket of the host's", what);
        }
        Ok(_) => report::refused(format_args!("a socket of the host's in {what}"), Errno(2)),
        Err(errno) => report::refused(format_args!("open {what}"), errno),
    }
}

/// `sys-class-net`: lists the interfaces that are in sysfs.
pub fn sys_class_net(_: Arguments) {
    let names = match entries(c"/sys/class/net") {
        Ok(names) => names,
        Err(errno) => return report::refused("open /sys/class/net", errno),
    };
    let flags = |name: &String| {
        let path = format!("/sys/class/net/{name}/flags\0");
        let flags = sys::read_file(CStr::from_bytes_with_nul(path.as_bytes()).ok()?, 64).ok()?;
        crate::arguments::parse_number(text(&flags).as_bytes())
    };
    tell("sysfs", names.iter().filter_map(|name| Some((name.clone(), flags(name)? as u32))));
}

fn entries(path: &CStr) -> sys::Result<Vec<String>> {
    let directory = sys::open(path, sys::O_RDONLY, 0)?;
    let mut names = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        let count = sys::call(nr::GETDENTS64, &[directory as usize, buffer.as_mut_ptr() as usize, buffer.len()])?;
        let mut rest = buffer.get(..count).filter(|rest| !rest.is_empty()).unwrap_or_default();
        if rest.is_empty() {
            sys::close(directory);
            return Ok(names);
        }
        // struct linux_dirent64: inode, offset, length of this entry, type, name.
        while let (Some(&[low, high]), Some(name)) = (rest.get(16..18), rest.get(19..)) {
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            if !name.starts_with(b".") {
                names.push(text(name));
            }
            rest = rest.get(usize::from(u16::from_ne_bytes([low, high])).max(1)..).unwrap_or_default();
        }
    }
}
