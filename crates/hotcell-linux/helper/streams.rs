//! What one program reads and writes, where the init moves the bytes itself.
//!
//! Nothing here waits for a program, and nothing is kept of what it writes: that stays in its pipe until the library has
//! allowed more, and then the program waits.

use crate::launch::{self, Failure, Ordered};
use crate::sys::{self, Fd, PollFd};
use crate::text::Text;
use crate::transport::{Stream, Transport};
use crate::wire::{INPUT_WINDOW, OUTPUT_WINDOW, REST_MAX, STREAM_CHUNK, notice, spawn_flag, spawn_stage, stream};

/// No descriptor. What poll is told to look at this way, it does not look at.
const NONE: Fd = -1;
/// How many descriptors of one program are waited for.
pub const WAITED_FOR: usize = 3;

/// Our ends of a program's standard descriptors.
#[derive(Clone, Copy)]
pub struct Streams {
    /// A terminal is the input and the first output, by one descriptor.
    terminal: bool,
    input: Fd,
    outputs: [Fd; 2],
    /// How much of each output the library has room for.
    credit: [usize; 2],
    waiting: Waiting,
    /// There is no more input than what is waiting.
    last: bool,
}

/// Input that the program has not taken yet.
#[derive(Clone, Copy)]
struct Waiting {
    /// Memory of INPUT_WINDOW bytes, from the first time that the program was slow to its end; null before.
    memory: *mut u8,
    start: usize,
    length: usize,
}

/// The program's ends of its standard descriptors, to be closed when it has them.
pub struct Theirs {
    pub standard: [Fd; 3],
    made: [Fd; 3],
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.made.into_iter().for_each(close);
    }
}

fn close(descriptor: Fd) {
    if descriptor != NONE {
        sys::close(descriptor);
    }
}

/// Closes what a descriptor's place holds, and leaves the place empty.
fn close_at(place: &mut Fd) {
    close(core::mem::replace(place, NONE));
}

impl Streams {
    /// Of a program that got its descriptors from the library.
    pub const ELSEWHERE: Self = Self {
        terminal: false,
        input: NONE,
        outputs: [NONE; 2],
        credit: [0; 2],
        waiting: Waiting { memory: core::ptr::null_mut(), start: 0, length: 0 },
        last: false,
    };

    /// Makes a terminal, or pipes.
    pub fn make(ordered: &Ordered) -> Result<(Self, Theirs), Failure> {
        if ordered.flags & spawn_flag::TERMINAL != 0 {
            let at = |errno| (spawn_stage::TERMINAL, errno);
            let (ours, theirs) = launch::open_terminal(ordered.rows, ordered.columns).map_err(at)?;
            let theirs = Theirs { standard: [theirs; 3], made: [theirs, NONE, NONE] };
            let streams = Self { terminal: true, input: ours, outputs: [ours, NONE], ..Self::with_credit() };
            return match sys::set_nonblocking(ours) {
                Ok(_) => Ok((streams, theirs)),
                Err(errno) => {
                    close(ours);
                    Err(at(errno))
                }
            };
        }
        let mut streams = Self::with_credit();
        // The standard input of the init itself: there is nothing in it.
        let mut theirs = Theirs { standard: [0, NONE, NONE], made: [NONE; 3] };
        match streams.make_pipes(&mut theirs, ordered.flags & spawn_flag::NO_INPUT == 0) {
            Ok(()) => Ok((streams, theirs)),
            Err(errno) => {
                streams.close_all();
                Err((spawn_stage::PIPES, errno))
            }
        }
    }

    fn with_credit() -> Self {
        Self { credit: [OUTPUT_WINDOW; 2], ..Self::ELSEWHERE }
    }

    fn make_pipes(&mut self, theirs: &mut Theirs, with_input: bool) -> sys::Result<()> {
        if with_input {
            [theirs.made[0], self.input] = sys::pipe()?;
            theirs.standard[0] = theirs.made[0];
            sys::set_nonblocking(self.input)?;
        }
        for (index, output) in self.outputs.iter_mut().enumerate() {
            [*output, theirs.made[1 + index]] = sys::pipe()?;
            theirs.standard[1 + index] = theirs.made[1 + index];
            sys::set_nonblocking(*output)?;
        }
        Ok(())
    }

    /// What to wait for now. An output that the library has no room for is not looked at: not even its end.
    pub fn wait_for(&self) -> [PollFd; WAITED_FOR] {
        let output = |index: usize| {
            let descriptor = if self.credit[index] > 0 { self.outputs[index] } else { NONE };
            PollFd { descriptor, events: sys::POLLIN, returned: 0 }
        };
        let events = if self.waiting.length > 0 { sys::POLLOUT } else { 0 };
        // That nobody reads a pipe any more is told unasked; a terminal says so to whoever reads it.
        let input = if events == 0 && self.terminal { NONE } else { self.input };
        [PollFd { descriptor: input, events, returned: 0 }, output(0), output(1)]
    }

    /// Does what can be done by now.
    pub fn go_on(&mut self, token: u32, ready: [bool; WAITED_FOR], transport: &mut Transport) -> sys::Result<()> {
        let [input, outputs @ ..] = ready;
        if input {
            self.flush_input(token, transport)?;
        }
        let Transport::Stream(stream) = transport else { return Ok(()) };
        let mut ended = [false; 2];
        for (index, ready) in outputs.into_iter().enumerate() {
            if ready {
                ended[index] = self.forward(token, index, stream);
            }
        }
        for index in (0..2).filter(|index| ended[*index]) {
            self.end_output(token, index, transport)?;
        }
        Ok(())
    }

    /// Sends what can be read and may be sent. `true`: the output has ended.
    fn forward(&mut self, token: u32, index: usize, stream: &mut Stream) -> bool {
        let descriptor = self.outputs[index];
        if descriptor == NONE {
            return false;
        }
        match stream.output(token, index as u8, self.credit[index], |room| sys::read(descriptor, room)) {
            Ok(0) => true,
            Ok(length) => {
                self.credit[index] -= length;
                false
            }
            Err(sys::EAGAIN | sys::EINTR) => false,
            // A terminal says so when nothing has it open any more.
            Err(_) => true,
        }
    }

    fn end_output(&mut self, token: u32, index: usize, transport: &Transport) -> sys::Result<()> {
        if self.outputs[index] == NONE {
            return Ok(());
        }
        if self.terminal {
            self.drop_input();
        }
        close_at(&mut self.outputs[index]);
        let record = Text::<64>::new().push(&[notice::OUTPUT_END]).push(&token.to_le_bytes()).push(&[index as u8]);
        transport.say(record.as_bytes(), &[])
    }

    /// The library has room for so much more.
    pub fn credit(&mut self, index: u8, bytes: u32) -> sys::Result<()> {
        let credit = self.credit.get_mut(usize::from(index)).ok_or(sys::EPROTO)?;
        *credit = credit.saturating_add(bytes as usize).min(OUTPUT_WINDOW);
        Ok(())
    }

    /// Nobody reads an output any more: the program will hear of it when it writes. A terminal is gone then.
    pub fn close_output(&mut self, token: u32, index: u8, transport: &Transport) -> sys::Result<()> {
        if usize::from(index) >= self.outputs.len() {
            return Err(sys::EPROTO);
        }
        self.end_output(token, usize::from(index), transport)
    }

    /// Takes input: to the program as far as it takes it now, the rest is kept. More than was allowed is an error.
    pub fn input(&mut self, token: u32, mut bytes: &[u8], transport: &Transport) -> sys::Result<()> {
        if self.input == NONE {
            // Closed before the library could know.
            return Ok(());
        }
        if self.waiting.length + bytes.len() > INPUT_WINDOW {
            return Err(sys::EPROTO);
        }
        if self.waiting.length == 0 {
            match sys::write(self.input, bytes) {
                Ok(length) => {
                    bytes = &bytes[length..];
                    took(token, length, transport)?;
                }
                Err(sys::EAGAIN | sys::EINTR) => {}
                Err(_) => return self.close_input(token, transport),
            }
        }
        self.waiting.keep(bytes)
    }

    /// There is no more input.
    pub fn end_input(&mut self) {
        self.last = true;
        if self.waiting.length == 0 && !self.terminal {
            self.drop_input();
        }
    }

    /// Hands on what is waiting. If there is nothing, we were called because nobody reads any more.
    fn flush_input(&mut self, token: u32, transport: &Transport) -> sys::Result<()> {
        if self.input == NONE {
            return Ok(());
        }
        if self.waiting.length == 0 {
            return self.close_input(token, transport);
        }
        match sys::write(self.input, self.waiting.bytes()) {
            Ok(0) => self.close_input(token, transport),
            Ok(length) => {
                self.waiting.forget(length);
                if self.last {
                    self.end_input();
                }
                took(token, length, transport)
            }
            Err(sys::EAGAIN | sys::EINTR) => Ok(()),
            Err(_) => self.close_input(token, transport),
        }
    }

    /// The program takes no more, and the library is told.
    fn close_input(&mut self, token: u32, transport: &Transport) -> sys::Result<()> {
        self.drop_input();
        let record = Text::<64>::new().push(&[notice::INPUT_CLOSED]).push(&token.to_le_bytes());
        transport.say(record.as_bytes(), &[])
    }

    fn drop_input(&mut self) {
        if self.terminal {
            // Closed as an output.
            self.input = NONE;
        }
        close_at(&mut self.input);
        self.waiting.free();
    }

    /// The size of the terminal, where there is one.
    pub fn resize(&self, rows: u32, columns: u32) {
        if self.terminal && self.outputs[0] != NONE {
            // A terminal that nobody has open any more has no size.
            let _ = launch::set_terminal_size(self.outputs[0], rows, columns);
        }
    }

    /// The program has ended: sends what it left, whatever the library has room for, and lets go. What others write from
    /// now on, they write to nobody.
    pub fn finish(&mut self, token: u32, transport: &mut Transport) -> sys::Result<()> {
        let Transport::Stream(stream) = transport else { return Ok(()) };
        for index in 0..2 {
            let descriptor = self.outputs[index];
            if descriptor == NONE {
                continue;
            }
            // A terminal does not tell how much there is; but it does not hold much.
            let left = if self.terminal { REST_MAX } else { sys::readable_bytes(descriptor).unwrap_or(0) };
            let mut left = left.min(REST_MAX);
            while left > 0 {
                match stream.output(token, index as u8, left, |room| sys::read(descriptor, room)) {
                    Err(sys::EINTR) => {}
                    Ok(0) | Err(_) => break,
                    Ok(length) => left -= length,
                }
            }
        }
        for index in 0..2 {
            self.end_output(token, index, transport)?;
        }
        self.close_all();
        Ok(())
    }

    /// The program could not be started.
    pub fn abandon(&mut self) {
        self.close_all();
    }

    fn close_all(&mut self) {
        self.drop_input();
        self.outputs.iter_mut().for_each(close_at);
    }
}

/// Tells that the program has taken so much input.
fn took(token: u32, length: usize, transport: &Transport) -> sys::Result<()> {
    if length == 0 {
        return Ok(());
    }
    let length = (length as u32).to_le_bytes();
    let record = Text::<64>::new().push(&[notice::INPUT_CREDIT]).push(&token.to_le_bytes()).push(&length);
    transport.say(record.as_bytes(), &[])
}

impl Waiting {
    fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `length` is not zero, so there is a mapping, and start + length never exceeds its INPUT_WINDOW bytes.
        unsafe { core::slice::from_raw_parts(self.memory.add(self.start), self.length) }
    }

    /// Appends `bytes`, for which the caller has made sure that there is room.
    fn keep(&mut self, bytes: &[u8]) -> sys::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.memory.is_null() {
            self.memory = sys::map(None, INPUT_WINDOW)?;
        }
        // SAFETY: a mapping of INPUT_WINDOW bytes that only this value uses.
        let memory = unsafe { core::slice::from_raw_parts_mut(self.memory, INPUT_WINDOW) };
        memory.copy_within(self.start..self.start + self.length, 0);
        self.start = 0;
        memory[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }

    fn forget(&mut self, length: usize) {
        self.start += length;
        self.length -= length;
        if self.length == 0 {
            self.start = 0;
        }
    }

    fn free(&mut self) {
        if !self.memory.is_null() {
            sys::unmap(self.memory, INPUT_WINDOW);
        }
        *self = Streams::ELSEWHERE.waiting;
    }
}

const _: () = assert!(STREAM_CHUNK <= INPUT_WINDOW && stream::OUTPUT == 0 && stream::ERROR == 1);
