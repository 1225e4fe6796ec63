//! What can be said about a file beyond its path: one set of options for all formats, of which
//! each understands some.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, TimeUnit};
use euphrates_flow::depth::check_brackets;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use crate::text::compression::{Packing, unpacked_name};
use euphrates_device::location::extension_of;

/// How files are to be read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format's name; told from the extension if absent.
    pub format: Option<String>,
    /// The columns to read, in this order; all if absent.
    pub columns: Option<Vec<String>>,
    /// CSV: the character between fields.
    pub delimiter: Option<char>,
    /// CSV: whether the first line names the columns.
    pub header: Option<bool>,
    /// CSV and JSON lines: types of columns by name, instead of those inferred from a sample.
    pub types: Option<BTreeMap<String, String>>,
    /// CSV: the character around fields that may hold anything; none if empty.
    pub quote: Option<String>,
    /// CSV: the character that takes its meaning from the one behind it.
    pub escape: Option<char>,
    /// CSV: the character with which comments begin, which end with their line.
    pub comment: Option<char>,
    /// CSV: how many lines before the first are none.
    pub skip_rows: Option<usize>,
    /// CSV: fields without quotes that are nulls.
    pub null_values: Option<Vec<String>>,
    /// Text: its encoding; UTF-8, or what a mark at its beginning says, if absent.
    pub encoding: Option<String>,
    /// Text and records: whatever the first bytes and the name say, they are not compressed.
    pub is_uncompressed: bool,
}

/// How a file is to be written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Parquet and Arrow IPC: how pages or buffers are compressed; other formats: the file.
    pub compression: Option<Compression>,
    /// CSV: the character between fields.
    pub delimiter: Option<char>,
    /// CSV: whether the first line names the columns.
    pub header: Option<bool>,
    /// CSV: the character around fields that need it; none if empty.
    pub quote: Option<String>,
    /// CSV: the character before those that mean something.
    pub escape: Option<char>,
    /// CSV: what is written for a null.
    pub null_value: Option<String>,
}

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
    /// Snappy.
    Snappy,
    /// Gzip.
    Gzip,
    /// Bzip2.
    Bzip2,
}

impl Compression {
    const NAMES: [(&str, Compression); 6] = [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
        ("snappy", Compression::Snappy),
        ("gzip", Compression::Gzip),
        ("bzip2", Compression::Bzip2),
    ];

    /// The compression of this name: `none`, `lz4`, `zstd`, `snappy`, `gzip`, `bzip2`.
    pub fn named(name: &str) -> Result<Compression> {
        let found = Compression::NAMES.iter().find(|(known, _)| *known == name);
        let names = Compression::NAMES.iter().map(|(known, _)| *known);
        found.map(|(_, found)| *found).ok_or_else(|| unknown("compression", name, names))
    }
}

/// Whether `compression` says that what is read is not compressed; what it is compressed with is
/// told from its first bytes.
pub fn is_uncompressed(compression: Option<&str>) -> Result<bool> {
    match compression {
        None => Ok(false),
        Some("none") => Ok(true),
        Some(other) => Err(Error::usage(format!("`compression` of what is read is {other:?}"))
            .remedy("leave it out, the first bytes tell; or say none, if they only look like it")),
    }
}

impl WriteOptions {
    /// How a file of a plain format is compressed.
    pub(crate) fn packing(&self) -> Option<Packing> {
        match self.compression? {
            Compression::Gzip => Some(Packing::Gzip),
            Compression::Bzip2 => Some(Packing::Bzip2),
            Compression::Zstd => Some(Packing::Zstd),
            Compression::None | Compression::Lz4 | Compression::Snappy => None,
        }
    }
}

/// What stands between fields of CSV of this name or extension, if that is not a comma.
pub fn usual_delimiter(called: &str) -> Option<char> {
    (called == "tsv").then_some('\t')
}

/// The type of this name: `int64`, `string`, `date`, `timestamp` (microseconds; `timestamp_s`,
/// `_ms` and `_ns` are others), `timestamptz` (the same in UTC), or any type as Arrow writes it,
/// like `Decimal128(15, 2)`.
pub fn type_named(name: &str) -> Result<DataType> {
    check_brackets(name, "the type")?;
    let short = match name.trim().to_lowercase().as_str() {
        "bool" | "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" | "int" => DataType::Int32,
        "int64" | "bigint" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" | "float" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "string" | "utf8" | "text" | "varchar" => DataType::Utf8,
        "date" | "date32" => DataType::Date32,
        "timestamp" | "timestamp_us" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamp_s" => DataType::Timestamp(TimeUnit::Second, None),
        "timestamp_ms" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => {
            return name.parse().map_err(|_| {
                Error::usage(format!("no type named `{name}`"))
                    .remedy("like int64, float64, string, bool, date, timestamp, Decimal128(15, 2)")
            });
        }
    };
    Ok(short)
}

/// What stands between fields of a file of this name, if that is not a comma.
pub fn usual_delimiter_of(path: &str) -> Option<char> {
    usual_delimiter(&extension_of(unpacked_name(path))?)
}
