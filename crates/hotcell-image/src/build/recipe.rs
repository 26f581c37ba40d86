//! What the reference image is made of: the recipe, `images/code/recipe.toml`, which is part of the library.

use serde::Deserialize;

use super::error::BuildError;

/// The recipe's text.
pub(super) const TEXT: &str = include_str!("../../../../images/code/recipe.toml");

/// What is asked for. What exactly follows from it is in the lock file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    /// The release of Debian.
    pub(super) suite: String,
    /// The packages that are wanted for themselves.
    pub(super) packages: Vec<String>,
    /// Which npm.
    pub(super) npm: Npm,
}

/// The one part that is no Debian package.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Npm {
    /// Its version.
    pub(super) version: String,
    /// The SHA-512 of its archive, in hexadecimal.
    pub(super) sha512: String,
}

impl Recipe {
    /// The recipe of the reference image.
    pub(super) fn of_code() -> Result<Self, BuildError> {
        toml::from_str(TEXT).map_err(|error| BuildError::Text { what: "the recipe".into(), why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_has_the_same_contents() {
        let recipe = Recipe::of_code().unwrap();
        let dockerfile = include_str!("../../../../images/code/Dockerfile");
        let words: Vec<&str> = dockerfile.split_whitespace().collect();
        for package in &recipe.packages {
            assert!(words.contains(&package.as_str()), "the Dockerfile does not install {package}");
        }
        for text in [&recipe.suite, &recipe.npm.version, &recipe.npm.sha512] {
            assert!(dockerfile.contains(text.as_str()), "the Dockerfile does not say {text}");
        }
    }
}
