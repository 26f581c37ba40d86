//! Processes that try to outlive their command, and with it their box.

use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[("daemon", daemon)];

/// How long a daemon lives where nothing ends it.
const LIFETIME_SECONDS: usize = 30;

/// `daemon MARKER [stays] [noisy] [deaf] [stopped]`: leaves a process behind that has a session of its own.
///
/// The marker is there to be found in the list of processes. `stays`: the command itself does not end either, and runs
/// into its timeout. `noisy`: the daemon keeps the standard output open. `deaf`: it blocks every signal. `stopped`: it
/// stops itself.
fn daemon(arguments: Arguments) {
    let wants = |word: &[u8]| (1..arguments.len()).any(|index| arguments.text(index) == word);
    let mut ready = [0i32; 2];
    if sys::call(nr::PIPE2, &[ready.as_mut_ptr() as usize, 0]).is_err() {
        sys::exit(1)
    }
    match sys::fork() {
        Ok(0) => {
            let _ = sys::call(nr::SETSID, &[]);
            if sys::fork() == Ok(0) {
                end_after(LIFETIME_SECONDS);
                if !wants(b"noisy") {
                    (0..3).for_each(sys::close);
                }
                if wants(b"deaf") {
                    block_all_signals();
                }
                sys::write_all(ready[1], b"!");
                if wants(b"stopped") {
                    const SIGSTOP: usize = 19;
                    let _ = sys::call(nr::KILL, &[sys::call(nr::GETPID, &[]).unwrap_or(0), SIGSTOP]);
                }
                sys::sleep_ms(LIFETIME_SECONDS * 1000);
            }
            sys::exit(0)
        }
        Ok(child) => {
            let _ = sys::wait(child);
        }
        Err(errno) => return report::refused("fork", errno),
    }
    sys::close(ready[1]);
    let _ = sys::read(ready[0], &mut [0]);
    if wants(b"stays") {
        sys::sleep_ms(LIFETIME_SECONDS * 1000);
    }
}

fn block_all_signals() {
    const SIG_BLOCK: usize = 0;
    let all = [u64::MAX];
    let _ = sys::call(nr::RT_SIGPROCMASK, &[SIG_BLOCK, all.as_ptr() as usize, 0, 8]);
}

/// Has the kernel kill this process after a while, even if it is stopped by then.
fn end_after(seconds: usize) {
    const CLOCK_MONOTONIC: usize = 1;
    const SIGEV_SIGNAL: i32 = 0;
    // A value (8 bytes), the signal, how to notify, and room that is not used.
    let mut event = [0i32; 16];
    (event[2], event[3]) = (sys::SIGKILL as i32, SIGEV_SIGNAL);
    let mut timer = 0i32;
    let made = sys::call(nr::TIMER_CREATE, &[CLOCK_MONOTONIC, event.as_ptr() as usize, &raw mut timer as usize]);
    // No interval; then the time.
    let time = [0usize, 0, seconds, 0];
    if made.is_ok() {
        let _ = sys::call(nr::TIMER_SETTIME, &[timer as usize, 0, time.as_ptr() as usize, 0]);
    }
}
