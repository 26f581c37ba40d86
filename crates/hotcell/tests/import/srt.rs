//! How srt's lists come together, and what may be left out.

use hotcell::import::{Format, ImportError, ImportOptions, import};
use hotcell::policy::Access;

use super::{access, import_anyway, options, policy, report};

fn accesses(text: &str, paths: &[(&str, Access)]) {
    let toml = import_anyway(Format::Srt, text).toml;
    let policy = policy(&toml);
    for (path, expected) in paths {
        assert_eq!(access(&policy, path), *expected, "{path} of\n{toml}");
    }
}

#[test]
fn a_denied_write_wins_however_far_above_it_is() {
    accesses(
        r#"{"filesystem":{"allowWrite":["/a","/b/c/d"],"denyWrite":["/a/x","/b"]}}"#,
        &[("/a/y", Access::Write), ("/a/x", Access::Read), ("/a/x/deeper", Access::Read), ("/b/c/d", Access::Read)],
    );
}

#[test]
fn what_may_not_be_read_is_not_written_either() {
    let text = r#"{"filesystem":{"denyRead":["/a"],"allowWrite":["/a/b","/a/c"],"allowRead":["/a/c"]}}"#;
    let report = report(Format::Srt, text);
    assert!(report.losses().any(|loss| loss.key == "filesystem.allowWrite[0]"));
    accesses(text, &[("/a/b", Access::Deny), ("/a/c", Access::Write), ("/a/d", Access::Deny)]);
}

#[test]
fn what_names_no_path_is_an_error() {
    for path in
        [r#"{"literal":true}"#, r#"{"path":"","literal":true}"#, r#"{"path":"a\u0000b","literal":true}"#, r#""""#]
    {
        let text = format!(r#"{{"filesystem":{{"allowWrite":[{path}]}}}}"#);
        assert!(matches!(import(&text, &options(Format::Srt)), Err(ImportError::BadValue { .. })), "{text}");
    }
}

#[test]
fn a_variable_that_is_denied_is_not_passed_though_it_usually_is() {
    let text = r#"{"credentials":{"envVars":[{"name":"TERM","mode":"deny"},{"name":"TOKEN","mode":"deny"}]}}"#;
    let policy = policy(&import_anyway(Format::Srt, text).toml);
    assert_eq!(policy.env.set.get("TERM").map(String::as_str), Some("dumb"));
    assert!(!policy.env.set.contains_key("TOKEN") && !policy.env.pass.contains("TOKEN"));
}

#[test]
fn the_current_directory_is_hidden_where_it_was() {
    accesses(r#"{"filesystem":{"denyRead":["~"]}}"#, &[("src", Access::Deny), ("~/x", Access::Deny)]);
    accesses(r#"{"filesystem":{"denyRead":["~"],"allowRead":["."]}}"#, &[("src", Access::Read), ("~/x", Access::Deny)]);
    // A credential is denied whatever else is said.
    accesses(
        r#"{"filesystem":{"allowRead":["key"]},"credentials":{"files":[{"path":"key","mode":"deny"}]}}"#,
        &[("key", Access::Deny), ("src", Access::Read)],
    );
    accesses(
        r#"{"filesystem":{"allowWrite":["keys/x"]},"credentials":{"files":[{"path":"keys","mode":"deny"}]}}"#,
        &[("keys/x", Access::Deny), ("keys", Access::Deny)],
    );
}

#[test]
fn nested_names_are_a_loss_unless_only_the_top_is_searched() {
    let text = |depth: &str| format!(r#"{{"filesystem":{{"allowWrite":["."]}}{depth}}}"#);
    let losses = |text: &str| report(Format::Srt, text).losses().map(|loss| loss.key.to_owned()).collect::<Vec<_>>();
    assert_eq!(losses(&text("")), ["mandatoryDenySearchDepth", "network.allowUnixSockets"]);
    let deep = text(r#","mandatoryDenySearchDepth":3"#);
    assert_eq!(losses(&deep), ["mandatoryDenySearchDepth", "network.allowUnixSockets"]);
    assert_eq!(losses(&text(r#","mandatoryDenySearchDepth":1"#)), ["network.allowUnixSockets"]);
    // Sockets matter only where something can be written.
    let said = text(r#","mandatoryDenySearchDepth":1,"network":{"allowUnixSockets":[]}"#);
    assert_eq!(losses(&said), ["network.allowUnixSockets"]);
    assert!(losses(&said.replace("allowWrite", "allowRead")).is_empty());
}

#[test]
fn only_what_is_named_is_left_out() {
    let text = "{\n\"allowAppleEvents\": true,\n\"network\": {\n\"allowedDomains\": [\"a\"],\n\"httpProxyPort\": 1}}";
    let with = |keys: &[&str]| {
        let allow_loss = keys.iter().map(|key| (*key).to_owned()).collect();
        import(text, &ImportOptions { allow_loss, ..options(Format::Srt) })
    };
    let message = with(&[]).unwrap_err().to_string();
    assert!(
        message.starts_with("3 settings have no equal, so nothing is written:\n  allowAppleEvents (line 2): "),
        "{message}"
    );
    assert!(message.contains("\n  network.allowedDomains (line 4): ") && message.contains("(line 5): "), "{message}");
    let message = with(&["allowAppleEvents", "network.allowedDomains"]).unwrap_err().to_string();
    assert!(message.starts_with("1 setting has no equal") && message.contains("network.httpProxyPort"), "{message}");
    // A table stands for all that is in it; a part of a name for nothing.
    let imported = with(&["allowAppleEvents", "network"]).unwrap();
    assert!(imported.report.losses().all(|loss| loss.allowed));
    assert!(
        imported.toml.contains("# Left out, as it was allowed to be:\n#   allowAppleEvents (line 2): "),
        "{}",
        imported.toml
    );
    for mistake in ["net", "network.allowedDomains[0]", "filesystem", "", "network.allowedDomain"] {
        assert!(matches!(with(&["allowAppleEvents", mistake]), Err(ImportError::NotLost { .. })), "{mistake}");
    }
}
