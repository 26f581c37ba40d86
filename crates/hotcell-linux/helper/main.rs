//! The helper: spawner and init of a box, in one static program without a C library or an allocator.
//!
//! The library carries this program in itself, puts it in a sealed memory file and runs it once per engine as the
//! **spawner** (`spawner.rs`). Each native box is a fork of the spawner into new namespaces, which runs the set-up steps it
//! is given (`setup.rs`, `view.rs`, `confine.rs`) and then serves as the box's **init** (`init.rs`). In a container that
//! somebody else made, the program is put there as a file and started as the init right away (`contained.rs`): with the
//! argument `init` it talks in records on a socket, with `agent` in frames on a stream (`transport.rs`, `streams.rs`). Where
//! no descriptor gets through, it is also the tool for files (`tool.rs`), run like any other program of the box.
//!
//! Nothing here decides policy: the library lowers a plan to steps, the helper runs them in order and stops at the first
//! that fails. Nothing allocates, locks or logs. Any failure ends the process that saw it: a box that is not fully set up
//! does not exist.
#![no_std]
#![no_main]

mod cgroup;
mod confine;
mod contained;
mod init;
mod launch;
mod memory;
mod placeholder;
mod processes;
mod record;
mod setup;
mod spawner;
mod stage;
mod streams;
mod sys;
mod text;
mod tool;
mod transport;
mod view;
#[path = "../src/wire/mod.rs"]
mod wire;

use contained::By;

/// The descriptor on which the library starts the spawner: the conversation with the engine.
const ENGINE: sys::Fd = 0;

/// Called by the architecture's `_start` with what the kernel put on the stack: the number of arguments, and those.
extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the kernel put a number there, and behind it as many pointers to NUL-terminated strings that live as long as
    // the process.
    let (count, arguments) = unsafe { (*stack, core::slice::from_raw_parts(stack.add(1), *stack)) };
    if count < 2 {
        spawner::run(ENGINE)
    }
    // SAFETY: as above.
    match unsafe { launch::text_at(arguments[1] as *const u8) } {
        b"init\0" => contained::run(By::Records { at: 0 }),
        b"init-passed\0" => contained::run(By::Records { at: contained::FIRST_PASSED }),
        b"agent\0" => contained::run(By::Stream),
        b"file\0" => tool::run(&arguments[2..]),
        _ => sys::exit(2),
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Out-of-bounds and the like: a defect of ours. Ending the process ends the box (or, in the spawner, every box).
    sys::exit(101)
}
