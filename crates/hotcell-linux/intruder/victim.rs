//! A process that stands outside of the box and that nobody inside may touch.

use crate::arguments::Arguments;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[("victim", victim)];

/// `victim TOKEN`: holds the token in its memory, says where and as which descriptor it has a pipe with the token in
/// it, and waits for its standard input to end.
fn victim(arguments: Arguments) {
    let token = arguments.text(0).to_vec();
    let mut ends = [0i32; 2];
    if sys::call(nr::PIPE2, &[ends.as_mut_ptr() as usize, 0]).is_err() {
        sys::exit(1)
    }
    sys::write_all(ends[1], &token);
    // Same-user attackers are stopped by nothing but the box: let them try.
    const ANY: usize = usize::MAX;
    const PR_SET_PTRACER: usize = 0x5961_6d61;
    let _ = sys::prctl(&[PR_SET_PTRACER, ANY]);
    report::line(format_args!("victim {:#x} {} {}", token.as_ptr() as usize, token.len(), ends[0]));
    let _ = sys::read(0, &mut [0]);
}
