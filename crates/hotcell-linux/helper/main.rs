//! The helper: spawner and init of the native Linux box, in one static program without a C library or an allocator.
//!
//! The library carries this program in itself, puts it in a sealed memory file and runs it once per engine as the
//! **spawner** (`spawner.rs`). Each box is a fork of the spawner into new namespaces, which runs the set-up steps it is
//! given (`setup.rs`, `view.rs`, `confine.rs`) and then serves as the box's **init** (`init.rs`). Nothing here decides
//! policy: the library lowers a plan to steps, the helper runs them in order and stops at the first that fails.
//!
//! Nothing allocates, locks or logs. Any failure ends the process that saw it: a box that is not fully set up does not
//! exist.
#![no_std]
#![no_main]

mod cgroup;
mod confine;
mod init;
mod memory;
mod placeholder;
mod processes;
mod record;
mod setup;
mod spawner;
mod stage;
mod sys;
mod text;
mod view;
#[path = "../src/wire/mod.rs"]
mod wire;

/// The descriptor on which the library starts the spawner: the conversation with the engine.
const ENGINE: sys::Fd = 0;

/// Called by the architecture's `_start`.
extern "C" fn start(_arguments: *const usize) -> ! {
    spawner::run(ENGINE)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Out-of-bounds and the like: a defect of ours. Ending the process ends the box (or, in the spawner, every box).
    sys::exit(101)
}
