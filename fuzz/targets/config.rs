//! Configuration text, as a stranger's project file may have it.
//!
//! Holds: nothing panics; every message can be shown on a terminal, is not endless and says where; what a project file
//! may say, the user's own file may say too.
#![no_main]

use hotcell_core::config::{Config, KEYS, Layer, Origin, environment_config};
use hotcell_core::layers::{Context, Layers, resolve};
use hotcell_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;

/// A message repeats at most a few pieces of what was written, each of them cut.
const LONGEST_MESSAGE: usize = 8 * 1024;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let user = read(text, Layer::User);
    let project = read(text, Layer::Project);
    if project.is_some() {
        assert!(user.is_some(), "a project file may say more than the user's own");
    }
    // The same text as the value of a flag and of a variable.
    for info in KEYS {
        let mut config = Config::default();
        if let Err(error) = config.set(info.name, text, Origin::flag(info.flag.unwrap_or("--set"))) {
            check(&error.to_string());
        }
        if let Some(variable) = info.variable
            && let Err(error) = environment_config([(variable.into(), text.into())])
        {
            check(&error.to_string());
        }
    }
    if let Err(error) = environment_config([(format!("HOTCELL_{text}").into(), "1".into())]) {
        check(&error.to_string());
    }
});

fn read(text: &str, layer: Layer) -> Option<Config> {
    let config = match Config::parse(text, "hotcell.toml", layer) {
        Ok(config) => config,
        Err(error) => {
            let message = error.to_string();
            check(&message);
            assert!(message.starts_with("hotcell.toml:"), "{message:?} does not say where");
            return None;
        }
    };
    let mut layers = Layers::default();
    match layer {
        Layer::Project => layers.project = Some(config.clone()),
        _ => layers.user = Some(config.clone()),
    }
    let context = Context { root: "/w".into(), home: Some("/home/ada".into()) };
    if let Err(error) = resolve(&layers, &context) {
        check(&error.to_string());
    }
    Some(config)
}

fn check(message: &str) {
    assert_printable(message);
    assert!(message.len() <= LONGEST_MESSAGE, "a message of {} bytes", message.len());
}
