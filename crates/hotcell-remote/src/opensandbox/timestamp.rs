//! Points in time as servers write them: RFC 3339, in UTC on the way out, in any zone on the way in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400;

/// Writes whole seconds in UTC. Times before 1970 are written as 1970: no server has any use for them.
pub(super) fn format(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Reads a point in time. A missing zone is taken as UTC: Python writes such.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (clock, offset) = zone(rest)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.splitn(3, ':');
    let (hour, minute, second) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let sensible = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !sensible {
        return None;
    }
    let seconds = days_of(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    let whole = Duration::from_secs(u64::try_from(seconds).ok()?);
    UNIX_EPOCH.checked_add(whole + nanoseconds(fraction)?)
}

/// The clock's part and how many seconds its zone is ahead of UTC.
fn zone(rest: &str) -> Option<(&str, i64)> {
    if let Some(clock) = rest.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = rest.find(['+', '-']) else { return Some((rest, 0)) };
    let (clock, zone) = rest.split_at(at);
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let offset = number(hours, 2)? * 3600 + number(minutes, 2)? * 60;
    Some((clock, if zone.starts_with('-') { -offset } else { offset }))
}

fn nanoseconds(fraction: &str) -> Option<Duration> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    nanoseconds.parse().ok().map(Duration::from_nanos)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that a leap day is a year's last.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day since 1970; the inverse of [`days_of`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<f64> {
        parse(text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64())
    }

    #[test]
    fn what_servers_write_is_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2026-11-16T06:40:52Z", 1_794_811_252.0),
            ("2026-11-16T06:40:52.25+00:00", 1_794_811_252.25),
            ("2026-11-16T14:40:52+08:00", 1_794_811_252.0),
            ("2026-11-16T01:10:52-05:30", 1_794_811_252.0),
            ("2026-11-16 06:40:52", 1_794_811_252.0),
            ("2024-02-29T00:00:00.000000001Z", 1_709_164_800.000_000_001),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_nothing() {
        for text in [
            "",
            "now",
            "2026-11-16",
            "2026-13-01T00:00:00Z",
            "2026-11-16T24:00:00Z",
            "2026-11-16T06:40Z",
            "2026-11-16T06:40:52+8",
            "2026-11-16T06:40:52.x",
            "0000-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-16T06:40:5é",
            "+026-11-16T06:40:52Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        for seconds in (0..4_102_444_800_u64).step_by(86_400 * 13 + 3_607) {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(parse(&format(time)), Some(time), "{}", format(time));
        }
    }
}
