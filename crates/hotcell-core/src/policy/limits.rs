//! How much of everything the code may use.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::config::{Layer, Origin};

/// One limit.
///
/// A default limit (`explicit` is false) may be approximated by a backend without the caller's word; the report
/// shows it. A limit that somebody asked for may not, unless its control is in the policy's `approximate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit<T> {
    /// The most that is allowed; none means unlimited.
    pub value: Option<T>,
    /// Whether somebody asked for it.
    pub explicit: bool,
    /// Where it was written.
    pub origin: Origin,
}

impl<T> Limit<T> {
    /// A limit nobody asked for.
    pub fn preset(value: Option<T>) -> Self {
        Self { value, explicit: false, origin: Origin::layer(Layer::Default) }
    }

    /// A limit that was asked for.
    pub fn asked(value: Option<T>, origin: Origin) -> Self {
        Self { value, explicit: true, origin }
    }
}

impl<T: Ord> Limit<T> {
    /// Whether this one allows no more than the other.
    pub fn is_at_most(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(mine), Some(theirs)) => mine <= theirs,
        }
    }
}

/// How much of everything; see [`Limits::default`] for what holds when nobody says anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of memory over all processes, memory-backed files included.
    pub memory: Limit<u64>,
    /// CPUs used at the same time.
    pub cpus: Limit<Cpus>,
    /// CPU time, total over all processes.
    #[serde(serialize_with = "duration_limit")]
    pub cpu_time: Limit<Duration>,
    /// Processes and threads at the same time.
    pub processes: Limit<u64>,
    /// Open files per process.
    pub open_files: Limit<u64>,
    /// Bytes on disk.
    pub disk: Limit<u64>,
    /// Bytes of stdout and stderr together.
    pub output: Limit<u64>,
    /// Wall-clock time of one command.
    #[serde(serialize_with = "duration_limit")]
    pub timeout: Limit<Duration>,
}

impl Default for Limits {
    /// 1 GiB of memory, any number of CPUs for 300 s of CPU time, 256 processes, 1024 open files, 512 MiB of disk,
    /// 256 MiB of output, 300 s of time.
    fn default() -> Self {
        Self {
            memory: Limit::preset(Some(1 << 30)),
            cpus: Limit::preset(None),
            cpu_time: Limit::preset(Some(Duration::from_secs(300))),
            processes: Limit::preset(Some(256)),
            open_files: Limit::preset(Some(1024)),
            disk: Limit::preset(Some(512 << 20)),
            output: Limit::preset(Some(256 << 20)),
            timeout: Limit::preset(Some(Duration::from_secs(300))),
        }
    }
}

/// A number of CPUs, in thousandths so that it can be compared exactly.
///
/// ```
/// use hotcell_core::policy::Cpus;
/// let half = Cpus::from_f64(0.5)?;
/// assert_eq!(half.milli(), 500);
/// assert_eq!(half.to_string(), "0.5");
/// # Ok::<(), hotcell_core::policy::BadCpus>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus(u32);

/// A number of CPUs that no kernel can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of CPUs is between 0.01 and 8192, for example 2 or 0.5")]
pub struct BadCpus;

impl Cpus {
    /// The smallest share that kernels schedule sensibly.
    const MIN_MILLI: f64 = 10.0;
    /// As many CPUs as Linux can be built for.
    const MAX_MILLI: f64 = 8_192_000.0;

    /// From a number such as 1.5, rounded to thousandths.
    pub fn from_f64(cpus: f64) -> Result<Self, BadCpus> {
        let milli = (cpus * 1000.0).round();
        // NaN is in no range.
        if (Self::MIN_MILLI..=Self::MAX_MILLI).contains(&milli) { Ok(Self(milli as u32)) } else { Err(BadCpus) }
    }

    /// Thousandths of a CPU.
    pub fn milli(self) -> u32 {
        self.0
    }

    /// The number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

/// Durations in milliseconds, like everywhere in reports.
fn duration_limit<S: Serializer>(limit: &Limit<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let value = limit.value.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    Limit { value, explicit: limit.explicit, origin: limit.origin.clone() }.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_out_of_range_are_refused() {
        for bad in [0.0, -1.0, 0.001, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Cpus::from_f64(bad), Err(BadCpus), "{bad}");
        }
        assert_eq!(Cpus::from_f64(2.0).unwrap().to_string(), "2");
    }

    #[test]
    fn unlimited_is_more_than_anything() {
        let some = Limit::preset(Some(5));
        let none = Limit::preset(None::<i32>);
        assert!(some.is_at_most(&none) && none.is_at_most(&none) && some.is_at_most(&some));
        assert!(!none.is_at_most(&some));
    }
}
