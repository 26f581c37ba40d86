//! The bundle's `config.json`: what a runtime is asked for, and nothing that it would add by itself.

use std::path::{Path, PathBuf};

use hotcell_core::policy::{NetworkMode, Policy};
use hotcell_linux::wire::STAGE_ROOT;
use serde_json::{Value, json};

use super::runtime::Flavour;
use crate::cell::HOME;

/// The first process of the container.
pub(super) const INIT: &str = "/.hotcell-init";
/// What is mounted at `/dev/shm`.
pub(super) const SHM: &str = "/.hotcell-shm";

/// Stands for the box's user on the host, which nobody knows yet.
const OUTSIDE: u32 = 4_294_967_293;

/// What differs from one container to the next.
#[derive(Debug)]
pub(super) struct Bundle<'a> {
    pub(super) policy: &'a Policy,
    pub(super) flavour: Flavour,
    /// Whether the caller is root, and may choose users.
    pub(super) privileged: bool,
    /// The user that the code sees itself as.
    pub(super) uid: u32,
    /// How much gVisor's own `/dev/shm` may hold.
    pub(super) shared_memory: u64,
    /// Where the bundle is mounted.
    pub(super) place: &'a Path,
    /// Places of the root that can be written, or that a policy put there.
    pub(super) mounts: &'a [BundleMount],
}

/// A place of the root that is a mount of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BundleMount {
    pub(super) path: PathBuf,
    /// Where it is mounted from, below the bundle.
    pub(super) source: PathBuf,
    pub(super) writable: bool,
}

impl Bundle<'_> {
    /// The file, in pieces between which the number of the box's user on the host belongs.
    pub(super) fn pieces(&self) -> Vec<Vec<u8>> {
        let text = self.config().to_string();
        text.split(&OUTSIDE.to_string()).map(|piece| piece.as_bytes().to_vec()).collect()
    }

    fn config(&self) -> Value {
        let mode = if self.flavour.shares_kernel() { "init-passed" } else { "agent" };
        let nothing: [&str; 0] = [];
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": { "uid": self.uid, "gid": self.uid },
                "args": [INIT, mode],
                "env": nothing,
                "cwd": "/",
                "capabilities": {
                    "bounding": nothing, "effective": nothing, "inheritable": nothing,
                    "permitted": nothing, "ambient": nothing,
                },
                "rlimits": [{ "type": "RLIMIT_CORE", "soft": 0, "hard": 0 }],
                "noNewPrivileges": true,
            },
            "root": { "path": "rootfs", "readonly": true },
            "hostname": "hotcell",
            "mounts": self.mounts(),
            "linux": {
                "namespaces": self.namespaces(),
                "uidMappings": self.mappings(),
                "gidMappings": self.mappings(),
                "maskedPaths": MASKED,
                "readonlyPaths": READ_ONLY,
            },
        })
    }

    fn namespaces(&self) -> Vec<Value> {
        let mut kinds = vec!["pid", "mount", "ipc", "uts"];
        if self.policy.network == NetworkMode::Deny {
            kinds.push("network");
        }
        if self.flavour.shares_kernel() {
            kinds.push("cgroup");
        }
        if !self.mappings().is_empty() {
            kinds.push("user");
        }
        kinds.into_iter().map(|kind| json!({ "type": kind })).collect()
    }

    /// Which users of the container are which on the host: one that the box has to itself, and a root that is nobody.
    fn mappings(&self) -> Vec<Value> {
        let map = |inside: u32, outside: u32| json!({ "containerID": inside, "hostID": outside, "size": 1 });
        match (self.privileged, self.uid) {
            (true, 0) => vec![map(0, OUTSIDE)],
            (true, uid) => vec![map(0, STAGE_ROOT), map(uid, OUTSIDE)],
            // The stage has a user namespace already, in which the caller is root. gVisor needs no second one.
            (false, _) if !self.flavour.shares_kernel() => Vec::new(),
            (false, uid) => vec![map(uid, 0)],
        }
    }

    fn mounts(&self) -> Vec<Value> {
        let plain = |destination: &str, kind: &str, options: &[&str]| json!({ "destination": destination, "type": kind, "source": kind, "options": options });
        let mut mounts = vec![
            plain("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            plain("/dev", "tmpfs", self.devices()),
            plain("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        ];
        if self.flavour.shares_kernel() {
            mounts.push(self.bind(&root_place(Path::new(SHM)), Path::new("/dev/shm"), true));
        } else {
            // What lies on the host cannot be shared by gVisor's processes as memory.
            let size = format!("size={}", self.shared_memory);
            mounts.push(plain("/dev/shm", "tmpfs", &["nosuid", "nodev", "mode=1777", &size]));
        }
        if !self.flavour.shares_kernel() {
            // Others find these where they are; gVisor takes the root for one file system, which is read-only.
            mounts.extend(self.mounts.iter().map(|mount| self.bind(&mount.source, &mount.path, mount.writable)));
        }
        mounts
    }

    /// Nothing can be made in `/dev`. gVisor's is its own, and would take that for its devices too.
    fn devices(&self) -> &'static [&'static str] {
        match self.flavour.shares_kernel() {
            true => &["nosuid", "noexec", "strictatime", "mode=755", "size=64k", "ro"],
            false => &["nosuid", "noexec", "strictatime", "mode=755", "size=64k"],
        }
    }

    /// Something of the root, again. What it may be used for was decided when it was mounted there, on the host.
    fn bind(&self, from: &Path, to: &Path, writable: bool) -> Value {
        json!({
            "destination": to,
            "type": "bind",
            "source": self.place.join(from),
            "options": ["rbind", if writable { "rw" } else { "ro" }, "nosuid", "nodev"],
        })
    }
}

/// Where a place of the root is, below the bundle.
pub(super) fn root_place(path: &Path) -> PathBuf {
    Path::new("rootfs").join(path.strip_prefix("/").unwrap_or(path))
}

/// Private places that every box can write.
pub(super) const PRIVATE: &[(&str, u32)] = &[("/tmp", 0o1777), (HOME, 0o700), ("/var/tmp", 0o1777)];

/// What tells about the machine rather than about the box.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/mtrr",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/softirqs",
    "/proc/timer_list",
    "/proc/timer_stats",
];

/// What could change it.
const READ_ONLY: &[&str] = &["/proc/sys", "/proc/sysrq-trigger"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(flavour: Flavour, privileged: bool, policy: &Policy) -> String {
        let mounts = [
            BundleMount { path: "/tmp".into(), source: "rootfs/tmp".into(), writable: true },
            BundleMount { path: "/srv/tree".into(), source: "tree-1".into(), writable: false },
        ];
        let uid = if privileged { 1000 } else { 0 };
        let place = Path::new("/mnt");
        let bundle = Bundle { policy, flavour, privileged, uid, shared_memory: 4096, place, mounts: &mounts };
        let text = bundle.pieces().into_iter().map(|piece| String::from_utf8(piece).unwrap()).collect::<Vec<_>>();
        let value: Value = serde_json::from_str(&text.join("123456")).unwrap();
        format!("{value:#}\n")
    }

    #[test]
    fn the_bundle_is_as_written_down() {
        let closed = Policy::default();
        let open = Policy::builder().network(NetworkMode::Open).build().unwrap();
        for (name, found) in [
            ("runc", written(Flavour::Runc, true, &closed)),
            ("runc-open", written(Flavour::Runc, true, &open)),
            ("runc-rootless", written(Flavour::Runc, false, &closed)),
            ("gvisor", written(Flavour::Runsc, true, &closed)),
            ("gvisor-rootless", written(Flavour::Runsc, false, &closed)),
        ] {
            let golden = format!("{}/src/oci/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&golden, &found).unwrap();
            }
            let wanted = fs::read_to_string(&golden).unwrap_or_default();
            assert_eq!(found, wanted, "{name} differs; if that is meant, run again with UPDATE_GOLDEN=1 and review");
        }
    }

    #[test]
    fn the_user_of_the_box_is_filled_in_twice() {
        // Once for users and once for groups, and nowhere else.
        let policy = Policy::default();
        let bundle = Bundle {
            policy: &policy,
            flavour: Flavour::Crun,
            privileged: true,
            uid: 1000,
            shared_memory: 0,
            place: Path::new("/mnt"),
            mounts: &[],
        };
        assert_eq!(bundle.pieces().len(), 3);
    }
}
