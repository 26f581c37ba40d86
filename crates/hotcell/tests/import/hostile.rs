//! Text that nobody means well with: errors, and nothing else. And that no key is overlooked, wherever it is.

use std::fs;

use hotcell::import::{Fate, Format, ImportError, MAX_IMPORT_BYTES, import};
use serde_json::Value;

use super::{import_anyway, options, report};

#[test]
fn broken_text_is_an_error_with_a_line() {
    let message = |format: Format, text: &str| import(text, &options(format)).unwrap_err().to_string();
    let json = |text: &str| message(Format::Srt, text);
    let toml = |text: &str| message(Format::Codex, text);
    for text in [
        "",
        "[]",
        "1",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\":\"x}",
        "{a:1}",
        "{}x",
        "{\"a\":01}",
        "\"{\"",
    ] {
        assert!(json(text).contains("not valid JSON"), "{text}: {}", json(text));
    }
    assert!(json("{\n\n\"a\": nope}").starts_with("line 3: not valid JSON"));
    assert_eq!(json("{\"a\":1,\n\"a\":2}"), "line 2: `a` is there twice; keep one");
    assert_eq!(json("{\"x\":{\"\\u0061\":1,\"a\":2}}"), "line 1: `a` is there twice; keep one");
    assert!(json(&("{\"a\":".repeat(5000) + "1" + &"}".repeat(5000))).contains("too deep"));
    assert!(
        json(&format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000))).contains("line 1: not valid JSON")
    );
    assert!(toml("a = 1\na = 2").contains("line 2: not valid TOML"));
    assert!(toml(&format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000))).contains("not valid TOML"));
    let error = toml("sandbox_api_key = hunter2");
    assert!(error.contains("line 1: not valid TOML") && !error.contains("hunter2"), "{error}");
    let many = format!("{{\"filesystem\":{{\"denyRead\":[{}\"x\"]}}}}", "\"x\",".repeat(20_000));
    assert!(matches!(import(&many, &options(Format::Srt)), Err(ImportError::TooMany { count: 20_001 })));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_IMPORT_BYTES));
    assert!(matches!(import(&large, &options(Format::Srt)), Err(ImportError::TooLarge { .. })));
}

#[test]
fn wrong_types_and_values_are_errors() {
    for (format, text, expected) in [
        (Format::Srt, "{\"network\":[]}", "line 1: `network` takes a table, not a list"),
        (
            Format::Srt,
            "{\"filesystem\":{\"allowWrite\":\".\"}}",
            "line 1: `filesystem.allowWrite` takes a list, not a text",
        ),
        (
            Format::Srt,
            "{\"filesystem\":{\"allowWrite\":[1]}}",
            "line 1: `filesystem.allowWrite[0]` takes a table, not a number",
        ),
        (Format::Srt, "{\"filesystem\":{\"denyRead\":[\"\"]}}", "is no path"),
        (Format::Srt, "{\"filesystem\":{\"denyRead\":[\"a\\u0000\"]}}", "is no path"),
        (Format::Srt, "{\"filesystem\":{\"denyRead\":[{\"path\":\"x\",\"glob\":true}]}}", "is no part of a path"),
        (Format::Srt, "{\"allowPty\":\"yes\"}", "`allowPty` takes true or false, not a text"),
        (
            Format::Srt,
            "{\"credentials\":{\"files\":[{\"path\":\"x\"}]}}",
            "`credentials.files[0]` has no `path`, or a `mode`",
        ),
        (Format::Codex, "sandbox_mode = 1", "`sandbox_mode` takes a text, not a number"),
        (Format::Codex, "sandbox_mode = \"\\u001b[2J\"", "`sandbox_mode` is `\\u{1b}[2J`, which is no sandbox mode"),
        (Format::Codex, "shell_environment_policy.inherit = \"some\"", "can be \"all\", \"core\" or \"none\""),
        (Format::CodeWhale, "sandbox_backend = \"docker\"", "can be \"none\" or \"opensandbox\""),
        (
            Format::CodeWhale,
            "sandbox_backend = \"opensandbox\"\nsandbox_url = \"localhost\"",
            "the result is no policy: ",
        ),
        (Format::Codex, "shell_environment_policy.set = { \"A=B\" = \"x\" }", "the result is no policy: "),
    ] {
        let error = import(text, &options(format)).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn nothing_from_the_source_ends_its_line() {
    // Keys and paths that would be lines of their own, if they could end a comment or a text.
    let nasty = "x\\\"]\\n[network]\\nmode = \\\"open\\\"\\n#\\u202e";
    let text = format!("{{\"filesystem\":{{\"denyRead\":[\"{nasty}\"]}},\"{nasty}\":1}}");
    // A pattern would be lost, so say that it is none.
    let text = text.replace("[\"x", "[{\"path\":\"x").replacen("\\u202e\"]", "\\u202e\",\"literal\":true}]", 1);
    let imported = import_anyway(Format::Srt, &text);
    assert!(!imported.toml.contains("\nmode = \"open\"") && !imported.toml.contains('\u{202e}'), "{}", imported.toml);
    assert!(imported.report.losses().count() == 1);
}

/// Every single value is in the report, by itself or with what it is part of.
fn assert_complete(format: Format, text: &str, leaves: &[String]) {
    let report = report(format, text);
    for leaf in leaves {
        let covered = report.settings.iter().any(|setting| {
            leaf.strip_prefix(setting.key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        assert!(covered, "{leaf} of {text} is not in the report");
    }
}

fn leaves(value: &Value, key: String, found: &mut Vec<String>) {
    let name = |name: &str| {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if plain { name.to_owned() } else { format!("{name:?}") }
    };
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (entry, value) in entries {
                let entry = name(entry);
                leaves(value, if key.is_empty() { entry } else { format!("{key}.{entry}") }, found);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            elements.iter().enumerate().for_each(|(index, value)| leaves(value, format!("{key}[{index}]"), found));
        }
        _ => found.push(key),
    }
}

/// The value with a key that nobody knows in one of its tables; none when there are no more tables.
fn with_stranger(value: &Value, table: &mut usize) -> Option<Value> {
    let mut value = value.clone();
    insert(&mut value, table).then_some(value)
}

fn insert(value: &mut Value, table: &mut usize) -> bool {
    match value {
        Value::Object(entries) => {
            if *table == 0 {
                entries.insert("stranger_danger".to_owned(), Value::Bool(true));
                return true;
            }
            *table -= 1;
            entries.values_mut().any(|value| insert(value, table))
        }
        Value::Array(elements) => elements.iter_mut().any(|value| insert(value, table)),
        _ => false,
    }
}

/// Whether a stranger was noticed: an error, a loss of its own, or part of something that is about no sandbox or is lost.
fn assert_noticed(format: Format, text: &str) {
    let report = match import(text, &options(format)) {
        Err(ImportError::Lost(report)) => *report,
        Err(_) => return,
        Ok(imported) => imported.report,
    };
    let noticed = report.settings.iter().any(|setting| match &setting.fate {
        Fate::Lost { .. } => setting.key.contains("stranger_danger"),
        _ => false,
    });
    let inside = |key: &str| {
        let value: Value = match format {
            Format::Srt => serde_json::from_str(text).unwrap(),
            _ => toml_value(text),
        };
        let mut all = Vec::new();
        leaves(&value, String::new(), &mut all);
        let stranger = all.iter().find(|leaf| leaf.contains("stranger_danger")).unwrap();
        stranger.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let mut above = report.settings.iter().filter(|setting| inside(&setting.key)).map(|setting| &setting.fate);
    let opaque = above.all(|fate| matches!(fate, Fate::Elsewhere { .. } | Fate::Lost { .. }))
        && report.settings.iter().any(|setting| inside(&setting.key));
    // In these tables every name is a variable or a directory.
    let named = ["set.stranger_danger", "workspace_roots.stranger_danger"];
    let named = report.settings.iter().any(|setting| named.iter().any(|name| setting.key.ends_with(name)));
    assert!(noticed || opaque || named, "{text}");
}

fn toml_value(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
}

#[test]
fn no_key_is_overlooked_wherever_it_is() {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/import");
    for (format, file) in
        [(Format::Srt, "srt.json"), (Format::Codex, "codex.toml"), (Format::CodeWhale, "codewhale.toml")]
    {
        let text = fs::read_to_string(format!("{goldens}/{file}")).unwrap();
        let value = if format == Format::Srt { serde_json::from_str(&text).unwrap() } else { toml_value(&text) };
        let mut found = Vec::new();
        leaves(&value, String::new(), &mut found);
        assert_complete(format, &text, &found);
        for table in 0.. {
            let Some(value) = with_stranger(&value, &mut table.clone()) else { break };
            let text = match format {
                Format::Srt => value.to_string(),
                _ => toml::to_string(&value).unwrap(),
            };
            assert_noticed(format, &text);
        }
    }
}

/// Small changes everywhere: bytes left out, doubled or changed. Whatever comes of it, nothing panics, and a result is a policy.
#[test]
fn damaged_settings_are_errors_or_policies() {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/import");
    for (format, file) in
        [(Format::Srt, "srt.json"), (Format::Codex, "codex.toml"), (Format::CodeWhale, "codewhale.toml")]
    {
        let text = fs::read_to_string(format!("{goldens}/{file}")).unwrap();
        for (at, character) in text.char_indices().step_by(3) {
            let (before, after) = (&text[..at], &text[at + character.len_utf8()..]);
            for middle in ["", "\"", "{", "\n", "[", "0", "\u{1b}"] {
                if let Ok(imported) = import(&format!("{before}{middle}{after}"), &options(format)) {
                    super::policy(&imported.toml);
                }
            }
        }
    }
}
