//! Following a file that a command writes, line by line.

use std::io::SeekFrom;
use std::path::PathBuf;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::watch;

use super::event::Events;

/// How often the real one looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Sends what is written to `file` as events of `kind`, until `ended` says that no more comes.
pub(super) async fn follow(file: PathBuf, kind: &'static str, events: Events, mut ended: watch::Receiver<bool>) {
    let mut tail = Tail::default();
    loop {
        let last = tokio::select! {
            // Nobody left to say it counts as well.
            _ = ended.wait_for(|ended| *ended) => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        for line in tail.take(read_from(&file, tail.position).await, last) {
            events.output(kind, &line).await;
        }
        if last {
            return;
        }
    }
}

async fn read_from(file: &PathBuf, position: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(file).await
        && file.seek(SeekFrom::Start(position)).await.is_ok()
    {
        // What could be read is as good as anything.
        let _ = file.read_to_end(&mut bytes).await;
    }
    bytes
}

/// How far a file was sent.
#[derive(Debug, Default)]
struct Tail {
    position: u64,
    /// Was the last byte a carriage return, so that a line feed says nothing new?
    after_return: bool,
}

impl Tail {
    /// The lines in `bytes`, without their ends. An empty line is a line feed, as the real one has it. A line that has not
    /// ended is left for the next time, unless this is the last one.
    fn take(&mut self, bytes: Vec<u8>, last: bool) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut line = Vec::new();
        for byte in bytes {
            self.position += 1;
            if byte != b'\n' && byte != b'\r' {
                self.after_return = false;
                line.push(byte);
                continue;
            }
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            } else if !(byte == b'\n' && self.after_return) {
                lines.push(b"\n".to_vec());
            }
            self.after_return = byte == b'\r';
        }
        if last && !line.is_empty() {
            lines.push(line);
        } else {
            self.position -= line.len() as u64;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&str]) -> Vec<String> {
        let whole = parts.concat();
        let mut tail = Tail::default();
        let mut seen = Vec::new();
        let mut there = 0;
        for (index, part) in parts.iter().enumerate() {
            there += part.len();
            let position = usize::try_from(tail.position).unwrap();
            let fresh = whole.as_bytes()[position..there].to_vec();
            seen.extend(tail.take(fresh, index + 1 == parts.len()));
        }
        seen.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_lose_their_ends() {
        assert_eq!(lines(&["a\nb\r\nc"]), ["a", "b", "c"]);
        assert_eq!(lines(&["a\n\nb\n"]), ["a", "\n", "b"]);
        assert_eq!(lines(&["10%\r20%\r"]), ["10%", "20%"]);
    }

    #[test]
    fn a_line_in_parts_is_one_line() {
        assert_eq!(lines(&["on", "e\ntw", "o"]), ["one", "two"]);
        assert_eq!(lines(&["a\r", "\nb"]), ["a", "b"]);
    }
}
