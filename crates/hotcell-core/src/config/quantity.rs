//! Sizes and durations as people write them.

use std::time::Duration;

/// Kernels count sizes in signed 64-bit integers.
const MAX_SIZE: u64 = i64::MAX as u64;
/// Ten years: longer than any run, short enough that adding it to a clock cannot overflow.
const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

const SIZE_FORMS: &str = "write a size such as \"256m\", \"1g\", \"512k\", \"64MiB\" or a whole number of bytes; units are multiples of 1024";
const DURATION_FORMS: &str = "write a duration such as \"10s\", \"500ms\", \"2m\", \"1h\" or a whole number of seconds";
const COUNT_FORMS: &str = "write a whole number such as 64";

/// A size, duration or count that is not accepted; the message shows what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {forms}")]
pub struct BadQuantity {
    /// What is wrong.
    problem: &'static str,
    /// What is accepted.
    forms: &'static str,
}

/// Reads a size in bytes.
///
/// ```
/// use hotcell_core::config::quantity::parse_size;
/// assert_eq!(parse_size("64MiB"), Ok(64 << 20));
/// assert!(parse_size("64 megs").unwrap_err().to_string().contains("\"256m\""));
/// ```
pub fn parse_size(text: &str) -> Result<u64, BadQuantity> {
    let (number, unit) = split(text, SIZE_FORMS)?;
    let multiple: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(BadQuantity { problem: "the unit is not known", forms: SIZE_FORMS }),
    };
    let size = number.and_then(|number| number.checked_mul(multiple)).unwrap_or(u64::MAX);
    check_size(size)
}

/// Reads a duration.
pub fn parse_duration(text: &str) -> Result<Duration, BadQuantity> {
    let (number, unit) = split(text, DURATION_FORMS)?;
    let seconds: u64 = match unit {
        "ms" => return check_duration(number.map_or(Duration::MAX, Duration::from_millis)),
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(BadQuantity { problem: "the unit is not known", forms: DURATION_FORMS }),
    };
    let seconds = number.and_then(|number| number.checked_mul(seconds));
    check_duration(seconds.map_or(Duration::MAX, Duration::from_secs))
}

/// Reads a count of things.
pub fn parse_count(text: &str) -> Result<u64, BadQuantity> {
    let (number, unit) = split(text, COUNT_FORMS)?;
    if !unit.is_empty() {
        return Err(BadQuantity { problem: "it is not a whole number", forms: COUNT_FORMS });
    }
    check_count(number.unwrap_or(u64::MAX))
}

pub(crate) fn check_size(size: u64) -> Result<u64, BadQuantity> {
    check(size == 0, size > MAX_SIZE, SIZE_FORMS).map(|()| size)
}

pub(crate) fn check_duration(duration: Duration) -> Result<Duration, BadQuantity> {
    check(duration.is_zero(), duration > MAX_DURATION, DURATION_FORMS).map(|()| duration)
}

pub(crate) fn check_count(count: u64) -> Result<u64, BadQuantity> {
    check(count == 0, count > u64::from(u32::MAX), COUNT_FORMS).map(|()| count)
}

fn check(zero: bool, too_large: bool, forms: &'static str) -> Result<(), BadQuantity> {
    if zero {
        Err(BadQuantity { problem: "it is zero", forms })
    } else if too_large {
        Err(BadQuantity { problem: "it is too large", forms })
    } else {
        Ok(())
    }
}

/// The number (none if it does not fit) and the unit.
fn split<'a>(text: &'a str, forms: &'static str) -> Result<(Option<u64>, &'a str), BadQuantity> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadQuantity { problem: "it is empty", forms });
    }
    if text.starts_with('-') {
        return Err(BadQuantity { problem: "it is negative", forms });
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.starts_with(['.', ',', '_']) {
        return Err(BadQuantity { problem: "it is not a whole number", forms });
    }
    Ok((number.parse().ok(), unit.trim_start()))
}

/// A size for people: in the largest unit that shows it exactly.
pub fn show_size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// A duration for people.
pub fn show_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_secs_f64() * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("256m", 256 << 20),
            ("1g", 1 << 30),
            ("512k", 512 << 10),
            ("64MiB", 64 << 20),
            ("1024", 1024),
            ("1 GB", 1 << 30),
            ("7b", 7),
            ("2T", 2 << 40),
            (" 5 ", 5),
        ];
        for (text, size) in good {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        let bad = [
            ("0", "zero"),
            ("0k", "zero"),
            ("-1", "negative"),
            ("-1m", "negative"),
            ("", "empty"),
            ("m", "whole number"),
            ("1.5g", "whole number"),
            ("1x", "unit"),
            ("1mm", "unit"),
            ("9223372036854775808", "too large"),
            ("99999999999999999999999", "too large"),
            ("9007199254740993k", "too large"),
            ("+1", "whole number"),
            ("0x10", "unit"),
            ("1_000", "whole number"),
            ("١", "whole number"),
        ];
        for (text, problem) in bad {
            let message = parse_size(text).unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("\"256m\""), "{text}: {message}");
        }
    }

    #[test]
    fn durations() {
        let good = [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000), ("7", 7000)];
        for (text, millis) in good {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        let bad = [
            ("0", "zero"),
            ("0ms", "zero"),
            ("-1s", "negative"),
            ("1.5s", "whole number"),
            ("1d", "unit"),
            ("1S", "unit"),
            ("99999999999999999999s", "too large"),
            ("11000000000", "too large"),
            ("18446744073709551615h", "too large"),
            ("99999999999999999999ms", "too large"),
        ];
        for (text, problem) in bad {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("\"10s\""), "{text}: {message}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(parse_count("64"), Ok(64));
        for text in ["0", "-4", "4k", "1e3", "", "99999999999999999999"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for size in [1, 1000, 1024, 64 << 20, (1 << 30) + 1, 3 << 40] {
            let shown = show_size(size);
            assert_eq!(parse_size(shown.trim_end_matches("ytes")), Ok(size), "{shown}");
        }
        assert_eq!(show_duration(Duration::from_millis(1500)), "1500 ms");
        assert_eq!(show_duration(Duration::from_secs(300)), "300 s");
    }
}
