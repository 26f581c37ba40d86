//! Things that live in the kernel under a number or a name: System V memory and queues, POSIX queues, keys.
//!
//! Each is planted, shown and removed for the arena, outside of any box, and attacked from inside of one.

use alloc::ffi::CString;
use alloc::format;

use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("plant-shm", plant_memory),
    ("show-shm", show_memory),
    ("remove-shm", remove_memory),
    ("shared-memory", attack_memory),
    ("plant-queue", plant_queue),
    ("show-queue", show_queue),
    ("remove-queue", remove_queue),
    ("message-queue", attack_queue),
    ("plant-mqueue", plant_posix_queue),
    ("show-mqueue", show_posix_queue),
    ("remove-mqueue", remove_posix_queue),
    ("posix-queue", attack_posix_queue),
    ("plant-key", plant_key),
    ("show-key", show_key),
    ("remove-key", remove_key),
    ("key", attack_key),
];

const SIZE: usize = 4096;
const CREATE_FOR_ALL: usize = 0o1666;
const IPC_RMID: usize = 0;
const IPC_STAT: usize = 2;
const IPC_NOWAIT: usize = 0o4000;

/// Says the name of what was planted.
fn planted(result: sys::Result<usize>) {
    match result {
        Ok(name) => report::line(format_args!("{name}")),
        Err(_) => sys::exit(1),
    }
}

fn plant_memory(arguments: Arguments) {
    planted(sys::call(nr::SHMGET, &[0, SIZE, CREATE_FOR_ALL]).and_then(|id| {
        let memory = attached(id)?;
        memory.iter_mut().zip(arguments.text(0)).for_each(|(to, from)| *to = *from);
        Ok(id)
    }));
}

fn attached(id: usize) -> sys::Result<&'static mut [u8]> {
    let start = sys::call(nr::SHMAT, &[id, 0, 0])?;
    // SAFETY: the kernel has just mapped that much there, to read and to write, until the process ends; nothing else in
    // this process knows of it.
    Ok(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, SIZE) })
}

fn show_memory(arguments: Arguments) {
    match attached(arguments.number(0)) {
        Ok(memory) => report::content("memory", &memory[..256]),
        Err(errno) => report::refused("shmat", errno),
    }
}

fn remove_memory(arguments: Arguments) {
    let _ = sys::call(nr::SHMCTL, &[arguments.number(0), IPC_RMID, 0]);
}

/// `shared-memory ID`: reads and overwrites it.
fn attack_memory(arguments: Arguments) {
    show_memory(arguments);
    if let Ok(memory) = attached(arguments.number(0)) {
        memory[..7].copy_from_slice(b"changed");
    }
}

fn plant_queue(arguments: Arguments) {
    let mut message = 1usize.to_ne_bytes().to_vec();
    message.extend_from_slice(arguments.text(0));
    planted(sys::call(nr::MSGGET, &[0, CREATE_FOR_ALL]).and_then(|id| {
        sys::call(nr::MSGSND, &[id, message.as_ptr() as usize, message.len() - 8, IPC_NOWAIT])?;
        Ok(id)
    }));
}

/// The bytes and messages in it: the tenth and eleventh word of what the kernel tells.
fn show_queue(arguments: Arguments) {
    let mut status = [0usize; 32];
    match sys::call(nr::MSGCTL, &[arguments.number(0), IPC_STAT, status.as_mut_ptr() as usize]) {
        Ok(_) => report::line(format_args!("{} bytes, {} messages", status[9], status[10])),
        Err(errno) => report::refused("msgctl", errno),
    }
}

fn remove_queue(arguments: Arguments) {
    let _ = sys::call(nr::MSGCTL, &[arguments.number(0), IPC_RMID, 0]);
}

/// `message-queue ID`: takes the message.
fn attack_queue(arguments: Arguments) {
    let mut buffer = [0u8; 520];
    match sys::call(nr::MSGRCV, &[arguments.number(0), buffer.as_mut_ptr() as usize, 512, 0, IPC_NOWAIT]) {
        Ok(count) => report::content("message", &buffer[8..8 + count.min(512)]),
        Err(errno) => report::refused("msgrcv", errno),
    }
}

const MESSAGE: usize = 256;

fn plant_posix_queue(arguments: Arguments) {
    let name = format!("hotcell-verify-{}", sys::call(nr::GETPID, &[]).unwrap_or(0));
    let c_name = CString::new(name.as_str()).unwrap_or_default();
    // Flags, how many messages, how long, how many there are.
    let attributes = [0usize, 1, MESSAGE, 0, 0, 0, 0, 0];
    let _ = sys::call(nr::UMASK, &[0]);
    let flags = sys::O_CREAT | sys::O_EXCL | sys::O_RDWR | sys::O_NONBLOCK;
    let queue = sys::call(nr::MQ_OPEN, &[sys::c(&c_name), flags, 0o666, attributes.as_ptr() as usize]);
    let text = arguments.text(0);
    let sent = queue.and_then(|queue| sys::call(nr::MQ_TIMEDSEND, &[queue, text.as_ptr() as usize, text.len(), 0, 0]));
    match sent {
        Ok(_) => report::line(format_args!("{name}")),
        Err(_) => sys::exit(1),
    }
}

fn show_posix_queue(arguments: Arguments) {
    let mut attributes = [0usize; 8];
    let queue = sys::call(nr::MQ_OPEN, &[sys::c(arguments.c_str(0)), sys::O_RDONLY, 0, 0]);
    match queue.and_then(|queue| sys::call(nr::MQ_GETSETATTR, &[queue, 0, attributes.as_mut_ptr() as usize])) {
        Ok(_) => report::line(format_args!("{} messages", attributes[3])),
        Err(errno) => report::refused("mq_open", errno),
    }
}

fn remove_posix_queue(arguments: Arguments) {
    let _ = sys::call(nr::MQ_UNLINK, &[sys::c(arguments.c_str(0))]);
}

/// `posix-queue NAME`: takes the message.
fn attack_posix_queue(arguments: Arguments) {
    let mut buffer = [0u8; MESSAGE];
    let queue = sys::call(nr::MQ_OPEN, &[sys::c(arguments.c_str(0)), sys::O_RDONLY | sys::O_NONBLOCK, 0, 0]);
    match queue {
        Ok(queue) => match sys::call(nr::MQ_TIMEDRECEIVE, &[queue, buffer.as_mut_ptr() as usize, MESSAGE, 0, 0]) {
            Ok(count) => report::content("message", &buffer[..count.min(MESSAGE)]),
            Err(errno) => report::refused("mq_timedreceive", errno),
        },
        Err(errno) => report::refused("mq_open", errno),
    }
}

const KEYCTL_UPDATE: usize = 2;
const KEYCTL_SETPERM: usize = 5;
const KEYCTL_LINK: usize = 8;
const KEYCTL_READ: usize = 11;
const KEYCTL_INVALIDATE: usize = 21;

/// A key in the user's keyring that anybody may read, write and find.
fn plant_key(arguments: Arguments) {
    const PROCESS_KEYRING: usize = -2isize as usize;
    const USER_KEYRING: usize = -4isize as usize;
    const ALL_TO_ALL: usize = 0x3f3f_3f3f;
    let token = arguments.c_str(0);
    let added =
        sys::call(nr::ADD_KEY, &[sys::c(c"user"), sys::c(token), sys::c(token), token.count_bytes(), PROCESS_KEYRING]);
    planted(added.and_then(|key| {
        sys::call(nr::KEYCTL, &[KEYCTL_SETPERM, key, ALL_TO_ALL])?;
        sys::call(nr::KEYCTL, &[KEYCTL_LINK, key, USER_KEYRING])?;
        Ok(key)
    }));
}

fn show_key(arguments: Arguments) {
    let mut buffer = [0u8; 512];
    match sys::call(nr::KEYCTL, &[KEYCTL_READ, arguments.number(0), buffer.as_mut_ptr() as usize, 512]) {
        Ok(count) => report::content("key", &buffer[..count.min(512)]),
        Err(errno) => report::refused("keyctl", errno),
    }
}

fn remove_key(arguments: Arguments) {
    let _ = sys::call(nr::KEYCTL, &[KEYCTL_INVALIDATE, arguments.number(0)]);
}

/// `key SERIAL`: reads and replaces it.
fn attack_key(arguments: Arguments) {
    show_key(arguments);
    let changed = b"changed";
    let updated = [KEYCTL_UPDATE, arguments.number(0), changed.as_ptr() as usize, changed.len()];
    report::success("keyctl", sys::call(nr::KEYCTL, &updated));
}
