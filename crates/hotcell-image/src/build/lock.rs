//! The lock file: every package of an image, by version and hash.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::date;
use super::error::BuildError;

/// The lock file that is part of the library.
const OF_CODE: &str = include_str!("../../../../images/code/code.lock");

/// The only version of the format.
const VERSION: u32 = 1;

/// What a lock file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The release of Debian.
    pub suite: String,
    /// Debian's name for the kind of processor.
    pub architecture: String,
    /// The date of the release file that the packages were chosen from, in seconds since 1970. No file of the image is
    /// younger.
    pub epoch: u64,
    /// The SHA-256 of the root file system's archive, in hexadecimal, as whoever made the lock file got it.
    pub rootfs: Option<String>,
    /// The packages, sorted by name.
    pub packages: Vec<Package>,
}

/// A package of the image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The kind of processor it is for, or `all`.
    pub architecture: String,
    /// How many bytes its file has.
    pub size: u64,
    /// The SHA-256 of its file, in hexadecimal.
    pub sha256: String,
    /// Where its file is on a mirror.
    pub path: String,
}

/// A lock file's text, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    suite: String,
    architecture: String,
    date: String,
    rootfs: Option<String>,
    packages: Vec<Package>,
}

impl Lock {
    /// The lock file that is part of the library.
    pub fn of_code() -> Result<Self, BuildError> {
        Self::parse(OF_CODE, "the lock file of the reference image")
    }

    /// Reads a lock file.
    pub fn read(path: &Path) -> Result<Self, BuildError> {
        let text = fs::read_to_string(path).map_err(BuildError::file("read", path))?;
        Self::parse(&text, &format!("the lock file {}", path.display()))
    }

    /// Reads a lock file's text; `what` names it in errors.
    pub fn parse(text: &str, what: &str) -> Result<Self, BuildError> {
        let error = |why: String| BuildError::Text { what: what.to_owned(), why };
        let written: Written = toml::from_str(text).map_err(|problem| error(problem.to_string()))?;
        if written.version != VERSION {
            return Err(error(format!("its format is version {}, and only {VERSION} is known", written.version)));
        }
        let epoch = date::from_text(&written.date).ok_or_else(|| {
            error(format!("its date `{}` is not of the form 2026-10-30T08:08:01Z", written.date.escape_debug()))
        })?;
        for (key, value) in [("suite", &written.suite), ("architecture", &written.architecture)] {
            if !is_word(value) {
                return Err(error(format!("its {key} `{}` is not a word", value.escape_debug())));
            }
        }
        if let Some(rootfs) = &written.rootfs
            && !is_hex(rootfs, 64)
        {
            return Err(error("its rootfs is not a SHA-256 in hexadecimal".into()));
        }
        let mut packages = written.packages;
        if packages.is_empty() {
            return Err(error("it names no packages".into()));
        }
        let mut names = BTreeSet::new();
        let mut files = BTreeSet::new();
        for package in &packages {
            package.check().map_err(|why| error(format!("package `{}`: {why}", package.name.escape_debug())))?;
            if !names.insert(&package.name) || !files.insert(package.file_name()) {
                return Err(error(format!("package `{}` is there twice", package.name)));
            }
        }
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { suite: written.suite, architecture: written.architecture, epoch, rootfs: written.rootfs, packages })
    }

    /// The lock file's text: one line per package, so that a difference can be read.
    pub fn to_text(&self) -> String {
        let mut text = String::from(
            "# Every package of the reference image, by version and hash, as Debian's signed index had them on the date below.\n\
             # Made by `hotcell image build --update-lock`; not to be changed by hand.\n",
        );
        let _ = writeln!(text, "version = {VERSION}");
        let _ = writeln!(text, "suite = \"{}\"", self.suite);
        let _ = writeln!(text, "architecture = \"{}\"", self.architecture);
        let _ = writeln!(text, "date = \"{}\"", date::to_text(self.epoch));
        if let Some(rootfs) = &self.rootfs {
            let _ = writeln!(text, "rootfs = \"{rootfs}\"");
        }
        text.push_str("packages = [\n");
        for Package { name, version, architecture, size, sha256, path } in &self.packages {
            let _ = writeln!(
                text,
                "    {{ name = \"{name}\", version = \"{version}\", architecture = \"{architecture}\", size = {size}, \
                 sha256 = \"{sha256}\", path = \"{path}\" }},"
            );
        }
        text.push_str("]\n");
        text
    }
}

impl Package {
    /// The last part of the path.
    pub(super) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The fields end up in paths, in addresses and in the arguments of programs.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = self.name.as_bytes();
        if !name.first().is_some_and(u8::is_ascii_alphanumeric)
            || !name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(byte))
        {
            return Err("that is no name of a Debian package".into());
        }
        let version = self.version.as_bytes();
        if !version.first().is_some_and(u8::is_ascii_digit)
            || !version.iter().all(|byte| byte.is_ascii_alphanumeric() || b".+-:~".contains(byte))
        {
            return Err("its version is none of a Debian package".into());
        }
        if !is_word(&self.architecture) {
            return Err("its architecture is not a word".into());
        }
        if !is_hex(&self.sha256, 64) {
            return Err("its sha256 is not 64 hexadecimal digits".into());
        }
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.~_%/:".contains(byte);
        if !self.path.starts_with("pool/")
            || !self.path.ends_with(".deb")
            || !self.path.as_bytes().iter().all(plain)
            || self.path.split('/').any(|part| part.is_empty() || part.starts_with('.'))
        {
            return Err("its path is not one of a package on a mirror, pool/….deb".into());
        }
        Ok(())
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::super::recipe::Recipe;
    use super::*;

    fn lock() -> Lock {
        let package = |name: &str, version: &str| Package {
            name: name.into(),
            version: version.into(),
            architecture: "amd64".into(),
            size: 3,
            sha256: "ab".repeat(32),
            path: format!("pool/main/x/{name}_1%3a2_amd64.deb"),
        };
        Lock {
            suite: "forky".into(),
            architecture: "amd64".into(),
            epoch: 1_793_347_681,
            rootfs: Some("cd".repeat(32)),
            packages: vec![package("git", "1:2.53.0-1"), package("libstdc++6", "16.2.0-3")],
        }
    }

    fn refused(text: &str) -> String {
        Lock::parse(text, "the lock file").unwrap_err().to_string()
    }

    #[test]
    fn a_lock_file_is_read_as_it_was_written() {
        let lock = lock();
        assert_eq!(Lock::parse(&lock.to_text(), "x").unwrap(), lock);
        let unbuilt = Lock { rootfs: None, ..lock };
        assert_eq!(Lock::parse(&unbuilt.to_text(), "x").unwrap(), unbuilt);
    }

    #[test]
    fn the_order_of_the_packages_means_nothing() {
        let mut shuffled = lock();
        shuffled.packages.reverse();
        assert_eq!(Lock::parse(&shuffled.to_text(), "x").unwrap(), lock());
    }

    #[test]
    fn what_could_lead_elsewhere_is_refused() {
        let text = lock().to_text();
        for (old, new, why) in [
            ("pool/main/x/git", "pool/../x/git", "path"),
            ("pool/main/x/git", "pool//x/git", "path"),
            ("pool/main/x/git", "/etc/x/git", "path"),
            ("pool/main/x/git", "dists/x/git", "path"),
            ("pool/main/x/git_1%3a2_amd64.deb", "pool/main/x/git.tar", "path"),
            ("pool/main/x/git", "pool/main/x y/git", "path"),
            ("name = \"git\"", "name = \"-git\"", "no name"),
            ("name = \"git\"", "name = \"git,x\"", "no name"),
            ("1:2.53.0-1", "1:2 53", "version"),
            ("1:2.53.0-1", "-o", "version"),
            (&"ab".repeat(32), &"AB".repeat(32), "sha256"),
            (&"ab".repeat(32), "ab", "sha256"),
            (&"cd".repeat(32), "cd", "rootfs"),
            ("suite = \"forky\"", "suite = \"for ky\"", "suite"),
            ("architecture = \"amd64\"\n", "architecture = \"\"\n", "architecture"),
            ("2026-10-30T08:08:01Z", "yesterday", "date"),
            ("version = 1\n", "version = 2\n", "version 2"),
            ("name = \"libstdc++6\"", "name = \"git\"", "twice"),
            ("libstdc++6_1", "git_1", "twice"),
            ("suite = ", "extra = 1\nsuite = ", "extra"),
        ] {
            let changed = text.replacen(old, new, 1);
            assert_ne!(changed, text, "{old}");
            let error = refused(&changed);
            assert!(error.contains("the lock file") && error.contains(why), "{new}: {error}");
        }
        let none = text.split_once("packages").unwrap().0.to_owned() + "packages = []\n";
        assert!(refused(&none).contains("no packages"));
    }

    #[test]
    fn the_lock_file_of_the_reference_image_goes_with_its_recipe() {
        let (lock, recipe) = (Lock::of_code().unwrap(), Recipe::of_code().unwrap());
        assert_eq!(lock.suite, recipe.suite);
        assert!(lock.rootfs.is_some(), "nobody built it yet");
        for package in &recipe.packages {
            assert!(lock.packages.iter().any(|locked| locked.name == *package), "{package} is not locked");
        }
        assert_eq!(lock.to_text(), OF_CODE, "the lock file was changed by hand");
    }
}
