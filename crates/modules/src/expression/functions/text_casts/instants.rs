//! Dates and instants in spellings that Arrow does not read: without seconds, with one digit where
//! it wants two, with slashes.

/// The text of an instant as Arrow reads it: `2024-2-9 7:30` is `2024-02-09T07:30:00`. `None` if
/// it has no date.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (date, rest) = split_date(text.trim())?;
    let clock = rest.strip_prefix(['T', 't']).unwrap_or(rest).trim_start();
    if clock.is_empty() {
        return Some(date);
    }
    if clock.len() == rest.len() {
        return None;
    }
    let is_of_clock = |letter: char| letter.is_ascii_digit() || ":.".contains(letter);
    let end = clock.find(|letter| !is_of_clock(letter)).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(end);
    let (seconds, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let parts: Option<Vec<String>> = seconds.split(':').map(|part| padded(part, 1..=2)).collect();
    let mut parts = parts.filter(|parts| (2..=3).contains(&parts.len()))?;
    parts.resize(3, "00".into());
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    Some(format!("{date}T{}{fraction}{}", parts.join(":"), zone.trim_start()))
}

/// The text of a date as Arrow reads it, from one without a time of day.
pub(crate) fn canonical_date(text: &str) -> Option<String> {
    let (date, rest) = split_date(text.trim())?;
    rest.is_empty().then_some(date)
}

/// A date of four digits and twice one or two, and what follows it.
fn split_date(text: &str) -> Option<(String, &str)> {
    let sign = ['-', '/']
        .into_iter()
        .find(|sign| text.get(4..5) == Some(sign.encode_utf8(&mut [0; 4])))?;
    let (year, rest) = text.split_once(sign)?;
    let (month, rest) = rest.split_once(sign)?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (day, rest) = rest.split_at(end);
    let (year, month, day) = (padded(year, 4..=4)?, padded(month, 1..=2)?, padded(day, 1..=2)?);
    Some((format!("{year}-{month}-{day}"), rest))
}

/// Digits, at least two.
fn padded(digits: &str, lengths: std::ops::RangeInclusive<usize>) -> Option<String> {
    let is_number = lengths.contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| format!("{digits:0>2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_spelled_with_all_digits() {
        for (text, spelled) in [
            ("2024-02-29 12:00", "2024-02-29T12:00:00"),
            ("2024-2-9 7:30", "2024-02-09T07:30:00"),
            (" 2024/02/29 12:00:01.5 ", "2024-02-29T12:00:01.5"),
            ("2024-02-29T12:00Z", "2024-02-29T12:00:00Z"),
            ("2024-02-29 12:00 +02:00", "2024-02-29T12:00:00+02:00"),
            ("2024/1/2", "2024-01-02"),
            ("2024-01-02   3:04", "2024-01-02T03:04:00"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(spelled), "{text}");
        }
        for text in
            ["", "12:00", "2024-01", "2024-01/02", "24-01-02", "2024-01-02 12", "2024-01-02x"]
        {
            assert_eq!(canonical(text), None, "{text}");
        }
        assert_eq!(canonical_date("2024/1/2").as_deref(), Some("2024-01-02"));
        assert_eq!(canonical_date("2024/1/2 12:00"), None);
    }
}
