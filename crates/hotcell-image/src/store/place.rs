//! Where the store is.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::StoreError;

pub(super) fn default() -> Result<PathBuf, StoreError> {
    choose(|name| std::env::var_os(name), rustix::process::geteuid().is_root())
}

fn choose(variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Result<PathBuf, StoreError> {
    let path = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(place) = variable("HOTCELL_IMAGE_STORE").filter(|place| !place.is_empty()) {
        return Ok(PathBuf::from(place));
    }
    if root {
        return Ok(PathBuf::from("/var/cache/hotcell/images"));
    }
    let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("hotcell/images")).ok_or(StoreError::NoPlace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)], root: bool) -> Option<String> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        choose(find, root).ok().map(|path| path.display().to_string())
    }

    #[test]
    fn the_environment_comes_first_and_root_has_a_place_of_its_own() {
        let home = ("HOME", "/home/a");
        assert_eq!(chosen(&[home, ("HOTCELL_IMAGE_STORE", "/x")], true).unwrap(), "/x");
        assert_eq!(chosen(&[home], true).unwrap(), "/var/cache/hotcell/images");
        assert_eq!(chosen(&[home], false).unwrap(), "/home/a/.cache/hotcell/images");
        assert_eq!(chosen(&[home, ("XDG_CACHE_HOME", "/c")], false).unwrap(), "/c/hotcell/images");
        assert_eq!(chosen(&[home, ("XDG_CACHE_HOME", "relative")], false).unwrap(), "/home/a/.cache/hotcell/images");
        assert_eq!(chosen(&[("HOTCELL_IMAGE_STORE", "")], false), None);
    }
}
