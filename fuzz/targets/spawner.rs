//! Anything that the spawner could be told, over the real socket to the real helper.
//!
//! The input is a script as [`hotcell_fuzz::script`] reads it. Holds: neither the spawner nor an init panics or crashes;
//! they say nothing that the library would not understand; when the engine is gone, the spawner ends, and no process and
//! no placeholder is left.
#![no_main]

use hotcell_fuzz::enclosure;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: enclosure::enter(),
    |data: &[u8]| {
        if let Ok(text) = std::str::from_utf8(data) {
            enclosure::run(text);
        }
    }
);
