//! What the box sees of the host when nobody names anything.

use std::path::Path;

use hotcell_core::config::{Config, Layer, Origin, Sourced};

/// The directory that usually holds homes, and the home that usually is elsewhere.
const HOMES: &str = "/home";
const HOME_OF_ROOT: &str = "/root";

/// The current directory, readable; none if it is a home directory or above one, because nobody means to show all
/// of that to a stranger's code.
///
/// ```
/// use hotcell::settings::default_view;
/// let home = Some("/home/ada".as_ref());
/// assert!(default_view("/home/ada/project".as_ref(), home).is_some());
/// for not_shown in ["/home/ada", "/home/bob", "/home", "/root", "/"] {
///     assert!(default_view(not_shown.as_ref(), home).is_none());
/// }
/// ```
pub fn default_view(cwd: &Path, home: Option<&Path>) -> Option<Config> {
    if is_home_or_above(cwd, home) {
        return None;
    }
    let mut view = Config::default();
    view.filesystem.read.push(Sourced::new(cwd.to_owned(), Origin::layer(Layer::Default)));
    Some(view)
}

/// Whether a directory is somebody's home or has one beneath it, as far as names tell.
pub(super) fn is_home_or_above(directory: &Path, home: Option<&Path>) -> bool {
    let above = |place: &Path| place.starts_with(directory);
    home.is_some_and(above)
        || above(Path::new(HOMES))
        || above(Path::new(HOME_OF_ROOT))
        || directory.parent() == Some(Path::new(HOMES))
}
