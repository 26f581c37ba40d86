//! The variables by which the servers' own clients are configured, for people who have them set already.

use std::ffi::OsString;

use super::environment::text_of;
use super::{Config, ConfigError, Origin, RemoteConfig, named};
use crate::runtime::RuntimeKind;

/// Whose variable it is, its name, and the key that it stands for.
const VARIABLES: &[(RuntimeKind, &str, &str)] = &[
    (RuntimeKind::Opensandbox, OPEN_SANDBOX_DOMAIN, "remote.url"),
    (RuntimeKind::Opensandbox, "OPEN_SANDBOX_API_KEY", "remote.api_key"),
    (RuntimeKind::E2b, "E2B_API_URL", "remote.url"),
    (RuntimeKind::E2b, "E2B_SANDBOX_URL", "remote.data_url"),
    (RuntimeKind::E2b, "E2B_DOMAIN", "remote.domain"),
    (RuntimeKind::E2b, "E2B_API_KEY", "remote.api_key"),
    (RuntimeKind::Cube, "CUBE_API_URL", "remote.url"),
    (RuntimeKind::Cube, "CUBE_API_KEY", "remote.api_key"),
    (RuntimeKind::Cube, "CUBE_TEMPLATE_ID", "remote.template"),
    (RuntimeKind::Cube, "CUBE_SANDBOX_DOMAIN", "remote.domain"),
];

/// May be written without a scheme, and then means http.
const OPEN_SANDBOX_DOMAIN: &str = "OPEN_SANDBOX_DOMAIN";

/// The variables that are read for this kind of server.
pub fn vendor_variables(kind: RuntimeKind) -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().filter(move |(whose, _, _)| *whose == kind).map(|(_, name, _)| *name)
}

/// Reads the variables that the clients of this kind of server have; those of others are not looked at. As with those
/// clients, an empty variable counts as none. Takes what `std::env::vars_os` returns.
///
/// ```
/// use hotcell_core::config::vendor_config;
/// use hotcell_core::runtime::RuntimeKind;
/// let variables = [("OPEN_SANDBOX_DOMAIN".into(), "localhost:9000".into()), ("E2B_API_KEY".into(), "x".into())];
/// let remote = vendor_config(RuntimeKind::Opensandbox, variables)?;
/// assert_eq!(remote.url.unwrap().value, "http://localhost:9000");
/// assert!(remote.api_key.is_none());
/// # Ok::<(), hotcell_core::config::ConfigError>(())
/// ```
pub fn vendor_config(
    kind: RuntimeKind,
    vars: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<RemoteConfig, ConfigError> {
    let mut config = Config::default();
    for (name, value) in vars.into_iter().filter(|(_, value)| !value.is_empty()) {
        let known = VARIABLES.iter().find(|(whose, known, _)| *whose == kind && name == **known);
        let Some((info, variable)) = known.and_then(|(_, variable, key)| Some((named(key)?, *variable))) else {
            continue;
        };
        let text = text_of(info, variable, &value)?;
        let without_scheme = variable == OPEN_SANDBOX_DOMAIN && !text.contains("://");
        let text = if without_scheme { format!("http://{text}") } else { text.to_owned() };
        config.set(info.name, &text, Origin::variable(variable))?;
    }
    Ok(config.remote)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(OsString, OsString)> {
        let value = |variable: &str, key: &str| match key {
            "remote.url" | "remote.data_url" => format!("https://{}.example.org", variable.to_lowercase()),
            _ => variable.to_lowercase(),
        };
        VARIABLES.iter().map(|(_, name, key)| (name.into(), value(name, key).into())).collect()
    }

    #[test]
    fn only_the_variables_of_the_kind_are_read() {
        let url = |kind| vendor_config(kind, all()).unwrap().url.map(|url| url.value);
        assert_eq!(url(RuntimeKind::Opensandbox).unwrap(), "https://open_sandbox_domain.example.org");
        assert_eq!(url(RuntimeKind::E2b).unwrap(), "https://e2b_api_url.example.org");
        assert_eq!(url(RuntimeKind::Cube).unwrap(), "https://cube_api_url.example.org");
        for kind in RuntimeKind::ALL.iter().filter(|kind| url(**kind).is_none()) {
            assert_eq!(vendor_config(*kind, all()), Ok(RemoteConfig::default()), "{kind}");
        }
        let cube = vendor_config(RuntimeKind::Cube, all()).unwrap();
        assert_eq!(cube.template.unwrap().value, "cube_template_id");
        assert_eq!(cube.domain.unwrap().value, "cube_sandbox_domain");
        assert_eq!(cube.api_key.unwrap().value.expose(), "cube_api_key");
        let e2b = vendor_config(RuntimeKind::E2b, all()).unwrap();
        assert_eq!(e2b.data_url.unwrap().value, "https://e2b_sandbox_url.example.org");
        assert_eq!(e2b.domain.unwrap().value, "e2b_domain");
        assert_eq!(e2b.api_key.unwrap().value.expose(), "e2b_api_key");
    }

    #[test]
    fn empty_is_none_and_a_mistake_names_its_variable() {
        let with = |name: &str, value: &str| vendor_config(RuntimeKind::E2b, [(name.into(), value.into())]);
        assert_eq!(with("E2B_API_URL", ""), Ok(RemoteConfig::default()));
        let error = with("E2B_API_URL", "localhost").unwrap_err().to_string();
        assert!(error.starts_with("E2B_API_URL: `remote.url` cannot be `localhost`: "), "{error}");
        let error = with("E2B_API_KEY", "hunter2\n").unwrap_err().to_string();
        assert!(error.starts_with("E2B_API_KEY: ") && !error.contains("hunter2"), "{error}");
    }
}
