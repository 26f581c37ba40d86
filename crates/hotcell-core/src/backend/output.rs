//! Captured output: bounded, with the head and the tail kept and the rest counted.

use std::collections::VecDeque;

use super::{ProcessError, SandboxedProcess, Stream};
use crate::outcome::{Outcome, Status};

/// How much of each stream is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Bytes kept from the beginning.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
}

impl Default for CaptureLimits {
    /// 1 MiB from the beginning and 1 MiB from the end.
    fn default() -> Self {
        Self { head: 1 << 20, tail: 1 << 20 }
    }
}

/// Collects a stream within bounds.
///
/// ```
/// use hotcell_core::backend::{CaptureLimits, StreamCapture};
/// let mut capture = StreamCapture::new(CaptureLimits { head: 3, tail: 2 });
/// capture.push(b"abcdef");
/// capture.push(b"gh");
/// let stream = capture.finish();
/// assert_eq!((stream.head.as_slice(), stream.tail.as_slice()), (&b"abc"[..], &b"gh"[..]));
/// assert_eq!(stream.dropped(), 3);
/// ```
#[derive(Debug)]
pub struct StreamCapture {
    limits: CaptureLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl StreamCapture {
    /// Nothing captured yet.
    pub fn new(limits: CaptureLimits) -> Self {
        Self { limits, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.limits.head - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.limits.tail)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.limits.tail);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// What was captured.
    pub fn finish(self) -> CapturedStream {
        CapturedStream { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

/// What one stream contained: all of it, or its head and tail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedStream {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end, as far as it is not in the head.
    pub tail: Vec<u8>,
    /// How many bytes the stream had.
    pub total: u64,
}

impl CapturedStream {
    /// All bytes that were kept, head and tail together.
    pub fn bytes(&self) -> Vec<u8> {
        [self.head.as_slice(), self.tail.as_slice()].concat()
    }

    /// Whether bytes are missing between head and tail.
    pub fn truncated(&self) -> bool {
        self.dropped() > 0
    }

    /// How many bytes are missing between head and tail.
    pub fn dropped(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// A command's captured output and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOutput {
    /// Standard output.
    pub stdout: CapturedStream,
    /// Standard error.
    pub stderr: CapturedStream,
    /// What happened.
    pub outcome: Outcome,
}

impl SandboxOutput {
    /// How the command ended.
    pub fn status(&self) -> Status {
        self.outcome.status
    }

    /// Reads a command's output to the end and waits for it. Its stdin, if it has one, is closed at once.
    pub async fn collect(process: &mut dyn SandboxedProcess, limits: CaptureLimits) -> Result<Self, ProcessError> {
        let io = process.take_io();
        drop(io.stdin);
        let (mut stdout, mut stderr) = (StreamCapture::new(limits), StreamCapture::new(limits));
        if let Some(mut output) = io.output {
            while let Some(event) = output.next().await {
                match event.stream {
                    Stream::Stdout => stdout.push(&event.bytes),
                    Stream::Stderr => stderr.push(&event.bytes),
                }
            }
        }
        let outcome = process.wait().await?;
        Ok(Self { stdout: stdout.finish(), stderr: stderr.finish(), outcome })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use async_trait::async_trait;

    use super::super::{OutputEvent, OutputEvents, ProcessId, ProcessIo, Signal, TtySize};
    use super::*;
    use crate::outcome::{Usage, Visibility};
    use crate::plan::EnforcementReport;
    use crate::runtime::{Isolation, RuntimeKind};

    fn capture(limits: CaptureLimits, pieces: &[&[u8]]) -> CapturedStream {
        let mut capture = StreamCapture::new(limits);
        pieces.iter().for_each(|piece| capture.push(piece));
        capture.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let stream = capture(CaptureLimits { head: 4, tail: 4 }, &[b"ab", b"cd", b"ef", b"gh"]);
        assert_eq!(stream.bytes(), b"abcdefgh");
        assert!(!stream.truncated());
    }

    #[test]
    fn the_middle_is_dropped_and_counted_however_it_is_cut() {
        let all: Vec<u8> = (0..=255).collect();
        for size in 1..=all.len() {
            let pieces: Vec<&[u8]> = all.chunks(size).collect();
            let stream = capture(CaptureLimits { head: 10, tail: 7 }, &pieces);
            assert_eq!(stream.head, all[..10]);
            assert_eq!(stream.tail, all[249..]);
            assert_eq!((stream.total, stream.dropped()), (256, 239));
        }
    }

    /// A command that has already written its output and ended.
    struct Ended {
        io: ProcessIo,
        outcome: Outcome,
    }

    #[async_trait]
    impl SandboxedProcess for Ended {
        fn id(&self) -> ProcessId {
            ProcessId(1)
        }
        fn take_io(&mut self) -> ProcessIo {
            std::mem::take(&mut self.io)
        }
        async fn signal(&self, _: Signal) -> Result<(), ProcessError> {
            Err(ProcessError::Ended)
        }
        async fn kill(&self) -> Result<(), ProcessError> {
            Ok(())
        }
        async fn stop(&self, _: std::time::Duration) -> Result<(), ProcessError> {
            Ok(())
        }
        async fn resize(&self, _: TtySize) -> Result<(), ProcessError> {
            Err(ProcessError::NoTerminal)
        }
        async fn wait(&self) -> Result<Outcome, ProcessError> {
            Ok(self.outcome.clone())
        }
    }

    struct Written(VecDeque<OutputEvent>);

    #[async_trait]
    impl OutputEvents for Written {
        async fn next(&mut self) -> Option<OutputEvent> {
            self.0.pop_front()
        }
    }

    #[test]
    fn streams_are_collected_apart() {
        let events = [(Stream::Stdout, "a"), (Stream::Stderr, "x"), (Stream::Stdout, "b")];
        let events = events.map(|(stream, text)| OutputEvent { stream, bytes: text.into() });
        let report =
            EnforcementReport { backend: RuntimeKind::Native, isolation: Isolation::Process, controls: Vec::new() };
        let outcome = Outcome {
            status: Status::Exited(3),
            usage: Usage::default(),
            report,
            violations: Vec::new(),
            visibility: Visibility::default(),
        };
        let io = ProcessIo { stdin: None, output: Some(Box::new(Written(events.into()))) };
        let mut process = Ended { io, outcome };
        let mut collecting = pin!(SandboxOutput::collect(&mut process, CaptureLimits::default()));
        let Poll::Ready(Ok(output)) = collecting.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing here has to be waited for");
        };
        assert_eq!((output.stdout.bytes(), output.stderr.bytes()), (b"ab".to_vec(), b"x".to_vec()));
        assert_eq!(output.status(), Status::Exited(3));
    }

    #[test]
    fn nothing_may_be_kept() {
        let stream = capture(CaptureLimits { head: 0, tail: 0 }, &[b"abc"]);
        assert_eq!((stream.bytes().len(), stream.dropped()), (0, 3));
    }
}
