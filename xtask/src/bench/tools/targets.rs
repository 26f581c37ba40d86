//! What the numbers should be.

use super::candidates as name;
use super::memory::Memory;
use crate::bench::Measured;
use crate::bench::latency::Row;
use crate::bench::targets::{Better, Target, median, over};

/// Every target, with what was measured.
pub(super) fn targets(rows: &[Row], memory: Measured<Memory>) -> Vec<Target> {
    let lower = |what, unit, value, bar| Target { what, unit, value, bar, aim: bar, better: Better::Lower };
    let milliseconds = |name| median(rows, name).map(|seconds| seconds * 1e3);
    vec![
        lower("exec_shell through MCP, over the library call", "ms", over(rows, name::SHELL_MCP, name::SHELL), 3.0),
        lower("a warm print by run_code, library call", "ms", milliseconds(name::CODE), 5.0),
        lower("a warm print by run_code, through MCP", "ms", milliseconds(name::CODE_MCP), 5.0),
        lower("memory after 1,000 calls against after 100", "×", memory.map(Memory::ratio), 1.1),
    ]
}
