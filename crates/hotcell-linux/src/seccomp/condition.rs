//! Tests on the arguments of a system call.
//!
//! The registers of a call are 64 bits wide, but most parameters are not: where the kernel declares
//! an `int`, it ignores the upper half of the register. A filter that compares all 64 bits there can
//! be stepped around by setting an upper bit, and one that compares only the lower half of a `long`
//! mistakes one value for another. So every test says which of the two it means:
//! [`Condition::Int`] or [`Condition::Long`].

use super::Network;

/// Which argument of the call, counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say everything")]
pub enum Argument {
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Sixth,
}

impl Argument {
    /// Its place in `seccomp_data.args`.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A test on the arguments of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The parameter is a C `int`, `unsigned int` or narrower: the lower half of the register, with
    /// `mask` applied, is one of `values`.
    Int {
        /// The argument to look at.
        argument: Argument,
        /// The bits to compare.
        mask: u32,
        /// What they may be.
        values: &'static [u32],
    },
    /// The parameter is a C `long` or a pointer: the whole register, with `mask` applied, is one of
    /// `values`.
    Long {
        /// The argument to look at.
        argument: Argument,
        /// The bits to compare.
        mask: u64,
        /// What they may be.
        values: &'static [u64],
    },
    /// The box uses this network; settled when the filter is compiled.
    On(Network),
    /// Every one of these holds.
    All(&'static [Condition]),
    /// At least one of these holds.
    Any(&'static [Condition]),
    /// This does not hold.
    Not(&'static Condition),
}

/// An `int` argument is one of `values`.
pub(super) const fn int(argument: Argument, values: &'static [u32]) -> Condition {
    int_bits(argument, u32::MAX, values)
}

/// The bits `mask` of an `int` argument are one of `values`.
pub(super) const fn int_bits(argument: Argument, mask: u32, values: &'static [u32]) -> Condition {
    Condition::Int { argument, mask, values }
}

/// A `long` argument is one of `values`.
pub(super) const fn long(argument: Argument, values: &'static [u64]) -> Condition {
    Condition::Long { argument, mask: u64::MAX, values }
}
