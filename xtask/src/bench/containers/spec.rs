//! What a container is created with: the body of the Engine's call, and the same in the words of `docker run`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::test::containers::api::Connection;
use crate::test::containers::image;

/// Labels by which Hotcell's containers are known. What is compared with them has none, or it would be cleared away.
const LABELS: &str = "dev.hotcell.";

/// The body of a call that creates a container.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    body: Value,
    /// Where it is from, for the report.
    pub(super) source: &'static str,
}

impl Spec {
    /// That of a live box of Hotcell, as the engine tells it.
    pub(super) fn of_a_box(engine: &mut Connection) -> Result<Self> {
        let containers = engine.get("/containers/json")?;
        let is_ours = |container: &&Value| {
            let labels = container["Labels"].as_object();
            labels.is_some_and(|labels| labels.keys().any(|label| label.starts_with(LABELS)))
        };
        let ours = containers.as_array().and_then(|all| all.iter().find(is_ours));
        let id = ours.and_then(|container| container["Id"].as_str()).context("the engine has no box of Hotcell")?;
        let told = engine.get(&format!("/containers/{id}/json"))?;
        let mut body = told["Config"].clone();
        body["HostConfig"] = told["HostConfig"].clone();
        Ok(Self { body, source: "a live box of Hotcell, as `docker inspect` tells it" })
    }

    /// What a careful person would ask for.
    pub(super) fn usual() -> Self {
        let body = json!({
            "Image": image::NAME,
            "User": "1000:1000",
            "WorkingDir": "/",
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": true,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "PidsLimit": 256,
                "Memory": 536_870_912u64,
                "MemorySwap": 536_870_912u64,
                "NanoCpus": 1_000_000_000u64,
                "Tmpfs": { "/tmp": "size=67108864,nosuid,nodev" },
                "LogConfig": { "Type": "none" },
            },
        });
        Self { body, source: "written for the comparison, as there is no box of Hotcell to copy" }
    }

    /// The body with which a container is created that runs `program` and nothing else, and that its creator removes.
    pub(super) fn create(&self, program: &str) -> Value {
        let mut body = self.body.clone();
        body["Entrypoint"] = json!([program]);
        body["Cmd"] = json!([]);
        body["Labels"] = json!({});
        body["HostConfig"]["AutoRemove"] = json!(false);
        body
    }

    /// The same as flags of `docker run`; a system call profile is written to a file in `directory`.
    pub(super) fn flags(&self, directory: &Path) -> Result<Vec<String>> {
        let host = &self.body["HostConfig"];
        let mut flags = Vec::new();
        for (flag, value) in [
            ("user", &self.body["User"]),
            ("workdir", &self.body["WorkingDir"]),
            ("hostname", &self.body["Hostname"]),
            ("network", &host["NetworkMode"]),
            ("ipc", &host["IpcMode"]),
            ("cgroupns", &host["CgroupnsMode"]),
            ("pids-limit", &host["PidsLimit"]),
            ("memory", &host["Memory"]),
            ("memory-swap", &host["MemorySwap"]),
            ("shm-size", &host["ShmSize"]),
            ("log-driver", &host["LogConfig"]["Type"]),
        ] {
            if let Some(text) = text_of(value) {
                flags.push(format!("--{flag}={text}"));
            }
        }
        if let Some(cpus) = host["NanoCpus"].as_f64().filter(|cpus| *cpus > 0.0) {
            flags.push(format!("--cpus={}", cpus / 1e9));
        }
        for (flag, value) in [("read-only", &host["ReadonlyRootfs"]), ("init", &host["Init"])] {
            if value.as_bool() == Some(true) {
                flags.push(format!("--{flag}"));
            }
        }
        flags.extend(words(&host["CapDrop"]).map(|name| format!("--cap-drop={name}")));
        for option in words(&host["SecurityOpt"]) {
            let profile = option.strip_prefix("seccomp=").filter(|profile| profile.starts_with('{'));
            flags.push(match profile {
                Some(profile) => {
                    let path = directory.join("seccomp.json");
                    fs::write(&path, profile).with_context(|| format!("cannot write {}", path.display()))?;
                    format!("--security-opt=seccomp={}", path.display())
                }
                None => format!("--security-opt={option}"),
            });
        }
        for limit in list(&host["Ulimits"]) {
            if let (Some(name), Some(soft), Some(hard)) =
                (limit["Name"].as_str(), limit["Soft"].as_i64(), limit["Hard"].as_i64())
            {
                flags.push(format!("--ulimit={name}={soft}:{hard}"));
            }
        }
        for (place, options) in host["Tmpfs"].as_object().unwrap_or(&Map::new()) {
            flags.push(format!("--tmpfs={place}:{}", options.as_str().unwrap_or_default()));
        }
        flags.extend(list(&host["Mounts"]).iter().filter_map(mount));
        Ok(flags)
    }
}

/// `--mount` for what the API calls a mount.
fn mount(mount: &Value) -> Option<String> {
    let mut words = vec![format!("type={}", mount["Type"].as_str()?), format!("target={}", mount["Target"].as_str()?)];
    if let Some(source) = mount["Source"].as_str().filter(|source| !source.is_empty()) {
        words.push(format!("source={source}"));
    }
    if mount["ReadOnly"].as_bool() == Some(true) {
        words.push("readonly".to_owned());
    }
    if let Some(size) = mount["TmpfsOptions"]["SizeBytes"].as_u64() {
        words.push(format!("tmpfs-size={size}"));
    }
    if let Some(mode) = mount["TmpfsOptions"]["Mode"].as_u64() {
        words.push(format!("tmpfs-mode={mode:o}"));
    }
    Some(format!("--mount={}", words.join(",")))
}

/// A value that says something: no empty text, and no zero, which means "as usual".
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if number.as_f64() != Some(0.0) => Some(number.to_string()),
        _ => None,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn words(value: &Value) -> impl Iterator<Item = &str> {
    list(value).iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_the_body_says() {
        let directory = tempfile::tempdir().unwrap();
        let mut spec = Spec::usual();
        spec.body["HostConfig"]["SecurityOpt"] = json!(["no-new-privileges", "seccomp={\"a\":1}"]);
        spec.body["HostConfig"]["Ulimits"] = json!([{ "Name": "core", "Soft": 0, "Hard": 0 }]);
        spec.body["HostConfig"]["Mounts"] = json!([
            { "Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": true },
            { "Type": "tmpfs", "Target": "/c", "TmpfsOptions": { "SizeBytes": 7, "Mode": 0o1777 } },
        ]);
        let flags = spec.flags(directory.path()).unwrap();
        let profile = format!("--security-opt=seccomp={}/seccomp.json", directory.path().display());
        for expected in [
            "--user=1000:1000",
            "--network=none",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            &profile,
            "--pids-limit=256",
            "--memory=536870912",
            "--memory-swap=536870912",
            "--cpus=1",
            "--ulimit=core=0:0",
            "--tmpfs=/tmp:size=67108864,nosuid,nodev",
            "--mount=type=bind,target=/b,source=/a,readonly",
            "--mount=type=tmpfs,target=/c,tmpfs-size=7,tmpfs-mode=1777",
            "--log-driver=none",
        ] {
            assert!(flags.iter().any(|flag| flag == expected), "{expected} in {flags:?}");
        }
        assert!(!flags.iter().any(|flag| flag.starts_with("--hostname")), "{flags:?}");
        assert_eq!(fs::read_to_string(directory.path().join("seccomp.json")).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn what_is_compared_is_not_mistaken_for_a_box() {
        let mut spec = Spec::usual();
        spec.body["Labels"] = json!({ "dev.hotcell.box": "x" });
        spec.body["HostConfig"]["AutoRemove"] = json!(true);
        let body = spec.create("/usr/bin/true");
        assert_eq!(body["Labels"], json!({}));
        assert_eq!(body["Entrypoint"], json!(["/usr/bin/true"]));
        assert_eq!(body["HostConfig"]["AutoRemove"], json!(false));
        assert_eq!(body["HostConfig"]["ReadonlyRootfs"], json!(true));
    }
}
