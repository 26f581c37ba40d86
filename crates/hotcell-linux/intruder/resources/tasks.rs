//! Processes and threads.

use alloc::vec::Vec;

use super::memory::pipe;
use crate::arguments::Arguments;
use crate::{nr, report, sys};

const PR_SET_PDEATHSIG: usize = 1;

/// `processes HOW COUNT MOST`: so many at once, and says so if there were more than MOST. HOW is `children`,
/// `sessions` (each its own) or `zombies` (ended and never waited for).
pub fn processes(arguments: Arguments) {
    let Ok(hold) = pipe() else { return };
    let mut children = Vec::new();
    for _ in 0..arguments.number(1) {
        match sys::fork() {
            Ok(0) => {
                let _ = sys::prctl(&[PR_SET_PDEATHSIG, sys::SIGKILL]);
                if arguments.text(0) == b"zombies" {
                    sys::exit(0)
                }
                if arguments.text(0) == b"sessions" {
                    let _ = sys::call(nr::SETSID, &[]);
                }
                sys::close(hold[1]);
                let _ = sys::read(hold[0], &mut [0]);
                sys::exit(0)
            }
            Ok(child) => children.push(child),
            Err(errno) => {
                report::refused("fork", errno);
                break;
            }
        }
    }
    tell(children.len(), arguments.number(2), arguments.display(0));
    sys::close(hold[1]);
    for child in children {
        let _ = sys::wait(child);
    }
}

/// `threads COUNT MOST`: so many at once.
pub fn threads(arguments: Arguments) {
    let mut count = 0;
    while count < arguments.number(0) {
        match sys::thread(idle) {
            Ok(_) => count += 1,
            Err(errno) => {
                report::refused("clone", errno);
                break;
            }
        }
    }
    tell(count, arguments.number(1), "threads");
}

extern "C" fn idle() -> ! {
    loop {
        sys::sleep_ms(1000);
    }
}

fn tell(count: usize, most: usize, what: &str) {
    if count > most {
        report::reached("processes", format_args!("{count} {what} at once"));
    } else {
        report::line(format_args!("there were {count} {what} at once"));
    }
}
