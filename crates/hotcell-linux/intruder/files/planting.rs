//! Files that are planted where every program on the host may look, for attacks from within a box.

use alloc::format;
use core::ffi::CStr;

use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("plant-shm-file", |arguments| plant(c"/dev/shm", arguments)),
    ("show-shm-file", show),
    ("remove-shm-file", remove),
    ("plant-tmp-file", |arguments| plant(c"/tmp", arguments)),
    ("show-tmp-file", show),
    ("remove-tmp-file", remove),
    ("plant-var-tmp-file", |arguments| plant(c"/var/tmp", arguments)),
    ("show-var-tmp-file", show),
    ("remove-var-tmp-file", remove),
];

/// `plant-… TOKEN`: makes a file with the token, which everybody may read and write, and prints its path.
fn plant(directory: &CStr, arguments: Arguments) {
    let process = sys::call(nr::GETPID, &[]).unwrap_or(0);
    for attempt in 0..100 {
        let path = super::beneath(directory, &format!("hotcell-verify-{process}-{attempt}"));
        if let Ok(fd) = sys::open(&path, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, 0o600) {
            sys::write_all(fd, arguments.text(0));
            let _ = sys::call(nr::FCHMOD, &[fd as usize, 0o666]);
            return report::line(format_args!("{}", super::shown(&path)));
        }
    }
}

/// `show-… PATH`
fn show(arguments: Arguments) {
    if let Ok(bytes) = sys::read_file(arguments.c_str(0), 4096) {
        report::content("the file", &bytes);
    }
}

/// `remove-… PATH`
fn remove(arguments: Arguments) {
    let _ = sys::call(nr::UNLINKAT, &[sys::AT_FDCWD, sys::c(arguments.c_str(0))]);
}
