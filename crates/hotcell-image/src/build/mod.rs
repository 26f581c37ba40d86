//! Building the reference image from Debian's packages, without a container registry.
//!
//! ```text
//! recipe ──apt──▶ lock file ──▶ packages, each with its hash ──mmdebstrap──▶ files ──settle──▶ one archive
//! ```
//!
//! The [lock file](Lock) has the version and hash of every package. It is made from Debian's signed index, and from then on the
//! hashes alone decide: a build gets exactly those files or fails. What is installed is brought to a form that depends on
//! nothing but what it is, so two builds give the same bytes.

mod config;
mod contents;
mod date;
mod error;
mod ext4;
mod fetch;
mod lock;
mod mirror;
mod programs;
mod recipe;
mod resolve;
mod rootfs;
mod squashfs;
mod staging;
#[cfg(test)]
mod testing;
mod tree;

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub use config::ImageConfig;
pub use error::BuildError;
pub use ext4::export_ext4;
pub use lock::{Lock, Package};
pub use squashfs::export_squashfs;

use fetch::{FetchError, Hash, Store, Wanted};
use recipe::Recipe;
use staging::{Staging, write_whole};
use tree::Tree;

/// The name of the image, without a tag.
pub const IMAGE: &str = "hotcell/code";

/// Where npm's archives are.
const NPM_REGISTRY: &str = "https://registry.npmjs.org";

/// How to build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BuildOptions {
    /// The mirror of Debian; without one, that of the machine's apt, or Debian's own.
    pub mirror: Option<String>,
    /// The registry for npm itself; without one, npm's own.
    pub npm_registry: Option<String>,
    /// The lock file; without one, that of the reference image, which is part of the library.
    pub lock: Option<PathBuf>,
    /// The directory in which downloads and results are kept.
    pub cache: PathBuf,
    /// Where the archive goes; without one, to the cache.
    pub output: Option<PathBuf>,
}

/// An image that was built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Built {
    /// The archive of the root file system: not compressed, sorted, the same for the same lock file.
    pub tar: PathBuf,
    /// The SHA-256 of the archive, in hexadecimal.
    pub sha256: String,
    /// How many bytes the archive has.
    pub size: u64,
    /// How many bytes its files need on a disk with blocks of 4096 bytes.
    pub unpacked: u64,
    /// Whether the archive is the one that the lock file's maker got. Nothing, if the lock file does not say.
    pub as_recorded: Option<bool>,
    /// How the image is to be run.
    pub config: ImageConfig,
}

impl BuildOptions {
    /// Options with a cache in the user's own place for such: `$XDG_CACHE_HOME/hotcell/image-build`, or beneath `~/.cache`.
    pub fn from_environment() -> Result<Self, BuildError> {
        let directory = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = directory("XDG_CACHE_HOME")
            .or_else(|| directory("HOME").map(|home| home.join(".cache")))
            .ok_or(BuildError::NoCache)?;
        Ok(Self::with_cache(cache.join("hotcell/image-build")))
    }

    /// Options with a cache of their own.
    pub fn with_cache(cache: PathBuf) -> Self {
        Self { mirror: None, npm_registry: None, lock: None, cache, output: None }
    }

    fn read_lock(&self) -> Result<Lock, BuildError> {
        self.lock.as_deref().map_or_else(Lock::of_code, Lock::read)
    }

    fn output(&self, lock: &Lock) -> PathBuf {
        self.output.clone().unwrap_or_else(|| self.cache.join(format!("code-{}.tar", lock.architecture)))
    }
}

/// Builds the reference image from its lock file. `progress` is told each step, in a line.
///
/// This takes about a minute, and needs apt, mmdebstrap and, unless run by root, newuidmap.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    build_locked(&options.read_lock()?, options, progress)
}

/// Chooses the newest packages, builds the image from them, and writes the lock file that gives it again to `lock_file`.
pub fn update(options: &BuildOptions, lock_file: &Path, progress: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let mirror = mirror::choose(options.mirror.as_deref())?;
    let mut lock = resolve::resolve(&Recipe::of_code()?, machine_architecture(), &mirror, progress)?;
    let mut built = build_locked(&lock, options, progress)?;
    lock.rootfs = Some(built.sha256.clone());
    built.as_recorded = Some(true);
    write_whole(lock_file, |file| fs::write(file, lock.to_text()).map_err(BuildError::file("write", file)))?;
    Ok(built)
}

/// The archive that an earlier build left, if it is the one that the lock file records.
pub fn find_built(options: &BuildOptions) -> Result<Option<Built>, BuildError> {
    let lock = options.read_lock()?;
    let tar = options.output(&lock);
    if lock.rootfs.is_none() || !tar.is_file() {
        return Ok(None);
    }
    let built = describe(tar, &lock)?;
    Ok((built.as_recorded == Some(true)).then_some(built))
}

fn build_locked(lock: &Lock, options: &BuildOptions, progress: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let recipe = Recipe::of_code()?;
    if lock.architecture != machine_architecture() {
        let locked = lock.architecture.clone();
        return Err(BuildError::OtherArchitecture { locked, machine: machine_architecture() });
    }
    if let Some(package) = recipe.packages.iter().find(|name| !lock.packages.iter().any(|locked| locked.name == **name))
    {
        return Err(BuildError::LockBehindRecipe { package: package.clone() });
    }
    let store = Store::open(options.cache.join("files"))?;
    fetch_packages(lock, &store, options, progress)?;
    let npm = fetch_npm(&recipe, &store, options, progress)?;

    // Not in the cache: an ordinary user's build runs as other users, who have no way into a private home.
    let staging = Staging::new()?;
    let open = Permissions::from_mode(0o755);
    fs::set_permissions(staging.path(), open).map_err(BuildError::file("open", staging.path()))?;
    let installed = staging.path().join("installed.tar");
    rootfs::make(lock, &store, staging.path(), &installed, progress)?;

    progress("settling the files");
    let mut tree = Tree::read(&installed, &contents::keep)?;
    contents::complete(&mut tree, lock, &npm)?;
    tree.settle(lock.epoch)?;
    let output = options.output(lock);
    let written = write_whole(&output, |path| {
        let file = fs::File::create(path).map_err(BuildError::file("write", path))?;
        tree.write(file)
    })?;
    progress(&format!("{} entries with {} MB in files", written.entries, written.file_bytes / 1_000_000));
    describe(output, lock)
}

fn describe(tar: PathBuf, lock: &Lock) -> Result<Built, BuildError> {
    let size = fs::metadata(&tar).map_err(BuildError::file("read", &tar))?.len();
    let sha256 = fetch::sha256_of_file(&tar)?;
    let unpacked = unpacked_size(&tar).map_err(BuildError::file("read", &tar))?;
    let as_recorded = lock.rootfs.as_ref().map(|recorded| *recorded == sha256);
    Ok(Built { tar, sha256, size, unpacked, as_recorded, config: ImageConfig::of(lock) })
}

fn unpacked_size(tar: &Path) -> io::Result<u64> {
    const BLOCK: u64 = 4096;
    let mut bytes = 0_u64;
    for entry in tar::Archive::new(fs::File::open(tar)?).entries_with_seek()? {
        let entry = entry?;
        // A second name of a file needs no more than its directory, which is counted.
        if entry.header().entry_type() != tar::EntryType::Link {
            bytes = bytes.saturating_add(entry.size().div_ceil(BLOCK).max(1).saturating_mul(BLOCK));
        }
    }
    Ok(bytes)
}

fn fetch_packages(
    lock: &Lock,
    store: &Store,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<(), BuildError> {
    let mirror = mirror::choose(options.mirror.as_deref())?;
    let wanted: Vec<Wanted> = lock
        .packages
        .iter()
        .map(|package| Wanted {
            address: format!("{mirror}/{}", package.path),
            hash: Hash::Sha256(package.sha256.clone()),
        })
        .collect();
    store.fetch(&wanted, progress).map_err(|error| match error {
        FetchError::Other(error) => error,
        FetchError::Absent(missing) => BuildError::MirrorLacks {
            mirror,
            missing,
            total: wanted.len(),
            snapshot: format!("http://snapshot.debian.org/archive/debian/{}", date::to_snapshot(lock.epoch)),
        },
    })
}

fn fetch_npm(
    recipe: &Recipe,
    store: &Store,
    options: &BuildOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, BuildError> {
    let registry = options.npm_registry.as_deref().unwrap_or(NPM_REGISTRY).trim_end_matches('/');
    let address = format!("{registry}/npm/-/npm-{}.tgz", recipe.npm.version);
    let hash = Hash::Sha512(recipe.npm.sha512.clone());
    let wanted = Wanted { address: address.clone(), hash: hash.clone() };
    store.fetch(&[wanted], progress).map_err(|error| match error {
        FetchError::Other(error) => error,
        FetchError::Absent(_) => {
            BuildError::Text { what: address.clone(), why: "the registry does not have it".into() }
        }
    })?;
    let path = store.path(&hash);
    hash.check(&path, &address)?;
    Ok(path)
}

/// Debian's name for the kind of processor that we run on.
fn machine_architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "riscv64" => "riscv64",
        other => other,
    }
}
