//! Texts as intervals that Arrow does not read: with hours, minutes and seconds as on a clock, and
//! with `ago`.

use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use arrow::datatypes::IntervalMonthDayNano;

/// The interval of a text like `3 days 02:03:04`, `-00:00:01.5` or `2 hours ago`.
pub(crate) fn span(text: &str) -> Option<IntervalMonthDayNano> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_ago = words.last().is_some_and(|word| word.eq_ignore_ascii_case("ago"));
    if is_ago {
        words.pop();
    }
    let clock = words.iter().position(|word| word.contains(':'));
    let nanoseconds = match clock {
        Some(at) => clock_nanos(words.remove(at))?,
        None if is_ago => 0,
        None => return None,
    };
    let others = match words.is_empty() {
        true => clock.map(|_| IntervalMonthDayNano::ZERO)?,
        false => parse_interval_month_day_nano(&words.join(" ")).ok()?,
    };
    let nanoseconds = others.nanoseconds.checked_add(nanoseconds)?;
    Some(match is_ago {
        true => IntervalMonthDayNano::new(
            others.months.checked_neg()?,
            others.days.checked_neg()?,
            nanoseconds.checked_neg()?,
        ),
        false => IntervalMonthDayNano::new(others.months, others.days, nanoseconds),
    })
}

/// The nanoseconds of `[-]hours:minutes[:seconds]`.
fn clock_nanos(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    if parts.next().is_some() {
        return None;
    }
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |text: &str| {
        let is_digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        is_digits.then(|| text.parse::<i64>().ok()).flatten()
    };
    let below_60 = |text: &str| number(text).filter(|number| text.len() <= 2 && *number < 60);
    let minutes = number(hours)?.checked_mul(60)?.checked_add(below_60(minutes)?)?;
    let seconds = minutes.checked_mul(60)?.checked_add(below_60(seconds)?)?;
    let nanoseconds = seconds.checked_mul(1_000_000_000)?;
    Some(sign * nanoseconds.checked_add(fraction_nanos(fraction)?)?)
}

/// The nanoseconds of the digits behind the point of a second; further digits are cut off.
pub(super) fn fraction_nanos(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits: String = digits.chars().chain("000000000".chars()).take(9).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_may_have_a_clock_and_be_ago() {
        let known = [
            ("3 days 02:03:04", (0, 3, 7_384_000_000_000)),
            ("-1 year 2 months -3 days 02:03:04.5", (-10, -3, 7_384_500_000_000)),
            ("-02:03:04.123456", (0, 0, -7_384_123_456_000)),
            ("100:00", (0, 0, 360_000_000_000_000)),
            ("1 day -00:00:01 ago", (0, -1, 1_000_000_000)),
            ("2 hours ago", (0, 0, -7_200_000_000_000)),
        ];
        for (text, (months, days, nanoseconds)) in known {
            let interval = IntervalMonthDayNano::new(months, days, nanoseconds);
            assert_eq!(span(text), Some(interval), "{text}");
        }
        for text in ["", "ago", "1:60", "1:2:60", "1:2:3:4", ":1", "x 1:2", "1:2 1:2", "3 days"] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
