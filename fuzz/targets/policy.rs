//! Layers of configuration, merged to policies. The input is lines as [`hotcell_fuzz::policies`] reads them.
//!
//! Holds: a project's layer never grants more than there is without it; what two policies have in common is within
//! each of them, and narrowing again changes nothing; refusals can be shown on a terminal.
#![no_main]

use hotcell_core::config::Layer;
use hotcell_core::layers::resolve;
use hotcell_core::policy::Policy;
use hotcell_fuzz::assert_printable;
use hotcell_fuzz::policies::{Entry, assert_grants_no_more, context, entries, layers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let entries = entries(text);
    let Some(without) = policy(&entries, &[]) else { return };

    // Most project files ask for too much somewhere: what is accepted, line by line, is kept.
    let mut accepted: Vec<Entry<'_>> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.layer == Layer::Project) {
        accepted.push(*entry);
        if policy(&entries, &accepted).is_none() {
            accepted.pop();
        }
    }
    if let Some(with) = policy(&entries, &accepted) {
        assert_grants_no_more(&with, &without);
    }

    let of = |layer: Layer| {
        let own: Vec<Entry<'_>> = entries.iter().filter(|entry| entry.layer == layer).copied().collect();
        policy(&own, &[])
    };
    if let (Some(parent), Some(child)) = (of(Layer::User), of(Layer::Flags)) {
        let both = parent.narrow(&child);
        assert_grants_no_more(&both, &parent);
        // Where the child's backend cannot be had within the parent's, the parent's is kept.
        let mut child = child;
        child.runtime = both.runtime;
        assert_grants_no_more(&both, &child);
        assert_eq!(both.narrow(&both), both, "narrowing again changes something");
    }
});

fn policy(entries: &[Entry<'_>], project: &[Entry<'_>]) -> Option<Policy> {
    match resolve(&layers(entries, project), &context()) {
        Ok(policy) => Some(policy),
        Err(error) => {
            assert_printable(&error.to_string());
            None
        }
    }
}
