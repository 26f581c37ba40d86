//! How kernels and files of code are started.
//!
//! Sources of kernels go in as an argument and code through standard input: that works in every box, whatever its files are like.

use std::ffi::{OsStr, OsString};

use hotcell_core::backend::{SpawnConfig, StdinMode};

use super::code::Code;
use super::languages::KernelKind;

const PYTHON: &str = include_str!("kernels/kernel.py");
const NODE: &str = include_str!("kernels/kernel.js");
const BASH: &str = include_str!("kernels/kernel.bash");
const FILE: &str = include_str!("kernels/file.sh");

const PYTHON_BOOT: &str =
    r#"import sys; exec(compile(sys.argv.pop(1), "<hotcell kernel>", "exec"), {"__name__": "__hotcell__"})"#;
const NODE_BOOT: &str =
    "require('vm').runInThisContext(process.argv[1], { filename: 'hotcell-kernel' })(require, (name) => import(name))";

/// Node cannot copy descriptors by itself.
const NODE_STREAMS: &str = r#"exec 3<&0 4>&1 5>&2 </dev/null; exec "$@""#;
const NODE_STREAMS_WITH_STDIN: &str = r#"exec 3<&0 4>&1 5>&2; exec "$@""#;

/// What a kernel that runs code once is asked for.
pub(super) struct OnceRequest {
    pub(super) text: String,
    /// Whether what comes after it is for the code.
    pub(super) stdin: bool,
}

/// What runs TypeScript where Node does not, in order of preference.
pub(super) const TYPESCRIPT_RUNNERS: &[(&str, &[&str])] = &[
    ("deno", &["deno", "run", "--allow-all", "--no-prompt"]),
    ("bun", &["bun", "run"]),
    ("tsx", &["tsx"]),
    ("ts-node", &["ts-node"]),
];

impl KernelKind {
    /// The program that has to be in the box.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Node | Self::TypeScript => "node",
            Self::Bash => "bash",
        }
    }

    /// The command of a kernel that runs one piece of code after the other.
    pub(super) fn command(self) -> SpawnConfig {
        let config = match self {
            Self::Python => python(),
            Self::Node | Self::TypeScript => node(NODE_STREAMS).arg("keep"),
            Self::Bash => bash("code".as_ref()).arg("keep"),
        };
        config.stdin(StdinMode::Piped)
    }

    /// The command of a kernel that runs one piece of code and ends. Its arguments are those of the process: no byte of them is changed on the way.
    pub(super) fn command_once(self, code: &Code, stdin: bool) -> SpawnConfig {
        let name = code.name.as_deref();
        let config = match self {
            Self::Python => python().arg(name.unwrap_or("-c".as_ref())).args(&code.args),
            Self::Node | Self::TypeScript => {
                let streams = if stdin { NODE_STREAMS_WITH_STDIN } else { NODE_STREAMS };
                node(streams).arg("once").arg(name.unwrap_or_default()).args(&code.args)
            }
            Self::Bash => {
                let mode = if stdin { "read" } else { "once" };
                // After `-c`, the first argument is the name.
                let (name, args) = match (name, code.args.split_first()) {
                    (Some(name), _) => (name, &code.args[..]),
                    (None, Some((first, rest))) => (first.as_os_str(), rest),
                    (None, None) => ("bash".as_ref(), &[][..]),
                };
                bash(name).arg(mode).args(args)
            }
        };
        config.stdin(StdinMode::Piped)
    }

    /// The first words to a kernel. One that runs code once is told how long the request is: what comes after that may be for the code.
    pub(super) fn greeting(self, marker: &str, once: Option<&OnceRequest>) -> String {
        match (self, once) {
            (Self::Bash, _) => format!("{marker}\n"),
            (_, None) => format!("{}\n", serde_json::json!({ "marker": marker })),
            (_, Some(once)) => {
                let greeting = serde_json::json!({ "marker": marker, "once": once.text.len(), "stdin": once.stdin });
                format!("{greeting}\n")
            }
        }
    }

    /// A call, in the words of this kernel.
    pub(super) fn request(self, id: u64, source: &str) -> String {
        match self {
            Self::Bash => format!("{id}\n{source}\0"),
            _ => {
                let request = serde_json::json!({ "id": id, "code": source, "typescript": self == Self::TypeScript });
                // The kernels read bytes; what is not ASCII is escaped.
                let mut line = String::new();
                for character in request.to_string().chars() {
                    if character.is_ascii() {
                        line.push(character);
                    } else {
                        let mut units = [0; 2];
                        for unit in character.encode_utf16(&mut units) {
                            line.push_str(&format!("\\u{unit:04x}"));
                        }
                    }
                }
                line.push('\n');
                line
            }
        }
    }

    /// What is written to a kernel to interrupt a call, besides the signal.
    pub(super) fn interruption(self, id: u64) -> Option<String> {
        match self {
            Self::Node | Self::TypeScript => Some(format!("{{\"interrupt\":{id}}}\n")),
            Self::Python | Self::Bash => None,
        }
    }
}

fn python() -> SpawnConfig {
    SpawnConfig::new("python3").args(["-c", PYTHON_BOOT, PYTHON])
}

fn node(streams: &str) -> SpawnConfig {
    SpawnConfig::new("sh").args(["-c", streams, "node", "node", "-e", NODE_BOOT, NODE])
}

fn bash(name: &OsStr) -> SpawnConfig {
    // In one line: bash counts the code's lines from the kernel's own.
    let lines: Vec<&str> = BASH.lines().filter(|line| !line.starts_with('#')).collect();
    SpawnConfig::new("bash").args(["--noprofile", "--norc", "-c", &lines.join(" ")]).arg(name)
}

/// A command that puts its input into a file with this ending, and runs it with `command`. With `lines`, so many of them are the code, and the
/// rest is its input.
pub(super) fn file_command(ending: &str, command: &[String], args: &[OsString], lines: Option<usize>) -> SpawnConfig {
    let lines = lines.map_or_else(String::new, |lines| lines.to_string());
    SpawnConfig::new("sh")
        .args(["-c", FILE, "code", ending, &lines, &args.len().to_string()])
        .args(args)
        .args(command)
        .stdin(StdinMode::Piped)
}

/// A command that says which of these programs is there.
pub(super) fn which(programs: &[&str]) -> SpawnConfig {
    let script = r#"for name; do command -v "$name" >/dev/null && { echo "$name"; exit 0; }; done; exit 1"#;
    SpawnConfig::new("sh").args(["-c", script, "which"]).args(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_fit_into_an_argument_of_every_box() {
        for source in [PYTHON, NODE, BASH, FILE] {
            assert!(source.len() < 64 << 10);
        }
    }

    #[test]
    fn requests_are_one_line_of_ascii() {
        let request = KernelKind::Python.request(7, "print('é😀')\nx\u{2028}");
        assert!(request.is_ascii() && request.matches('\n').count() == 1, "{request}");
        let value: serde_json::Value = serde_json::from_str(&request).unwrap();
        assert_eq!(value["code"], "print('é😀')\nx\u{2028}");
        assert_eq!(KernelKind::Bash.request(7, "echo é\n"), "7\necho é\n\0");
    }

    #[test]
    fn the_shell_kernel_is_one_line() {
        let config = KernelKind::Bash.command();
        assert!(config.args.iter().all(|argument| !argument.to_string_lossy().contains('\n')));
    }
}
