//! What the real servers look like because they are written in Go: how it writes JSON, errors and exit statuses.

mod json;
mod status;

pub(crate) use json::{json, or_default, text};
pub(crate) use status::{Ended, of_error, with_path};
