//! Records for the helper, written as text.
//!
//! A line is one record: where it goes, and what is in it.
//!
//! ```text
//! E1 create w:7 ns …      to the spawner, with one descriptor: the box's end of a new conversation
//! M1 create w:7 ns …      the same, with the record in a memory file
//! B3 spawn w:1 …          to the init of the last box that was asked for, with three descriptors
//! S0 w:0 b:0              to the library, as the spawner's answer to its greeting
//! C1 ready b:0 b:0        to the library, in the conversation about a box
//! ```
//!
//! Words: the name of a request, order, step, event or notice is its number; `b:` `w:` `l:` are numbers of one, four and eight bytes;
//! `t:` is a text, `s:` a byte string (`%41` is one byte), `x:` bytes as they are, in hexadecimal; `(` … `)` is a byte
//! string made of what is between; `ns` is the usual namespaces; `tree:PATH:FLAGS` and `place:PATH` are a tree and the root
//! of a placeholder, with the identity that the path has now. Anything else is passed over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use hotcell_linux::wire::{event, notice, order, request, step};

/// More of them take time and show nothing new.
const RECORDS: usize = 16;
/// Mount, pid, IPC, UTS, user and network namespaces.
const USUAL: u64 = 0x2_0000 | 0x2000_0000 | 0x0800_0000 | 0x0400_0000 | 0x1000_0000 | 0x4000_0000;

const NAMES: &[(&str, u8)] = &[
    ("hello", request::HELLO),
    ("create", request::CREATE),
    ("kill", request::KILL),
    ("release", request::RELEASE),
    ("spawn", order::SPAWN),
    ("signal", order::SIGNAL),
    ("kill-tree", order::KILL_TREE),
    ("signal-all", order::SIGNAL_ALL),
    ("open", order::OPEN),
    ("make-directory", order::MAKE_DIRECTORY),
    ("remove", order::REMOVE),
    ("rename", order::RENAME),
    ("sample", order::SAMPLE),
    ("end", order::END),
    ("setup", order::SETUP),
    ("input", order::INPUT),
    ("input-end", order::INPUT_END),
    ("credit", order::CREDIT),
    ("resize", order::RESIZE),
    ("output-close", order::OUTPUT_CLOSE),
    ("root", step::ROOT),
    ("directory", step::DIRECTORY),
    ("file", step::FILE),
    ("symlink", step::SYMLINK),
    ("attach", step::ATTACH),
    ("bind", step::BIND),
    ("proc", step::PROC),
    ("devpts", step::DEVPTS),
    ("overlay", step::OVERLAY),
    ("mode", step::MODE),
    ("seal", step::SEAL),
    ("pivot", step::PIVOT),
    ("loopback", step::LOOPBACK),
    ("hostname", step::HOSTNAME),
    ("identity", step::IDENTITY),
    ("landlock", step::LANDLOCK),
    ("capabilities", step::CAPABILITIES),
    ("no-new-privs", step::NO_NEW_PRIVS),
    ("seccomp", step::SECCOMP),
    ("pin", step::PIN),
    ("mask", step::MASK),
    ("mask-in-proc", step::MASK_IN_PROC),
    ("limit", step::LIMIT),
    ("cgroup-namespace", step::CGROUP_NAMESPACE),
    ("private", step::PRIVATE),
    ("created", event::CREATED),
    ("gone", event::GONE),
    ("ready", notice::READY),
    ("failed", notice::FAILED),
    ("started", notice::STARTED),
    ("spawn-failed", notice::SPAWN_FAILED),
    ("exited", notice::EXITED),
    ("done", notice::DONE),
    ("sampled", notice::SAMPLED),
    ("output", notice::OUTPUT),
    ("output-end", notice::OUTPUT_END),
    ("input-credit", notice::INPUT_CREDIT),
    ("input-closed", notice::INPUT_CLOSED),
];

/// Where a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The spawner, inline.
    Spawner,
    /// The spawner, in a memory file.
    SpawnerInFile,
    /// The init of the last box.
    Init,
    /// The library, as the spawner.
    Greeter,
    /// The library, about a box.
    Library,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it goes.
    pub to: To,
    /// How many descriptors come with it.
    pub descriptors: usize,
    /// Its bytes, never none.
    pub record: Vec<u8>,
}

/// The records of a script.
pub fn messages(text: &str) -> Vec<Message> {
    text.lines().filter_map(message).take(RECORDS).collect()
}

fn message(line: &str) -> Option<Message> {
    let mut words = line.split_ascii_whitespace();
    let head = words.next()?;
    let (to, count) = head.split_at_checked(1)?;
    let to = match to {
        "E" => To::Spawner,
        "M" => To::SpawnerInFile,
        "B" => To::Init,
        "S" => To::Greeter,
        "C" => To::Library,
        _ => return None,
    };
    let mut record = Vec::new();
    // Where the byte strings begin that have not ended.
    let mut open = Vec::new();
    for word in words {
        match word {
            "(" => open.push(record.len()),
            ")" => {
                if let Some(start) = open.pop() {
                    let inner = record.split_off(start);
                    push_bytes(&mut record, &inner);
                }
            }
            word => push_word(&mut record, word),
        }
    }
    let descriptors = count.parse().unwrap_or(0_usize).min(9);
    (!record.is_empty()).then_some(Message { to, descriptors, record })
}

fn push_word(record: &mut Vec<u8>, word: &str) {
    if let Some((_, number)) = NAMES.iter().find(|(name, _)| *name == word) {
        return record.push(*number);
    }
    if word == "ns" {
        return record.extend_from_slice(&USUAL.to_le_bytes());
    }
    let Some((kind, value)) = word.split_once(':') else { return };
    let number = || value.parse::<i128>().unwrap_or_default();
    match kind {
        "b" => record.push(number() as u8),
        "w" => record.extend_from_slice(&(number() as u32).to_le_bytes()),
        "l" => record.extend_from_slice(&(number() as u64).to_le_bytes()),
        "t" => push_text(record, &unescape(value)),
        "s" => push_bytes(record, &unescape(value)),
        "x" => record.extend(hexadecimal(value.as_bytes())),
        "tree" => {
            let (path, flags) = value.rsplit_once(':').unwrap_or((value, "0"));
            let owner = push_identity(record, path);
            record.extend_from_slice(&flags.parse::<u32>().unwrap_or_default().to_le_bytes());
            record.extend(owner.iter().flat_map(|id| id.to_le_bytes()));
        }
        "place" => drop(push_identity(record, value)),
        _ => {}
    }
}

/// Appends a path, device and inode; returns the owner.
fn push_identity(record: &mut Vec<u8>, path: &str) -> [u32; 2] {
    let path = unescape(path);
    push_text(record, &path);
    let found = std::fs::metadata(OsStr::from_bytes(&path)).ok();
    let (device, inode) = found.as_ref().map_or((0, 0), |found| (found.dev(), found.ino()));
    record.extend_from_slice(&device.to_le_bytes());
    record.extend_from_slice(&inode.to_le_bytes());
    found.map_or([0, 0], |found| [found.uid(), found.gid()])
}

fn push_bytes(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    record.extend_from_slice(bytes);
}

fn push_text(record: &mut Vec<u8>, text: &[u8]) {
    push_bytes(record, &[text, b"\0"].concat());
}

fn hexadecimal(digits: &[u8]) -> impl Iterator<Item = u8> {
    digits.chunks_exact(2).filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let escaped = others.get(..2).filter(|_| first == b'%').and_then(|pair| hexadecimal(pair).next());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &others[2..] } else { others };
    }
    bytes
}
