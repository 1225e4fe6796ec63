//! Floating point numbers as C writes them.

/// The exponent of a number that is written with this many digits behind the point.
pub(super) fn exponent_of(size: f64, digits: usize) -> i32 {
    let written = format!("{size:.digits$e}");
    written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// A number as C writes it with an exponent, of two digits at least.
pub(super) fn with_exponent(size: f64, digits: usize) -> String {
    let written = format!("{size:.digits$e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The fewest digits that stand for a number, with an exponent if it is very large or very small.
pub(super) fn shortest(size: f64) -> String {
    let written = format!("{size:e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{size:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
