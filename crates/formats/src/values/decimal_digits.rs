//! Reads the digits of a decimal from text, exactly.

/// The digits of a decimal without its point: exactly `scale` after the point and at most
/// `precision` in all; `None` if the number needs others.
pub fn unscaled(text: &str, precision: u8, scale: i8) -> Option<String> {
    // A text longer than any decimal fits no type.
    (text.len() <= 400).then_some(())?;
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = [whole, fraction].concat();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(())?;
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".into());
    }
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let behind = (fraction.len() as i64 - trailing as i64).checked_sub(exponent)?;
    let zeros = usize::try_from(i64::from(scale).checked_sub(behind)?).ok()?;
    let fits = significant.len().checked_add(zeros)? <= usize::from(precision);
    fits.then(|| [sign, significant, &"0".repeat(zeros)].concat())
}
