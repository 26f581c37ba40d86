//! The environment of a command: an allow-list, never the host's.

use std::collections::BTreeMap;
use std::ffi::OsString;

use hotcell_core::backend::SpawnConfig;
use hotcell_core::policy::Policy;

use super::{HOME, user_name};

/// Where programs are looked up, unless the policy says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a command gets: what every box has, what its root file system brings along (`own`), what the policy passes and
/// sets, what the caller adds.
pub(crate) fn environment(
    policy: &Policy,
    own: &BTreeMap<String, String>,
    config: &SpawnConfig,
) -> BTreeMap<OsString, OsString> {
    let user = user_name(policy.process.user.unwrap_or_default().uid());
    let mut environment: BTreeMap<OsString, OsString> =
        [("PATH", PATH), ("HOME", HOME), ("USER", user), ("LOGNAME", user), ("SHELL", "/bin/sh"), ("TMPDIR", "/tmp")]
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
    environment.extend(own.iter().map(|(name, value)| (name.into(), value.into())));
    for name in &policy.env.pass {
        if let Some(value) = std::env::var_os(name) {
            environment.insert(name.into(), value);
        }
    }
    environment.extend(policy.env.set.iter().map(|(name, value)| (name.into(), value.into())));
    environment.extend(config.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    environment
}
