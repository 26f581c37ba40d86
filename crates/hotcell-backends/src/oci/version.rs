//! Versions of runtimes, and those of which it is known that code got out.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::runtime::Flavour;

/// How long a runtime may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most of its answer that is read.
const MOST: usize = 4096;

/// What a runtime says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As it says it, in one line.
    pub text: String,
    numbers: [u32; 3],
}

/// What a version is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Product {
    /// An OCI runtime.
    Runtime(Flavour),
    /// Docker's engine.
    Docker,
    /// What runs Docker's containers.
    Containerd,
    /// Podman.
    Podman,
}

/// Versions that let code out of a container, by upstream's numbers: distributions patch theirs and keep the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEscape {
    /// The first version without it.
    pub fixed_in: &'static str,
    /// What it is called.
    pub names: &'static str,
    product: Product,
    /// The line of versions that it is about, and the first of it that is sound.
    line: Option<[u32; 2]>,
    first_sound: [u32; 3],
}

/// Newest first: the first that applies is told.
const ESCAPES: &[KnownEscape] = &[
    KnownEscape {
        fixed_in: "1.3.3",
        names: "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881",
        product: Product::Runtime(Flavour::Runc),
        line: Some([1, 3]),
        first_sound: [1, 3, 3],
    },
    KnownEscape {
        fixed_in: "1.2.8",
        names: "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881",
        product: Product::Runtime(Flavour::Runc),
        line: None,
        first_sound: [1, 2, 8],
    },
    KnownEscape {
        fixed_in: "1.20",
        names: "CVE-2025-24965",
        product: Product::Runtime(Flavour::Crun),
        line: None,
        first_sound: [1, 20, 0],
    },
    KnownEscape {
        fixed_in: "0.5.7",
        names: "CVE-2025-62161 and CVE-2025-62596",
        product: Product::Runtime(Flavour::Youki),
        line: None,
        first_sound: [0, 5, 7],
    },
    KnownEscape {
        fixed_in: "25.0.2",
        names: IN_BUILDKIT,
        product: Product::Docker,
        line: Some([25, 0]),
        first_sound: [25, 0, 2],
    },
    KnownEscape {
        fixed_in: "24.0.9",
        names: IN_BUILDKIT,
        product: Product::Docker,
        line: None,
        first_sound: [24, 0, 9],
    },
    KnownEscape {
        fixed_in: "1.4.3",
        names: "CVE-2020-15257",
        product: Product::Containerd,
        line: Some([1, 4]),
        first_sound: [1, 4, 3],
    },
    KnownEscape {
        fixed_in: "1.3.9",
        names: "CVE-2020-15257",
        product: Product::Containerd,
        line: None,
        first_sound: [1, 3, 9],
    },
    KnownEscape {
        fixed_in: "5.7.1",
        names: "CVE-2026-55686 (by an image's working directory)",
        product: Product::Podman,
        line: None,
        first_sound: [5, 7, 1],
    },
];

/// Not for boxes, in which nothing is built.
const IN_BUILDKIT: &str = "CVE-2024-23651, CVE-2024-23652 and CVE-2024-23653 (in builds)";

impl Version {
    /// Reads what `--version` printed, or what an engine says of one of its programs.
    pub fn parse(said: &str) -> Option<Self> {
        let line = said.lines().next()?.trim();
        let text: String = line.chars().filter(|letter| !letter.is_control()).take(80).collect();
        let mut words = text.split_whitespace().map(|word| word.strip_prefix('v').unwrap_or(word));
        let word = words.find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))?;
        let mut numbers = [0; 3];
        let parts = word.split(|letter: char| !letter.is_ascii_digit());
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = part.parse().unwrap_or(0);
        }
        Some(Self { text, numbers })
    }

    /// What is known of upstream's version of this number.
    pub fn known_escape(&self, product: Product) -> Option<&'static KnownEscape> {
        let of_line = |line: [u32; 2]| self.numbers[..2] == line;
        ESCAPES
            .iter()
            .filter(|escape| escape.product == product && escape.line.is_none_or(of_line))
            .find(|escape| self.numbers < escape.first_sound)
    }
}

/// Asks a runtime for its version; none if it does not tell.
pub async fn of(program: &Path) -> Option<Version> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    Version::parse(&String::from_utf8_lossy(&output.stdout[..output.stdout.len().min(MOST)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let debian = Version::parse("runc version 1.1.5+ds1\ncommit: 1.1.5").unwrap();
        assert_eq!(debian.numbers, [1, 1, 5]);
        assert_eq!(debian.known_escape(Product::Runtime(Flavour::Runc)).unwrap().fixed_in, "1.2.8");
        let sound = Version::parse("runc version 1.3.3").unwrap();
        assert_eq!(sound.known_escape(Product::Runtime(Flavour::Runc)), None);
        let line = Version::parse("runc version 1.3.1").unwrap();
        assert_eq!(line.known_escape(Product::Runtime(Flavour::Runc)).unwrap().fixed_in, "1.3.3");
        assert_eq!(
            Version::parse("crun version 1.8.1")
                .unwrap()
                .known_escape(Product::Runtime(Flavour::Crun))
                .unwrap()
                .fixed_in,
            "1.20"
        );
        assert_eq!(Version::parse("runc version 1.4.0").unwrap().known_escape(Product::Runtime(Flavour::Runc)), None);
        let gvisor = Version::parse("runsc version 0.0~20240729.0-4~bpo12+2").unwrap();
        assert_eq!(gvisor.known_escape(Product::Runtime(Flavour::Runsc)), None);
        assert_eq!(Version::parse("no number at all"), None);
    }
}
