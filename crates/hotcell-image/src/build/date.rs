//! Dates as Debian's Release files, lock files and image configurations write them, as seconds since 1970.

/// How lock files and image configurations write a date, always in UTC.
pub(super) fn to_text(epoch: u64) -> String {
    let (year, month, day) = civil(epoch / 86400);
    let (hour, minute, second) = clock(epoch);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// How the archive of Debian's old versions names a moment.
pub(super) fn to_snapshot(epoch: u64) -> String {
    to_text(epoch).replace(['-', ':'], "")
}

/// Reads what [`to_text`] writes, and nothing else.
pub(super) fn from_text(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let epoch = days(year, month, day)?.checked_mul(86400)?.checked_add(seconds(time)?)?;
    (to_text(epoch) == text).then_some(epoch)
}

/// Reads the date of a Release file, such as `Fri, 30 Oct 2026 08:08:01 UTC`.
pub(super) fn from_release(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_whitespace().skip(1);
    let day = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = words.next()?.parse().ok()?;
    let time = seconds(words.next()?)?;
    matches!(words.next()?, "UTC" | "GMT" | "+0000").then_some(())?;
    days(year, month, day)?.checked_mul(86400)?.checked_add(time)
}

fn clock(epoch: u64) -> (u64, u64, u64) {
    (epoch / 3600 % 24, epoch / 60 % 60, epoch % 60)
}

fn seconds(time: &str) -> Option<u64> {
    let mut parts = time.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    (parts.next().is_none() && hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date. Years are counted one by one: there are few of them.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..2400).contains(&year) || !(1..=12).contains(&month) || day == 0 || day > month_days(year, month) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let months: u64 = (1..month).map(|month| month_days(year, month)).sum();
    Some(years + months + day - 1)
}

fn civil(mut days: u64) -> (u64, u64, u64) {
    let (mut year, mut month) = (1970, 1);
    while days >= if leap(year) { 366 } else { 365 } {
        days -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    while days >= month_days(year, month) {
        days -= month_days(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (epoch, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_793_347_681, "2026-10-30T08:08:01Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(to_text(epoch), text);
            assert_eq!(from_text(text), Some(epoch));
        }
        assert_eq!(from_release("Fri, 30 Oct 2026 08:08:01 UTC"), Some(1_793_347_681));
        assert_eq!(to_snapshot(1_793_347_681), "20261030T080801Z");
    }

    #[test]
    fn what_is_no_date_is_not_read() {
        for text in ["", "2026-02-29T00:00:00Z", "2026-1-1T00:00:00Z", "2026-10-30T24:00:00Z", "2026-10-30T08:08:01"] {
            assert_eq!(from_text(text), None, "{text}");
        }
        for text in ["", "Fri, 31 Nov 2026 08:08:01 UTC", "Fri, 30 Oct 2026 08:08:01 CET", "30 Oct 2026"] {
            assert_eq!(from_release(text), None, "{text}");
        }
    }
}
