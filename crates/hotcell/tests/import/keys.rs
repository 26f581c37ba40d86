//! Every documented key of every format, with values of each kind, and what becomes of it.

use hotcell::import::{Fate, Format, Report};

use super::report;

/// What became of a key: of itself, or of what it is part of.
fn fate(report: &Report, key: &str) -> &'static str {
    let covers =
        |above: &str| key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let setting = report.settings.iter().find(|setting| covers(&setting.key));
    match setting.map(|setting| &setting.fate) {
        Some(Fate::Carried { .. }) => "carried",
        Some(Fate::Narrower { .. }) => "narrower",
        Some(Fate::Always { .. }) => "always",
        Some(Fate::Elsewhere { .. }) => "elsewhere",
        Some(Fate::Lost { why, .. }) if why.contains("that Hotcell knows") => "unknown",
        Some(Fate::Lost { .. }) => "lost",
        other => panic!("{key}: {other:?}"),
    }
}

/// `{"a":{"b":VALUE}}` for `a.b`.
fn json(key: &str, value: &str) -> String {
    key.rsplit('.').fold(value.to_owned(), |inner, name| format!("{{\"{name}\":{inner}}}"))
}

/// Whatever is tested here is documented, by the last name of its key.
fn assert_documented(key: &str) {
    let reference = include_str!("../../../../docs/import.md");
    let key = key.trim_end_matches("[0]");
    let last = key.rsplit('.').find(|name| !name.contains(['"', '/', '*'])).unwrap_or(key);
    let words = [format!("`{last}`"), format!(".{last}`")];
    let other = last.starts_with("dangerously_") || ["A", "src", "srv"].contains(&last);
    assert!(
        other || words.iter().any(|word| reference.contains(word)),
        "docs/import.md does not mention `{last}` of {key}"
    );
}

#[test]
fn every_key_of_srt() {
    let table: &[(&str, &str, &str)] = &[
        ("network.allowedDomains", "[]", "carried"),
        ("network.allowedDomains", "[\"a.example\"]", "lost"),
        ("network.deniedDomains", "[\"a.example\"]", "always"),
        ("network.deniedDomainReasons", "{}", "always"),
        ("network.deniedDomainReasons", "{\"a.example\":\"no\"}", "lost"),
        ("network.strictAllowlist", "true", "always"),
        ("network.strictAllowlist", "false", "narrower"),
        ("network.deniedResolvedAddresses", "[\"10.0.0.0/8\"]", "always"),
        ("network.allowUnixSockets", "[]", "always"),
        ("network.allowUnixSockets", "[\"/run/docker.sock\"]", "lost"),
        ("network.allowAllUnixSockets", "true", "lost"),
        ("network.allowAllUnixSockets", "false", "always"),
        ("network.allowLocalBinding", "true", "narrower"),
        ("network.allowLocalBinding", "false", "always"),
        ("network.allowMachLookup", "[\"com.apple.x\"]", "lost"),
        ("network.httpProxyPort", "3128", "lost"),
        ("network.socksProxyPort", "1080", "lost"),
        ("network.mitmProxy", "{\"socketPath\":\"/x\",\"domains\":[\"a\"]}", "lost"),
        ("network.parentProxy", "{\"http\":\"http://x\"}", "lost"),
        ("network.tlsTerminate", "{\"caCertPath\":\"/x\"}", "lost"),
        ("network.refuseOpaqueTunnels", "true", "always"),
        ("network.requireHostMatch", "true", "always"),
        ("network.ambiguousRequestTarget", "\"reject\"", "always"),
        ("network.stripResponseHeaders", "[\"x\"]", "always"),
        ("network.allowPlaintextHeaderSet", "true", "lost"),
        ("network.allowPlaintextHeaderSet", "false", "always"),
        ("filesystem.disabled", "true", "lost"),
        ("filesystem.disabled", "false", "always"),
        ("filesystem.denyRead", "[]", "always"),
        ("filesystem.denyRead[0]", "[\"~/.ssh\"]", "carried"),
        ("filesystem.denyRead[0]", "[\"**/.env\"]", "lost"),
        ("filesystem.denyRead[0]", "[{\"path\":\"a*\",\"literal\":true}]", "carried"),
        ("filesystem.denyRead[0]", "[\"/\"]", "lost"),
        ("filesystem.denyRead[0]", "[\"../up\"]", "lost"),
        ("filesystem.denyRead[0]", "[\"~bob/x\"]", "lost"),
        ("filesystem.allowRead[0]", "[\"/srv\"]", "carried"),
        ("filesystem.allowRead[0]", "[\"/\"]", "narrower"),
        ("filesystem.allowRead[0]", "[\"/proc\"]", "narrower"),
        ("filesystem.allowWrite[0]", "[\".\"]", "carried"),
        ("filesystem.allowWrite[0]", "[\"/\"]", "lost"),
        ("filesystem.allowWrite[0]", "[\"/dev/null\"]", "always"),
        ("filesystem.allowWrite[0]", "[\"/dev/kvm\"]", "lost"),
        ("filesystem.allowWrite[0]", "[\"src/*\"]", "lost"),
        ("filesystem.denyWrite[0]", "[\".env\"]", "always"),
        ("filesystem.allowGitConfig", "true", "carried"),
        ("filesystem.allowGitConfig", "false", "always"),
        ("credentials.files", "[]", "always"),
        ("credentials.files[0]", "[{\"path\":\"~/.netrc\",\"mode\":\"deny\"}]", "carried"),
        ("credentials.files[0]", "[{\"path\":\"~/.netrc\",\"mode\":\"mask\",\"injectHosts\":[\"a\"]}]", "lost"),
        ("credentials.files[0]", "[{\"path\":\"~/.netrc\",\"mode\":\"deny\",\"extract\":\"x\"}]", "lost"),
        ("credentials.envVars[0]", "[{\"name\":\"TOKEN\",\"mode\":\"deny\"}]", "always"),
        ("credentials.envVars[0]", "[{\"name\":\"TOKEN\",\"mode\":\"mask\"}]", "lost"),
        ("credentials.allowPlaintextInject", "true", "lost"),
        ("credentials.awsPairs", "[{\"id\":\"A\"}]", "lost"),
        ("credentials.awsPairs", "[]", "always"),
        ("credentials.sigv4", "{\"region\":\"x\"}", "lost"),
        ("ignoreViolations", "{\"npm\":[\"/x\"]}", "elsewhere"),
        ("enableWeakerNestedSandbox", "true", "lost"),
        ("enableWeakerNestedSandbox", "false", "always"),
        ("allowNestedUserNamespaces", "true", "lost"),
        ("enableWeakerNetworkIsolation", "true", "lost"),
        ("allowAppleEvents", "true", "lost"),
        ("ripgrep", "{\"command\":\"rg\"}", "elsewhere"),
        ("mandatoryDenySearchDepth", "5", "always"),
        ("allowPty", "true", "carried"),
        ("allowPty", "false", "always"),
        ("seccomp", "{\"applyPath\":\"/x\",\"argv0\":\"y\"}", "elsewhere"),
        ("bwrapPath", "\"/x\"", "elsewhere"),
        ("socatPath", "\"/x\"", "elsewhere"),
        ("javaAgentJarPath", "\"/x\"", "elsewhere"),
        ("windows", "{\"backend\":\"x\"}", "elsewhere"),
        ("srtWin", "{\"path\":\"x\"}", "elsewhere"),
        ("git.safeDirectories", "[]", "always"),
        ("git.safeDirectories", "[\"/x\"]", "lost"),
        ("sandbox.enabled", "true", "unknown"),
        ("network.allowedDomain", "[]", "unknown"),
        ("filesystem.denyReads[0]", "[\"x\"]", "unknown"),
        ("git.other", "1", "unknown"),
    ];
    for (key, value, expected) in table {
        let text = json(key.trim_end_matches("[0]"), value);
        assert_eq!(fate(&report(Format::Srt, &text), key), *expected, "{text}");
        if *expected != "unknown" {
            assert_documented(key);
        }
    }
}

#[test]
fn every_key_of_codex() {
    let profile = |text: &str| format!("default_permissions = \"p\"\n[permissions.p]\n{text}");
    let plain: &[(&str, &str, &str)] = &[
        ("sandbox_mode", "sandbox_mode = \"read-only\"", "narrower"),
        ("sandbox_mode", "sandbox_mode = \"workspace-write\"", "narrower"),
        ("sandbox_mode", "sandbox_mode = \"danger-full-access\"", "lost"),
        ("sandbox_workspace_write", "sandbox_workspace_write.network_access = true", "lost"),
        ("sandbox_workspace_write", "[sandbox_workspace_write]", "always"),
        ("projects", "projects.\"/x\".trust_level = \"trusted\"", "narrower"),
        ("projects", "sandbox_mode = \"read-only\"\nprojects.\"/x\".trust_level = \"trusted\"", "elsewhere"),
        (
            "sandbox_workspace_write",
            "sandbox_mode = \"read-only\"\nsandbox_workspace_write.network_access = true",
            "always",
        ),
        ("approval_policy", "approval_policy = \"never\"", "always"),
        ("approval_policy", "approval_policy = \"on-request\"", "narrower"),
        ("approval_policy", "approval_policy = \"on-failure\"", "narrower"),
        ("approval_policy", "approval_policy = \"untrusted\"", "lost"),
        ("approval_policy", "approval_policy = { granular = { rules = true } }", "lost"),
        ("shell_environment_policy.inherit", "shell_environment_policy.inherit = \"all\"", "narrower"),
        ("shell_environment_policy.inherit", "shell_environment_policy.inherit = \"core\"", "narrower"),
        ("shell_environment_policy.inherit", "shell_environment_policy.inherit = \"none\"", "carried"),
        (
            "shell_environment_policy.ignore_default_excludes",
            "shell_environment_policy.ignore_default_excludes = false",
            "always",
        ),
        ("shell_environment_policy.exclude", "shell_environment_policy.exclude = [\"A*\"]", "always"),
        ("shell_environment_policy.set.A", "shell_environment_policy.set.A = \"b\"", "carried"),
        ("shell_environment_policy.set", "shell_environment_policy.set = {}", "always"),
        ("shell_environment_policy.include_only[0]", "shell_environment_policy.include_only = [\"A\"]", "carried"),
        ("shell_environment_policy.include_only[0]", "shell_environment_policy.include_only = [\"A*\"]", "lost"),
        ("shell_environment_policy.include_only[0]", "shell_environment_policy.include_only = [\"PATH\"]", "narrower"),
        ("shell_environment_policy.filters", "shell_environment_policy.filters = {}", "always"),
        ("shell_environment_policy.filters", "shell_environment_policy.filters = { a = 1 }", "lost"),
        (
            "shell_environment_policy.experimental_use_profile",
            "shell_environment_policy.experimental_use_profile = true",
            "lost",
        ),
        ("default_permissions", "default_permissions = \":workspace\"", "carried"),
        ("default_permissions", "default_permissions = \":read-only\"", "carried"),
        ("default_permissions", "default_permissions = \":danger-full-access\"", "lost"),
        ("sandbox_mode", "sandbox_mode = \"workspace-write\"\ndefault_permissions = \":read-only\"", "lost"),
        ("default_permissions", "sandbox_mode = \"workspace-write\"\ndefault_permissions = \":read-only\"", "carried"),
        ("permissions", "permissions.p.filesystem.\"/x\" = \"write\"", "always"),
        ("profile", "profile = \"x\"", "lost"),
        ("profiles", "profiles.x.sandbox_mode = \"danger-full-access\"", "elsewhere"),
        ("windows", "windows.sandbox = \"elevated\"", "elsewhere"),
        ("features", "features.use_legacy_landlock = true", "elsewhere"),
        ("model", "model = \"gpt-5.5\"", "elsewhere"),
        ("mcp_servers", "mcp_servers.x.command = \"y\"", "elsewhere"),
        ("allowed_sandbox_modes", "allowed_sandbox_modes = [\"read-only\"]", "lost"),
        ("allowed_approval_policies", "allowed_approval_policies = [\"never\"]", "lost"),
        ("sandbox_moed", "sandbox_moed = \"read-only\"", "unknown"),
        ("shell_environment_policy.inherits", "shell_environment_policy.inherits = \"none\"", "unknown"),
    ];
    let writable = "sandbox_mode = \"workspace-write\"\n[sandbox_workspace_write]\n";
    let in_workspace: &[(&str, &str, &str)] = &[
        ("sandbox_workspace_write.writable_roots", "writable_roots = []", "always"),
        ("sandbox_workspace_write.writable_roots[0]", "writable_roots = [\"/srv/x\"]", "carried"),
        ("sandbox_workspace_write.writable_roots[0]", "writable_roots = [\"/srv/x/.git\"]", "narrower"),
        ("sandbox_workspace_write.writable_roots[0]", "writable_roots = [\"/\"]", "lost"),
        ("sandbox_workspace_write.writable_roots[0]", "writable_roots = [\"/dev/shm\"]", "lost"),
        ("sandbox_workspace_write.network_access", "network_access = true", "carried"),
        ("sandbox_workspace_write.network_access", "network_access = false", "carried"),
        ("sandbox_workspace_write.exclude_tmpdir_env_var", "exclude_tmpdir_env_var = true", "always"),
        ("sandbox_workspace_write.exclude_slash_tmp", "exclude_slash_tmp = false", "narrower"),
        ("sandbox_workspace_write.other", "other = false", "unknown"),
    ];
    let in_profile: &[(&str, &str, &str)] = &[
        ("description", "description = \"x\"", "elsewhere"),
        ("extends", "extends = \":workspace\"", "carried"),
        ("extends", "extends = \":danger-full-access\"", "lost"),
        ("workspace_roots", "workspace_roots = {}", "always"),
        ("workspace_roots.\"/x\"", "workspace_roots = { \"/x\" = true }", "carried"),
        ("workspace_roots.\"/x\"", "workspace_roots = { \"/x\" = false }", "always"),
        ("filesystem.\":root\"", "filesystem.\":root\" = \"read\"", "narrower"),
        ("filesystem.\":root\"", "filesystem.\":root\" = \"write\"", "lost"),
        ("filesystem.\":root\"", "filesystem.\":root\" = \"deny\"", "lost"),
        ("filesystem.\":root\"", "filesystem = { \":root\" = \"deny\", \":minimal\" = \"read\" }", "always"),
        ("filesystem.\":root\".srv", "filesystem.\":root\".srv = \"read\"", "carried"),
        ("filesystem.\":minimal\"", "filesystem.\":minimal\" = \"read\"", "always"),
        ("filesystem.\":minimal\"", "filesystem.\":minimal\" = \"deny\"", "lost"),
        ("filesystem.\":minimal\"", "filesystem.\":minimal\" = \"write\"", "lost"),
        ("filesystem.\":workspace_roots\"", "filesystem.\":workspace_roots\" = \"write\"", "carried"),
        ("filesystem.\":workspace_roots\".src", "filesystem.\":workspace_roots\".src = \"write\"", "carried"),
        (
            "filesystem.\":workspace_roots\".\"**/*.env\"",
            "filesystem.\":workspace_roots\".\"**/*.env\" = \"deny\"",
            "lost",
        ),
        ("filesystem.\":project_roots\"", "filesystem.\":project_roots\" = \"read\"", "carried"),
        ("filesystem.\":cwd\"", "filesystem.\":cwd\" = \"none\"", "carried"),
        ("filesystem.\":tmpdir\"", "filesystem.\":tmpdir\" = \"write\"", "narrower"),
        ("filesystem.\":slash_tmp\"", "filesystem.\":slash_tmp\" = \"deny\"", "always"),
        ("filesystem.\":future\"", "filesystem.\":future\" = \"read\"", "lost"),
        ("filesystem.\"/srv\"", "filesystem.\"/srv\" = \"read\"", "carried"),
        ("filesystem.\"/\"", "filesystem.\"/\" = \"read\"", "lost"),
        ("filesystem.\"/proc/1\"", "filesystem.\"/proc/1\" = \"read\"", "narrower"),
        ("filesystem.\"/sys\"", "filesystem.\"/sys\" = \"write\"", "lost"),
        ("filesystem.glob_scan_max_depth", "filesystem.glob_scan_max_depth = 2", "always"),
        ("filesystem.allow_limited_git_writes", "filesystem.allow_limited_git_writes = true", "lost"),
        ("filesystem.allow_limited_git_writes", "filesystem.allow_limited_git_writes = false", "always"),
        ("network.enabled", "network.enabled = true", "carried"),
        ("network.mode", "network = { enabled = true, mode = \"limited\" }", "lost"),
        ("network.mode", "network = { enabled = true, mode = \"full\" }", "always"),
        ("network.proxy_url", "network.proxy_url = \"http://x\"", "elsewhere"),
        ("network.enable_socks5", "network.enable_socks5 = true", "elsewhere"),
        ("network.socks_url", "network.socks_url = \"http://x\"", "elsewhere"),
        ("network.enable_socks5_udp", "network.enable_socks5_udp = true", "elsewhere"),
        ("network.allow_upstream_proxy", "network.allow_upstream_proxy = true", "elsewhere"),
        ("network.allow_local_binding", "network.allow_local_binding = true", "narrower"),
        ("network.allow_local_binding", "network.allow_local_binding = false", "always"),
        ("network.allow_local_binding", "network = { enabled = true, allow_local_binding = false }", "lost"),
        ("network.dangerously_allow_non_loopback_proxy", "network.dangerously_allow_non_loopback_proxy = true", "lost"),
        ("network.dangerously_allow_all_unix_sockets", "network.dangerously_allow_all_unix_sockets = false", "always"),
        ("network.domains", "network = { enabled = true, domains = { \"a.example\" = \"allow\" } }", "lost"),
        ("network.domains", "network = { enabled = false, domains = { \"a.example\" = \"allow\" } }", "always"),
        ("network.unix_sockets.\"/x\"", "network.unix_sockets = { \"/x\" = \"allow\" }", "lost"),
        ("network.unix_sockets.\"/x\"", "network.unix_sockets = { \"/x\" = \"none\" }", "always"),
        ("network.mitm", "network = { enabled = true, mitm = { hooks = { a = { host = \"x\" } } } }", "lost"),
        ("network.other", "network.other = true", "unknown"),
        ("other", "other = true", "unknown"),
    ];
    let all = plain.iter().map(|(key, text, fate)| ((*key).to_owned(), (*text).to_owned(), *fate));
    let in_workspace =
        in_workspace.iter().map(|(key, text, fate)| ((*key).to_owned(), format!("{writable}{text}"), *fate));
    let in_profile = in_profile.iter().map(|(key, text, fate)| (format!("permissions.p.{key}"), profile(text), *fate));
    for (key, text, expected) in all.chain(in_workspace).chain(in_profile) {
        assert_eq!(fate(&report(Format::Codex, &text), &key), expected, "{text}");
        if expected != "unknown" && !["windows", "profiles", "features"].contains(&key.as_str()) {
            assert_documented(&key);
        }
    }
}

#[test]
fn every_key_of_codewhale() {
    let table: &[(&str, &str, &str)] = &[
        ("sandbox_mode", "sandbox_mode = \"read-only\"", "narrower"),
        ("sandbox_mode", "sandbox_mode = \"workspace-write\"", "narrower"),
        ("sandbox_mode", "sandbox_mode = \"danger-full-access\"", "lost"),
        ("sandbox_mode", "sandbox_mode = \"external-sandbox\"", "lost"),
        ("sandbox_mode", "sandbox_mode = \"external-sandbox\"\nsandbox_backend = \"opensandbox\"", "carried"),
        ("approval_policy", "approval_policy = \"never\"", "always"),
        ("approval_policy", "approval_policy = \"untrusted\"", "lost"),
        ("allow_shell", "allow_shell = true", "always"),
        ("allow_shell", "allow_shell = false", "lost"),
        ("sandbox_backend", "sandbox_backend = \"none\"", "carried"),
        ("sandbox_backend", "sandbox_backend = \"opensandbox\"", "carried"),
        ("sandbox_url", "sandbox_url = \"https://x.example\"", "carried"),
        ("sandbox_api_key", "sandbox_api_key = \"x\"", "carried"),
        ("prefer_bwrap", "prefer_bwrap = false", "always"),
        ("bwrap_ro_roots", "bwrap_ro_roots = []", "always"),
        ("bwrap_ro_roots[0]", "bwrap_ro_roots = [\"/srv\"]", "carried"),
        ("bwrap_ro_roots[0]", "bwrap_ro_roots = [\"/\"]", "narrower"),
        ("bwrap_ro_roots[0]", "bwrap_ro_roots = [\"/sys/class\"]", "narrower"),
        ("bwrap_dev_roots", "bwrap_dev_roots = []", "always"),
        ("bwrap_dev_roots", "bwrap_dev_roots = [\"/dev/kvm\"]", "lost"),
        ("network.default", "network.default = \"deny\"", "carried"),
        ("network.default", "network.default = \"prompt\"", "elsewhere"),
        ("network.allow", "network.allow = [\"a\"]", "elsewhere"),
        ("network.deny", "network.deny = [\"a\"]", "elsewhere"),
        ("network.proxy", "network.proxy = \"x\"", "elsewhere"),
        ("network.proxy_fake_ip_cidrs", "network.proxy_fake_ip_cidrs = [\"a\"]", "elsewhere"),
        ("network.audit", "network.audit = true", "elsewhere"),
        ("allowed_sandbox_modes", "allowed_sandbox_modes = [\"read-only\"]", "lost"),
        ("allowed_approval_policies", "allowed_approval_policies = [\"never\"]", "lost"),
        ("provider", "provider = \"deepseek\"", "elsewhere"),
        ("sandbox_key", "sandbox_key = \"x\"", "unknown"),
        ("network.other", "network.other = \"x\"", "unknown"),
    ];
    for (key, text, expected) in table {
        assert_eq!(fate(&report(Format::CodeWhale, text), key), *expected, "{text}");
        if *expected != "unknown" && !key.starts_with("network.") {
            assert_documented(key);
        }
    }
}
