//! Parses sizes and rates with units.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Parses a size in bytes: `512MiB`, `4GB`, `1.5g`, `1000000`.
///
/// ```
/// use euphrates_flow::size::parse_bytes;
///
/// assert_eq!(parse_bytes("1.5 KiB"), Ok(1536));
/// assert_eq!(parse_bytes("4GB"), Ok(4_000_000_000));
/// assert!(parse_bytes("4 parsecs").is_err());
/// ```
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a size; try 512MiB"))?;
    let (shift, thousand) = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => (0, 1000.0),
        "k" | "kb" => (1, 1000.0),
        "m" | "mb" => (2, 1000.0),
        "g" | "gb" => (3, 1000.0),
        "t" | "tb" => (4, 1000.0),
        "kib" => (1, 1024.0),
        "mib" => (2, 1024.0),
        "gib" => (3, 1024.0),
        "tib" => (4, 1024.0),
        _ => return Err(format!("`{unit}` is not a unit; try MiB or GB")),
    };
    Ok((number * f64::powi(thousand, shift)) as u64)
}

/// A number of bytes, or of bytes per second: `5000000`, `"5MB"`, `"5MB/s"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Size {
    /// Bytes, or bytes per second.
    Number(u64),
    /// The same with a unit.
    Text(String),
}

impl Size {
    /// The size in bytes. Fails if it is 0.
    ///
    /// ```
    /// use euphrates_flow::size::Size;
    ///
    /// assert_eq!(Size::Text("5MB/s".into()).bytes()?, 5_000_000);
    /// assert_eq!(Size::Number(4000).to_string(), "4kB");
    /// assert!(Size::Number(0).bytes().is_err());
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn bytes(&self) -> Result<u64> {
        let bytes = match self {
            Size::Number(bytes) => *bytes,
            Size::Text(text) => parse_bytes(text.trim_end_matches("/s").trim_end())
                .map_err(|problem| Error::usage(problem).remedy("write 5MB, 1GiB or a number"))?,
        };
        if bytes == 0 { Err(Error::usage("the size is 0")) } else { Ok(bytes) }
    }
}

/// The size with its unit, without `/s`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Number(bytes) => {
                let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
                match units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
                    Some((unit, word)) => write!(f, "{}{word}", bytes / unit),
                    None => write!(f, "{bytes}B"),
                }
            }
            Size::Text(text) => f.write_str(text.trim_end_matches("/s")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_both_kinds_of_units() {
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("1.5 GB"), Ok(1_500_000_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert!(parse_bytes("many").is_err());
        assert!(parse_bytes("1 parsec").is_err());
    }

    #[test]
    fn rates_are_sizes_per_second() {
        let size = |text: &str| serde_json::from_str::<Size>(text).unwrap().bytes();
        assert_eq!(size("\"5MB/s\"").unwrap(), 5_000_000);
        assert_eq!(size("\"2 KiB/s\"").unwrap(), 2048);
        assert_eq!(size("70").unwrap(), 70);
        assert!(size("0").is_err() && size("\"5MB/h\"").is_err());
        assert_eq!(Size::Number(12_000_000).to_string(), "12MB");
        assert_eq!(Size::Text("5MB/s".into()).to_string(), "5MB");
    }
}
