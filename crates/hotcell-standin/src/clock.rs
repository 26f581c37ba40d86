//! Times as the servers write them.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: i64 = 24 * 60 * 60;

/// Milliseconds since 1970.
pub(crate) fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Now, in RFC 3339.
pub(crate) fn now() -> String {
    text(SystemTime::now())
}

/// A time in RFC 3339.
pub(crate) fn text(time: SystemTime) -> String {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => rfc3339(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
        Err(before) => rfc3339(-i64::try_from(before.duration().as_secs()).unwrap_or(0), 0),
    }
}

/// RFC 3339 in UTC, with as many decimals as are needed.
pub(crate) fn rfc3339(seconds: i64, nanoseconds: u32) -> String {
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let rest = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let decimals = format!("{nanoseconds:09}");
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{point}{decimals}Z")
}

/// The date of HTTP headers.
pub(crate) fn http_date(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds.div_euclid(DAY);
    let (year, month, day) = date(days);
    let rest = seconds.rem_euclid(DAY);
    let name =
        |names: &[&'static str], index: i64| names.get(usize::try_from(index).unwrap_or(0)).copied().unwrap_or("");
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        name(&DAYS, days.rem_euclid(7)),
        name(&MONTHS, month - 1),
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Year, month and day of a number of days since 1970, by counting in eras of 400 years that begin in March.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400, 500_000_000), "2000-02-29T00:00:00.5Z");
        assert_eq!(rfc3339(1_794_811_000, 123_456_789), "2026-11-16T06:36:40.123456789Z");
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
