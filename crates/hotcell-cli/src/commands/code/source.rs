//! Where the code comes from.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use hotcell::text::PrintablePath;

use crate::failure::Failure;

/// Far more than anybody writes; a device that never ends is no program.
const LONGEST: u64 = 16 << 20;

/// The code, or that somebody types it.
#[derive(Debug)]
pub(super) enum Source {
    Text(String),
    Prompt,
}

impl Source {
    /// `-c`, a file, stdin, or a prompt on a terminal.
    pub(super) fn find(code: Option<String>, file: Option<OsString>) -> Result<Self, Failure> {
        match (code, file) {
            (Some(code), _) => Ok(Self::Text(code)),
            (None, Some(file)) if file != "-" => of_file(Path::new(&file)).map(Self::Text),
            (None, None) if io::stdin().is_terminal() && io::stdout().is_terminal() => Ok(Self::Prompt),
            _ => read(io::stdin().lock(), "stdin").map(Self::Text),
        }
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
        assert!(read(&b"\xff"[..], "x").is_err());
    }
}
