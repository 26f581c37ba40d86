//! Anything that the init of a box could be told, over the real socket to a real box.
//!
//! The input is a script as [`hotcell_fuzz::script`] reads it, that begins when the box is ready. Holds: what holds for the
//! spawner's target.
#![no_main]

use hotcell_fuzz::enclosure;
use libfuzzer_sys::fuzz_target;

/// A box with the system's programs, a procfs, terminals and a place to write.
const BOX: &str = "\
E0 hello b:0 w:2013265920 w:0 ns w:1000 w:1000 b:0 b:0 b:0 t:hotcell-fuzz ( w:0 )
E1 create w:1 ns b:0 w:1000 w:1000 b:0 b:1 w:0 w:0 ( ) w:1 tree:/usr:9 root t:16777216 t:1000 \
directory t:usr w:493 attach w:0 t:usr symlink t:bin t:usr/bin symlink t:lib t:usr/lib symlink t:lib64 t:usr/lib64 \
directory t:tmp w:1023 private t:tmp directory t:proc w:493 proc t:proc directory t:dev/pts w:493 devpts t:dev/pts \
seal pivot capabilities no-new-privs
";

fuzz_target!(
    init: enclosure::enter(),
    |data: &[u8]| {
        if let Ok(text) = std::str::from_utf8(data) {
            enclosure::run(&format!("{BOX}{text}"));
        }
    }
);
