//! How Codex's profiles and variables come together.

use hotcell::import::{Fate, Format, ImportError, ImportOptions, import};
use hotcell::policy::{Access, NetworkMode};

use super::{access, import_anyway, options, policy, report};

#[test]
fn the_network_is_open_only_where_nothing_narrows_it() {
    let network = |text: &str| policy(&import_anyway(Format::Codex, text).toml).network;
    let profile = |text: &str| format!("default_permissions = \"p\"\n[permissions.p.network]\n{text}\n");
    assert_eq!(network(&profile("enabled = true")), NetworkMode::Open);
    for closed in [
        "",
        "enabled = false",
        "enabled = true\nmode = \"limited\"",
        "enabled = true\ndomains = { \"a.example\" = \"allow\" }",
        "enabled = true\ndomains = { \"a.example\" = \"deny\" }",
        "enabled = true\nmitm = { hooks = { a = { host = \"x\" } } }",
        "enabled = true\n[features]\nnetwork_proxy = true",
        "enabled = true\n[features.network_proxy]\nx = 1",
    ] {
        assert_eq!(network(&profile(closed)), NetworkMode::Deny, "{closed}");
    }
    // Behind a proxy it is closed though it was asked for, and that is said.
    let proxied = report(Format::Codex, &profile("enabled = true\n[features]\nnetwork_proxy = true"));
    assert!(proxied.losses().any(|loss| loss.key == "permissions.p.network.enabled"));
    let open = "sandbox_mode = \"workspace-write\"\nsandbox_workspace_write.network_access = true\n";
    assert_eq!(network(open), NetworkMode::Open);
    assert_eq!(
        network(&format!("{open}features.network_proxy.domains = {{ \"a.example\" = \"allow\" }}\n")),
        NetworkMode::Deny
    );
    assert_eq!(network(&open.replace("workspace-write", "read-only")), NetworkMode::Deny);
    // What a profile is made of counts where it says nothing itself.
    let text =
        "default_permissions = \"a\"\n[permissions.a]\nextends = \"b\"\n[permissions.b.network]\nenabled = true\n";
    assert_eq!(network(text), NetworkMode::Open);
    assert_eq!(network(&format!("{text}[permissions.a.network]\nenabled = false\n")), NetworkMode::Deny);
}

#[test]
fn a_mode_beside_a_profile_is_a_loss_and_the_profile_holds() {
    let text = "sandbox_mode = \"workspace-write\"\nsandbox_workspace_write.network_access = true\n\
                default_permissions = \"p\"\n[permissions.p.filesystem]\n\":root\" = \"read\"\n\"/srv\" = \"deny\"\n";
    let lost: Vec<String> = report(Format::Codex, text).losses().map(|loss| loss.key.to_owned()).collect();
    assert_eq!(lost, ["sandbox_mode", "sandbox_workspace_write"]);
    let policy = policy(&import_anyway(Format::Codex, text).toml);
    assert_eq!((access(&policy, "src"), access(&policy, "/srv/x")), (Access::Read, Access::Deny));
    assert_eq!(policy.network, NetworkMode::Deny);
}

#[test]
fn what_has_no_effect_beside_a_profile_grants_nothing() {
    let workspace = "[sandbox_workspace_write]\nnetwork_access = true\nwritable_roots = [\"/srv/x\"]\n";
    for profile in [":workspace", ":read-only"] {
        let text = format!("default_permissions = \"{profile}\"\n{workspace}");
        let settings = report(Format::Codex, &text).settings;
        let fate = &settings.iter().find(|setting| setting.key == "sandbox_workspace_write").unwrap().fate;
        assert!(matches!(fate, Fate::Always { how } if how.contains("default_permissions")), "{fate:?}");
        let policy = policy(&import_anyway(Format::Codex, &text).toml);
        assert_eq!((policy.network, access(&policy, "/srv/x")), (NetworkMode::Deny, Access::Deny), "{profile}");
    }
    // Where nothing is chosen, it is in force for some projects: that is not for an import to guess.
    let losses: Vec<String> = report(Format::Codex, workspace).losses().map(|loss| loss.key.to_owned()).collect();
    assert_eq!(losses, ["sandbox_workspace_write"]);
    let policy = policy(&import_anyway(Format::Codex, workspace).toml);
    assert_eq!((policy.network, access(&policy, "src")), (NetworkMode::Deny, Access::Read));
}

#[test]
fn a_writable_git_directory_is_narrower_in_what_steers_git() {
    let text = "default_permissions = \"p\"\n[permissions.p.filesystem]\n\":root\" = \"read\"\n\
                \":workspace_roots\" = { \".\" = \"write\", \".git\" = \"write\" }\n";
    let settings = report(Format::Codex, text).settings;
    let fate = &settings.iter().find(|setting| setting.key.ends_with("\".git\"")).unwrap().fate;
    assert!(matches!(fate, Fate::Narrower { how, .. } if how.contains(": hooks, config, ")), "{fate:?}");
    let policy = policy(&import_anyway(Format::Codex, text).toml);
    let of = |path: &str| access(&policy, path);
    assert_eq!((of(".git/HEAD"), of(".git/hooks/x"), of(".git/config")), (Access::Write, Access::Read, Access::Read));
}

#[test]
fn sockets_in_what_may_be_written_are_a_loss() {
    let losses = |text: &str| report(Format::Codex, text).losses().map(|loss| loss.key.to_owned()).collect::<Vec<_>>();
    assert_eq!(losses("sandbox_mode = \"workspace-write\"\n"), ["unix_sockets"]);
    assert!(losses("sandbox_mode = \"read-only\"\n").is_empty());
    // With an open network, Codex does not hold them either.
    let open = "sandbox_mode = \"workspace-write\"\nsandbox_workspace_write.network_access = true\n";
    assert!(losses(open).is_empty());
}

#[test]
fn profiles_must_exist_and_end() {
    let error = |text: &str| match import(text, &options(Format::Codex)) {
        Err(ImportError::BadValue { line, key, reason }) => format!("{line} {key} {reason}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(error("default_permissions = \"p\""), "1 default_permissions names the profile `p`, which is not there");
    let text = "default_permissions = \"a\"\n[permissions.a]\nextends = \"b\"\n[permissions.b]\nextends = \"a\"\n";
    assert_eq!(error(text), "5 permissions.b.extends makes a profile of itself");
}

#[test]
fn a_profile_that_hides_the_workspace_hides_it() {
    let hidden = "default_permissions = \"p\"\n[permissions.p.filesystem]\n\"/srv\" = \"read\"\n";
    let policy_of = |text: &str| policy(&import_anyway(Format::Codex, text).toml);
    assert_eq!(access(&policy_of(hidden), "src"), Access::Deny);
    assert_eq!(access(&policy_of(hidden), "/srv/x"), Access::Read);
    let shown = format!("{hidden}\":root\" = \"read\"\n");
    assert_eq!(access(&policy_of(&shown), "src"), Access::Read);
}

#[test]
fn variables_that_were_not_passed_are_not() {
    let env = |text: &str| policy(&import_anyway(Format::Codex, text).toml).env;
    let defaults = ["LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM", "TZ"];
    for covered in ["inherit = \"none\"", "inherit = \"core\"", "exclude = [\"*\"]", "include_only = [\"A\"]"] {
        let env = env(&format!("[shell_environment_policy]\n{covered}\n"));
        assert!(defaults.iter().all(|name| env.set.contains_key(*name)), "{covered}: {env:?}");
    }
    let env_of_exclude = env("[shell_environment_policy]\nexclude = [\"l*\"]\n");
    assert!(env_of_exclude.set.contains_key("LANG") && !env_of_exclude.set.contains_key("TERM"));
    let text = "[shell_environment_policy]\ninclude_only = [\"A\", \"B_KEY\", \"X\"]\nexclude = [\"X\"]\nset = { A = \"1\", C = \"2\" }\n";
    let passed = env(text);
    assert!(passed.pass.contains("B_KEY") && !passed.pass.contains("X") && passed.set["A"] == "1");
    assert!(!passed.set.contains_key("C"));
    assert!(!env(&format!("{text}ignore_default_excludes = false\n")).pass.contains("B_KEY"));
}

#[test]
fn whose_settings_they_are_is_found_or_asked_for() {
    let found = |text: &str| match import(text, &ImportOptions { format: None, ..options(Format::Srt) }) {
        Ok(imported) => Ok(imported.report.format),
        Err(ImportError::Lost(report)) => Ok(report.format),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(found(" \n{\"network\":{}}"), Ok(Format::Srt));
    assert_eq!(found("sandbox_mode = \"read-only\"\n[sandbox_workspace_write]\n"), Ok(Format::Codex));
    assert_eq!(found("sandbox_mode = \"read-only\"\nprefer_bwrap = true\n"), Ok(Format::CodeWhale));
    assert!(found("sandbox_mode = \"read-only\"\n").unwrap_err().contains("--from"));
    assert!(found("prefer_bwrap = true\n[permissions]\n").unwrap_err().contains("codex and of codewhale"));
    assert!(found("").is_err());
}

#[test]
fn a_key_never_reaches_the_report() {
    let text = "sandbox_backend = \"opensandbox\"\nsandbox_api_key = \"hunter2\"\napi_key = \"hunter3\"\n";
    let report = report(Format::CodeWhale, text);
    assert!(!format!("{report:?}").contains("hunter"));
    assert!(!serde_json::to_string(&report).unwrap().contains("hunter"));
    let error =
        import("sandbox_backend = \"opensandbox\"\nsandbox_api_key = \"hunter2 \"\n", &options(Format::CodeWhale));
    assert!(!error.unwrap_err().to_string().contains("hunter2"));
}
