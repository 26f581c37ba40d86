//! How kernels and files of code are started.
//!
//! Sources of kernels go in as an argument and code through standard input: that works in every box, whatever its files are like.

use hotcell_core::backend::{SpawnConfig, StdinMode};

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

    /// The command of a kernel that runs one piece of code, or one after the other.
    pub(super) fn command(self, once: bool) -> SpawnConfig {
        let mode = if once { "once" } else { "keep" };
        let config = match self {
            Self::Python => SpawnConfig::new("python3").args(["-c", PYTHON_BOOT, PYTHON]),
            Self::Node | Self::TypeScript => {
                SpawnConfig::new("sh").args(["-c", NODE_STREAMS, "node", "node", "-e", NODE_BOOT, NODE, mode])
            }
            Self::Bash => {
                // In one line: bash counts the code's lines from the kernel's own.
                let lines: Vec<&str> = BASH.lines().filter(|line| !line.starts_with('#')).collect();
                SpawnConfig::new("bash").args(["--noprofile", "--norc", "-c", &lines.join(" "), "code", mode])
            }
        };
        config.stdin(StdinMode::Piped)
    }

    /// The first words to a kernel.
    pub(super) fn greeting(self, marker: &str, once: bool) -> String {
        match self {
            Self::Bash => format!("{marker}\n"),
            _ => format!("{}\n", serde_json::json!({ "marker": marker, "once": once })),
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

/// A command that puts its input into a file with this ending, and runs it with `command`.
pub(super) fn file_command(ending: &str, command: &[String]) -> SpawnConfig {
    SpawnConfig::new("sh").args(["-c", FILE, "code", ending]).args(command).stdin(StdinMode::Piped)
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
        let config = KernelKind::Bash.command(false);
        assert!(config.args.iter().all(|argument| !argument.to_string_lossy().contains('\n')));
    }
}
