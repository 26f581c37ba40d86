//! Attacks through a terminal. The intruder makes one of its own, so that nobody's real terminal is typed into.

use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[("type", type_into), ("terminal-requests", requests)];

const TIOCSTI: usize = 0x5412;

/// `type UPPER`: types into its own controlling terminal, with `UPPER` as the upper half of the request's register.
fn type_into(arguments: Arguments) {
    let request = arguments.number(0) << 32 | TIOCSTI;
    with_terminal(|terminal| {
        let typed = b"x\n";
        for key in typed {
            if !report::success("ioctl TIOCSTI", sys::call(nr::IOCTL, &[terminal, request, key as *const u8 as usize]))
            {
                return;
            }
        }
        let mut buffer = [0; 16];
        if let Ok(count) = sys::read(terminal as sys::Fd, &mut buffer) {
            report::content("what was typed", &buffer[..count.min(16)]);
        }
    });
}

/// Requests that paste into a console and that load a line discipline, with arguments that they complain about.
fn requests(_: Arguments) {
    const TIOCLINUX: usize = 0x541c;
    const TIOCSETD: usize = 0x5423;
    const NOWHERE: usize = 1;
    with_terminal(|terminal| {
        let unknown = [99u8; 8];
        report::call("ioctl TIOCLINUX", sys::call(nr::IOCTL, &[terminal, TIOCLINUX, unknown.as_ptr() as usize]));
        report::call("ioctl TIOCSETD", sys::call(nr::IOCTL, &[terminal, TIOCSETD, NOWHERE]));
    });
}

/// Runs `job` in a session of its own with a new terminal. Where there is none to be had, nothing can be said: the
/// program ends before it is done.
fn with_terminal(job: impl FnOnce(usize)) {
    const TIOCSPTLCK: usize = 0x4004_5431;
    const TIOCGPTPEER: usize = 0x5441;
    const TIOCSCTTY: usize = 0x540e;
    const O_NOCTTY: usize = 0o400;
    let unlocked = [0i32];
    let terminal = sys::open(c"/dev/ptmx", sys::O_RDWR | O_NOCTTY, 0).and_then(|master| {
        sys::call(nr::IOCTL, &[master as usize, TIOCSPTLCK, unlocked.as_ptr() as usize])?;
        sys::call(nr::IOCTL, &[master as usize, TIOCGPTPEER, sys::O_RDWR | O_NOCTTY | sys::O_NONBLOCK])
    });
    let Ok(terminal) = terminal else {
        report::line(format_args!("there is no terminal to be had"));
        sys::exit(3)
    };
    let _ = sys::in_child(|| {
        let _ = sys::call(nr::SETSID, &[]);
        let _ = sys::call(nr::IOCTL, &[terminal, TIOCSCTTY, 0]);
        job(terminal);
    });
}
