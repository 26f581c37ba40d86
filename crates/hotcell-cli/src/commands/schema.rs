//! `hotcell schema`: the JSON Schema of `hotcell.toml`.

use crate::failure::Failure;
use crate::output;

/// Prints the schema.
pub(crate) fn execute() -> Result<u8, Failure> {
    output::to_stdout(&hotcell::schema::json())
}
