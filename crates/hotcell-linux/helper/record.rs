//! Receiving records: from the socket, from the memory file that stands in for a large one, or in frames from a stream.

use crate::sys::{self, Fd};
use crate::wire::{DESCRIPTORS_MAX, IN_MEMORY_FILE, INLINE_MAX, Malformed, RECORD_MAX};

impl From<Malformed> for sys::Errno {
    fn from(_: Malformed) -> Self {
        sys::EPROTO
    }
}

/// Memory for records, reused for one after the other.
pub struct Inbox {
    inline: *mut u8,
    mapped: Option<(*mut u8, usize)>,
    length: usize,
    pub descriptors: [Fd; DESCRIPTORS_MAX],
    pub count: usize,
    /// The memory file of the record, where it has one: closed with the record.
    memory_file: Option<Fd>,
}

impl Inbox {
    /// Fresh memory, which the kernel gives only when it is touched.
    pub fn new() -> sys::Result<Self> {
        Ok(Self {
            inline: sys::map(None, INLINE_MAX)?,
            mapped: None,
            length: 0,
            descriptors: [-1; DESCRIPTORS_MAX],
            count: 0,
            memory_file: None,
        })
    }

    /// Waits for the next record. `Ok(false)` means that the other side is gone.
    pub fn receive(&mut self, socket: Fd) -> sys::Result<bool> {
        // SAFETY: `inline` is a mapping of INLINE_MAX bytes that only this value uses.
        let buffer = unsafe { core::slice::from_raw_parts_mut(self.inline, INLINE_MAX) };
        let (length, count) = sys::receive(socket, buffer, &mut self.descriptors)?;
        self.length = length;
        self.count = count;
        if length == 0 {
            self.close_descriptors();
            return Ok(false);
        }
        if buffer[0] == IN_MEMORY_FILE {
            let Some(last) = self.count.checked_sub(1) else { return Err(sys::EPROTO) };
            self.count = last;
            let file = self.descriptors[last];
            self.memory_file = Some(file);
            let size = sys::fstat(file)?.size as usize;
            if size == 0 || size > RECORD_MAX {
                return Err(sys::EPROTO);
            }
            self.mapped = Some((sys::map(Some(file), size)?, size));
        }
        Ok(true)
    }

    /// Reads the next record from a stream, by `read`, which fills what it is given, or says that there is no more.
    pub fn receive_frame(&mut self, read: impl Fn(&mut [u8]) -> sys::Result<bool>) -> sys::Result<bool> {
        let mut header = [0; 4];
        if !read(&mut header)? {
            return Ok(false);
        }
        let length = u32::from_le_bytes(header) as usize;
        if length == 0 || length > RECORD_MAX {
            return Err(sys::EPROTO);
        }
        let start = if length > INLINE_MAX {
            let start = sys::map(None, length)?;
            self.mapped = Some((start, length));
            start
        } else {
            self.length = length;
            self.inline
        };
        // SAFETY: a mapping of at least that length that only this value uses.
        let buffer = unsafe { core::slice::from_raw_parts_mut(start, length) };
        if read(buffer)? { Ok(true) } else { Err(sys::EPROTO) }
    }

    /// The record that was received last.
    pub fn record(&self) -> &[u8] {
        let (start, length) = match self.mapped {
            Some((start, length)) => (start.cast_const(), length),
            None => (self.inline.cast_const(), self.length),
        };
        // SAFETY: both are mappings of at least that length, which live until `clear`. The library seals the memory
        // file before it sends it, so it cannot shrink under the mapping.
        unsafe { core::slice::from_raw_parts(start, length) }
    }

    /// Sends the record on as it came, with other descriptors.
    pub fn forward(&self, socket: Fd, descriptors: &mut [Fd; DESCRIPTORS_MAX], count: usize) -> sys::Result<usize> {
        match self.memory_file {
            None => sys::send(socket, self.record(), &descriptors[..count]),
            Some(file) => {
                *descriptors.get_mut(count).ok_or(sys::EINVAL)? = file;
                sys::send(socket, &[IN_MEMORY_FILE], &descriptors[..=count])
            }
        }
    }

    /// Takes a descriptor out, so that [`Inbox::clear`] leaves it open.
    pub fn take(&mut self, index: usize) -> Option<Fd> {
        let place = self.descriptors[..self.count].get_mut(index)?;
        (*place >= 0).then(|| core::mem::replace(place, -1))
    }

    fn close_descriptors(&mut self) {
        for descriptor in &mut self.descriptors[..self.count] {
            if *descriptor >= 0 {
                sys::close(*descriptor);
                *descriptor = -1;
            }
        }
        self.count = 0;
    }

    /// Forgets the record: closes what came with it and wipes the bytes, so that what one box was told is not in the
    /// memory that the next one is forked from.
    pub fn clear(&mut self) {
        self.close_descriptors();
        if let Some((start, length)) = self.mapped.take() {
            sys::unmap(start, length);
        }
        if let Some(file) = self.memory_file.take() {
            sys::close(file);
        }
        // SAFETY: `inline` is a mapping of INLINE_MAX bytes and `length` never exceeds it.
        unsafe { crate::memory::memset(self.inline, 0, self.length) };
        self.length = 0;
    }
}
