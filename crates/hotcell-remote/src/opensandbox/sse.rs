//! Events in an answer's body, cut out of whatever pieces it comes in.
//!
//! Two framings are understood, also mixed: Server-Sent Events (`data: {…}` lines, ended by an empty line), and what
//! execd writes, an object on a line of its own.

use super::super::http::Why;

/// The most that one event may have. Execd sends a whole line of output as one.
pub(super) const LARGEST_EVENT: usize = 8 << 20;

/// Cuts events out of a body. Keeps no more than one event and one line, each within a limit.
#[derive(Debug)]
pub(super) struct Events {
    limit: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The `data` lines of the event that has not ended yet.
    data: Option<Vec<u8>>,
    /// The last line ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
    /// Whether this is the body's first line, which may begin with a byte order mark.
    first: bool,
}

impl Events {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), data: None, after_return: false, first: true }
    }

    /// Takes bytes until an event is complete. Says how many were taken, and what the event's data is.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), Why> {
        let mut taken = 0;
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                taken += 1;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + part.len() > self.limit {
                return Err(Why::TooLarge { limit: self.limit as u64 });
            }
            self.line.extend_from_slice(part);
            taken += part.len();
            if end.is_none() {
                break;
            }
            self.after_return = bytes[taken] == b'\r';
            taken += 1;
            let line = std::mem::take(&mut self.line);
            if let Some(event) = self.line(line)? {
                return Ok((taken, Some(event)));
            }
        }
        Ok((taken, None))
    }

    /// What has come of an event that did not end.
    pub(super) fn rest(&self) -> &[u8] {
        &self.line
    }

    /// How much is kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    fn line(&mut self, mut line: Vec<u8>) -> Result<Option<Vec<u8>>, Why> {
        if std::mem::take(&mut self.first) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return Ok(self.data.take());
        }
        if line[0] == b'{' {
            return Ok(Some(line));
        }
        let Some(value) = line.strip_prefix(b"data") else {
            // A comment, or a field that nothing here needs: `event`, `id`, `retry`.
            return Ok(None);
        };
        let value = match value {
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            [] => value,
            _ => return Ok(None),
        };
        match &mut self.data {
            None => self.data = Some(value.to_vec()),
            Some(data) if data.len() + value.len() < self.limit => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            Some(_) => return Err(Why::TooLarge { limit: self.limit as u64 }),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(pieces: &[&[u8]], limit: usize) -> Result<Vec<String>, Why> {
        let (mut events, mut found) = (Events::new(limit), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, event) = events.take(rest)?;
                assert!(events.kept() <= 2 * limit);
                rest = &rest[taken..];
                found.extend(event.map(|event| String::from_utf8(event).unwrap()));
            }
        }
        Ok(found)
    }

    const RECORDED: &[u8] = b"\xef\xbb\xbf: hello\n{\"type\":\"init\",\"text\":\"a\"}\n\n{\"type\":\"stdout\",\"text\":\"\xc3\xa9\"}\n\n\
        data: {\"type\":\"ping\"}\r\n\r\ndata: {\"a\":\r\ndata:1}\r\rid: 4\nretry: 1\nevent: x\ndata\ndata:  y\n\n:\n\ndatax: 1\n\n\
        {\"m\":1}\n{\"m\":2}\n{\"type\":\"execution_complete\"}\n\n";

    fn expected() -> Vec<String> {
        [
            "{\"type\":\"init\",\"text\":\"a\"}",
            "{\"type\":\"stdout\",\"text\":\"é\"}",
            "{\"type\":\"ping\"}",
            "{\"a\":\n1}",
            "\n y",
            "{\"m\":1}",
            "{\"m\":2}",
            "{\"type\":\"execution_complete\"}",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn both_framings_are_understood() {
        assert_eq!(cut(&[RECORDED], 1024).unwrap(), expected());
    }

    #[test]
    fn byte_by_byte_is_the_same() {
        let bytes: Vec<&[u8]> = RECORDED.chunks(1).collect();
        assert_eq!(cut(&bytes, 1024).unwrap(), expected());
    }

    #[test]
    fn nothing_grows_beyond_the_limit() {
        let line = [b'x'; 11];
        assert_eq!(cut(&[&line], 10), Err(Why::TooLarge { limit: 10 }));
        let many = b"data: 123\n".repeat(4);
        assert_eq!(cut(&[&many], 10), Err(Why::TooLarge { limit: 10 }));
        assert_eq!(cut(&[&b"data: 123\n\n".repeat(100)], 10).unwrap().len(), 100);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(mut cuts in proptest::collection::vec(0..RECORDED.len(), 0..20)) {
            cuts.sort_unstable();
            let (mut pieces, mut from) = (Vec::new(), 0);
            for at in cuts {
                pieces.push(&RECORDED[from..at]);
                from = at;
            }
            pieces.push(&RECORDED[from..]);
            prop_assert_eq!(cut(&pieces, 1024).unwrap(), expected());
        }

        #[test]
        fn nothing_makes_it_stumble(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let mut events = Events::new(64);
            for piece in &pieces {
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    match events.take(rest) {
                        Ok((taken, event)) => {
                            prop_assert!(taken > 0 && events.kept() <= 128);
                            prop_assert!(event.is_none_or(|event| event.len() <= 64));
                            rest = &rest[taken..];
                        }
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }
}
