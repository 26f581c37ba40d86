//! What the fuzz targets share. Each target says in its first lines what it feeds to what, and what must hold.
//!
//! Inputs are text wherever that is possible, so that seeds and crash files can be read and written by hand.

pub mod enclosure;
pub mod feedback;
pub mod helper;
pub mod hollow;
pub mod policies;
pub mod script;
pub mod server;

/// Panics unless a terminal can show the text as it is: no control character, nothing that turns or hides text.
///
/// Said here once more in its own words, so that a hole in the product's own list is found.
pub fn assert_printable(text: &str) {
    for character in text.chars() {
        let drives = character < ' '
            || ('\u{7f}'..='\u{9f}').contains(&character)
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        assert!(!drives, "{character:?} reaches a terminal: {text:?}");
    }
}

/// Cuts `bytes` into pieces, as `lengths` say, over and over.
pub fn pieces<'a>(bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        // A piece has at least one byte, or this would not end.
        let length = lengths.next().map_or(rest.len(), |length| usize::from(*length).max(1)).min(rest.len());
        let (piece, others) = rest.split_at(length);
        pieces.push(piece);
        rest = others;
    }
    pieces
}
