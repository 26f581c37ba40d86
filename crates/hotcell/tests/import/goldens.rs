//! Whole files, and what becomes of them.

use std::fmt::Write;
use std::fs;

use hotcell::import::{Fate, Format, ImportOptions, Imported, import};
use hotcell::policy::{Access, NetworkMode};
use hotcell::runtime::{RuntimeChoice, RuntimeKind};

use super::{access, options, policy};

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/import");

/// The report for people to compare.
fn shown(imported: &Imported) -> String {
    let mut text = String::new();
    for setting in &imported.report.settings {
        let line = setting.line.map_or("-".to_owned(), |line| line.to_string());
        let fate = match &setting.fate {
            Fate::Carried { to } => format!("carried to {}", to.join(", ")),
            Fate::Narrower { to, how } => format!("narrower, in [{}]: {how}", to.join(", ")),
            Fate::Always { how } => format!("always: {how}"),
            Fate::Elsewhere { what } => format!("elsewhere: {what}"),
            Fate::Lost { why, instead, allowed } => format!("lost ({allowed}): {why}; {instead}"),
            other => panic!("{other:?}"),
        };
        writeln!(text, "{line:>3} {}: {fate}", setting.key).unwrap();
    }
    text + "\n" + &imported.toml
}

fn golden(format: Format, source: &str, allow_loss: &[&str]) -> String {
    let text = fs::read_to_string(format!("{GOLDENS}/{source}")).unwrap();
    let allow_loss = allow_loss.iter().map(|key| (*key).to_owned()).collect();
    // Whose settings they are is found out.
    let imported = import(&text, &ImportOptions { format: None, allow_loss, ..options(format) })
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.report.format, format);
    let file = format!("{GOLDENS}/{format}.expected");
    let shown = shown(&imported);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&file, &shown).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(shown == expected, "{file} differs; look, and run the test once with UPDATE_GOLDENS=1:\n{shown}");
    imported.toml
}

#[test]
fn srt_settings() {
    let policy = policy(&golden(Format::Srt, "srt.json", &["network.allowUnixSockets"]));
    assert_eq!(policy.network, NetworkMode::Deny);
    assert!(policy.process.tty);
    for (path, expected) in [
        ("src/main.rs", Access::Write),
        (".env", Access::Read),
        ("config/[prod]", Access::Read),
        (".git/config", Access::Read),
        ("~/.ssh/id", Access::Deny),
        ("~/.cargo/registry/x", Access::Read),
        ("~/.aws/credentials", Access::Deny),
        ("/srv/secrets", Access::Deny),
        ("/var/cache/build/x", Access::Write),
    ] {
        assert_eq!(access(&policy, path), expected, "{path}");
    }
}

#[test]
fn codex_settings() {
    let policy = policy(&golden(Format::Codex, "codex.toml", &["unix_sockets"]));
    assert_eq!(policy.network, NetworkMode::Deny);
    for (path, expected) in [
        ("src/main.rs", Access::Write),
        (".git/refs", Access::Read),
        (".codex/x", Access::Read),
        ("docs/x", Access::Read),
        ("secrets/x", Access::Deny),
        ("~/code/shared/x", Access::Write),
        ("~/code/shared/docs/x", Access::Read),
        ("~/code/shared/secrets/x", Access::Deny),
        ("/srv/data/x", Access::Write),
        ("~/.ssh/id", Access::Deny),
        ("~/other", Access::Deny),
    ] {
        assert_eq!(access(&policy, path), expected, "{path}");
    }
    assert_eq!(policy.env.set["CARGO_HOME"], "/srv/cargo");
    for name in ["API_TOKEN", "AWS_REGION", "CI"] {
        assert!(!policy.env.pass.contains(name) && !policy.env.set.contains_key(name), "{name}");
    }
    // Only what is included is passed there, so nothing of the host's is here.
    assert_eq!(policy.env.set["LANG"], "C.UTF-8");
}

#[test]
fn codewhale_settings() {
    let text = golden(Format::CodeWhale, "codewhale.toml", &[]);
    let policy = policy(&text);
    assert_eq!(policy.runtime, RuntimeChoice::Kind(RuntimeKind::Opensandbox));
    assert_eq!(policy.remote.url.as_deref(), Some("https://sandbox.example.org"));
    assert_eq!(policy.remote.api_key.unwrap().expose(), "hunter2");
    assert!(!text.contains("model-key"));
    assert_eq!(access(&super::policy(&text), "~/models/x"), Access::Read);
    assert_eq!(access(&super::policy(&text), ".codewhale/x"), Access::Read);
}
