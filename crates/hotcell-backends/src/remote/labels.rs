//! Labels: by which a sandbox on a server says that it is a box of ours, and of which process.

use std::collections::BTreeMap;

use hotcell_core::backend::SandboxId;

use crate::owner::Owner;

/// Who made the sandbox.
pub(super) const OWNER: &str = "hotcell.owner";
/// The name of the box.
pub(crate) const BOX: &str = "hotcell.box";
/// The machine, for people.
pub(crate) const HOST: &str = "hotcell.host";

/// The longest label that servers on Kubernetes take, and what it is made of.
const LONGEST: usize = 63;

/// The labels of a box.
pub(crate) fn labels(owner: &Owner, id: &SandboxId) -> BTreeMap<String, String> {
    [(OWNER, owner.short_label()), (BOX, id.to_string()), (HOST, host_name())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The name of this machine, as far as a label can have it.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).take(LONGEST).collect();
    let plain = plain.trim_matches(['-', '.']);
    if plain.is_empty() { "unknown".to_owned() } else { plain.to_owned() }
}

/// Whether this is a box of ours that nobody needs any more: its labels are as we write them, and its process was one of this
/// machine since its last start, and is gone. Of another machine's processes nothing is known here.
pub(super) fn is_abandoned(labels: &BTreeMap<String, String>) -> bool {
    let owner = labels.get(OWNER).and_then(|text| Owner::parse_short(text));
    let named = labels.get(BOX).is_some_and(|text| SandboxId::new(text.as_str()).is_ok());
    named && owner.is_some_and(|owner| owner.is_of_this_boot() && owner.is_gone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(owner: &Owner) -> BTreeMap<String, String> {
        labels(owner, &SandboxId::new("e2b-7-1").unwrap())
    }

    #[test]
    fn what_a_process_left_is_found_when_it_has_ended() {
        assert!(is_abandoned(&of(&Owner::of_ended_process())));
        assert!(is_abandoned(&of(&Owner::of_reused_number())));
    }

    #[test]
    fn what_lives_or_is_not_ours_is_not_touched() {
        assert!(!is_abandoned(&of(&Owner::current().unwrap())));
        assert!(!is_abandoned(&of(&Owner::in_another_namespace())));
        // Another machine's, or this one's before it was started again: it ends by its lifetime.
        assert!(!is_abandoned(&of(&Owner::of_another_boot())));
        for name in [OWNER, BOX] {
            let mut other = of(&Owner::of_ended_process());
            other.remove(name);
            assert!(!is_abandoned(&other), "without {name}");
            for value in ["", "1.2.3.4", "/../x"] {
                other.insert(name.into(), value.into());
                assert!(!is_abandoned(&other), "{name}={value}");
            }
        }
    }

    #[test]
    fn labels_are_what_every_server_takes() {
        for value in of(&Owner::current().unwrap()).values().chain([&host_name()]) {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            assert!(value.len() <= LONGEST && value.bytes().all(plain), "{value}");
            assert!(value.starts_with(|c: char| c.is_ascii_alphanumeric()));
            assert!(value.ends_with(|c: char| c.is_ascii_alphanumeric()));
        }
    }
}
