//! The command line.

use alloc::vec::Vec;
use core::ffi::{CStr, c_char};

/// What is left of the command line.
#[derive(Clone, Copy)]
pub struct Arguments {
    list: &'static [*const c_char],
}

impl Arguments {
    /// # Safety
    /// `stack` must be the process's initial stack, as the kernel made it.
    pub unsafe fn on_stack(stack: *const usize) -> Self {
        // SAFETY: the kernel puts the count there, then that many pointers to strings that live as long as the process.
        unsafe { Self { list: core::slice::from_raw_parts(stack.add(1).cast(), *stack) } }
    }

    pub fn skip(self, count: usize) -> Self {
        Self { list: self.list.get(count..).unwrap_or_default() }
    }

    pub fn len(self) -> usize {
        self.list.len()
    }

    /// An argument as the kernel takes it; empty if there is none.
    pub fn c_str(self, index: usize) -> &'static CStr {
        match self.list.get(index) {
            // SAFETY: the kernel ends every argument with a NUL.
            Some(argument) => unsafe { CStr::from_ptr(*argument) },
            None => c"",
        }
    }

    pub fn text(self, index: usize) -> &'static [u8] {
        self.c_str(index).to_bytes()
    }

    /// An argument for `{}`; what is not UTF-8 is shown as nothing.
    pub fn display(self, index: usize) -> &'static str {
        core::str::from_utf8(self.text(index)).unwrap_or_default()
    }

    /// A decimal number, `0x` for hexadecimal, with a sign; 0 if it is none.
    pub fn number(self, index: usize) -> usize {
        parse_number(self.text(index)).unwrap_or(0)
    }

    pub fn all(self) -> Vec<&'static CStr> {
        (0..self.len()).map(|index| self.c_str(index)).collect()
    }
}

/// The value of a number as people write it.
pub fn parse_number(text: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(text).ok()?;
    if let Some(digits) = text.strip_prefix("0x") {
        return usize::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = text.strip_prefix('-') {
        return digits.parse::<usize>().ok().map(usize::wrapping_neg);
    }
    text.parse().ok()
}
