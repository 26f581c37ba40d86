//! `HOTCELL_*` variables to [`Config`].

use std::ffi::{OsStr, OsString};

use super::{Config, ConfigError, KEYS, KeyInfo, Origin};
use crate::suggest::nearest;

/// What every variable of Hotcell's begins with.
const PREFIX: &str = "HOTCELL_";
/// Variables that are not configuration: the log filter, the policy file's path, where images are, and the token that clients of
/// `hotcell mcp --http` take from their environment.
const OTHER_VARIABLES: &[&str] = &["HOTCELL_LOG", "HOTCELL_POLICY", "HOTCELL_IMAGE_STORE", "HOTCELL_MCP_TOKEN"];
/// Variables that tests use for themselves.
const TEST_PREFIX: &str = "HOTCELL_TEST_";

/// Reads the variables that begin with `HOTCELL_`; the others are not looked at. Takes what `std::env::vars_os`
/// returns.
///
/// ```
/// use hotcell_core::config::environment_config;
/// let config = environment_config([("HOTCELL_MEMORY".into(), "64m".into())])?;
/// assert!(config.limits.memory.is_some());
/// let error = environment_config([("HOTCELL_MEMROY".into(), "64m".into())]).unwrap_err();
/// assert_eq!(error.to_string(), "HOTCELL_MEMROY: unknown variable; did you mean `HOTCELL_MEMORY`?");
/// # Ok::<(), hotcell_core::config::ConfigError>(())
/// ```
pub fn environment_config(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    for (name, value) in vars {
        if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let name = name.to_string_lossy();
        if OTHER_VARIABLES.contains(&&*name) || name.starts_with(TEST_PREFIX) {
            continue;
        }
        let at = Origin::variable(name.clone());
        let Some(info) = KEYS.iter().find(|info| info.variable == Some(&*name)) else {
            let known = KEYS.iter().filter_map(|info| info.variable).chain(OTHER_VARIABLES.iter().copied());
            return Err(ConfigError::UnknownVariable {
                at: at.into(),
                suggestion: nearest(&name, known).map(str::to_owned),
            });
        };
        config.set(info.name, text_of(info, &name, &value)?, at)?;
    }
    Ok(config)
}

/// The text of a variable that sets this key.
pub(super) fn text_of<'a>(info: &KeyInfo, variable: &str, value: &'a OsStr) -> Result<&'a str, ConfigError> {
    value.to_str().ok_or_else(|| ConfigError::BadValue {
        at: Origin::variable(variable).into(),
        key: info.name.to_owned(),
        value: if info.is_secret() { "[secret]".to_owned() } else { value.to_string_lossy().into_owned() },
        reason: "it is not UTF-8".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_read() {
        let variables: Vec<&str> = KEYS.iter().filter_map(|info| info.variable).collect();
        assert_eq!(variables.len(), 23);
        for variable in variables {
            let value = match variable {
                "HOTCELL_PRESET" => "offline",
                "HOTCELL_RUNTIME" => "native",
                "HOTCELL_ISOLATION" => "microvm",
                "HOTCELL_NETWORK" => "open",
                "HOTCELL_SANDBOX_URL" | "HOTCELL_SANDBOX_DATA_URL" => "https://sandbox.example.org",
                "HOTCELL_SANDBOX_ENDPOINTS" => "proxy",
                "HOTCELL_PLAIN_HTTP" => "true",
                _ => "unlimited",
            };
            let config = environment_config([(variable.into(), value.into())]).unwrap();
            assert_ne!(config, Config::default(), "{variable}");
        }
    }

    #[test]
    fn foreign_and_reserved_variables_are_left_alone() {
        let vars = ["PATH", "HOTCELL_LOG", "HOTCELL_POLICY", "HOTCELL_MCP_TOKEN", "HOTCELL_TEST_X", "XHOTCELL_MEMORY"];
        let config = environment_config(vars.map(|name| (name.into(), "?".into()))).unwrap();
        assert_eq!(config, Config::default());
    }

    #[test]
    #[cfg(unix)]
    fn a_key_that_is_not_text_is_not_shown() {
        use std::os::unix::ffi::OsStringExt;
        let value = OsString::from_vec(b"hunter2\xff".to_vec());
        let error = environment_config([("HOTCELL_SANDBOX_API_KEY".into(), value.clone())]).unwrap_err().to_string();
        assert_eq!(error, "HOTCELL_SANDBOX_API_KEY: `remote.api_key` cannot be `[secret]`: it is not UTF-8");
        let error = environment_config([("HOTCELL_SANDBOX_URL".into(), value)]).unwrap_err().to_string();
        assert!(error.contains("it is not UTF-8"), "{error}");
    }

    #[test]
    fn an_empty_value_is_an_error() {
        let error = environment_config([("HOTCELL_MEMORY".into(), "".into())]).unwrap_err().to_string();
        assert!(error.starts_with("HOTCELL_MEMORY: `limits.memory` cannot be ``: it is empty"), "{error}");
    }
}
