//! Where a report comes from.

use std::fs;

use serde::Serialize;

/// The machine that boxes were attacked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Hotcell's version.
    pub version: &'static str,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's architecture.
    pub architecture: &'static str,
    /// Who asked.
    pub user: String,
    /// The distribution.
    pub system: String,
    /// The security modules in use.
    pub security_modules: String,
    /// The day, as `YYYY-MM-DD`.
    pub date: String,
}

impl Machine {
    /// This one, now.
    pub fn this() -> Self {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let uid = rustix::process::geteuid();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            kernel: line("/proc/sys/kernel/osrelease"),
            architecture: std::env::consts::ARCH,
            user: if uid.is_root() { "root".to_owned() } else { format!("uid {}", uid.as_raw()) },
            system: name.unwrap_or("Linux").trim_matches('"').to_owned(),
            security_modules: line("/sys/kernel/security/lsm"),
            date: date(std::time::SystemTime::now()),
        }
    }
}

/// The day in UTC.
fn date(now: std::time::SystemTime) -> String {
    let seconds = now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Days since 0000-03-01, counted in eras of 400 years, so that the leap day is the last of its year.
    let days = seconds / 86400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::date;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (4_102_444_800, "2100-01-01"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), day);
        }
    }
}
