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

/// Nobody opens what a preset holds, as long as somebody names it: neither a setting nor another preset in its place.
pub(super) fn check_held(layers: &Layers) -> Result<(), PolicyError> {
    let Some(holder) = holder(layers) else { return Ok(()) };
    let by_preset = resolve_preset(layers).filter(|chosen| chosen.value.network() != NetworkMode::Deny);
    let by_preset = by_preset.map(|chosen| ("sandbox.preset", &chosen.origin));
    let said = own_layers(layers).filter_map(|config| config.network.mode.as_ref());
    let by_mode = said.filter(|mode| mode.value != NetworkMode::Deny).last();
    match by_mode.map(|mode| ("network.mode", &mode.origin)).or(by_preset) {
        Some((key, at)) => Err(PolicyError::HeldByPreset {
            at: at.clone().into(),
            key,
            asked: "an open network",
            preset: holder.value,
            chosen: holder.origin.clone().into(),
        }),
        None => Ok(()),
    }
}

/// The strongest preset that holds the network closed. A caller's default counts only where nobody names another.
fn holder(layers: &Layers) -> Option<&Sourced<Preset>> {
    let named = [Some(&layers.flags), Some(&layers.environment), layers.user.as_ref()];
    let named = named.into_iter().flatten().filter_map(|config| config.sandbox.preset.as_ref());
    resolve_preset(layers).into_iter().chain(named).find(|preset| preset.value.holds_network())
}
