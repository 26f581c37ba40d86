//! How an image is to be run: the part of an OCI image that is not files.

use serde_json::{Value, json};

use super::contents::{HOME, UID};
use super::date;
use super::lock::Lock;

/// The configuration of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageConfig {
    /// The kind of processor, as OCI images name it (which is Debian's way for those that we build for).
    pub architecture: String,
    /// The image's date, in the form of RFC 3339.
    pub created: String,
    /// Who commands run as: a user and a group, as numbers.
    pub user: String,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// Where commands start.
    pub working_dir: String,
    /// What is run when nothing else is asked for.
    pub cmd: Vec<String>,
}

impl ImageConfig {
    /// The configuration of an image that was built from a lock file.
    pub(super) fn of(lock: &Lock) -> Self {
        let path = format!("{HOME}/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        Self {
            architecture: lock.architecture.clone(),
            created: date::to_text(lock.epoch),
            user: format!("{UID}:{UID}"),
            env: [("PATH", path.as_str()), ("HOME", HOME), ("LANG", "C.UTF-8")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            working_dir: HOME.to_owned(),
            cmd: vec!["/bin/bash".to_owned()],
        }
    }

    /// The configuration as OCI images have it. `layer` is the digest of the one layer before it is compressed,
    /// `sha256:` and 64 digits. The same image gives the same text.
    pub fn to_oci(&self, layer: &str) -> Value {
        json!({
            "architecture": self.architecture,
            "config": {
                "Cmd": self.cmd,
                "Env": self.env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
                "User": self.user,
                "WorkingDir": self.working_dir,
            },
            "created": self.created,
            "history": [{ "created": self.created, "created_by": "hotcell image build" }],
            "os": "linux",
            "rootfs": { "diff_ids": [layer], "type": "layers" },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_follows_from_the_lock_file() {
        let lock = Lock {
            suite: "forky".into(),
            architecture: "amd64".into(),
            epoch: 1_793_347_681,
            rootfs: None,
            packages: Vec::new(),
        };
        let config = ImageConfig::of(&lock).to_oci("sha256:00");
        assert_eq!(config["created"], "2026-10-30T08:08:01Z");
        assert_eq!(config["config"]["User"], "1000:1000");
        assert_eq!(config["rootfs"]["diff_ids"][0], "sha256:00");
        assert!(config["config"]["Env"][0].as_str().unwrap().starts_with("PATH=/home/hotcell/.local/bin:"));
    }
}
