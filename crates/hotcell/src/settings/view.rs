//! What the box sees of the host when nobody names anything.

use std::path::Path;

use hotcell_core::config::{Config, Layer, Origin, Sourced};

/// The directory that usually holds homes, and the home that usually is elsewhere.
const HOMES: &str = "/home";
const HOME_OF_ROOT: &str = "/root";
/// Places of the system's own, with secrets, devices and sockets in them. The box has what programs need of them anyway.
const SYSTEM: [&str; 6] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys"];
/// Has such places beneath it, and projects too.
const MIXED: &str = "/var";

/// The current directory, readable; none if it is a home directory or above one, or one of the system's own: nobody
/// means to show all of that to a stranger's code.
///
/// ```
/// use hotcell::settings::default_view;
/// let home = Some("/home/ada".as_ref());
/// assert!(default_view("/home/ada/project".as_ref(), home).is_some());
/// for not_shown in ["/home/ada", "/home/bob", "/home", "/root", "/", "/etc", "/proc/1"] {
///     assert!(default_view(not_shown.as_ref(), home).is_none());
/// }
/// ```
pub fn default_view(cwd: &Path, home: Option<&Path>) -> Option<Config> {
    if why_not_shown(cwd, home).is_some() {
        return None;
    }
    let mut view = Config::default();
    view.filesystem.read.push(Sourced::new(cwd.to_owned(), Origin::layer(Layer::Default)));
    Some(view)
}

/// What a directory is that is not shown by default; none if it is shown.
pub(super) fn why_not_shown(cwd: &Path, home: Option<&Path>) -> Option<&'static str> {
    if is_home_or_above(cwd, home) {
        Some("a home directory or above one")
    } else if SYSTEM.iter().any(|place| cwd.starts_with(place)) || cwd == Path::new(MIXED) {
        Some("a directory of the system")
    } else {
        None
    }
}

/// Whether a directory is somebody's home or has one beneath it, as far as names tell.
pub(super) fn is_home_or_above(directory: &Path, home: Option<&Path>) -> bool {
    let above = |place: &Path| place.starts_with(directory);
    home.is_some_and(above)
        || above(Path::new(HOMES))
        || above(Path::new(HOME_OF_ROOT))
        || directory.parent() == Some(Path::new(HOMES))
}
