//! How a command is confined, seen from the host: what the kernel says of it, without what differs from box to box.

use std::fs;

use serde_json::{Map, Value, json};

use crate::soak::proc;

/// What of a process's status says how it is confined.
const STATUS: &[&str] = &[
    "Uid",
    "Gid",
    "Groups",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "SigIgn",
];

/// The first of the users that boxes of root have on the host.
const BOX_USERS: u32 = 0x7800_0000;

/// The posture of the process `pid`, and of the init that started it.
pub(super) fn of(pid: u32) -> Value {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let init = proc::field(&read("status"), "PPid").and_then(|pid| pid.parse::<u32>().ok()).unwrap_or(0);
    let status_of_init = fs::read_to_string(format!("/proc/{init}/status")).unwrap_or_default();
    json!({
        "status": status(&read("status")),
        "init": status(&status_of_init),
        "namespaces": separate_namespaces(pid),
        "uid_map": numbers_without_users(&read("uid_map")),
        "gid_map": numbers_without_users(&read("gid_map")),
        "mounts": mounts(&read("mountinfo")),
        "descriptors": descriptors(pid),
        "limits": read("limits").lines().map(str::to_owned).collect::<Vec<_>>(),
        "cgroups": read("cgroup").lines().map(cgroup).collect::<Vec<_>>(),
    })
}

fn status(text: &str) -> Value {
    let lines = STATUS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), json!(numbers_without_users(proc::field(text, key)?)))));
    Value::Object(lines.collect::<Map<_, _>>())
}

/// Numbers, with `own` for a user that belongs to the box alone.
fn numbers_without_users(text: &str) -> String {
    let word = |word: &str| match word.parse::<u32>() {
        Ok(number) if number >= BOX_USERS && number != u32::MAX => "own".to_owned(),
        _ => word.to_owned(),
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The kinds of namespaces that are other than ours.
fn separate_namespaces(pid: u32) -> Vec<String> {
    let ours = proc::namespaces(std::process::id());
    let theirs = proc::namespaces(pid);
    theirs.into_iter().filter(|(kind, id)| ours.get(kind) != Some(id)).map(|(kind, _)| kind).collect()
}

/// The mounts by their places; those at the same place in their order.
fn mounts(table: &str) -> Vec<String> {
    let mut mounts: Vec<String> = table.lines().map(mount).collect();
    mounts.sort_by(|one, other| one.split(' ').nth(1).cmp(&other.split(' ').nth(1)));
    mounts
}

/// A mount without the numbers that the kernel gives out, and without the box's own user.
fn mount(line: &str) -> String {
    // Number, parent, device, root, place, options, optional fields, `-`, kind, source, options.
    let words = line.split(' ').skip(3).filter(|word| !word.starts_with("master:") && !word.starts_with("shared:"));
    let option = |option: &str| match option.split_once('=') {
        Some((key @ ("uid" | "gid"), id)) => format!("{key}={}", numbers_without_users(id)),
        _ => option.to_owned(),
    };
    words.map(|word| word.split(',').map(option).collect::<Vec<_>>().join(",")).collect::<Vec<_>>().join(" ")
}

fn descriptors(pid: u32) -> Vec<String> {
    let mut all: Vec<String> = proc::descriptors(pid).unwrap_or_default();
    for target in &mut all {
        if let Some((kind, _)) = target.split_once(":[") {
            *target = kind.to_owned();
        }
    }
    all.sort();
    all
}

/// A line of a process's cgroups, with the box's own by a name that is always the same.
fn cgroup(line: &str) -> String {
    match line.split_once("/hotcell-") {
        Some((above, name)) if !name.starts_with("soak-") => format!("{above}/BOX"),
        // Ours is below the soak's own.
        Some((above, rest)) if rest.contains("/hotcell-") => format!("{above}/SOAK/BOX"),
        _ => line.to_owned(),
    }
}

/// Differences that are told in words.
const WORDS_MAX: usize = 6;

/// Where two postures differ, in words.
pub(super) fn differences(baseline: &Value, now: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", baseline, now, &mut found);
    if found.len() > WORDS_MAX {
        let more = found.len() - WORDS_MAX;
        found.truncate(WORDS_MAX);
        found.push(format!("and {more} more"));
    }
    found
}

fn compare(at: &str, baseline: &Value, now: &Value, found: &mut Vec<String>) {
    match (baseline, now) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let nothing = Value::Null;
                let [one, other] = [one, other].map(|map| map.get(key).unwrap_or(&nothing));
                compare(&format!("{at}/{key}"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one != other => {
            found.extend(
                one.iter().filter(|value| !other.contains(value)).map(|value| format!("{at}: {value} is missing")),
            );
            found
                .extend(other.iter().filter(|value| !one.contains(value)).map(|value| format!("{at}: {value} is new")));
            if one.len() == other.len() && found.is_empty() {
                found.push(format!("{at}: another order"));
            }
        }
        (one, other) if one != other => found.push(format!("{at}: {other} instead of {one}")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_box_to_box_is_left_out() {
        assert_eq!(numbers_without_users("1000 2013265921 1"), "1000 own 1");
        assert_eq!(cgroup("4:memory:/hotcell-soak-7/hotcell-12-3"), "4:memory:/SOAK/BOX");
        assert_eq!(cgroup("4:memory:/user/hotcell-12-3"), "4:memory:/user/BOX");
        assert_eq!(cgroup("4:memory:/user"), "4:memory:/user");
        assert_eq!(mount("36 35 0:33 / /proc ro,nosuid master:4 - proc proc rw"), "/ /proc ro,nosuid - proc proc rw");
        assert_eq!(mount("36 35 0:33 / / ro - tmpfs none rw,uid=2013265921"), "/ / ro - tmpfs none rw,uid=own");
    }

    #[test]
    fn every_difference_is_named() {
        let baseline = json!({ "status": { "Seccomp": "2" }, "mounts": ["a", "b"] });
        assert!(differences(&baseline, &baseline.clone()).is_empty());
        let half = json!({ "status": { "Seccomp": "0" }, "mounts": ["a"], "more": 1 });
        let found = differences(&baseline, &half);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(differences(&json!(["a", "b"]), &json!(["b", "a"])).len(), 1);
    }

    #[test]
    fn our_own_posture_has_everything() {
        let posture = of(std::process::id());
        assert!(posture["status"]["CapEff"].is_string() && posture["mounts"][0].is_string());
        assert_eq!(posture["namespaces"], json!([]), "we are in our own namespaces");
    }
}
