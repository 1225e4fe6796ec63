//! Formats durations, sizes and counts for people.

/// `1.23 s`, `56.7 ms`.
///
/// ```
/// use euphrates_engine::observe::format::{bytes_of, count, seconds};
///
/// assert_eq!((seconds(0.0021), seconds(90.0)), ("2.1 ms".to_string(), "90.00 s".to_string()));
/// assert_eq!(bytes_of(1_500_000.0), "1.5 MB");
/// assert_eq!(count(1_234_567), "1,234,567");
/// ```
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.2} s"),
        s => format!("{s:.0} s"),
    }
}

/// `12.3 MB`, in powers of 1000.
///
/// ```
/// use euphrates_engine::observe::format::bytes_of;
///
/// assert_eq!([999.0, 12_300_000.0].map(bytes_of), ["999 B", "12.3 MB"]);
/// ```
pub fn bytes_of(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{scaled:.0} B") } else { format!("{scaled:.1} {}", units[unit]) }
}

/// `12,345,678`, with commas between thousands.
///
/// ```
/// use euphrates_engine::observe::format::count;
///
/// assert_eq!([999, 12_345_678].map(count), ["999", "12,345,678"]);
/// ```
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let texts: Vec<&str> = groups.filter_map(|group| std::str::from_utf8(group).ok()).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(bytes_of(1_500_000.0), "1.5 MB");
        assert_eq!(bytes_of(999.0), "999 B");
        assert_eq!(seconds(0.0021), "2.1 ms");
    }
}
