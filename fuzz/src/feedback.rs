//! Telling libFuzzer what it cannot see: what another process answered.
//!
//! The helper is a program of its own without instrumentation. Each new kind of answer counts as coverage, so inputs that
//! get a new answer out of it are kept.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU8, Ordering};

const COUNTERS: usize = 4096;

/// libFuzzer looks at this section after every run, and clears it before the next.
#[used]
#[allow(unsafe_code, reason = "naming a section is all that is unsafe here; the counters are ordinary atomics")]
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static SEEN: [AtomicU8; COUNTERS] = [const { AtomicU8::new(0) }; COUNTERS];

/// Counts something that happened in this run.
pub fn saw(what: impl Hash) {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    SEEN[hasher.finish() as usize % COUNTERS].fetch_add(1, Ordering::Relaxed);
}
