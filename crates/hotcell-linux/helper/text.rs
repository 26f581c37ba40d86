//! Small texts without an allocator: numbers and names for the kernel's files.

/// A text of up to `N` bytes; what does not fit is a defect and is refused by the kernel call that gets the cut text.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    pub fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    pub fn push(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            if self.length < N {
                self.bytes[self.length] = *byte;
                self.length += 1;
            }
        }
        self
    }

    /// A string that may end in NUL, which is left off.
    pub fn name(self, text: &[u8]) -> Self {
        match text.split_last() {
            Some((0, rest)) => self.push(rest),
            _ => self.push(text),
        }
    }

    pub fn number(self, mut value: u64) -> Self {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return self.push(&digits[at..]);
            }
        }
    }

    /// Ends the text with NUL, for the kernel.
    pub fn end(self) -> Self {
        self.push(b"\0")
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Reads decimal digits up to the first other byte.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    let mut value: u64 = 0;
    let mut any = false;
    for byte in text {
        if !byte.is_ascii_digit() {
            break;
        }
        any = true;
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    any.then_some(value)
}
