//! Words that nobody else has and nobody can guess.

use std::fmt::Write;

/// 32 hexadecimal digits; none where the system has no randomness.
///
/// ```
/// let (one, other) = (hotcell_remote::unique(), hotcell_remote::unique());
/// assert!(one.is_some() && one != other);
/// ```
pub fn unique() -> Option<String> {
    let mut bytes = [0; 16];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
