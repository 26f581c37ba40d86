//! The exit codes of `hotcell`, all of them.

use hotcell::outcome::Status;

/// Everything went well.
pub(crate) const SUCCESS: u8 = 0;
/// What was asked for happened, but its result could not be written; or `doctor` found that no box can be made; or
/// `verify` found a way out of one; or `prune` left something behind.
pub(crate) const INCOMPLETE: u8 = 1;
/// Hotcell refused or failed; nothing ran.
pub(crate) const REFUSED: u8 = 125;
/// Whoever read the output is gone: 128 + SIGPIPE.
pub(crate) const READER_GONE: u8 = 141;

/// The code for a command that ran.
pub(crate) fn of(status: Status) -> u8 {
    from_number(status.exit_code())
}

/// A code as the kernel would report it: the lowest eight bits.
pub(crate) fn from_number(code: i32) -> u8 {
    code.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_cut_as_the_kernel_cuts_them() {
        assert_eq!(of(Status::Exited(7)), 7);
        assert_eq!(of(Status::Exited(256)), 0);
        assert_eq!(of(Status::Exited(-1)), 255);
        assert_eq!(of(Status::TimedOut), 124);
    }
}
