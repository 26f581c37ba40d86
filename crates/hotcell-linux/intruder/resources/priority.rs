//! Going before everybody else.

use crate::arguments::Arguments;
use crate::{nr, report, sys};

/// `priority`: a child asks to be scheduled, served and spared before all others.
pub fn priority(_: Arguments) {
    let _ = sys::in_child(|| {
        const PROCESS: usize = 0;
        const FIFO: usize = 1;
        const IO_PROCESS: usize = 1;
        const IO_REALTIME: usize = 1 << 13 | 4;
        let lowest = 1i32;
        report::success("nice below zero", sys::call(nr::SETPRIORITY, &[PROCESS, 0, -5isize as usize]));
        report::success("realtime disk class", sys::call(nr::IOPRIO_SET, &[IO_PROCESS, 0, IO_REALTIME]));
        let spared =
            sys::open(c"/proc/self/oom_score_adj", sys::O_WRONLY, 0).and_then(|file| sys::write(file, b"-100"));
        report::success("spared when memory is short", spared);
        let class = sys::call(nr::SCHED_SETSCHEDULER, &[0, FIFO, &raw const lowest as usize]);
        report::success("realtime class", class);
    });
}
