//! Who to be at a registry.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Where user names and passwords come from.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Credentials {
    /// Nobody.
    Anonymous,
    /// The user of Docker's `config.json` (in `DOCKER_CONFIG` or `~/.docker`), if the password is in that file. Programs that it
    /// names for keeping passwords are not run.
    #[default]
    OfDocker,
    /// This one.
    Basic {
        /// The name.
        user: String,
        /// The password or token.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::OfDocker => f.write_str("OfDocker"),
            Self::Basic { user, .. } => write!(f, "Basic {{ user: {user:?}, password: … }}"),
        }
    }
}

impl Credentials {
    pub(super) fn of(&self, registry: &str) -> Option<(String, String)> {
        match self {
            Self::Anonymous => None,
            Self::OfDocker => find(&fs::read(config_file()?).ok()?, registry),
            Self::Basic { user, password } => Some((user.clone(), password.clone())),
        }
    }
}

fn config_file() -> Option<PathBuf> {
    let directory = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
    Some(directory.or_else(home)?.join("config.json"))
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: HashMap<String, Login>,
}

#[derive(Deserialize)]
struct Login {
    #[serde(default)]
    auth: String,
}

/// A file that cannot be understood is as good as none: most images need no login, and the registry says if this one does.
fn find(config: &[u8], registry: &str) -> Option<(String, String)> {
    let config: Config = serde_json::from_slice(config).ok()?;
    let usual = ["https://index.docker.io/v1/", "index.docker.io", "docker.io"];
    let keys: Vec<String> = match registry {
        "docker.io" => usual.map(str::to_owned).to_vec(),
        registry => vec![registry.to_owned(), format!("https://{registry}")],
    };
    let login = keys.iter().find_map(|key| config.auths.get(key))?;
    let text = String::from_utf8(STANDARD.decode(&login.auth).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    (!user.is_empty()).then(|| (user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_for_its_own_registry() {
        let config =
            br#"{"credsStore":"x","auths":{"ghcr.io":{"auth":"YTpiOmM="},"https://index.docker.io/v1/":{"auth":"dTpw"},
            "empty":{},"bad":{"auth":"%%"}}}"#;
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(find(config, "ghcr.io"), pair("a", "b:c"));
        assert_eq!(find(config, "docker.io"), pair("u", "p"));
        for registry in ["example.org", "empty", "bad", "ghcr.io.example.org"] {
            assert_eq!(find(config, registry), None, "{registry}");
        }
        assert_eq!(find(b"not json", "ghcr.io"), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials::Basic { user: "me".to_owned(), password: "secret".to_owned() };
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
