//! The intruder: a program that tries to get out of the box that it is started in, one attack at a time, and says what
//! came of it.
//!
//! ```text
//! intruder [nested] ATTACK ARGUMENT…
//! ```
//!
//! It prints lines: `reached WHAT: DETAIL` where it got somewhere, `refused WHAT: ERRNO` where not, whatever it could read
//! (so that a planted secret shows up in its output), and `done` at the end. It draws no conclusions: `hotcell-verify`
//! runs the same attack outside of any box too, and compares.
//!
//! Every attack is harmless by itself, even where nothing holds it: it aims at objects that were planted for it, asks for
//! little, and stops.
//!
//! A static program without a C library, so that it runs in any root file system and nothing stands between its system
//! calls and the kernel.
#![no_std]
#![no_main]

extern crate alloc;

mod arguments;
mod calls;
mod files;
mod heap;
mod i386;
mod ipc;
mod kernel;
mod lifetime;
#[path = "../helper/memory.rs"]
mod memory;
mod netlink;
mod network;
mod nr;
mod posture;
mod processes;
mod report;
mod resources;
mod sys;
mod terminal;
mod victim;

use arguments::Arguments;

/// An attack and its name on the command line.
type Attack = (&'static str, fn(Arguments));

/// All attacks, by subject.
const ATTACKS: &[&[Attack]] = &[
    calls::ATTACKS,
    files::mounts::ATTACKS,
    files::peeking::ATTACKS,
    files::planting::ATTACKS,
    files::reading::ATTACKS,
    files::rights::ATTACKS,
    files::writing::ATTACKS,
    i386::ATTACKS,
    ipc::ATTACKS,
    kernel::ATTACKS,
    lifetime::ATTACKS,
    netlink::ATTACKS,
    network::ATTACKS,
    posture::ATTACKS,
    processes::ATTACKS,
    resources::ATTACKS,
    terminal::ATTACKS,
    victim::ATTACKS,
];

/// Called by the architecture's `_start` with the initial stack.
extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: this is the stack that the kernel gave to this process, and nothing has written to it.
    let mut arguments = unsafe { Arguments::on_stack(stack) }.skip(1);
    if arguments.text(0) == b"nested" {
        calls::enter_namespaces();
        arguments = arguments.skip(1);
    }
    let found = ATTACKS.iter().copied().flatten().find(|(name, _)| name.as_bytes() == arguments.text(0));
    let Some((_, attack)) = found else {
        report::line(format_args!("unknown attack"));
        sys::exit(2)
    };
    attack(arguments.skip(1));
    report::line(format_args!("done"));
    sys::exit(0)
}

#[panic_handler]
fn panic(information: &core::panic::PanicInfo) -> ! {
    report::line(format_args!("panic: {information}"));
    sys::exit(101)
}
