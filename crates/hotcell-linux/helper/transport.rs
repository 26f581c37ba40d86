//! How an init talks with the library: in records over a socket, or in frames over a stream of bytes.

use crate::record::Inbox;
use crate::sys::{self, Fd, PollFd};
use crate::wire::{STREAM_CHUNK, notice};

/// What is before the bytes in a frame of output: its length, the kind, the token, the stream, the length of the bytes.
const OUTPUT_HEADER: usize = 4 + 1 + 4 + 1 + 4;
/// The longest record besides output.
const SHORT_MAX: usize = 64;

pub enum Transport {
    /// A socket that carries descriptors, too.
    Records(Fd),
    /// Two descriptors of any kind.
    Stream(Stream),
}

pub struct Stream {
    input: Fd,
    output: Fd,
    /// Room for one frame of output.
    frame: *mut u8,
}

impl Stream {
    pub fn new(input: Fd, output: Fd) -> sys::Result<Self> {
        Ok(Self { input, output, frame: sys::map(None, OUTPUT_HEADER + STREAM_CHUNK)? })
    }

    /// Sends what `fill` puts in the room that it is given, which is as long as `most` and a frame allow: how much was sent,
    /// or why nothing was.
    pub fn output(
        &mut self,
        token: u32,
        stream: u8,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> sys::Result<usize>,
    ) -> sys::Result<usize> {
        // SAFETY: a mapping of that length, which only this value uses and which lives as long as the process.
        let frame = unsafe { core::slice::from_raw_parts_mut(self.frame, OUTPUT_HEADER + STREAM_CHUNK) };
        let (header, room) = frame.split_at_mut(OUTPUT_HEADER);
        let length = fill(&mut room[..most.min(STREAM_CHUNK)])?;
        if length == 0 {
            return Ok(0);
        }
        header[..4].copy_from_slice(&((OUTPUT_HEADER - 4 + length) as u32).to_le_bytes());
        header[4] = notice::OUTPUT;
        header[5..9].copy_from_slice(&token.to_le_bytes());
        header[9] = stream;
        header[10..14].copy_from_slice(&(length as u32).to_le_bytes());
        if write_all(self.output, &frame[..OUTPUT_HEADER + length]).is_err() {
            crate::init::leave(1)
        }
        Ok(length)
    }
}

impl Transport {
    /// What can be read from when there is an order.
    pub fn waits_on(&self) -> Fd {
        match self {
            Self::Records(socket) => *socket,
            Self::Stream(stream) => stream.input,
        }
    }

    /// The next order. `Ok(false)`: there will be none.
    pub fn receive(&self, inbox: &mut Inbox) -> sys::Result<bool> {
        match self {
            Self::Records(socket) => inbox.receive(*socket),
            Self::Stream(stream) => inbox.receive_frame(|buffer| read_all(stream.input, buffer)),
        }
    }

    /// Says something short. No descriptor gets through a stream, so none is given there.
    pub fn say(&self, record: &[u8], descriptors: &[Fd]) -> sys::Result<()> {
        match self {
            Self::Records(socket) => sys::send(*socket, record, descriptors).map(|_| ()),
            Self::Stream(stream) => {
                let mut frame = [0; 4 + SHORT_MAX];
                let length = 4 + record.len();
                let Some(frame) = frame.get_mut(..length) else { return Err(sys::EINVAL) };
                frame[..4].copy_from_slice(&(record.len() as u32).to_le_bytes());
                frame[4..].copy_from_slice(record);
                write_all(stream.output, frame)
            }
        }
    }
}

/// Fills `buffer`. `Ok(false)`: the stream ended before its first byte.
fn read_all(descriptor: Fd, buffer: &mut [u8]) -> sys::Result<bool> {
    let mut done = 0;
    while done < buffer.len() {
        match sys::read(descriptor, &mut buffer[done..]) {
            Ok(0) if done == 0 => return Ok(false),
            Ok(0) => return Err(sys::EPROTO),
            Ok(length) => done += length,
            Err(sys::EINTR) => {}
            Err(sys::EAGAIN) => wait_for(descriptor, sys::POLLIN)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

/// Writes everything, waiting as long as it takes: the other side always reads on, whatever it has to say itself.
pub fn write_all(descriptor: Fd, mut bytes: &[u8]) -> sys::Result<()> {
    while !bytes.is_empty() {
        match sys::write(descriptor, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(sys::EINTR) => {}
            Err(sys::EAGAIN) => wait_for(descriptor, sys::POLLOUT)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Whoever gave us the descriptor may have set it not to wait by itself.
fn wait_for(descriptor: Fd, events: i16) -> sys::Result<()> {
    match sys::poll(&mut [PollFd { descriptor, events, returned: 0 }], None) {
        Ok(_) | Err(sys::EINTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
