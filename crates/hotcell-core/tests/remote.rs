//! The server of a remote box: which layer names it, and what is refused about it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use hotcell_core::config::{Config, Layer, Origin, environment_config};
use hotcell_core::layers::{Context, Layers, resolve};
use hotcell_core::policy::{Endpoints, Policy};
use hotcell_core::runtime::RuntimeKind;

fn user(text: &str) -> Layers {
    Layers { user: Some(Config::parse(text, "user.toml", Layer::User).unwrap()), ..Layers::default() }
}

fn policy(layers: &Layers) -> Policy {
    resolve(layers, &Context::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(layers: &Layers) -> String {
    resolve(layers, &Context::default()).unwrap_err().to_string()
}

#[test]
fn flat_keys_are_the_table() {
    let flat =
        policy(&user("sandbox_backend = \"opensandbox\"\nsandbox_url = \"http://[::1]:1\"\nsandbox_api_key = \"k\""));
    let table = "[sandbox]\nmode = \"opensandbox\"\n[remote]\nurl = \"http://[::1]:1\"\napi_key = \"k\"";
    assert_eq!(flat, policy(&user(table)));
    assert_eq!(flat.remote.api_key.unwrap().expose(), "k");
}

#[test]
fn later_layers_win() {
    let mut layers =
        user("[remote]\nurl = \"https://user\"\napi_key = \"user\"\ndomain = \"user\"\nendpoints = \"proxy\"");
    layers.defaults.set("remote.template", "default", Origin::layer(Layer::Default)).unwrap();
    layers.defaults.set("remote.url", "https://default", Origin::layer(Layer::Default)).unwrap();
    let variables = [("HOTCELL_SANDBOX_URL", "https://environment"), ("HOTCELL_SANDBOX_API_KEY", "environment")];
    layers.environment = environment_config(variables.map(|(name, value)| (name.into(), value.into()))).unwrap();
    layers.flags.set("remote.url", "https://flag", Origin::flag("--sandbox-url")).unwrap();
    let remote = policy(&layers).remote;
    assert_eq!(remote.url.as_deref(), Some("https://flag"));
    assert_eq!(remote.api_key.unwrap().expose(), "environment");
    assert_eq!(remote.domain.as_deref(), Some("user"));
    assert_eq!(remote.template.as_deref(), Some("default"));
    assert_eq!(remote.endpoints, Endpoints::Proxy);
}

#[test]
fn plain_http_is_for_this_machine() {
    for key in ["url", "data_url"] {
        let plain = format!("[remote]\n{key} = \"http://10.0.0.1:8080\"");
        assert_eq!(
            error(&user(&plain)),
            format!(
                "user.toml:2: `remote.{key}` cannot be `http://10.0.0.1:8080`: over plain http everybody on the way \
                could read the key and change files and code; use https, or accept that with `plain_http = true` in \
                [remote] or --plain-http"
            )
        );
        assert!(policy(&user(&format!("{plain}\nplain_http = true"))).remote.plain_http);
        policy(&user(&plain.replace("10.0.0.1", "localhost")));
        policy(&user(&plain.replace("http:", "https:")));
        // A stronger layer can take the word back.
        let mut layers = user(&format!("{plain}\nplain_http = true"));
        layers.flags.set("remote.plain_http", "false", Origin::flag("--plain-http")).unwrap();
        assert!(resolve(&layers, &Context::default()).is_err());
    }
}

#[test]
fn a_key_file_that_nobody_read_is_not_forgotten() {
    let message = error(&user("[remote]\napi_key_file = \"key\""));
    assert!(message.starts_with("user.toml:2: `remote.api_key_file` names a file that nobody has read"), "{message}");
}

#[test]
fn a_program_is_checked_like_a_file() {
    let built = Policy::builder()
        .sandbox_url("https://a")
        .sandbox_api_key("k")
        .sandbox_data_url("https://b")
        .sandbox_domain("c")
        .template("t")
        .snapshot("s")
        .endpoints(Endpoints::Proxy)
        .plain_http(true)
        .build()
        .unwrap();
    let text = "[remote]\nurl = \"https://a\"\napi_key = \"k\"\ndata_url = \"https://b\"\ndomain = \"c\"\ntemplate = \"t\"\n\
        snapshot = \"s\"\nendpoints = \"proxy\"\nplain_http = true";
    assert_eq!(built.remote, policy(&user(text)).remote);

    for (wrong, key) in [
        (Policy::builder().sandbox_url("https://me:hunter2@a"), "remote.url"),
        (Policy::builder().sandbox_url("http://a"), "remote.url"),
        (Policy::builder().sandbox_data_url("a"), "remote.data_url"),
        (Policy::builder().sandbox_api_key("hunter2\r\nX: y"), "remote.api_key"),
        (Policy::builder().sandbox_domain("a/b"), "remote.domain"),
        (Policy::builder().template("../x"), "remote.template"),
        (Policy::builder().snapshot(""), "remote.snapshot"),
    ] {
        let message = wrong.build().unwrap_err().to_string();
        assert!(message.contains(&format!("`{key}`")) && !message.contains("hunter2"), "{message}");
    }
}

#[test]
fn keys_are_shown_nowhere() {
    let policy = Policy::builder().sandbox_api_key("hunter2").build().unwrap();
    let json = serde_json::to_string(&policy).unwrap();
    assert!(json.contains("\"api_key\":\"[secret]\""), "{json}");
    assert!(!format!("{policy:?} {policy:#?} {json}").contains("hunter2"));
}

#[test]
fn a_child_cannot_choose_the_server() {
    let of = |url: &str| Policy::builder().runtime(RuntimeKind::E2b).sandbox_url(url).sandbox_api_key("k");
    let parent = of("https://parent").template("parent").build().unwrap();
    let child = of("https://child").template("child").build().unwrap();
    let both = parent.narrow(&child);
    assert_eq!(both.remote.url.as_deref(), Some("https://parent"));
    assert_eq!(both.remote.template.as_deref(), Some("child"));
    assert!(both.is_at_most(&parent) && !child.is_at_most(&parent));
    let other_key = of("https://parent").sandbox_api_key("l").build().unwrap();
    assert!(!other_key.is_at_most(&parent));
    // Where nothing is sent, it does not matter where to.
    let local = Policy::builder().runtime(RuntimeKind::Native).sandbox_url("https://child").build().unwrap();
    assert!(local.is_at_most(&Policy::builder().runtime(RuntimeKind::Native).build().unwrap()));
}

#[test]
fn each_kind_has_its_own_server() {
    let server = |policy: Policy, kind| policy.remote.server(kind).map_err(|error| error.to_string());
    let default = Policy::default;
    assert_eq!(server(default(), RuntimeKind::Opensandbox).unwrap(), "http://localhost:8080");
    assert!(server(default(), RuntimeKind::E2b).unwrap_err().contains("needs a key"));
    assert!(server(default(), RuntimeKind::Cube).unwrap_err().contains("needs the address"));
    assert!(server(default(), RuntimeKind::Native).unwrap_err().contains("`native`"));
    let with_key = Policy::builder().sandbox_api_key("k");
    let build = |builder: hotcell_core::policy::PolicyBuilder| builder.build().unwrap();
    assert_eq!(server(build(with_key.clone()), RuntimeKind::E2b).unwrap(), "https://api.e2b.app");
    assert_eq!(server(build(with_key.sandbox_domain("sbx.local")), RuntimeKind::E2b).unwrap(), "https://api.sbx.local");
    for kind in [RuntimeKind::Opensandbox, RuntimeKind::E2b, RuntimeKind::Cube] {
        assert_eq!(server(build(Policy::builder().sandbox_url("https://own")), kind).unwrap(), "https://own");
    }
}
