//! Labels: by which a container says that it is a box of ours, and of which process.

use std::collections::BTreeMap;

use hotcell_core::backend::SandboxId;

pub(super) use crate::owner::Owner;

/// Who made the container.
pub(super) const OWNER: &str = "dev.hotcell.owner";
/// Which Hotcell.
pub(super) const VERSION: &str = "dev.hotcell.version";
/// The name of the box.
pub(super) const BOX: &str = "dev.hotcell.box";

/// The labels of a box.
pub(super) fn labels(owner: &Owner, id: &SandboxId) -> BTreeMap<String, String> {
    [(OWNER, owner.label()), (VERSION, env!("CARGO_PKG_VERSION").to_owned()), (BOX, id.to_string())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The container's name for a box.
pub(super) fn container_name(id: &SandboxId) -> String {
    format!("hotcell-{id}")
}

/// Whether this is a box of ours that nobody needs any more: every label is as we write it, the container is called
/// as its label says, and its process is gone. Somebody else's container that has one of our labels is not.
pub(super) fn is_abandoned<'a>(names: &[String], label: impl Fn(&str) -> Option<&'a String>) -> bool {
    let owner = label(OWNER).and_then(|text| Owner::parse(text));
    let id = label(BOX).and_then(|text| SandboxId::new(text.as_str()).ok());
    let (Some(owner), Some(id), Some(version)) = (owner, id, label(VERSION)) else { return false };
    let expected = container_name(&id);
    let named = names.iter().any(|name| name.strip_prefix('/').unwrap_or(name) == expected);
    named && is_version(version) && owner.is_gone()
}

fn is_version(text: &str) -> bool {
    let mut numbers = text.split(['.', '-', '+']);
    (0..3).all(|_| numbers.next().is_some_and(|number| number.parse::<u64>().is_ok()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

    use super::*;

    fn abandoned(names: &[&str], labels: &BTreeMap<String, String>) -> bool {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        is_abandoned(&names, |name| labels.get(name))
    }

    /// Labels of a box whose process has ended.
    fn left_behind() -> BTreeMap<String, String> {
        labels(&Owner::of_ended_process(), &SandboxId::new("docker-7-1").unwrap())
    }

    #[test]
    fn what_a_process_left_is_found_when_it_has_ended() {
        assert!(abandoned(&["/hotcell-docker-7-1"], &left_behind()));
        let mut rebooted = left_behind();
        let other_boot = "00000000-0000-0000-0000-000000000000/1/1/1";
        rebooted.insert(OWNER.into(), other_boot.into());
        assert!(abandoned(&["hotcell-docker-7-1"], &rebooted));
        let mut reused = left_behind();
        reused.insert(OWNER.into(), Owner::of_reused_number().label());
        assert!(abandoned(&["/hotcell-docker-7-1"], &reused));
    }

    #[test]
    fn what_lives_or_is_not_ours_is_not_touched() {
        let id = SandboxId::new("docker-7-1").unwrap();
        let mine = labels(&Owner::current().unwrap(), &id);
        assert!(!abandoned(&["/hotcell-docker-7-1"], &mine));
        let elsewhere = Owner::in_another_namespace();
        assert!(!abandoned(&["/hotcell-docker-7-1"], &labels(&elsewhere, &id)));
        assert!(!abandoned(&["/database"], &left_behind()));
        assert!(!abandoned(&["/hotcell-docker-7-2"], &left_behind()));
        for name in [OWNER, VERSION, BOX] {
            let mut other = left_behind();
            other.remove(name);
            assert!(!abandoned(&["/hotcell-docker-7-1"], &other), "without {name}");
            for value in ["", "me", "1/2/3/4", "/../x"] {
                other.insert(name.into(), value.into());
                assert!(!abandoned(&["/hotcell-docker-7-1"], &other), "{name}={value}");
            }
        }
    }
}
