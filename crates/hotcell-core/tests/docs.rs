//! What is written about the policy is what the code does.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use std::fs;

use hotcell_core::capability::Control;
use hotcell_core::config::{Config, KEYS, Layer, vendor_variables};
use hotcell_core::layers::{Context, Layers, resolve};
use hotcell_core::policy::DEFAULT_PASS;
use hotcell_core::policy::protect::DEFAULT_PROTECTED;
use hotcell_core::presets::Preset;
use hotcell_core::runtime::RuntimeKind;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/hotcell.schema.json");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.md");

fn reference() -> String {
    fs::read_to_string(REFERENCE).expect("docs/policy.md can be read")
}

#[test]
fn the_committed_schema_is_current() {
    let generated = hotcell_core::schema::json();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(SCHEMA, &generated).expect("the schema can be written");
    }
    let committed = fs::read_to_string(SCHEMA).unwrap_or_default();
    // As values: the order of keys depends on how serde_json was built.
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    assert!(value(&committed) == value(&generated), "{SCHEMA} is out of date; run the tests once with UPDATE_SCHEMA=1");
}

#[test]
fn the_reference_names_everything_there_is() {
    let text = reference();
    let keys = KEYS.iter().map(|info| info.split().1);
    let variables = KEYS.iter().filter_map(|info| info.variable);
    let protected = DEFAULT_PROTECTED.iter().map(|entry| entry.name);
    let controls = Control::ALL.iter().map(|control| control.as_str());
    let vendors = RuntimeKind::ALL.iter().flat_map(|kind| vendor_variables(*kind));
    for name in
        keys.chain(variables).chain(vendors).chain(protected).chain(controls).chain(DEFAULT_PASS.iter().copied())
    {
        assert!(text.contains(&format!("`{name}`")), "docs/policy.md does not mention `{name}`");
    }
    for flag in KEYS.iter().filter_map(|info| info.flag) {
        assert!(text.contains(&format!("`{flag}`")), "docs/policy.md does not mention {flag}");
    }
    for preset in Preset::ALL {
        assert!(text.contains(&format!("| `{preset}` |")), "docs/policy.md does not say what {preset} grants");
    }
    for kind in RuntimeKind::ALL {
        assert!(text.contains(&format!("`{kind}`")), "docs/policy.md does not mention {kind}");
    }
    for entry in DEFAULT_PROTECTED {
        assert!(
            text.contains(entry.why),
            "docs/policy.md does not say why `{}` is protected: {}",
            entry.name,
            entry.why
        );
    }
}

#[test]
fn the_example_in_the_reference_is_a_policy() {
    let text = reference();
    let example =
        text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is an example");
    let user = Config::parse(example, "docs/policy.md", Layer::User).unwrap_or_else(|error| panic!("{error}"));
    let context = Context { root: "/srv/project".into(), home: Some("/home/me".into()) };
    resolve(&Layers { user: Some(user), ..Layers::default() }, &context).unwrap_or_else(|error| panic!("{error}"));
}
