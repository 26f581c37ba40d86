//! What the engine says about a container of ours, written down.
//!
//! `UPDATE_GOLDEN=1 HOTCELL_TEST_DOCKER=… cargo test -p hotcell --test docker inspect` writes the file anew.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::common::skip;
use crate::support::{hosts, policy};

/// Without what is empty, nothing, no or zero: versions of the engine differ in what of that they mention.
fn condense(value: Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) => {
            let items: Vec<Value> = items.into_iter().filter_map(condense).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let fields: Map<String, Value> =
                fields.into_iter().filter_map(|(name, value)| Some((name, condense(value)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        other => Some(other),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_as_written_down() {
    for host in hosts("inspect::a_container_is_as_written_down").await {
        if host.backend.engine().podman {
            skip("inspect::a_container_is_as_written_down", "Podman describes containers in other words");
            continue;
        }
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().cpus(1.5).build().unwrap()).await.unwrap();
        let id = host.container_of(sandbox.id()).await.unwrap().id.unwrap();
        let inspected = host.client().await.inspect_container(&id, None).await.unwrap();
        let mut inspected = serde_json::to_value(inspected).unwrap();
        sandbox.destroy().await.unwrap();

        let profile = "seccomp={\n\"defaultAction\":\"SCMP_ACT_ERRNO\"";
        for option in inspected["HostConfig"]["SecurityOpt"].as_array_mut().unwrap() {
            if option.as_str().unwrap().starts_with(profile) {
                *option = "seccomp=PROFILE".into();
            }
        }
        let described: Map<String, Value> = ["AppArmorProfile", "Args", "Config", "HostConfig", "Mounts", "Path"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), condense(inspected[name].take())?)))
            .collect();
        let text = serde_json::to_string_pretty(&described).unwrap() + "\n";
        let image = described["Config"]["Image"].as_str().unwrap().to_owned();
        let init = described["HostConfig"]["Mounts"][0]["Source"].as_str().unwrap().to_owned();
        let labels = &described["Config"]["Labels"];
        let user = described["Config"]["User"].as_str().unwrap().to_owned();
        let (uid, gid) = user.split_once(':').unwrap();
        let text = text
            .replace(&image, "IMAGE")
            .replace(&init, "INIT")
            .replace(labels["dev.hotcell.owner"].as_str().unwrap(), "OWNER")
            .replace(labels["dev.hotcell.box"].as_str().unwrap(), "BOX")
            .replace(&format!("\"{user}\""), "\"USER:GROUP\"")
            .replace(&format!("uid={uid},gid={gid}"), "uid=USER,gid=GROUP");

        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/docker_inspect.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            continue;
        }
        let golden = fs::read_to_string(&path).unwrap();
        assert_eq!(text, golden, "it differs; if that is meant, run again with UPDATE_GOLDEN=1 and review");
    }
}
