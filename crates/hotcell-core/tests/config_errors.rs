//! Every kind of mistake in a configuration file, with the message that a person sees.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use hotcell_core::config::{Config, Layer, MAX_CONFIG_BYTES};
use hotcell_core::runtime::{RuntimeChoice, RuntimeKind};

fn error(text: &str, layer: Layer) -> String {
    match Config::parse(text, "hotcell.toml", layer) {
        Ok(config) => panic!("{text:?} was accepted: {config:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn mistakes_in_a_users_file() {
    let table: &[(&str, &str)] = &[
        // Unknown keys.
        ("[limits]\nmemroy = 1", "hotcell.toml:2: unknown key `memroy` in [limits]; did you mean `memory`?"),
        ("\n\n[limit]\nmemory = 1", "hotcell.toml:3: unknown key `limit`; did you mean `limits`?"),
        ("memory = 1", "hotcell.toml:1: unknown key `memory`; did you mean `limits.memory`?"),
        (
            "[sandbox]\ntimeout = 1",
            "hotcell.toml:2: unknown key `timeout` in [sandbox]; did you mean `limits.timeout`?",
        ),
        ("[sandbox]\nbackend = 1", "hotcell.toml:2: unknown key `backend` in [sandbox]"),
        ("sandbox_bakend = 'x'", "hotcell.toml:1: unknown key `sandbox_bakend`; did you mean `sandbox_backend`?"),
        (
            "[limits.memory]\nmax = 1",
            "hotcell.toml:1: `limits.memory` takes a size, not a table; for example: memory = \"256m\"",
        ),
        ("\"\\u001b[2J\" = 1", "hotcell.toml:1: unknown key `\\u{1b}[2J`"),
        // Wrong types.
        (
            "limits = 3",
            "hotcell.toml:1: `limits` takes a table, not a whole number; for example: [limits] on a line of its own",
        ),
        (
            "[filesystem]\nread = \"src\"",
            "hotcell.toml:2: `filesystem.read` takes a list of paths, not a text; for example: read = [\"src\", \"~/data\"]",
        ),
        (
            "[filesystem]\nread = [\n  \"a\",\n  7,\n]",
            "hotcell.toml:4: `filesystem.read` takes a list of paths, not a whole number; for example: read = [\"src\", \"~/data\"]",
        ),
        (
            "[process]\ntty = \"yes\"",
            "hotcell.toml:2: `process.tty` takes true or false, not a text; for example: tty = true",
        ),
        (
            "[limits]\nmemory = 1.5",
            "hotcell.toml:2: `limits.memory` takes a size, not a fraction; for example: memory = \"256m\"",
        ),
        (
            "[limits]\ncpus = \"two\"",
            "hotcell.toml:2: `limits.cpus` takes a number of CPUs, not a text; for example: cpus = 1.5",
        ),
        (
            "[env]\nset = [\"A=b\"]",
            "hotcell.toml:2: `env.set` takes a table of texts, not a list; for example: set = { RUST_LOG = \"info\" }",
        ),
        (
            "[env.set]\nA = 1",
            "hotcell.toml:2: `env.set` takes a table of texts, not a whole number; for example: set = { RUST_LOG = \"info\" }",
        ),
        (
            "[limits]\ntimeout = 2026-01-01",
            "hotcell.toml:2: `limits.timeout` takes a duration, not a date; for example: timeout = \"10s\"",
        ),
        // Values out of range.
        (
            "[limits]\nmemory = 0",
            "hotcell.toml:2: `limits.memory` cannot be `0`: it is zero; write a size such as \"256m\", \"1g\", \"512k\", \"64MiB\" or a whole number of bytes; units are multiples of 1024",
        ),
        (
            "[limits]\nmemory = -5",
            "hotcell.toml:2: `limits.memory` cannot be `-5`: it is negative; write a size such as \"256m\", \"1g\", \"512k\", \"64MiB\" or a whole number of bytes; units are multiples of 1024",
        ),
        (
            "[limits]\nmemory = 99999999999999999999999",
            "hotcell.toml:2: `limits.memory` cannot be `99999999999999999999999`: it is too large; write a size such as \"256m\", \"1g\", \"512k\", \"64MiB\" or a whole number of bytes; units are multiples of 1024",
        ),
        (
            "[limits]\nmemory = \"lots\"",
            "hotcell.toml:2: `limits.memory` cannot be `lots`: it is not a whole number; write a size such as \"256m\", \"1g\", \"512k\", \"64MiB\" or a whole number of bytes; units are multiples of 1024",
        ),
        (
            "[limits]\ntimeout = \"1 week\"",
            "hotcell.toml:2: `limits.timeout` cannot be `1 week`: the unit is not known; write a duration such as \"10s\", \"500ms\", \"2m\", \"1h\" or a whole number of seconds",
        ),
        (
            "[limits]\nprocesses = \"4k\"",
            "hotcell.toml:2: `limits.processes` cannot be `4k`: it is not a whole number; write a whole number such as 64",
        ),
        (
            "[limits]\ncpus = 0.0",
            "hotcell.toml:2: `limits.cpus` cannot be `0`: a number of CPUs is between 0.01 and 8192, for example 2 or 0.5",
        ),
        (
            "[limits]\ncpus = nan",
            "hotcell.toml:2: `limits.cpus` cannot be `NaN`: a number of CPUs is between 0.01 and 8192, for example 2 or 0.5",
        ),
        (
            "[process]\nuser = 70000",
            "hotcell.toml:2: `process.user` cannot be `70000`: the user in the box is \"hotcell\" (uid 1000), \"root\" (uid 0 inside only) or a number from 0 to 65533",
        ),
        (
            "[network]\nmode = \"none\"",
            "hotcell.toml:2: `network.mode` cannot be `none`: the network modes are \"deny\" and \"open\"",
        ),
        (
            "[sandbox]\nisolation = \"vm\"",
            "hotcell.toml:2: `sandbox.isolation` cannot be `vm`: `vm` is not an isolation level; levels, weakest first: process, container, user-kernel, microvm",
        ),
        (
            "[filesystem]\nread = [\"\"]",
            "hotcell.toml:2: `filesystem.read` cannot be ``: a path is not empty; `.` is the root of the policy",
        ),
        (
            "[filesystem]\nread = [\"a\\u0000b\"]",
            "hotcell.toml:2: `filesystem.read` cannot be `a\\u{0}b`: a path has no NUL byte",
        ),
        (
            "[env]\npass = [\"A=B\"]",
            "hotcell.toml:2: `env.pass` cannot be `A=B`: a variable's name is not empty and has no `=` and no NUL byte",
        ),
        // Servers.
        (
            "sandbox_url = \"localhost:8080\"",
            "hotcell.toml:1: `sandbox_url` cannot be `localhost:8080`: write an address such as https://sandbox.example.org or http://localhost:8080",
        ),
        (
            "[remote]\nurl = \"https://me:hunter2@host\"",
            "hotcell.toml:2: `remote.url` cannot be `https://…@host`: the address of a server has no user and no password in it; a key is written as `api_key`",
        ),
        (
            "[remote]\ndata_url = \"https://host/x?key=hunter2\"",
            "hotcell.toml:2: `remote.data_url` cannot be `https://host/x?…`: the address of a server has no query and no fragment; a key is written as `api_key`",
        ),
        (
            "sandbox_api_key = \"hunter2\\n\"",
            "hotcell.toml:1: `sandbox_api_key` cannot be `[secret]`: a key has no spaces, control characters or characters beyond ASCII",
        ),
        (
            "[remote]\ndomain = \"https://e2b.app\"",
            "hotcell.toml:2: `remote.domain` cannot be `https://e2b.app`: write a domain such as e2b.app, without a scheme; a port may follow after a colon",
        ),
        (
            "[remote]\nendpoints = \"relay\"",
            "hotcell.toml:2: `remote.endpoints` cannot be `relay`: sandboxes are reached \"direct\", or through the server's \"proxy\"",
        ),
        (
            "[remote]\nplain_http = \"yes\"",
            "hotcell.toml:2: `remote.plain_http` takes true or false, not a text; for example: plain_http = true",
        ),
        ("url = \"https://x\"", "hotcell.toml:1: unknown key `url`; did you mean `remote.url`?"),
        // Languages.
        (
            "languages = 3",
            "hotcell.toml:1: `languages` takes a table for each language, not a whole number; for example: languages.lua.command = [\"lua\"]",
        ),
        (
            "[languages.lua]\ncommand = \"lua\"",
            "hotcell.toml:2: `languages` takes a table for each language, not a text; for example: languages.lua.command = [\"lua\"]",
        ),
        (
            "[languages]\nlua = [\"lua\"]",
            "hotcell.toml:2: `languages` takes a table for each language, not a list; for example: languages.lua.command = [\"lua\"]",
        ),
        (
            "[languages.lua]\ncomand = [\"lua\"]",
            "hotcell.toml:2: unknown key `comand` in [languages.lua]; did you mean `command`?",
        ),
        ("[languages.lua]\ncommand = [\"lua\"]\nargs = []", "hotcell.toml:3: unknown key `args` in [languages.lua]"),
        ("[languages.lua]", "hotcell.toml:1: `languages` cannot be `lua`: it has no `command`"),
        (
            "[languages.lua]\ncommand = []",
            "hotcell.toml:2: `languages` cannot be `lua`: its command has 0 words; it takes a program and at most 63 arguments",
        ),
        (
            "[languages.lua]\ncommand = [\"\"]",
            "hotcell.toml:2: `languages` cannot be `lua`: a word of its command is not empty and has no NUL byte",
        ),
        (
            "[languages.lua]\ncommand = [\"lua\", \"a\\u0000\"]",
            "hotcell.toml:2: `languages` cannot be `lua`: a word of its command is not empty and has no NUL byte",
        ),
        (
            "[languages.lua]\ncommand = [1]",
            "hotcell.toml:2: `languages` takes a table for each language, not a whole number; for example: languages.lua.command = [\"lua\"]",
        ),
        (
            "[languages.Lua]\ncommand = [\"lua\"]",
            "hotcell.toml:1: `languages` cannot be `Lua`: a language's name is at most 32 of a-z, 0-9, `_`, `+` and `-`, and begins with a letter",
        ),
        // Presets.
        (
            "[sandbox]\npreset = \"ofline\"",
            "hotcell.toml:2: `sandbox.preset` cannot be `ofline`: `ofline` is not a preset; did you mean `offline`?; presets: read-only, workspace-write, workspace-overlay, offline, package-install",
        ),
        // Contradictions.
        (
            "sandbox_url = \"https://a\"\n[remote]\nurl = \"https://b\"",
            "hotcell.toml:3: `remote.url` contradicts hotcell.toml:1: one asks for https://b, the other for https://a",
        ),
        (
            "sandbox_api_key = \"hunter2\"\n[remote]\napi_key = \"hunter3\"",
            "hotcell.toml:3: `remote.api_key` contradicts hotcell.toml:1: the two keys differ",
        ),
        (
            "sandbox_api_key = \"hunter2\"\n[remote]\napi_key_file = \"key\"",
            "hotcell.toml:3: `remote.api_key_file` contradicts hotcell.toml:1: one has the key, the other names a file with it; keep one",
        ),
        (
            "[remote]\napi_key_file = \"key\"\napi_key = \"hunter2\"",
            "hotcell.toml:3: `remote.api_key` contradicts hotcell.toml:2: one has the key, the other names a file with it; keep one",
        ),
        (
            "sandbox_backend = \"docker\"\n[sandbox]\nmode = \"native\"",
            "hotcell.toml:3: `sandbox.mode` contradicts hotcell.toml:1: one asks for native, the other for docker",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(error(text, Layer::User), *expected, "{text}");
    }
}

#[test]
fn runtime_and_control_names_come_with_suggestions() {
    let message = error("[sandbox]\nmode = \"natvie\"", Layer::User);
    assert!(
        message.starts_with("hotcell.toml:2: `sandbox.mode` cannot be `natvie`: ")
            && message.contains("did you mean `native`?"),
        "{message}"
    );
    let message = error("[sandbox]\napproximate = [\n\"memry\"]", Layer::User);
    assert!(message.starts_with("hotcell.toml:3: ") && message.contains("did you mean `memory`?"), "{message}");
}

#[test]
fn text_that_is_not_toml_is_placed_without_repeating_it() {
    let message = error("[limits]\nmemory = \"1g\nsandbox_api_key = \"hunter2\"", Layer::User);
    assert!(message.starts_with("hotcell.toml:2: not valid TOML: "), "{message}");
    let message = error("sandbox_api_key = hunter2", Layer::User);
    assert!(message.starts_with("hotcell.toml:1: not valid TOML: ") && !message.contains("hunter2"), "{message}");
    let message = error("[limits]\nmemory = 1\nmemory = 2", Layer::User);
    assert!(message.starts_with("hotcell.toml:3: not valid TOML: duplicate key"), "{message}");
}

#[test]
fn keys_that_would_loosen_are_not_for_project_files() {
    for (text, key) in [
        ("[filesystem]\nunprotect = [\".vscode\"]", "filesystem.unprotect"),
        ("\nsandbox_url = \"https://x\"", "sandbox_url"),
        ("\nsandbox_api_key = \"x\"", "sandbox_api_key"),
        ("[remote]\nurl = \"https://x\"", "remote.url"),
        ("[remote]\napi_key = \"x\"", "remote.api_key"),
        ("[remote]\napi_key_file = \"x\"", "remote.api_key_file"),
        ("[remote]\ndata_url = \"https://x\"", "remote.data_url"),
        ("[remote]\ndomain = \"x\"", "remote.domain"),
        ("[remote]\ntemplate = \"x\"", "remote.template"),
        ("[remote]\nsnapshot = \"x\"", "remote.snapshot"),
        ("[remote]\nendpoints = \"proxy\"", "remote.endpoints"),
        ("[remote]\nplain_http = true", "remote.plain_http"),
        ("[limits]\nmemory = \"unlimited\"", "limits.memory"),
        ("[sandbox]\npreset = \"read-only\"", "sandbox.preset"),
        ("\nlanguages.lua.command = [\"lua\"]", "languages"),
        ("[env]\nset = { LD_PRELOAD = \"x.so\" }", "env.set"),
    ] {
        let message = error(text, Layer::Project);
        assert!(message.starts_with(&format!("hotcell.toml:2: a project file may not set `{key}`: ")), "{message}");
        assert!(message.ends_with("put it into your own file or pass it as a flag"), "{message}");
        assert!(Config::parse(text, "hotcell.toml", Layer::User).is_ok());
    }
}

#[test]
fn large_and_deep_files_are_refused() {
    let message = error(&"#".repeat(MAX_CONFIG_BYTES + 1), Layer::User);
    assert_eq!(message, "hotcell.toml: 1048577 bytes are more than a configuration file may have (1048576)");
    let deep = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(error(&deep, Layer::User).starts_with("hotcell.toml:1: not valid TOML: "));
}

#[test]
fn a_whole_file_is_read() {
    let text = r#"
        sandbox_backend = "none"
        sandbox_url = "https://sandbox.example.org"
        sandbox_api_key = "hunter2"
        [sandbox]
        preset = "workspace-write"
        mode = "native"
        isolation = "process"
        approximate = ["memory", "cpu_time"]
        [filesystem]
        read = ["src"]
        write = ["target"]
        overlay = ["vendor"]
        deny = ["secrets"]
        protect = ["deploy.sh"]
        unprotect = [".vscode"]
        [network]
        mode = "open"
        [env]
        pass = ["RUST_LOG"]
        set = { A = "b" }
        [limits]
        memory = "256m"
        cpus = 2
        cpu_time = 60
        processes = "unlimited"
        open_files = 0x40
        disk = "1g"
        output = "16MiB"
        timeout = "500ms"
        [process]
        cwd = "src"
        user = "root"
        tty = true
        [remote]
        url = "https://sandbox.example.org"
        api_key = "hunter2"
        data_url = "http://10.0.0.1:3000"
        domain = "e2b.app"
        template = "base"
        snapshot = "s-1"
        endpoints = "proxy"
        plain_http = true
        [languages.lua]
        command = ["lua5.4", "-W"]
        [languages."c++"]
        command = ["cling"]
    "#;
    let config = Config::parse(text, "hotcell.toml", Layer::User).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && shown.contains("[secret]"));
    assert_eq!(config.limits.open_files.unwrap().value.value(), Some(64));
    assert_eq!(config.sandbox.mode.unwrap().value, RuntimeChoice::Kind(RuntimeKind::Native));
    assert_eq!(config.languages["lua"].value, ["lua5.4", "-W"]);
    assert_eq!(config.languages["c++"].origin.to_string(), "hotcell.toml:47");
    assert_eq!(config.remote.url.unwrap().value, "https://sandbox.example.org");
    assert_eq!(config.limits.timeout.unwrap().origin.to_string(), "hotcell.toml:30");
}
