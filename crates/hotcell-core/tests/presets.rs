//! What presets grant, what wins over them, and what does not.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use std::time::Duration;

use hotcell_core::config::{Config, Layer, Origin};
use hotcell_core::layers::{Context, Layers, Workspace, resolve, resolve_languages, resolve_preset};
use hotcell_core::policy::{Access, Limits, NetworkMode, Policy};
use hotcell_core::presets::Preset;

fn context() -> Context {
    Context { root: "/w".into(), home: None }
}

fn choosing(preset: Preset) -> Layers {
    let mut layers = Layers::default();
    layers.flags.set("sandbox.preset", preset.as_str(), Origin::flag("--preset")).unwrap();
    layers
}

fn user(text: &str) -> Option<Config> {
    Some(Config::parse(text, "hotcell.toml", Layer::User).unwrap())
}

fn policy(layers: &Layers) -> Policy {
    resolve(layers, &context()).unwrap()
}

fn workspace(policy: &Policy) -> Access {
    policy.filesystem.access("/w/src".as_ref())
}

#[test]
fn each_grants_what_it_says() {
    let table = [
        (Preset::ReadOnly, Access::Read, NetworkMode::Deny),
        (Preset::WorkspaceWrite, Access::Write, NetworkMode::Deny),
        (Preset::WorkspaceOverlay, Access::Overlay, NetworkMode::Deny),
        (Preset::Offline, Access::Overlay, NetworkMode::Deny),
        (Preset::PackageInstall, Access::Overlay, NetworkMode::Open),
    ];
    assert_eq!(table.map(|(preset, ..)| preset), Preset::ALL);
    for (preset, access, network) in table {
        let policy = policy(&choosing(preset));
        assert_eq!((workspace(&policy), policy.network), (access, network), "{preset}");
        assert_eq!(policy.filesystem.rules.len(), 1, "{preset}");
        assert_eq!(policy.filesystem.access("/elsewhere".as_ref()), Access::Deny, "{preset}");
        let larger = policy.limits != Limits::default();
        assert_eq!(larger, preset == Preset::PackageInstall, "{preset}");
        assert_eq!(preset.as_str().parse(), Ok(preset));
    }
    let limits = policy(&choosing(Preset::PackageInstall)).limits;
    assert_eq!(limits.timeout.value, Some(Duration::from_secs(1800)));
    assert!(limits.memory.value > limits.disk.value, "overlays are in memory");
    assert!(!limits.memory.explicit, "nobody asked for the number, so a machine may approximate it");
    assert_eq!(limits.memory.origin.to_string(), "the preset package-install");
}

#[test]
fn a_limit_that_the_caller_has_lifted_stays_lifted() {
    let mut layers = choosing(Preset::PackageInstall);
    layers.defaults.set("limits.timeout", "unlimited", Origin::layer(Layer::Default)).unwrap();
    layers.defaults.set("limits.memory", "1g", Origin::layer(Layer::Default)).unwrap();
    let lifted = policy(&layers).limits;
    assert_eq!((lifted.timeout.value, lifted.memory.value), (None, Some(8 << 30)));
    // What somebody asks for holds all the same.
    layers.user = user("[limits]\ntimeout = \"10s\"\n");
    assert_eq!(policy(&layers).limits.timeout.value, Some(Duration::from_secs(10)));
}

#[test]
fn the_printed_file_is_the_same_policy() {
    for preset in Preset::ALL {
        let chosen = policy(&choosing(preset));
        let printed = policy(&Layers { user: user(preset.toml()), ..Layers::default() });
        assert!(chosen.is_at_most(&printed) && printed.is_at_most(&chosen), "{preset}");
        // All but where it was written, and that it was.
        let shown = |policy: &Policy| {
            let mut value = serde_json::to_value(policy).unwrap();
            let rules = value["filesystem"]["rules"].as_array_mut().unwrap();
            rules.iter_mut().for_each(|rule| rule["origin"] = "".into());
            for limit in value["limits"].as_object_mut().unwrap().values_mut() {
                (limit["origin"], limit["explicit"]) = ("".into(), "".into());
            }
            value
        };
        assert_eq!(shown(&chosen), shown(&printed), "{preset}");
        assert!(preset.toml().starts_with(&format!("# The preset {preset}: ")), "{preset}");
    }
}

#[test]
fn files_and_flags_say_more_and_a_project_can_tighten() {
    let mut layers = choosing(Preset::WorkspaceOverlay);
    layers.user = user("[filesystem]\nread = [\".\"]\nwrite = [\"target\"]\n[network]\nmode = \"open\"\n");
    let both = policy(&layers);
    assert_eq!((workspace(&both), both.network), (Access::Read, NetworkMode::Open));
    assert_eq!(both.filesystem.access("/w/target".as_ref()), Access::Write);

    let mut layers = choosing(Preset::PackageInstall);
    layers.flags.set("limits.memory", "64m", Origin::flag("--memory")).unwrap();
    let text = "[filesystem]\nread = [\".\"]\n[network]\nmode = \"deny\"\n[limits]\ndisk = \"1m\"\n";
    layers.project = Some(Config::parse(text, "hotcell.toml", Layer::Project).unwrap());
    let both = policy(&layers);
    assert_eq!((workspace(&both), both.network), (Access::Read, NetworkMode::Deny));
    assert_eq!((both.limits.memory.value, both.limits.disk.value), (Some(64 << 20), Some(1 << 20)));

    let text = "[filesystem]\nwrite = [\".\"]\n";
    layers.project = Some(Config::parse(text, "hotcell.toml", Layer::Project).unwrap());
    let error = resolve(&layers, &context()).unwrap_err().to_string();
    assert!(error.starts_with("hotcell.toml:2: a project file can only tighten"), "{error}");
}

#[test]
fn the_strongest_layer_chooses_and_a_project_does_not() {
    let mut layers = Layers { user: user("[sandbox]\npreset = \"offline\"\n"), ..Layers::default() };
    layers.defaults.set("sandbox.preset", "read-only", Origin::layer(Layer::Default)).unwrap();
    assert_eq!(resolve_preset(&layers).unwrap().value, Preset::Offline);
    layers.environment.set("sandbox.preset", "workspace-write", Origin::variable("HOTCELL_PRESET")).unwrap();
    assert_eq!(workspace(&policy(&layers)), Access::Write);
    layers.flags.set("sandbox.preset", "read-only", Origin::flag("--preset")).unwrap();
    assert_eq!(workspace(&policy(&layers)), Access::Read);

    // However it came to be there.
    let mut project = Config::default();
    project.sandbox.preset = choosing(Preset::PackageInstall).flags.sandbox.preset;
    let layers = Layers { project: Some(project), ..Layers::default() };
    assert_eq!((resolve_preset(&layers), policy(&layers)), (None, Policy::default()));
}

#[test]
fn what_offline_holds_nobody_opens() {
    let opened = |at: Origin| {
        let mut config = Config::default();
        config.set("network.mode", "open", at).unwrap();
        config
    };
    let error = |layers: Layers| resolve(&layers, &context()).unwrap_err().to_string();
    let held = "asks for an open network, but --preset chooses the preset `offline`, which holds that closed; drop one of the two";
    let offline = || choosing(Preset::Offline);

    let layers = Layers { user: user("[network]\nmode = \"open\"\n"), ..offline() };
    assert_eq!(error(layers), format!("hotcell.toml:2: `network.mode` {held}"));
    let layers = Layers { environment: opened(Origin::variable("HOTCELL_NETWORK")), ..offline() };
    assert_eq!(error(layers), format!("HOTCELL_NETWORK: `network.mode` {held}"));
    let layers = Layers { defaults: opened(Origin::layer(Layer::Default)), ..offline() };
    assert_eq!(error(layers), format!("default: `network.mode` {held}"));
    let mut layers = offline();
    layers.flags.set("network.mode", "open", Origin::flag("--net")).unwrap();
    assert_eq!(error(layers), format!("--net: `network.mode` {held}"));

    let layers = Layers {
        user: user("[sandbox]\npreset = \"offline\"\n"),
        flags: opened(Origin::flag("--net")),
        ..Layers::default()
    };
    assert!(error(layers.clone()).contains("but hotcell.toml:2 chooses the preset `offline`"));
    // Nor does another preset undo it.
    let mut other = layers;
    other.flags.set("sandbox.preset", "workspace-write", Origin::flag("--preset")).unwrap();
    assert!(
        error(other.clone()).starts_with("--net: `network.mode` asks for an open network, but hotcell.toml:2 chooses")
    );
    other.flags.network.mode = None;
    assert_eq!((workspace(&policy(&other)), policy(&other).network), (Access::Write, NetworkMode::Deny));
    other.flags.set("sandbox.preset", "package-install", Origin::flag("--preset")).unwrap();
    assert!(
        error(other).starts_with("--preset: `sandbox.preset` asks for an open network, but hotcell.toml:2 chooses")
    );
    let mut layers = choosing(Preset::PackageInstall);
    layers.environment.set("sandbox.preset", "offline", Origin::variable("HOTCELL_PRESET")).unwrap();
    assert!(error(layers).contains("but HOTCELL_PRESET chooses the preset `offline`"));
    // A default is what holds where nobody says anything.
    let mut layers = choosing(Preset::PackageInstall);
    layers.defaults.set("sandbox.preset", "offline", Origin::layer(Layer::Default)).unwrap();
    assert_eq!(policy(&layers).network, NetworkMode::Open);
    // What is denied twice is denied.
    let layers = Layers { user: user("[network]\nmode = \"deny\"\n"), ..offline() };
    assert_eq!(policy(&layers).network, NetworkMode::Deny);
}

#[test]
fn the_workspace_is_the_callers_to_name() {
    let at = |workspace| policy(&Layers { workspace, ..choosing(Preset::PackageInstall) });
    let named = at(Workspace::At("/w/sub".into()));
    assert_eq!((workspace(&named), named.filesystem.access("/w/sub/x".as_ref())), (Access::Deny, Access::Overlay));
    let hidden = at(Workspace::Hidden);
    assert!(hidden.filesystem.rules.is_empty() && hidden.network == NetworkMode::Open);

    let built = Policy::builder().root("/w").preset(Preset::WorkspaceOverlay).build().unwrap();
    assert_eq!(workspace(&built), Access::Overlay);
}

#[test]
fn languages_come_from_every_layer_but_the_projects() {
    let mut layers = Layers {
        user: user("languages.lua.command = [\"lua\"]\nlanguages.r.command = [\"Rscript\"]\n"),
        flags: user("languages.lua.command = [\"lua5.4\", \"-W\"]\n").unwrap(),
        ..Layers::default()
    };
    layers.project = user("languages.evil.command = [\"evil\"]\n");
    let languages = resolve_languages(&layers);
    assert_eq!(languages.keys().collect::<Vec<_>>(), ["lua", "r"]);
    assert_eq!(languages["lua"], ["lua5.4", "-W"]);
}
