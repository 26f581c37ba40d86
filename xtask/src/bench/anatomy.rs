//! What a live box is made of: its mounts, namespaces and users, as the kernel shows them from inside.
//!
//! The floor and the comparison with other sandboxes are built from this, so they cannot drift from the product.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use hotcell::{Engine, SpawnConfig};

/// Names in `/proc/self/ns`, and the flags of clone(2) that make them.
const NAMESPACES: &[(&str, u64)] = &[
    ("user", 0x1000_0000),
    ("mnt", 0x0002_0000),
    ("pid", 0x2000_0000),
    ("net", 0x4000_0000),
    ("ipc", 0x0800_0000),
    ("uts", 0x0400_0000),
    ("cgroup", 0x0200_0000),
];

/// Options of a mount, and their numbers, which mount(2) and mount_setattr(2) share.
const ATTRIBUTES: &[(&str, u64)] = &[("ro", 1), ("nosuid", 2), ("nodev", 4), ("noexec", 8)];

/// One mount of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) place: PathBuf,
    pub(super) attributes: u64,
    pub(super) what: Mounted,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mounted {
    /// The tmpfs that is the root.
    Root,
    /// A fresh file system of this type.
    Fresh(String),
    /// A part of the root, bound to another place or to its own.
    Private(PathBuf),
    /// A tree of the host's, at its own place.
    Host,
}

/// A box, taken apart.
#[derive(Debug)]
pub(super) struct Anatomy {
    /// From the outermost place to the innermost.
    pub(super) mounts: Vec<Mount>,
    /// Links of the host's root directory into trees that the box sees, such as `/lib64`.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Flags of clone(2) for the namespaces that the box has for itself.
    pub(super) namespaces: u64,
    pub(super) uid_map: String,
    pub(super) gid_map: String,
}

impl Anatomy {
    /// Looks at a box of the default policy.
    pub(super) async fn of_a_box(engine: &Engine) -> Result<Self> {
        let mounts = parse_mounts(&read_in_box(engine, "cat", &["/proc/self/mountinfo"]).await?)?;
        let links = root_links(&mounts)?;
        let paths: Vec<String> = NAMESPACES.iter().map(|(name, _)| format!("/proc/self/ns/{name}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let inside = read_in_box(engine, "readlink", &paths).await?;
        Ok(Self {
            mounts,
            links,
            namespaces: private_namespaces(&inside)?,
            uid_map: read_in_box(engine, "cat", &["/proc/self/uid_map"]).await?,
            gid_map: read_in_box(engine, "cat", &["/proc/self/gid_map"]).await?,
        })
    }

    /// Trees of the host's that can be read.
    pub(super) fn read_only_trees(&self) -> impl Iterator<Item = &Path> {
        let tree = |mount: &&Mount| mount.what == Mounted::Host && mount.attributes & 1 != 0;
        self.mounts.iter().filter(tree).map(|mount| mount.place.as_path())
    }

    /// Private directories that can be written.
    pub(super) fn private_places(&self) -> impl Iterator<Item = &Path> {
        let private = |mount: &&Mount| matches!(mount.what, Mounted::Private(_)) && mount.attributes & 1 == 0;
        self.mounts.iter().filter(private).map(|mount| mount.place.as_path())
    }
}

/// What a program prints in a box of the default policy.
async fn read_in_box(engine: &Engine, program: &str, arguments: &[&str]) -> Result<String> {
    let output = engine.run(SpawnConfig::new(program).args(arguments.iter().copied())).await?;
    if !output.outcome.status.success() {
        let said = String::from_utf8_lossy(&output.stderr.bytes()).trim().to_owned();
        bail!("`{program} {}` in a box ended with {:?}: {said}", arguments.join(" "), output.outcome.status);
    }
    String::from_utf8(output.stdout.bytes()).with_context(|| format!("`{program}` in a box printed no text"))
}

fn private_namespaces(inside: &str) -> Result<u64> {
    let mut flags = 0;
    let mut lines = inside.lines();
    for (name, flag) in NAMESPACES {
        let ours = fs::read_link(format!("/proc/self/ns/{name}"))
            .with_context(|| format!("cannot read our own {name} namespace"))?;
        let theirs = lines.next().with_context(|| format!("the box did not name its {name} namespace"))?;
        if Path::new(theirs) != ours {
            flags |= flag;
        }
    }
    Ok(flags)
}

fn parse_mounts(text: &str) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    let root_device = text.lines().map(fields).find_map(|line| match line {
        Some(line) if line.place == "/" => Some(line.device.to_owned()),
        _ => None,
    });
    for line in text.lines() {
        let Some(line) = fields(line) else { bail!("cannot understand this line of a box's mountinfo: {line}") };
        let what = if line.place == "/" {
            Mounted::Root
        } else if Some(line.device) == root_device.as_deref() {
            Mounted::Private(PathBuf::from(line.root))
        } else if matches!(line.kind, "proc" | "devpts" | "mqueue") {
            Mounted::Fresh(line.kind.to_owned())
        } else {
            Mounted::Host
        };
        mounts.push(Mount { place: PathBuf::from(line.place), attributes: attributes(line.options), what });
    }
    mounts.sort_by_key(|mount| mount.place.components().count());
    // What is mounted in a tree of the host's comes along with it.
    let trees: BTreeSet<PathBuf> =
        mounts.iter().filter(|mount| mount.what == Mounted::Host).map(|mount| mount.place.clone()).collect();
    mounts.retain(|mount| {
        mount.what != Mounted::Host || !mount.place.ancestors().skip(1).any(|above| trees.contains(above))
    });
    Ok(mounts)
}

struct Fields<'a> {
    device: &'a str,
    root: &'a str,
    place: &'a str,
    options: &'a str,
    kind: &'a str,
}

/// The fields of a line of mountinfo that matter here.
fn fields(line: &str) -> Option<Fields<'_>> {
    let (common, special) = line.split_once(" - ")?;
    let mut common = common.split(' ').skip(2);
    Some(Fields {
        device: common.next()?,
        root: common.next()?,
        place: common.next()?,
        options: common.next()?,
        kind: special.split(' ').next()?,
    })
}

fn attributes(options: &str) -> u64 {
    let known = |option: &str| ATTRIBUTES.iter().find(|(name, _)| *name == option).map_or(0, |(_, number)| *number);
    options.split(',').map(known).sum()
}

fn root_links(mounts: &[Mount]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let shown =
        |target: &Path| mounts.iter().any(|mount| mount.what == Mounted::Host && target.starts_with(&mount.place));
    let mut links = Vec::new();
    for entry in fs::read_dir("/").context("cannot list /")? {
        let path = entry?.path();
        let Ok(target) = fs::read_link(&path) else { continue };
        let plain = target.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir));
        if plain && shown(&Path::new("/").join(&target)) {
            links.push((path, target));
        }
    }
    links.sort();
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
64 79 254:0 /usr /usr ro,nosuid,nodev,relatime - ext4 /dev/vda rw
65 64 254:7 / /usr/local ro,nosuid,nodev,relatime - ext4 /dev/vdb rw
72 79 0:6 /null /dev/null rw,nosuid,noexec,relatime - devtmpfs devtmpfs rw
82 81 0:40 /.hotcell/empty /proc/acpi ro,nosuid,nodev,noexec,relatime - tmpfs none rw
79 42 0:40 / / ro,nosuid,nodev,relatime - tmpfs none rw
81 79 0:42 / /proc ro,nosuid,nodev,noexec,relatime - proc none rw
92 79 0:40 /tmp /tmp rw,nosuid,nodev,relatime shared:3 - tmpfs none rw
";

    #[test]
    fn mounts_are_told_apart_and_ordered() {
        let mounts = parse_mounts(MOUNTINFO).unwrap();
        let seen: Vec<(&str, u64, &Mounted)> =
            mounts.iter().map(|mount| (mount.place.to_str().unwrap(), mount.attributes, &mount.what)).collect();
        assert_eq!(
            seen,
            [
                ("/", 7, &Mounted::Root),
                ("/usr", 7, &Mounted::Host),
                ("/proc", 15, &Mounted::Fresh("proc".into())),
                ("/tmp", 6, &Mounted::Private("/tmp".into())),
                ("/dev/null", 10, &Mounted::Host),
                ("/proc/acpi", 15, &Mounted::Private("/.hotcell/empty".into())),
            ]
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        assert!(parse_mounts("64 79 254:0 /usr\n").is_err());
    }
}
