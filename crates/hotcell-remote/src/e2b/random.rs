//! Names that nobody else has.

use std::fmt::Write;

/// 32 hexadecimal digits; none where the system has no randomness.
pub(super) fn unique() -> Option<String> {
    let mut bytes = [0; 16];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
