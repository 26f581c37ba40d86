//! The packages' root file system: mmdebstrap, given a repository of the locked packages and nothing else.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::fetch::{Hash, Store};
use super::lock::Lock;
use super::programs::{DPKG_DEB, MMDEBSTRAP, NEWUIDMAP, SETPRIV, UNSHARE};

/// Compiles Python's modules: an ordinary user cannot do it later, and every start would pay for it. Compiled files
/// that rely on no time stamps are the same in every build and stay valid however an image is unpacked.
const COMPILE_PYTHON: &str = "chroot \"$1\" env -i PATH=/usr/bin PYTHONHASHSEED=0 python3 -m compileall -q -f \
     --invalidation-mode unchecked-hash /usr/lib/python3.14 /usr/lib/python3/dist-packages";

/// Installs the locked packages and writes the archive of the result to `archive`.
///
/// `staging` is a directory that every user may enter: an ordinary user's build runs as other users, who have no way
/// into a private home.
pub(super) fn make(
    lock: &Lock,
    store: &Store,
    staging: &Path,
    archive: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(), BuildError> {
    let repository = staging.join("packages");
    tell("checking the packages");
    make_repository(lock, store, &repository)?;

    let program = MMDEBSTRAP.find()?;
    let mut command = SETPRIV.command()?;
    let mode = if running_as_root() {
        // Its mounts are nobody else's, and if we are killed, the kernel ends it and all that it started.
        command.args(["--pdeathsig", "KILL"]).arg(UNSHARE.find()?);
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]);
        "root"
    } else {
        // It has namespaces of its own, and files that only it can remove: it is asked to end.
        NEWUIDMAP.find()?;
        command.args(["--pdeathsig", "TERM"]);
        "unshare"
    };
    command.arg(program);
    let names: Vec<&str> = lock.packages.iter().map(|package| package.name.as_str()).collect();
    command
        .env("SOURCE_DATE_EPOCH", lock.epoch.to_string())
        .env("TMPDIR", staging)
        .arg(format!("--mode={mode}"))
        .args(["--variant=essential", "--format=tar"])
        .arg(format!("--architectures={}", lock.architecture))
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg(format!("--include={}", names.join(",")))
        .arg(format!("--customize-hook={COMPILE_PYTHON}"))
        // No release is named: the repository has one only. It is trusted because every file in it was just checked.
        .args(["", "-"])
        .arg(format!("deb [trusted=yes] copy://{} ./", repository.display()));
    let mut output = File::create(archive).map_err(BuildError::file("write", archive))?;
    let mut tell_step = |line: &str| {
        // Its steps end in dots; the last of them, tidying up after itself, is of no interest.
        if let Some(step) = line.strip_prefix("I: ").and_then(|step| step.strip_suffix("..."))
            && !step.starts_with("removing")
        {
            tell(step);
        }
    };
    MMDEBSTRAP.run_into("install the packages", &mut command, &mut output, &mut tell_step)
}

fn running_as_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // The owner of our own entry in /proc is the user that we run as.
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Copies the packages to a directory and writes the index that apt reads there.
fn make_repository(lock: &Lock, store: &Store, directory: &Path) -> Result<(), BuildError> {
    fs::create_dir(directory).map_err(BuildError::file("make the directory", directory))?;
    let mut index = String::new();
    for package in &lock.packages {
        let hash = Hash::Sha256(package.sha256.clone());
        let (kept, copy) = (store.path(&hash), directory.join(package.file_name()));
        fs::copy(&kept, &copy).map_err(BuildError::file("copy", &kept))?;
        // The copy is what is used, so the copy is what is checked.
        if let Err(error) = hash.check(&copy, package.file_name()) {
            // A kept file that went bad would be in the way of every later build.
            let _ = fs::remove_file(&kept);
            return Err(error);
        }
        let control = control_of(&copy)?;
        let field = |name: &str| {
            control.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
        };
        let found = format!("{} {} {}", field("Package"), field("Version"), field("Architecture"));
        let expected = format!("{} {} {}", package.name, package.version, package.architecture);
        if found != expected {
            return Err(BuildError::WrongPackage { file: package.file_name().to_owned(), found, expected });
        }
        let _ = writeln!(
            index,
            "{}\nFilename: ./{}\nSize: {}\nSHA256: {}\n",
            control.trim_end(),
            package.file_name(),
            package.size,
            package.sha256
        );
    }
    let file = directory.join("Packages");
    fs::write(&file, index).map_err(BuildError::file("write", &file))
}

fn control_of(package: &PathBuf) -> Result<String, BuildError> {
    let finished = DPKG_DEB.run("read a package", DPKG_DEB.command()?.arg("--field").arg(package))?;
    Ok(finished.stdout)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::fetch::sha256_of_file;
    use super::super::lock::Package;
    use super::super::testing::have;
    use super::*;

    /// A store with one package, made here, and the lock file for it.
    fn store_with_package(place: &Path) -> (Store, Lock) {
        let tree = place.join("tree/DEBIAN");
        fs::create_dir_all(&tree).unwrap();
        let control =
            "Package: tiny\nVersion: 1:2-3\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n";
        fs::write(tree.join("control"), control).unwrap();
        let file = place.join("tiny.deb");
        let mut build = DPKG_DEB.command().unwrap();
        DPKG_DEB.run("build", build.arg("--build").arg(place.join("tree")).arg(&file)).unwrap();
        let sha256 = sha256_of_file(&file).unwrap();
        let store = Store::open(place.join("store")).unwrap();
        let size = fs::copy(&file, store.path(&Hash::Sha256(sha256.clone()))).unwrap();
        let package = Package {
            name: "tiny".into(),
            version: "1:2-3".into(),
            architecture: "all".into(),
            size,
            sha256,
            path: "pool/main/t/tiny_2-3_all.deb".into(),
        };
        let (suite, architecture) = ("forky".into(), "amd64".into());
        (store, Lock { suite, architecture, epoch: 1, rootfs: None, packages: vec![package] })
    }

    #[test]
    fn the_repository_has_the_locked_packages_alone() {
        if !have("the_repository_has_the_locked_packages_alone", &[DPKG_DEB]) {
            return;
        }
        let place = TempDir::new().unwrap();
        let (store, mut lock) = store_with_package(place.path());
        let repository = |name: &str| place.path().join(name);
        make_repository(&lock, &store, &repository("good")).unwrap();
        let index = fs::read_to_string(repository("good").join("Packages")).unwrap();
        assert!(index.contains("Package: tiny\n") && index.contains("Filename: ./tiny_2-3_all.deb\n"), "{index}");

        lock.packages[0].version = "1:2-4".into();
        let error = make_repository(&lock, &store, &repository("other")).unwrap_err().to_string();
        assert!(error.contains("holds `tiny 1:2-3 all`, and the lock file says `tiny 1:2-4 all`"), "{error}");
    }

    #[test]
    fn a_kept_package_that_was_changed_is_refused_and_forgotten() {
        if !have("a_kept_package_that_was_changed_is_refused_and_forgotten", &[DPKG_DEB]) {
            return;
        }
        let place = TempDir::new().unwrap();
        let (store, lock) = store_with_package(place.path());
        let kept = store.path(&Hash::Sha256(lock.packages[0].sha256.clone()));
        let mut bytes = fs::read(&kept).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&kept, bytes).unwrap();
        let error = make_repository(&lock, &store, &place.path().join("repository")).unwrap_err();
        assert!(matches!(error, BuildError::WrongHash { .. }), "{error}");
        assert!(!kept.exists(), "the next build gets it anew");
    }
}
