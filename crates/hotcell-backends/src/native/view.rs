//! What every box sees, whatever its policy: system directories, a few files of `/etc`, devices, private places.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hotcell_linux::landlock::{Access, Rules};
use hotcell_linux::{CellSpec, Cover, Tree, TreeOptions};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::cell::{HOME, user_name};

/// Read-only directories that programs need. Those that are links on the host (`/bin` to `usr/bin`) are links in the box.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What of `/etc` programs need: how to find libraries, commands, certificates, time zones and services. Nothing that
/// names the machine's users, keys or networks; `passwd`, `group` and `hosts` are written for the box.
const ETC: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "localtime",
    "os-release",
    "pki",
    "protocols",
    "services",
    "ssl",
];

/// Devices that every program may use.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// What anybody may read in `/proc` and that tells about the machine rather than about the box. (What could change the
/// machine is out of reach three times over: the procfs is mounted read-only, belongs to a user that is nobody in the
/// box, and asks for capabilities that no box has.)
const PROC_MASKED: &[&str] = &[
    "acpi",
    "asound",
    "bus",
    "fs",
    "interrupts",
    "irq",
    "key-users",
    "keys",
    "mtrr",
    "sched_debug",
    "scsi",
    "softirqs",
    "timer_list",
];

/// Private places that can be written; all share the room of the root tmpfs.
const PRIVATE: &[(&str, u32)] = &[("/tmp", 0o1777), (HOME, 0o700), ("/dev/shm", 0o1777), ("/var/tmp", 0o1777)];

const READ_ONLY: TreeOptions = TreeOptions {
    read_only: true,
    devices: false,
    no_exec: false,
    id_mapped: false,
    no_sockets: false,
    own_place: true,
};

/// Whether the base of the view shows this path of the host's, or something below it.
pub(super) fn shows(path: &Path) -> bool {
    let shown = |base: &Path| path.starts_with(base) || base.starts_with(path);
    SYSTEM.iter().any(|base| shown(Path::new(base))) || ETC.iter().any(|name| shown(&Path::new("/etc").join(name)))
}

/// The base of the view: everything but what the policy adds.
pub(super) fn base(spec: &mut CellSpec, rules: &mut Rules, uid: u32, open_network: bool) {
    rules.allow(Path::new("/"), Access::List, true);
    spec.directory(Path::new("/.hotcell"), 0o700);
    spec.covers();
    for path in SYSTEM {
        system_directory(spec, rules, Path::new(path));
    }
    etc(spec, uid, open_network);
    rules.allow(Path::new("/etc"), Access::Read, true);
    devices(spec);
    rules.allow(Path::new("/dev"), Access::Device, true);
    spec.directory(Path::new("/proc"), 0o555);
    spec.proc(Path::new("/proc"));
    for (path, directory) in masked_in_proc() {
        spec.mask_in_proc(path, Cover::Empty { directory: *directory, readable: false });
    }
    rules.allow(Path::new("/proc"), Access::Read, true);
    for (path, mode) in PRIVATE {
        let path = Path::new(path);
        spec.directory(path, *mode);
        spec.private(path);
        rules.allow(path, Access::Write, true);
    }
    spec.directory(Path::new("/run"), 0o755);
    spec.directory(Path::new("/root"), 0o755);
}

/// The base of the view of a container that a runtime makes: that adds `/proc` and `/dev` itself. The system directories are
/// the host's, or those of `image`. With `owned`, what is private is given to the box's user on the host.
pub(crate) fn stage_base(spec: &mut CellSpec, rules: &mut Rules, uid: u32, open_network: bool, image: Option<&Path>) {
    rules.allow(Path::new("/"), Access::List, true);
    spec.directory(Path::new("/.hotcell"), 0o700);
    spec.covers();
    match image {
        None => {
            for path in SYSTEM {
                system_directory(spec, rules, Path::new(path));
            }
            etc(spec, uid, open_network);
            rules.allow(Path::new("/etc"), Access::Read, true);
        }
        Some(image) => image_directories(spec, rules, image, open_network),
    }
    for place in ["/dev", "/dev/shm", "/proc"] {
        spec.directory(Path::new(place), 0o755);
    }
    rules.allow(Path::new("/dev"), Access::Device, true);
    rules.allow(Path::new("/proc"), Access::Read, true);
    for place in ["/run", "/root"] {
        spec.directory(Path::new(place), 0o755);
    }
}

/// A private, writable place of a stage's root.
pub(crate) fn stage_private(spec: &mut CellSpec, rules: &mut Rules, path: &Path, mode: u32, owned: bool) {
    spec.directory(path, mode);
    if owned {
        spec.owner(path);
    }
    spec.private(path);
    rules.allow(path, Access::Write, true);
}

/// Directories of an image that every box has its own of.
const NOT_OF_IMAGE: &[&str] =
    &["dev", "home", "proc", "run", "sys", "tmp", ".hotcell", ".hotcell-init", ".hotcell-shm"];

/// The directories of an image's root, read-only. What is not UTF-8 is not shown: no image needs it.
fn image_directories(spec: &mut CellSpec, rules: &mut Rules, image: &Path, open_network: bool) {
    let entries = fs::read_dir(image).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names.iter().filter(|name| !NOT_OF_IMAGE.contains(&name.as_str())) {
        let (source, place) = (image.join(name), Path::new("/").join(name));
        let Ok(metadata) = fs::symlink_metadata(&source) else { continue };
        if metadata.is_symlink() {
            if let Ok(target) = fs::read_link(&source) {
                spec.symlink(&place, target);
            }
            continue;
        }
        if metadata.is_dir() {
            spec.directory(&place, 0o755);
        } else if metadata.is_file() {
            spec.file(&place, 0o444, b"");
        } else {
            continue;
        }
        spec.attach(Tree::from_metadata(&source, &metadata, READ_ONLY), &place);
        rules.allow(&place, Access::Read, metadata.is_dir());
    }
    if open_network
        && let Ok(resolv) = fs::read("/etc/resolv.conf")
        && look_in_image(image, Path::new("/etc/resolv.conf")).is_ok_and(|metadata| metadata.is_file())
    {
        let own = Path::new("/.hotcell/resolv.conf");
        spec.file(own, 0o444, &resolv);
        spec.bind(own, Path::new("/etc/resolv.conf"), TreeOptions { own_place: false, ..READ_ONLY });
    }
}

/// Whether this is the root, or something in it that every box has its own of: an image has no say there.
pub(crate) fn is_of_box(path: &Path) -> bool {
    let below = path.strip_prefix("/").unwrap_or(path);
    below == Path::new("") || NOT_OF_IMAGE.iter().any(|name| below == Path::new(name))
}

/// What an image has there. A link on the way is an error: one that begins with a slash would lead to the host from here.
pub(crate) fn look_in_image(image: &Path, path: &Path) -> io::Result<fs::Metadata> {
    let below = path.strip_prefix("/").unwrap_or(path);
    let root = rustix::fs::open(image, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    fs::File::from(rustix::fs::openat2(&root, below, flags, Mode::empty(), resolve)?).metadata()
}

/// Whether an image has anything there, be it a link.
pub(crate) fn image_has(image: &Path, path: &Path) -> bool {
    look_in_image(image, path).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
}

/// Whether an image has a directory there, into which something else can be mounted.
pub(crate) fn image_has_directory(image: &Path, path: &Path) -> bool {
    look_in_image(image, path).is_ok_and(|metadata| metadata.is_dir())
}

/// For boxes without the layer that the view is: the host's own directories, writable, over what the base has made. The
/// home of the box's user and the file systems of the kernel stay as they are, since nothing would run without them.
pub(super) fn show_host(spec: &mut CellSpec) {
    let options = TreeOptions {
        read_only: false,
        devices: true,
        no_exec: false,
        id_mapped: false,
        no_sockets: false,
        own_place: false,
    };
    for entry in fs::read_dir("/").into_iter().flatten().flatten() {
        let path = entry.path();
        let kept = ["/home", "/proc", "/sys", "/dev"].iter().any(|kept| path == Path::new(kept));
        let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if kept || !directory {
            continue;
        }
        if let Ok(tree) = Tree::pin(&path, options) {
            spec.directory(&path, 0o755);
            spec.attach(tree, &path);
        }
    }
}

/// What of [`PROC_MASKED`] this kernel has, and whether it is a directory. That does not change while it runs.
fn masked_in_proc() -> &'static [(PathBuf, bool)] {
    static MASKED: OnceLock<Vec<(PathBuf, bool)>> = OnceLock::new();
    MASKED.get_or_init(|| {
        let paths = PROC_MASKED.iter().map(|name| Path::new("/proc").join(name));
        paths.filter_map(|path| fs::metadata(&path).ok().map(|metadata| (path, metadata.is_dir()))).collect()
    })
}

fn system_directory(spec: &mut CellSpec, rules: &mut Rules, path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_symlink() {
        if let Ok(target) = fs::read_link(path) {
            spec.symlink(path, target);
        }
        return;
    }
    if metadata.is_dir() {
        spec.directory(path, 0o755);
        spec.attach(Tree::from_metadata(path, &metadata, READ_ONLY), path);
        rules.allow(path, Access::Read, true);
    }
}

fn etc(spec: &mut CellSpec, uid: u32, open_network: bool) {
    spec.directory(Path::new("/etc"), 0o755);
    for name in ETC {
        etc_entry(spec, &Path::new("/etc").join(name));
    }
    let name = user_name(uid);
    let user = if uid == 0 { String::new() } else { format!("{name}:x:{uid}:{uid}::{HOME}:/bin/sh\n") };
    let root_home = if uid == 0 { HOME } else { "/root" };
    let passwd =
        format!("root:x:0:0::{root_home}:/bin/sh\n{user}nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n");
    let group = if uid == 0 { String::new() } else { format!("{name}:x:{uid}:\n") };
    spec.file(Path::new("/etc/passwd"), 0o644, passwd.as_bytes());
    spec.file(Path::new("/etc/group"), 0o644, format!("root:x:0:\n{group}nogroup:x:65534:\n").as_bytes());
    spec.file(Path::new("/etc/hosts"), 0o644, b"127.0.0.1 localhost hotcell\n::1 localhost\n");
    spec.file(Path::new("/etc/hostname"), 0o644, b"hotcell\n");
    spec.file(Path::new("/etc/nsswitch.conf"), 0o644, b"passwd: files\ngroup: files\nhosts: files dns\n");
    if open_network && let Ok(resolv) = fs::read("/etc/resolv.conf") {
        spec.file(Path::new("/etc/resolv.conf"), 0o644, &resolv);
    }
}

fn etc_entry(spec: &mut CellSpec, path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_symlink() {
        // Most point into /usr; one that does not dangles in the box, which harms nobody.
        if let Ok(target) = fs::read_link(path) {
            spec.symlink(path, target);
        }
    } else if metadata.is_dir() {
        spec.directory(path, 0o755);
        spec.attach(Tree::from_metadata(path, &metadata, READ_ONLY), path);
    } else if metadata.is_file() {
        spec.file(path, 0o444, b"");
        spec.attach(Tree::from_metadata(path, &metadata, READ_ONLY), path);
    }
}

fn devices(spec: &mut CellSpec) {
    let options = TreeOptions {
        read_only: false,
        devices: true,
        no_exec: true,
        id_mapped: false,
        no_sockets: false,
        own_place: true,
    };
    spec.directory(Path::new("/dev"), 0o755);
    for name in DEVICES {
        let path = PathBuf::from("/dev").join(name);
        if let Ok(tree) = Tree::pin(&path, options) {
            spec.file(&path, 0o666, b"");
            spec.attach(tree, &path);
        }
    }
    spec.directory(Path::new("/dev/pts"), 0o755);
    spec.devpts(Path::new("/dev/pts"));
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        spec.symlink(&Path::new("/dev").join(name), target);
    }
}
