//! Output.

use super::MIB;
use crate::arguments::Arguments;
use crate::{report, sys};

/// `flood KIB STREAM…`: writes so much to each of these descriptors, then says so.
pub fn flood(arguments: Arguments) {
    let mut block = [b'x'; 1024];
    block.iter_mut().skip(63).step_by(64).for_each(|byte| *byte = b'\n');
    for _ in 0..arguments.number(0) {
        for stream in 1..arguments.len() {
            sys::write_all(arguments.number(stream) as sys::Fd, &block);
        }
    }
    let written = arguments.number(0) * block.len() * (arguments.len() - 1);
    report::reached("output", format_args!("{} KiB of it", written * 1024 / MIB));
}
