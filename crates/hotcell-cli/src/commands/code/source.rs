//! Where the code comes from.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use hotcell::StdinMode;
use hotcell::interpreter::Code;
use hotcell::text::PrintablePath;

use crate::failure::Failure;
use crate::session::stdin_mode;

/// Far more than anybody writes; a device that never ends is no program.
const LONGEST: u64 = 16 << 20;

/// The code, or that somebody types it.
#[derive(Debug)]
pub(super) enum Source {
    Script(Script),
    Prompt,
}

/// Code that runs once.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    /// What its arguments begin with: the path of its file, or `-`.
    pub(super) name: Option<OsString>,
    pub(super) arguments: Vec<OsString>,
    /// Whether our stdin is the code's: not where the code itself came from there, or where there is nothing to read.
    pub(super) has_stdin: bool,
}

impl Source {
    /// `-c`, a file, stdin, or a prompt on a terminal.
    pub(super) fn find(code: Option<String>, words: Vec<OsString>) -> Result<Self, Failure> {
        let has_stdin = stdin_mode() == StdinMode::Piped;
        let mut rest = words.into_iter();
        let (text, name, has_stdin) = match (code, rest.as_slice().first()) {
            (Some(code), _) => (code, None, has_stdin),
            (None, None) if io::stdin().is_terminal() && io::stdout().is_terminal() => return Ok(Self::Prompt),
            (None, Some(file)) if file != "-" => (of_file(Path::new(file))?, rest.next(), has_stdin),
            (None, _) => (read(io::stdin().lock(), "stdin")?, rest.next(), false),
        };
        Ok(Self::Script(Script { text, name, arguments: rest.collect(), has_stdin }))
    }
}

impl Script {
    /// In this language.
    pub(super) fn code(self, language: String) -> Code {
        let mut code = Code::new(language, self.text);
        code.name = self.name;
        code.args = self.arguments;
        code
    }
}

fn of_file(path: &Path) -> Result<String, Failure> {
    let name = format!("`{}`", PrintablePath(path));
    let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
    read(file, &name)
}

fn read(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::new("code", format!("{name} is longer than {} MiB", LONGEST >> 20)));
    }
    // Editors of other systems put a mark at the beginning, which is no code.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).map(<[u8]>::to_vec).unwrap_or(bytes);
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new("code", format!("{name} is not UTF-8: byte {at} begins no character"))
    })
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::new("code", format!("cannot read the code from {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        assert!(read(io::repeat(b' '), "x").is_err());
        assert_eq!(read(&b"1\n"[..], "x").unwrap(), "1\n");
        assert_eq!(read(&b"\xef\xbb\xbf1\n"[..], "x").unwrap(), "1\n");
        assert!(read(&b"\xff"[..], "x").is_err());
    }
}
