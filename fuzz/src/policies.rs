//! Layers of configuration from lines of text, and what one policy may grant beyond another.
//!
//! A line is `LAYER KEY VALUE`, for instance `p limits.memory 64m`; `LAYER` is `d`efaults, `u`ser, `p`roject,
//! `e`nvironment or `f`lags. What the reader of configuration does not take is passed over.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hotcell_core::config::{Config, KEYS, Layer, Origin};
use hotcell_core::layers::{Context, Layers};
use hotcell_core::policy::{FilesystemPolicy, Limit, PathRule, Policy};

/// As many lines as somebody might write; more only makes it slow.
const LINES: usize = 32;

/// One line.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Whose it is.
    pub layer: Layer,
    key: &'a str,
    value: &'a str,
}

/// The lines of a text that name a layer and a key.
pub fn entries(text: &str) -> Vec<Entry<'_>> {
    text.lines().filter_map(entry).take(LINES).collect()
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let (layer, rest) = line.split_once(' ')?;
    let (key, value) = rest.split_once(' ')?;
    let layer = match layer {
        "d" => Layer::Default,
        "u" => Layer::User,
        "p" => Layer::Project,
        "e" => Layer::Environment,
        "f" => Layer::Flags,
        _ => return None,
    };
    // What cannot be said is not said. (Unknown keys are looked up first: suggesting others takes time.)
    let known = KEYS.iter().any(|info| info.name == key);
    let said = known && Config::default().set(key, value, Origin::layer(layer)).is_ok();
    said.then_some(Entry { layer, key, value })
}

/// The entries as layers; those of the project are left out unless they are given again.
pub fn layers(entries: &[Entry<'_>], project: &[Entry<'_>]) -> Layers {
    let config = |wanted: Layer| {
        let mut config = Config::default();
        for entry in entries.iter().filter(|entry| entry.layer == wanted) {
            // It may contradict an earlier one.
            let _ = config.set(entry.key, entry.value, Origin::layer(wanted));
        }
        config
    };
    let mut layers = Layers {
        defaults: config(Layer::Default),
        user: Some(config(Layer::User)),
        project: None,
        environment: config(Layer::Environment),
        flags: config(Layer::Flags),
        ..Layers::default()
    };
    if !project.is_empty() {
        let mut config = Config::default();
        for entry in project {
            let _ = config.set(entry.key, entry.value, Origin::layer(Layer::Project));
        }
        layers.project = Some(config);
    }
    layers
}

/// Where relative paths start.
pub fn context() -> Context {
    Context { root: "/w".into(), home: Some("/home/ada".into()) }
}

/// Panics if `more` is granted something that `less` is not, comparing field by field and path by path.
pub fn assert_grants_no_more(more: &Policy, less: &Policy) {
    assert!(more.is_at_most(less), "the comparison of policies says so\n{more:#?}\n{less:#?}");
    for path in &places(&more.filesystem) | &places(&less.filesystem) {
        let (one, other) = (more.filesystem.effective_access(&path), less.filesystem.effective_access(&path));
        assert!(one <= other, "{} at {}, and {other} without\n{more:#?}\n{less:#?}", one, path.display());
    }
    assert!(more.network <= less.network);
    assert!(more.env.pass.iter().all(|name| less.env.pass.contains(name)));
    assert!(more.approximate.iter().all(|control| less.approximate.contains(control)));
    assert!(less.process.tty || !more.process.tty);
    let root = |policy: &Policy| policy.process.user.is_some_and(|user| user.is_root());
    assert!(root(less) || !root(more));
    if let Some(least) = less.isolation {
        assert!(more.isolation.is_some_and(|isolation| isolation.satisfies(least)));
    }
    let (one, other) = (&more.limits, &less.limits);
    assert_lower(&one.memory, &other.memory);
    assert_lower(&one.cpus, &other.cpus);
    assert_lower(&one.cpu_time, &other.cpu_time);
    assert_lower(&one.processes, &other.processes);
    assert_lower(&one.open_files, &other.open_files);
    assert_lower(&one.disk, &other.disk);
    assert_lower(&one.output, &other.output);
    assert_lower(&one.timeout, &other.timeout);
}

fn assert_lower<T: Ord + std::fmt::Debug>(one: &Limit<T>, other: &Limit<T>) {
    match (&one.value, &other.value) {
        (_, None) => {}
        (Some(one), Some(other)) => assert!(one <= other, "{one:?} is above {other:?}"),
        (None, Some(other)) => panic!("no limit, where {other:?} is the limit"),
    }
}

/// Every place at which access may change, and places beside, above and beneath the rules.
fn places(files: &FilesystemPolicy) -> BTreeSet<PathBuf> {
    let mut places: BTreeSet<PathBuf> = files.protected_paths().into_iter().map(|protected| protected.path).collect();
    for PathRule { path, .. } in &files.rules {
        places.insert(path.join("beneath"));
        places.extend(path.parent().map(|parent| parent.join("beside")));
        places.extend(path.ancestors().map(PathBuf::from));
    }
    places
}
