//! What must hold for every policy, not only for those that somebody thought of.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use std::time::Duration;

use hotcell_core::capability::{Capabilities, Capability, Control};
use hotcell_core::config::{Config, Layer, Origin};
use hotcell_core::layers::{Context, Layers, resolve};
use hotcell_core::plan::{choose, plan};
use hotcell_core::policy::{Access, BoxUser, NetworkMode, Policy};
use hotcell_core::runtime::{Isolation, RuntimeChoice, RuntimeKind};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Paths from so few names that they often contain each other, protected names among them.
fn path() -> impl Strategy<Value = String> {
    vec(select(vec!["a", "b", ".git", "hooks", ".vscode"]), 0..4).prop_map(|parts| format!("/w/{}", parts.join("/")))
}

fn name() -> impl Strategy<Value = String> {
    vec(select(vec!["a", "b", ".git", "hooks"]), 1..3).prop_map(|parts| parts.join("/"))
}

fn access() -> impl Strategy<Value = Access> {
    select(vec![Access::Deny, Access::Read, Access::Overlay, Access::Write])
}

fn control() -> impl Strategy<Value = Control> {
    select(Control::ALL.to_vec())
}

/// One layer, as pairs of key and text.
fn entries() -> impl Strategy<Value = Vec<(String, String)>> {
    let rules = btree_map(path(), access(), 0..5).prop_map(|rules| {
        rules.into_iter().map(|(path, access)| (format!("filesystem.{access}"), path)).collect::<Vec<_>>()
    });
    let lists = vec(
        prop_oneof![
            name().prop_map(|name| ("filesystem.protect".to_owned(), name)),
            select(vec!["LANG", "A", "B"]).prop_map(|name| ("env.pass".to_owned(), name.to_owned())),
            control().prop_map(|control| ("sandbox.approximate".to_owned(), control.to_string())),
        ],
        0..4,
    );
    let limits = vec(
        (
            select(vec!["memory", "cpus", "cpu_time", "processes", "open_files", "disk", "output", "timeout"]),
            1..2000_u32,
        )
            .prop_map(|(key, value)| (format!("limits.{key}"), value.to_string())),
        0..4,
    );
    let scalars = vec(
        prop_oneof![
            select(vec!["deny", "open"]).prop_map(|mode| ("network.mode".to_owned(), mode.to_owned())),
            select(vec!["root", "hotcell"]).prop_map(|user| ("process.user".to_owned(), user.to_owned())),
            any::<bool>().prop_map(|tty| ("process.tty".to_owned(), tty.to_string())),
            select(Isolation::LEVELS).prop_map(|level| ("sandbox.isolation".to_owned(), level.to_string())),
        ],
        0..3,
    );
    let runtime = option::of(select(vec!["auto", "native", "docker", "firecracker", "e2b", "cube", "wasm"]))
        .prop_map(|kind| kind.map(|kind| ("sandbox.mode".to_owned(), kind.to_owned())));
    (rules, lists, limits, scalars, runtime).prop_map(|(rules, lists, limits, scalars, runtime)| {
        [rules, lists, limits, scalars, runtime.into_iter().collect()].concat()
    })
}

fn config(layer: Layer, entries: &[(String, String)]) -> Config {
    let mut config = Config::default();
    for (key, text) in entries {
        config.set(key, text, Origin::layer(layer)).expect("the generator writes what the reader accepts");
    }
    config
}

fn context() -> Context {
    Context { root: "/w".into(), home: None }
}

fn policy() -> impl Strategy<Value = Policy> {
    entries().prop_map(|entries| {
        let layers = Layers { user: Some(config(Layer::User, &entries)), ..Layers::default() };
        resolve(&layers, &context()).expect("one layer without contradictions is a policy")
    })
}

fn capability() -> impl Strategy<Value = Capability> {
    prop_oneof![
        6 => Just(Capability::enforced("it")),
        2 => Just(Capability::approximated("it", "nearly")),
        1 => Just(Capability::unsupported("no", "buy one")),
    ]
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let controls = vec(capability(), Control::ALL.len());
    let kinds = select(RuntimeKind::ALL.to_vec());
    (kinds, select(Isolation::LEVELS), controls).prop_map(|(kind, isolation, controls)| {
        let start = Capabilities::new(kind, isolation);
        Control::ALL.iter().zip(controls).fold(start, |all, (control, capability)| all.with(*control, capability))
    })
}

/// A backend that holds everything, so that plans exist.
fn able(policy: &Policy) -> Capabilities {
    let kind = match policy.runtime {
        RuntimeChoice::Kind(kind) => kind,
        _ => RuntimeKind::Firecracker,
    };
    let start = Capabilities::new(kind, Isolation::MicroVm);
    Control::ALL.iter().fold(start, |all, control| all.with(*control, Capability::enforced("it")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_never_grants_more_than_its_policy(policy in policy(), capabilities in capabilities()) {
        let Ok(plan) = plan(&policy, &capabilities) else { return Ok(()) };
        prop_assert!(plan.policy.is_at_most(&policy));
        for entry in &plan.enforcement {
            let accepted = policy.approximate.contains(&entry.control) || !is_explicit(&policy, entry.control);
            let trusted = plan.kind.is_remote()
                && policy.runtime == RuntimeChoice::Kind(plan.kind)
                && is_the_servers_business(entry.control);
            match &entry.actual {
                Capability::Enforced { .. } => {}
                Capability::Approximated { .. } => prop_assert!(accepted || trusted, "{:?}", entry),
                _ => prop_assert!(accepted && entry.control == Control::DiskDirect, "{:?}", entry),
            }
        }
        prop_assert!(policy.isolation.is_none_or(|asked| plan.isolation.satisfies(asked)));
    }

    #[test]
    fn a_refusal_names_something_and_a_weaker_backend_never_holds_more(policy in policy(), capabilities in capabilities(), control in control()) {
        let weaker = capabilities.clone().with(control, Capability::unsupported("no", "buy one"));
        if let Err(refusal) = plan(&policy, &capabilities) {
            prop_assert!(!refusal.rules.is_empty());
            prop_assert!(plan(&policy, &weaker).is_err());
        }
        if control != Control::DiskDirect && let Ok(plan) = plan(&policy, &weaker) {
            prop_assert!(plan.actual(control).is_none());
        }
    }

    #[test]
    fn a_backend_that_holds_everything_refuses_nothing(policy in policy()) {
        prop_assert!(plan(&policy, &able(&policy)).is_ok());
    }

    #[test]
    fn auto_never_chooses_a_remote_backend(policy in policy(), candidates in vec(capabilities(), 0..5)) {
        if let Ok(plan) = choose(&policy, &candidates) {
            prop_assert!(!plan.kind.is_remote() || policy.runtime == RuntimeChoice::Kind(plan.kind));
        }
    }

    #[test]
    fn narrowing_only_narrows(parent in policy(), child in policy()) {
        let both = parent.narrow(&child);
        prop_assert!(both.is_at_most(&parent), "{both:#?}");
        // Where the child's runtime cannot be had within the parent's, the parent's is kept.
        let mut child = child;
        child.runtime = both.runtime;
        prop_assert!(both.is_at_most(&child), "{both:#?}");
    }

    #[test]
    fn narrowing_again_changes_nothing(parent in policy(), child in policy()) {
        let both = parent.narrow(&child);
        prop_assert_eq!(&both.narrow(&child).filesystem, &both.filesystem);
        prop_assert_eq!(&both.narrow(&both), &both);
        prop_assert!(parent.is_at_most(&parent));
    }

    #[test]
    fn what_two_policies_both_grant_does_not_depend_on_their_order(one in policy(), other in policy()) {
        let (mut there, mut back) = (one.narrow(&other), other.narrow(&one));
        // Which backend, and as whom, are choices rather than grants.
        there.runtime = back.runtime;
        there.process.user = Some(BoxUser::HOTCELL);
        back.process.user = Some(BoxUser::HOTCELL);
        prop_assert!(there.is_at_most(&back) && back.is_at_most(&there));
    }

    #[test]
    fn a_project_file_never_grants_more(own in entries(), project in entries(), flags in entries()) {
        let without = Layers {
            user: Some(config(Layer::User, &own)),
            flags: config(Layer::Flags, &flags),
            ..Layers::default()
        };
        let without_policy = resolve(&without, &context()).expect("the user's layers are a policy");
        // Nearly every random project file asks for too much somewhere, so keep what is accepted.
        let mut accepted: Vec<(String, String)> = Vec::new();
        for entry in project {
            let more = [accepted.clone(), vec![entry]].concat();
            let with = Layers { project: Some(config(Layer::Project, &more)), ..without.clone() };
            if resolve(&with, &context()).is_ok() {
                accepted = more;
            }
        }
        let with = Layers { project: Some(config(Layer::Project, &accepted)), ..without };
        let (with, without) = (resolve(&with, &context()).expect("it was accepted"), without_policy);
        prop_assert!(with.is_at_most(&without), "with: {with:#?}\nwithout: {without:#?}");
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", toml in "(\\[(limits|filesystem|env)\\]\n)?(memory|read|set|cpus|timeout) = (\"[^\"\n]{0,12}\"|-?[0-9]{1,30}|[0-9]{1,3}\\.[0-9]|\\[\"[^\"\n]{0,9}\"\\]|\\{ [a-zA-Z]{1,5} = \"x\" \\})\n") {
        for text in [text, toml] {
            for layer in [Layer::User, Layer::Project] {
                if let Ok(config) = Config::parse(&text, "f", layer) {
                    let layers = Layers { project: Some(config), ..Layers::default() };
                    let _ = resolve(&layers, &context());
                }
            }
        }
    }

    #[test]
    fn access_is_that_of_the_deepest_rule(policy in policy(), path in path()) {
        let rules = policy.filesystem.rules.iter().filter(|rule| std::path::Path::new(&path).starts_with(&rule.path));
        let deepest = rules.max_by_key(|rule| rule.path.components().count()).map_or(Access::Deny, |rule| rule.access);
        prop_assert_eq!(policy.filesystem.access(path.as_ref()), deepest);
        prop_assert!(policy.filesystem.effective_access(path.as_ref()) <= deepest);
    }
}

/// What isolates a remote box.
fn is_the_servers_business(control: Control) -> bool {
    matches!(control, Control::Network | Control::Syscalls | Control::Privileges | Control::ProcessIsolation)
}

/// Whether somebody asked for this control, as opposed to its being a default limit.
fn is_explicit(policy: &Policy, control: Control) -> bool {
    let limits = &policy.limits;
    match control {
        // Asked for by nobody in so many words.
        Control::Sockets => false,
        Control::Memory => limits.memory.explicit,
        Control::Cpus => limits.cpus.explicit,
        Control::CpuTime => limits.cpu_time.explicit,
        Control::ProcessCount => limits.processes.explicit,
        Control::OpenFiles => limits.open_files.explicit,
        Control::Disk | Control::DiskDirect => limits.disk.explicit,
        Control::Output => limits.output.explicit,
        Control::Timeout => limits.timeout.explicit,
        _ => true,
    }
}

#[test]
fn narrowing_keeps_what_somebody_asked_for_exact() {
    let asked = Policy::builder().memory(2 << 30).timeout(Duration::from_secs(5)).build().unwrap();
    let both = asked.narrow(&Policy::default());
    assert_eq!((both.limits.memory.value, both.limits.memory.explicit), (Some(1 << 30), true));
    assert_eq!(both.limits.timeout.value, Some(Duration::from_secs(5)));
    assert_eq!(both.network, NetworkMode::Deny);
}
