//! A guest's output on its way to the user's terminal.
//!
//! The input is four lengths of pieces, and the output. Holds: nothing but text, line ends, tabs, carriage returns and
//! colours is left; the result does not depend on where the output is cut; harmless output stays as it is; filtering
//! again changes nothing.
#![no_main]

#[path = "../../crates/hotcell-cli/src/terminal/filter.rs"]
mod filter;

use filter::Filter;
use hotcell_fuzz::pieces;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((lengths, output)) = data.split_first_chunk::<4>() else { return };
    let whole = filtered(&[output]);
    assert_eq!(filtered(&pieces(output, lengths)), whole, "cut into pieces, the result is another");
    assert_eq!(filtered(&[&whole]), whole, "filtered again, the result is another");

    let Ok(shown) = std::str::from_utf8(&whole) else { panic!("the result is not UTF-8") };
    assert!(without_colours(shown).chars().all(is_harmless), "{shown:?}");
    if std::str::from_utf8(output).is_ok_and(|text| text.chars().all(is_harmless)) {
        assert_eq!(whole, output, "harmless output was changed");
    }
});

fn filtered(pieces: &[&[u8]]) -> Vec<u8> {
    let mut filter = Filter::default();
    let mut kept: Vec<u8> = pieces.iter().flat_map(|piece| filter.push(piece)).collect();
    kept.extend(filter.finish());
    kept
}

fn is_harmless(character: char) -> bool {
    let control =
        character < ' ' && !matches!(character, '\n' | '\r' | '\t') || ('\u{7f}'..='\u{9f}').contains(&character);
    !control && !matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text without `ESC [ digits m`: any other ESC stays, and is then found.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    for (number, part) in text.split("\u{1b}[").enumerate() {
        let is_parameter = |character: char| character.is_ascii_digit() || matches!(character, ';' | ':');
        match part.trim_start_matches(is_parameter).strip_prefix('m') {
            Some(rest) if number > 0 => plain.push_str(rest),
            _ if number > 0 => plain.push_str(&format!("\u{1b}[{part}")),
            _ => plain.push_str(part),
        }
    }
    plain
}
