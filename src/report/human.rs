//! Numbers for people, in the form btrfs-progs prints them (`common/units.c`, `cmds/scrub.c`).

use std::time::{Duration, SystemTime};
use time::{OffsetDateTime, UtcOffset, macros::format_description};

/// A mebibyte, for rates in tables and pictures.
pub(super) const MIB: f64 = 1_048_576.0;

/// Two decimals and a binary unit: `236.92MiB`, `0.00B`.
/// A size with its unit, as btrfs prints it.
pub fn size(bytes: u64) -> String {
    scaled(bytes as f64)
}

/// The same of a number of bytes per second, with the second: `236.92MiB/s`.
pub(super) fn per_second(rate: f64) -> String {
    format!("{}/s", scaled(rate))
}

fn scaled(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.2}{}", UNITS.get(unit).copied().unwrap_or_default())
}

/// Hours, minutes, seconds: `0:00:20`.
pub(super) fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Bytes per second, 0 for a run that took no time.
pub(super) fn rate(bytes: u64, duration: Duration) -> f64 {
    let seconds = duration.as_secs_f64();
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

/// As `date` in the C locale prints it: `Mon Nov 30 07:36:50 2026`.
pub fn date(at: SystemTime, offset: UtcOffset) -> String {
    let format = format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    OffsetDateTime::from(at).to_offset(offset).format(format).unwrap_or_default()
}

/// A number with its unit, where the plural is more than an s behind it.
pub fn count_of(n: u64, one: &str, several: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { several })
}

/// A number with its unit: `1 sector`, `18 sectors`, `2 copies`.
pub(super) fn count(n: u64, unit: &str) -> String {
    match (n, unit.strip_suffix('y')) {
        (1, _) => format!("1 {unit}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) => format!("{n} {unit}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_unit_at_each_power_of_1024() {
        for (bytes, text) in [
            (0, "0.00B"),
            (1023, "1023.00B"),
            (1024, "1.00KiB"),
            (486_539_264, "464.00MiB"),
            (7_537_668_096, "7.02GiB"),
            (u64::MAX, "16.00EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn long_runs_count_hours_on() {
        assert_eq!(clock(Duration::from_millis(20_900)), "0:00:20");
        assert_eq!(clock(Duration::from_secs(100 * 3600 + 61)), "100:01:01");
    }

    #[test]
    fn a_single_digit_day_is_padded_with_a_space() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_547_200);
        assert_eq!(date(at, UtcOffset::UTC), "Mon Dec  1 00:00:00 2025");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "sector"), "1 sector");
        assert_eq!(count(18, "sector"), "18 sectors");
        assert_eq!(count(0, "super block copy"), "0 super block copies");
    }
}
