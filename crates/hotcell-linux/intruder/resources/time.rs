//! Time: of the processors, and of the clock on the wall.

use alloc::vec::Vec;

use crate::arguments::Arguments;
use crate::sys::Ended;
use crate::{nr, report, sys};

const PR_SET_PDEATHSIG: usize = 1;
const MONOTONIC: usize = 1;
const PROCESS_CPU: usize = 2;
/// Longer than any timeout of a check; what nobody ended by then ends itself.
const LONG: usize = 3000;

/// What a clock shows, in milliseconds.
fn clock(clock: usize) -> usize {
    let mut time = [0usize; 2];
    let _ = sys::call(nr::CLOCK_GETTIME, &[clock, time.as_mut_ptr() as usize]);
    time[0] * 1000 + time[1] / 1_000_000
}

/// Starts children in sessions of their own that spin until a clock of theirs shows so much, and waits for them. Says
/// whether all came to that.
fn spin(count: usize, which: usize, until: usize) -> bool {
    let mut children = Vec::new();
    for _ in 0..count {
        match sys::fork() {
            Ok(0) => {
                let _ = sys::prctl(&[PR_SET_PDEATHSIG, sys::SIGKILL]);
                let _ = sys::call(nr::SETSID, &[]);
                while clock(which) < until {
                    core::hint::spin_loop();
                }
                sys::exit(0)
            }
            Ok(child) => children.push(child),
            Err(errno) => report::refused("fork", errno),
        }
    }
    let all = children.len() == count;
    children.into_iter().map(sys::wait).fold(all, |all, end| all && matches!(end, Ok(Ended::Exited(0))))
}

/// `burn COUNT MILLISECONDS`: uses so much time of the processors, in each of so many processes.
pub fn burn(arguments: Arguments) {
    let (count, each) = (arguments.number(0), arguments.number(1));
    if spin(count, PROCESS_CPU, each) {
        report::reached("CPU time", format_args!("{count} times {each} ms"));
    }
}

/// `share-of-cpu COUNT MILLISECONDS PERCENT`: spins in so many processes for so long, and says so if that used more than
/// this part of a processor.
pub fn share(arguments: Arguments) {
    const CHILDREN: usize = usize::MAX;
    let (started, wall) = (clock(MONOTONIC), arguments.number(1));
    spin(arguments.number(0), MONOTONIC, started + wall);
    // struct rusage: user and system time first, in seconds and microseconds.
    let mut usage = [0usize; 18];
    let _ = sys::call(nr::GETRUSAGE, &[CHILDREN, usage.as_mut_ptr() as usize]);
    let used = (usage[0] + usage[2]) * 1000 + (usage[1] + usage[3]) / 1000;
    let percent = used * 100 / (clock(MONOTONIC) - started).max(1);
    if percent > arguments.number(2) {
        report::reached("share of a CPU", format_args!("{percent} %"));
    } else {
        report::line(format_args!("used {percent} % of a CPU"));
    }
}

/// `outstay HOW MARKER`: stays for longer than it may. HOW is `daemon` (a process of another session that hears no
/// signals), `stopped` (one that does not run at all), or `relay` (one that is another process every moment).
pub fn outstay(arguments: Arguments) {
    const SIGSTOP: usize = 19;
    let until = clock(MONOTONIC) + LONG / 2;
    block_signals();
    if matches!(sys::fork(), Ok(0)) {
        let _ = sys::call(nr::SETSID, &[]);
        match arguments.text(0) {
            b"stopped" => {
                let process = sys::call(nr::GETPID, &[]).unwrap_or(0);
                let _ = sys::call(nr::KILL, &[process, SIGSTOP]);
            }
            b"relay" => run_relay(until),
            _ => sys::sleep_ms(LONG),
        }
        sys::exit(0)
    }
    sys::sleep_ms(LONG);
    report::reached("time", format_args!("{LONG} ms"));
}

fn block_signals() {
    const SIG_BLOCK: usize = 0;
    let all = u64::MAX;
    let _ = sys::call(nr::RT_SIGPROCMASK, &[SIG_BLOCK, &raw const all as usize, 0, size_of::<u64>()]);
}

/// Hands on to a child, again and again. Who hands on lingers, long enough to be found by who looks through all
/// processes; to end it does not end the others.
fn run_relay(until: usize) {
    while clock(MONOTONIC) < until {
        if sys::fork().is_ok_and(|child| child != 0) {
            return sys::sleep_ms(100);
        }
        sys::sleep_ms(5);
    }
}
