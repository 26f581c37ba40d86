//! What the code sees where there is no layer that it could write to.

use hotcell::config::Layer;
use hotcell::policy::Access;
use hotcell::settings::Settings;
use hotcell::{Capabilities, Capability, Control};

/// What to tell whoever did not ask for it.
pub(super) const READ_ONLY: &str = "this directory is read-only: boxes have no overlays here (native ones need Linux 6.6); --write . lets code change its files";

/// Lets the current directory be read in place of the default overlay, where the boxes have none. Whether it did: what somebody asked
/// for is left to be refused.
pub(super) fn narrow(settings: &mut Settings, backends: &[Capabilities]) -> bool {
    let policy = &mut settings.policy;
    let is_meant = |backend: &&Capabilities| policy.isolation.is_none_or(|asked| backend.isolation.satisfies(asked));
    let mut meant = backends.iter().filter(is_meant).peekable();
    let has_none = |backend: &Capabilities| matches!(backend.of(Control::Overlay), Capability::Unsupported { .. });
    let have_none = meant.peek().is_some() && meant.all(has_none);
    let is_asked = settings.preset.as_ref().is_some_and(|preset| preset.origin.layer != Layer::Default);
    let mut overlays: Vec<_> =
        policy.filesystem.rules.iter_mut().filter(|rule| rule.access == Access::Overlay).collect();
    let is_default = !overlays.is_empty() && overlays.iter().all(|rule| rule.origin.layer == Layer::Default);
    if !have_none || is_asked || !is_default {
        return false;
    }
    overlays.iter_mut().for_each(|rule| rule.access = Access::Read);
    settings.preset = None;
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hotcell::config::{Config, Origin};
    use hotcell::layers::{Context, Layers, Workspace, resolve, resolve_preset};
    use hotcell::runtime::{Isolation, RuntimeKind};

    use super::*;
    use crate::commands::over_the_workspace;

    fn settings(flags: &[(&str, &str)]) -> Settings {
        let workspace = Workspace::At("/w".into());
        let mut layers = Layers { defaults: over_the_workspace(Config::default()), workspace, ..Layers::default() };
        for (key, value) in flags {
            layers.flags.set(key, value, Origin::flag("--flag")).unwrap();
        }
        let policy = resolve(&layers, &Context { root: "/w".into(), home: None }).unwrap();
        let preset = resolve_preset(&layers).cloned();
        Settings { policy, sources: Vec::new(), preset, languages: BTreeMap::new() }
    }

    fn native(overlay: Capability) -> Capabilities {
        Capabilities::new(RuntimeKind::Native, Isolation::Process).with(Control::Overlay, overlay)
    }

    #[test]
    fn without_overlays_the_directory_can_be_read_unless_somebody_asked_for_more() {
        let check = |flags: &[(&str, &str)], backends: &[Capabilities], expected: Access| {
            let mut settings = settings(flags);
            let narrowed = narrow(&mut settings, backends);
            let access = settings.policy.filesystem.access("/w".as_ref());
            assert_eq!((access, narrowed), (expected, expected == Access::Read), "{flags:?}");
        };
        let none = [native(Capability::unsupported("an old kernel", "a new one"))];
        check(&[], &none, Access::Read);
        check(&[("filesystem.deny", "secret")], &none, Access::Read);
        check(&[], &[native(Capability::enforced("overlayfs"))], Access::Overlay);
        check(&[], &[], Access::Overlay);
        check(&[("sandbox.preset", "workspace-overlay")], &none, Access::Overlay);
        check(&[("filesystem.overlay", ".")], &none, Access::Overlay);
        check(&[("filesystem.overlay", "part")], &none, Access::Overlay);
        check(&[("filesystem.write", ".")], &none, Access::Write);
        // Another kind of box is started for this, and may have them.
        check(&[("sandbox.isolation", "container")], &none, Access::Overlay);
    }
}
