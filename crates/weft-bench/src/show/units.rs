//! The form in which values are written: three significant digits, a unit that fits, sizes as 8, 1 KB, 64 KB,
//! 1 MB.

/// The direction in which values of a unit are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// The better direction of a unit: times and memory are better when lower; all else that the programs measure
/// is better when higher.
pub(crate) fn better(unit: &str) -> Better {
    match unit {
        "us" | "ms" | "s" | "ns" | "MiB" => Better::Lower,
        _ => Better::Higher,
    }
}

/// Returns whether the unit is a percentage, which is compared by the difference: it may be 0 or below.
pub(crate) fn is_share(unit: &str) -> bool {
    unit == "percent"
}

/// The unit as it is printed.
pub(crate) fn unit_title(unit: &str) -> &str {
    match unit {
        "us" => "µs",
        "percent" => "%",
        other => other,
    }
}

/// Writes three significant digits, never an exponent below 10^15: `0.263`, `12.4`, `948`, `1460`.
pub(crate) fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // The value is rounded first: 9.996 has as many decimals as 10.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let magnitude = rounded.abs().log10().floor() as i32;
    if magnitude >= 15 {
        return format!("{value:.2e}");
    }
    let decimals = (2 - magnitude).clamp(0, 12) as usize;
    minus(format!("{rounded:.decimals$}"))
}

/// Replaces the minus sign by one that is as wide as a plus.
fn minus(text: String) -> String {
    text.replace('-', "−")
}

/// Writes a value of a unit, without the unit; percentages have one decimal, counts a second are in thousands
/// and millions.
pub(crate) fn value(value: f64, unit: &str) -> String {
    match unit {
        "percent" if value.is_finite() => minus(format!("{:.*}", usize::from(value.abs() < 99.95), value)),
        "messages/s" if value.abs() >= 999.5e3 => format!("{} M", digits(value / 1e6)),
        "messages/s" if value.abs() >= 999.5 => format!("{} k", digits(value / 1e3)),
        _ => digits(value),
    }
}

/// Writes a value and its unit: `12.4 µs`, `10.3 M messages/s`, `98.1 %`.
pub(crate) fn with_unit(v: f64, unit: &str) -> String {
    format!("{} {}", value(v, unit), unit_title(unit))
}

/// Writes a size: `8`, `1 KB`, `64 KB`, `1 MB`; a size that is no whole number of those in bytes. (K is 1024
/// here, as is usual for message sizes.)
pub(crate) fn size(bytes: u64) -> String {
    const STEPS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    for (step, name) in STEPS {
        if bytes >= step && bytes.is_multiple_of(step) {
            return format!("{} {name}", bytes / step);
        }
    }
    bytes.to_string()
}

/// Writes a size for a sentence, with `B` for plain bytes.
pub(crate) fn size_in_words(bytes: u64) -> String {
    let text = size(bytes);
    if text.contains(' ') { text } else { format!("{text} B") }
}

/// Writes a factor: `2.31×`; a factor far below 1 as a fraction, `1/193`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio > 0.0 && ratio < 0.01 => format!("1/{}", digits(1.0 / ratio)),
        _ => format!("{}×", digits(ratio)),
    }
}

/// Writes percentage points: `+83.0`, `−4.1`.
pub(crate) fn points(difference: f64) -> String {
    minus(format!("{difference:+.1}"))
}

/// Writes seconds as `45 s`, `12 min`, `3 h 05 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..120 => format!("{whole} s"),
        120..7200 => format!("{} min", (whole + 30) / 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Writes `2026-11-20 22:28 UTC` from seconds since 1970 (the civil calendar, counted in eras of 400 years).
pub(crate) fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let from_march = days + 719_468; // days from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let cases = [
            (0.0, "0"),
            (0.263_4, "0.263"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (12.44, "12.4"),
            (99.96, "100"),
            (948.4, "948"),
            (1458.0, "1460"),
            (11_312.0, "11300"),
            (-58.2, "−58.2"),
            (0.000_12, "0.000120"),
            (999.6, "1000"),
        ];
        for (number, text) in cases {
            assert_eq!(digits(number), text);
        }
        assert_eq!(digits(f64::NAN), "–");
        assert_eq!(digits(1e20), "1.00e20");
    }

    #[test]
    fn values_of_units() {
        assert_eq!(with_unit(12.44, "us"), "12.4 µs");
        assert_eq!(with_unit(10_312_000.0, "messages/s"), "10.3 M messages/s");
        assert_eq!(with_unit(207_400.0, "messages/s"), "207 k messages/s");
        assert_eq!(with_unit(999_900.0, "messages/s"), "1.00 M messages/s");
        assert_eq!(with_unit(-58.21, "percent"), "−58.2 %");
        assert_eq!(with_unit(99.97, "percent"), "100 %");
        assert_eq!((times(0.5), times(0.004), points(-4.06)), ("0.500×".into(), "1/250".into(), "−4.1".into()));
    }

    #[test]
    fn sizes() {
        let sizes = [0, 8, 1000, 1024, 1448, 65_536, 81_920, 1 << 20, 4 << 20, 1 << 30].map(size);
        assert_eq!(sizes, ["0", "8", "1000", "1 KB", "1448", "64 KB", "80 KB", "1 MB", "4 MB", "1 GB"]);
        assert_eq!(size_in_words(8), "8 B");
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_213_680), "2026-11-20 22:28 UTC");
        assert_eq!([59.6, 600.0, 11_100.0].map(duration), ["60 s", "10 min", "3 h 05 min"]);
    }
}
