//! The preset that the layers choose, and what it holds.

use std::path::Path;

use super::resolve::{Said, own_layers};
use super::{Layers, PolicyError, Workspace};
use crate::config::Sourced;
use crate::policy::NetworkMode;
use crate::presets::Preset;

/// The preset that the layers choose, and where. A project's word does not count, however it came to be there.
pub fn resolve_preset(layers: &Layers) -> Option<&Sourced<Preset>> {
    let said = Said::by(layers, |config| &config.sandbox.preset);
    said.last.or(said.base)
}

/// The layers with the chosen preset among the defaults; none if there is none.
pub(super) fn with_preset(layers: &Layers) -> Option<Layers> {
    let chosen = resolve_preset(layers)?.value;
    let mut layers = layers.clone();
    let workspace = match &layers.workspace {
        Workspace::Root => Some(Path::new(".")),
        Workspace::At(path) => Some(path.as_path()),
        Workspace::Hidden => None,
    };
    chosen.add_to(&mut layers.defaults, workspace);
    Some(layers)
}

/// Nobody opens what the preset holds, as long as it is chosen.
pub(super) fn check_held(layers: &Layers) -> Result<(), PolicyError> {
    let Some(preset) = resolve_preset(layers).filter(|preset| preset.value.holds_network()) else { return Ok(()) };
    let said = own_layers(layers).filter_map(|config| config.network.mode.as_ref());
    match said.filter(|mode| mode.value != NetworkMode::Deny).last() {
        Some(opened) => Err(PolicyError::HeldByPreset {
            at: opened.origin.clone().into(),
            key: "network.mode",
            asked: "an open network",
            preset: preset.value,
            chosen: preset.origin.clone().into(),
        }),
        None => Ok(()),
    }
}
