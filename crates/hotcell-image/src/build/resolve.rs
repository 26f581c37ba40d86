//! Which packages follow from the recipe today: asked of apt, which checks Debian's signature on the index.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::date;
use super::error::BuildError;
use super::lock::{Lock, Package};
use super::programs::{APT_CACHE, APT_GET, Program};
use super::recipe::Recipe;
use super::staging::Staging;

/// Debian's keys. Each release is signed with the keys of the ones before it as well.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Makes a lock file without a digest of the root file system, which nobody has built yet.
pub(super) fn resolve(
    recipe: &Recipe,
    architecture: &str,
    mirror: &str,
    tell: &mut dyn FnMut(&str),
) -> Result<Lock, BuildError> {
    if !Path::new(KEYRING).is_file() {
        return Err(BuildError::MissingFile { path: KEYRING.into(), package: "debian-archive-keyring" });
    }
    let apt = Apt::new(architecture, mirror, &recipe.suite)?;
    tell(&format!("reading the package index of {} from {mirror}", recipe.suite));
    let step = "read Debian's package index";
    APT_GET.run(step, apt.command(APT_GET)?.args(["--quiet", "update"]))?;
    let epoch = apt.release_date()?;

    let step = "choose packages";
    let mut simulate = apt.command(APT_GET)?;
    simulate.args(["--quiet", "--simulate", "--yes", "install", "?essential"]).args(&recipe.packages);
    let chosen = chosen(&APT_GET.run(step, &mut simulate)?.stdout);
    let mut show = apt.command(APT_CACHE)?;
    show.args(["--quiet", "show"]).args(chosen.iter().map(|(name, version)| format!("{name}={version}")));
    let mut described = packages(&APT_CACHE.run(step, &mut show)?.stdout);

    let error = |why: String| BuildError::Text { what: "what apt says about packages".into(), why };
    let mut packages = Vec::new();
    for name_and_version in chosen {
        let package = described
            .remove(&name_and_version)
            .ok_or_else(|| error(format!("there is nothing about {} {}", name_and_version.0, name_and_version.1)))?;
        package.check().map_err(|why| error(format!("{}: {why}", package.name)))?;
        packages.push(package);
    }
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    tell(&format!("{} packages, {} from {}", packages.len(), recipe.suite, date::to_text(epoch)));
    Ok(Lock { suite: recipe.suite.clone(), architecture: architecture.to_owned(), epoch, rootfs: None, packages })
}

/// An apt that knows one source and nothing of the machine's packages.
struct Apt {
    state: Staging,
    architecture: String,
}

impl Apt {
    fn new(architecture: &str, mirror: &str, suite: &str) -> Result<Self, BuildError> {
        let state = Staging::new()?;
        for directory in ["lists/partial", "cache/archives/partial"] {
            let directory = state.path().join(directory);
            fs::create_dir_all(&directory).map_err(BuildError::file("make the directory", &directory))?;
        }
        let sources = state.path().join("sources.list");
        fs::write(&sources, format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n"))
            .map_err(BuildError::file("write", &sources))?;
        Ok(Self { state, architecture: architecture.to_owned() })
    }

    fn command(&self, program: Program) -> Result<Command, BuildError> {
        let mut command = program.command()?;
        let state = self.state.path();
        for (option, value) in [
            ("Dir::Etc::SourceList", state.join("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::Etc::Preferences", "/dev/null".into()),
            ("Dir::Etc::PreferencesParts", "/dev/null".into()),
            ("Dir::State", state.to_owned()),
            ("Dir::State::status", "/dev/null".into()),
            ("Dir::Cache", state.join("cache")),
            ("APT::Architecture", PathBuf::from(&self.architecture)),
            ("APT::Architectures", PathBuf::from(&self.architecture)),
            ("APT::Install-Recommends", "false".into()),
            // Otherwise apt counts itself as essential.
            ("pkgCacheGen::ForceEssential", ",".into()),
            // A list that could not be fetched is an error, not a warning.
            ("APT::Update::Error-Mode", "any".into()),
            // The index of a testing release says for how long it is fresh. An older one gives an older image and the same
            // signature is checked.
            ("Acquire::Check-Valid-Until", "false".into()),
            ("Acquire::Languages", "none".into()),
            ("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false".into()),
        ] {
            command.arg("--option").arg(format!("{option}={}", value.display()));
        }
        Ok(command)
    }

    /// The date in the Release file that apt has just checked.
    fn release_date(&self) -> Result<u64, BuildError> {
        let lists = self.state.path().join("lists");
        let entries = fs::read_dir(&lists).map_err(BuildError::file("list", &lists))?;
        let file = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.to_string_lossy().ends_with("Release"))
            .unwrap_or_else(|| lists.join("InRelease"));
        let text = fs::read_to_string(&file).map_err(BuildError::file("read", &file))?;
        text.lines()
            .find_map(|line| line.strip_prefix("Date:"))
            .and_then(|date| date::from_release(date.trim()))
            .ok_or_else(|| BuildError::Text { what: "the release file".into(), why: "it has no date".into() })
    }
}

/// Names and versions in what `apt-get --simulate` printed: lines such as `Inst libc6 (2.43-7 Debian:testing [amd64])`.
fn chosen(simulation: &str) -> Vec<(String, String)> {
    let of_line = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let version = rest.strip_prefix('(')?.split([' ', ')']).next()?;
        Some((name.to_owned(), version.to_owned()))
    };
    simulation.lines().filter_map(of_line).collect()
}

/// The packages in what `apt-cache show` printed.
fn packages(text: &str) -> BTreeMap<(String, String), Package> {
    let of_stanza = |stanza: &str| {
        let field = |name: &str| {
            let line = stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.trim().to_owned())
        };
        Some(Package {
            name: field("Package")?,
            version: field("Version")?,
            architecture: field("Architecture")?,
            size: field("Size")?.parse().ok()?,
            sha256: field("SHA256")?,
            path: field("Filename")?,
        })
    };
    text.split("\n\n")
        .filter_map(of_stanza)
        .map(|package| ((package.name.clone(), package.version.clone()), package))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_packages_are_those_that_would_be_installed() {
        let text = "NOTE: simulation\nInst libc6 (2.43-7 Debian:testing [amd64])\nInst tzdata (2026f-1 Debian:testing [all]) []\n\
                    Conf libc6 (2.43-7 Debian:testing [amd64])\nInst broken\n";
        let expected =
            [("libc6", "2.43-7"), ("tzdata", "2026f-1")].map(|(name, version)| (name.into(), version.into()));
        assert_eq!(chosen(text), expected);
    }

    #[test]
    fn descriptions_are_read_by_field() {
        let text = "Package: jq\nVersion: 1.8.2-1\nArchitecture: amd64\nFilename: pool/main/j/jq/jq.deb\nSize: 7\n\
                    SHA256: aa\nDescription: x\n Package: not this\n\nPackage: half\nVersion: 1\n";
        let found = packages(text);
        let package = &found[&("jq".to_owned(), "1.8.2-1".to_owned())];
        assert_eq!((found.len(), package.size, package.sha256.as_str()), (1, 7, "aa"));
    }
}
