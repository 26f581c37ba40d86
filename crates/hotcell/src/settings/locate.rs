//! Where the files are.

use std::path::{Path, PathBuf};

use super::file::is_absent;
use super::view::is_home_or_above;
use super::{Request, SettingsError};

const FILE_NAME: &str = "hotcell.toml";

/// Where the user's own file would be.
pub(super) fn user_file(request: &Request, home: Option<&Path>) -> Option<PathBuf> {
    // The XDG specification says to ignore a relative path.
    let configured = request.variable("XDG_CONFIG_HOME").map(Path::new).filter(|path| path.is_absolute());
    let directory = configured.map(Path::to_owned).or_else(|| home.map(|home| home.join(".config")))?;
    Some(directory.join("hotcell").join(FILE_NAME))
}

/// The nearest project file; see the module's documentation for where the search ends.
pub(super) fn project_file(cwd: &Path, home: Option<&Path>) -> Result<Option<PathBuf>, SettingsError> {
    for directory in cwd.ancestors().take_while(|directory| !is_home_or_above(directory, home)) {
        let file = directory.join(FILE_NAME);
        if exists(&file)? {
            return Ok(Some(file));
        }
        if exists(&directory.join(".git"))? {
            break;
        }
    }
    Ok(None)
}

/// What cannot be looked at may be a project file that tightens, so that is an error and not an absence.
fn exists(path: &Path) -> Result<bool, SettingsError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(source) => Err(SettingsError::Unreadable { file: path.to_owned(), source }),
    }
}
