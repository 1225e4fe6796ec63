//! Read and write options of all formats in one struct each; a format supports some of them.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};
use euphrates_flow::depth::check_brackets;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use crate::text::compression::{FileCodec, unpacked_name};
use crate::text::rejects::ErrorPolicy;
use euphrates_device::location::{FileRef, extension_of};
use euphrates_device::storage_options::StorageOptions;

/// Options for reading a file or stream.
///
/// ```
/// use arrow::datatypes::DataType;
/// use euphrates_formats::{BatchStream, ReadOptions};
///
/// let types = [("id".to_string(), "string".to_string())].into();
/// let options = ReadOptions { types: Some(types), ..ReadOptions::default() };
/// let read = BatchStream::open("csv", &b"id\n007\n"[..], None, &options)?;
/// assert_eq!(read.schema.field(0).data_type(), &DataType::Utf8, "not the integer 7");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format's name; by the path's extension if absent.
    pub format: Option<String>,
    /// The columns to read, in this order; all if absent.
    pub columns: Option<Vec<String>>,
    /// CSV: the character between fields.
    pub delimiter: Option<char>,
    /// CSV: whether the first line holds the column names.
    pub header: Option<bool>,
    /// CSV and JSON: column types by name, in place of inferred ones.
    pub types: Option<BTreeMap<String, String>>,
    /// CSV: the character around fields that may hold any other; no quoting if empty.
    pub quote: Option<String>,
    /// CSV: the character that makes the next one literal.
    pub escape: Option<char>,
    /// CSV: the character that begins a comment, which ends with its line.
    pub comment: Option<char>,
    /// CSV: number of lines to skip before the first record or header.
    pub skip_rows: Option<usize>,
    /// CSV: unquoted fields that are nulls.
    pub null_values: Option<Vec<String>>,
    /// Text: its encoding; by the byte order mark if absent, else UTF-8.
    pub encoding: Option<String>,
    /// Text and records: read as uncompressed, whatever the first bytes and the name suggest.
    pub is_uncompressed: bool,
    /// Whether names of folders like `year=2024/` are columns: `None` if there are any, `true` if
    /// there must be some.
    pub hive: Option<bool>,
    /// Which columns the table has if files have different ones: `true` for those of any file,
    /// `false` for those of the first; `None` for those of the first, and an error if others have
    /// more.
    pub union_by_name: Option<bool>,
    /// CSV and JSON: reads on behind records that cannot be read; without it they are errors.
    pub on_error: Option<ErrorPolicy>,
    /// The files to read, by their standing names; others only contribute columns.
    pub only: Option<BTreeSet<String>>,
    /// Types of columns in names of folders; the others are told from their values.
    pub hive_types: Option<BTreeMap<String, String>>,
    /// Options of the store or server of the paths.
    pub storage: StorageOptions,
}

/// Options for writing a file or stream.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_formats::{PipeWriter, WriteOptions};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let options = WriteOptions {
///     header: Some(false),
///     null_value: Some("-".into()),
///     ..WriteOptions::default()
/// };
/// let mut out = vec![];
/// PipeWriter::open("csv", &mut out, &batch.schema(), &options)?.write(&batch)?;
/// assert_eq!(out, b"7\n-\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Parquet and Arrow IPC: the codec of pages or buffers; other formats: of the whole file.
    pub compression: Option<Compression>,
    /// CSV: the character between fields.
    pub delimiter: Option<char>,
    /// CSV: whether to write the column names as the first line.
    pub header: Option<bool>,
    /// CSV: the character around fields that need it; no quoting if empty.
    pub quote: Option<String>,
    /// CSV: the character that makes a special one literal.
    pub escape: Option<char>,
    /// CSV: the text written for a null.
    pub null_value: Option<String>,
    /// The keys by which the rows of every chunk are ordered, most significant first. Parquet
    /// records them.
    pub sorted_by: Vec<SortedColumn>,
}

/// A column by which rows are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedColumn {
    /// Its name.
    pub name: String,
    /// Whether the greatest values come first.
    pub descending: bool,
    /// Whether nulls come before all values.
    pub nulls_first: bool,
}

/// A compression codec of pages, buffers or whole files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression; a usage error if the extension of the file names one.
    None,
    /// LZ4: blocks in Parquet, frames in Arrow IPC.
    Lz4,
    /// Zstandard: level 1 in Parquet, level 3 for whole files.
    Zstd,
    /// Snappy: only in Parquet.
    Snappy,
    /// Gzip: in Parquet, and for whole files.
    Gzip,
    /// Brotli: only in Parquet.
    Brotli,
    /// Bzip2: only for whole files.
    Bzip2,
}

impl Compression {
    const NAMES: [(&str, Compression); 7] = [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
        ("snappy", Compression::Snappy),
        ("gzip", Compression::Gzip),
        ("brotli", Compression::Brotli),
        ("bzip2", Compression::Bzip2),
    ];

    /// The codec of this name: `none`, `lz4`, `zstd`, `snappy`, `gzip`, `brotli`, `bzip2`.
    ///
    /// ```
    /// use euphrates_formats::Compression;
    ///
    /// assert_eq!(Compression::named("zstd")?, Compression::Zstd);
    /// assert!(Compression::named("ztsd").is_err());
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn named(name: &str) -> Result<Compression> {
        let found = Compression::NAMES.iter().find(|(known, _)| *known == name);
        let names = Compression::NAMES.iter().map(|(known, _)| *known);
        found.map(|(_, found)| *found).ok_or_else(|| unknown("compression", name, names))
    }
}

/// `true` for `none`: input is read as uncompressed. `false` if absent: the first bytes determine
/// the codec. A usage error for any other value.
///
/// ```
/// use euphrates_formats::parse_read_compression;
///
/// assert!(parse_read_compression(Some("none"))?);
/// assert!(!parse_read_compression(None)?, "the first bytes tell");
/// assert!(parse_read_compression(Some("gzip")).is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn parse_read_compression(compression: Option<&str>) -> Result<bool> {
    match compression {
        None => Ok(false),
        Some("none") => Ok(true),
        Some(other) => Err(Error::usage(format!("`compression` of what is read is {other:?}"))
            .remedy("leave it out, the first bytes tell; or say none, if they only look like it")),
    }
}

impl ReadOptions {
    /// Whether a file is read, rather than a source of columns alone.
    pub(crate) fn wants(&self, file: &FileRef) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&file.standing()))
    }
}

impl WriteOptions {
    /// The codec for a whole file of a plain format.
    pub(crate) fn packing(&self) -> Option<FileCodec> {
        match self.compression? {
            Compression::Gzip => Some(FileCodec::Gzip),
            Compression::Bzip2 => Some(FileCodec::Bzip2),
            Compression::Zstd => Some(FileCodec::Zstd),
            Compression::None | Compression::Lz4 | Compression::Snappy | Compression::Brotli => {
                None
            }
        }
    }
}

/// The default delimiter of CSV with this format name or extension, if it is not a comma.
pub(crate) fn default_delimiter(called: &str) -> Option<char> {
    (called == "tsv").then_some('\t')
}

/// The type of this name: `int64`, `string`, `date`, `timestamp` (microseconds; also `timestamp_s`,
/// `_ms` and `_ns`), `timestamptz` (the same in UTC), `time`, `binary`, `decimal(15, 2)`, or any
/// type in Arrow's notation, like `Decimal128(15, 2)`, or in that of PyArrow, like
/// `timestamp[us, tz=UTC]`.
///
/// ```
/// use arrow::datatypes::DataType;
/// use euphrates_formats::options::type_named;
///
/// assert_eq!(type_named("date")?, DataType::Date32);
/// assert_eq!(type_named("integer")?, DataType::Int32);
/// assert_eq!(type_named("Decimal128(15, 2)")?, DataType::Decimal128(15, 2));
/// assert_eq!(type_named("decimal(15,2)")?, DataType::Decimal128(15, 2));
/// assert_eq!(type_named("date32[day]")?, DataType::Date32);
/// assert_eq!(type_named("timestamp[us, tz=UTC]")?, type_named("timestamptz")?);
/// assert!(type_named("decimal(39, 2)").is_err() && type_named("time32[us]").is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn type_named(name: &str) -> Result<DataType> {
    check_brackets(name, "the type")?;
    let short = match name.trim().to_lowercase().as_str() {
        "bool" | "boolean" => DataType::Boolean,
        "int8" | "tinyint" => DataType::Int8,
        "int16" | "smallint" => DataType::Int16,
        "int32" | "int" | "integer" => DataType::Int32,
        "int64" | "bigint" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" | "float" | "real" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "string" | "str" | "utf8" | "text" | "varchar" => DataType::Utf8,
        "date" | "date32" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "binary" | "blob" | "bytes" => DataType::Binary,
        "timestamp" | "timestamp_us" | "datetime" => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        "timestamp_s" => DataType::Timestamp(TimeUnit::Second, None),
        "timestamp_ms" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => {
            let known = decimal_named(name).or_else(|| pyarrow_type(name));
            return known.or_else(|| name.parse().ok()).ok_or_else(|| {
                Error::usage(format!("no type named `{name}`"))
                    .remedy("like int64, float64, string, bool, date, timestamp, decimal(15, 2)")
            });
        }
    };
    Ok(short)
}

/// `decimal(15, 2)`.
fn decimal_named(name: &str) -> Option<DataType> {
    let name = name.trim().to_lowercase();
    let rest = name.strip_prefix("decimal").or_else(|| name.strip_prefix("numeric"))?;
    let rest = rest.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    let (digits, scale) = rest.split_once(',').unwrap_or((rest, "0"));
    let (digits, scale) = (digits.trim().parse().ok()?, scale.trim().parse().ok()?);
    let is_possible =
        (1..=DECIMAL128_MAX_PRECISION).contains(&digits) && (0..=digits as i8).contains(&scale);
    is_possible.then_some(DataType::Decimal128(digits, scale))
}

/// A type with a unit as PyArrow writes it: `timestamp[us, tz=Europe/Berlin]`, `time64[ns]`.
fn pyarrow_type(name: &str) -> Option<DataType> {
    let (kind, rest) = name.trim().strip_suffix(']')?.split_once('[')?;
    let (unit, zone) = match rest.split_once(',') {
        Some((unit, zone)) => (unit, Some(zone.trim().trim_start_matches("tz=").into())),
        None => (rest, None),
    };
    let of = match unit.trim() {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        "day" if kind == "date32" => return Some(DataType::Date32),
        _ => return None,
    };
    let is_fine = matches!(of, TimeUnit::Microsecond | TimeUnit::Nanosecond);
    match kind {
        "timestamp" => Some(DataType::Timestamp(of, zone)),
        "date64" if of == TimeUnit::Millisecond => Some(DataType::Date64),
        "time32" if !is_fine => Some(DataType::Time32(of)),
        "time64" if is_fine => Some(DataType::Time64(of)),
        "duration" => Some(DataType::Duration(of)),
        _ => None,
    }
}

/// The default delimiter of a file with this name, if it is not a comma.
pub(crate) fn default_delimiter_of_path(path: &str) -> Option<char> {
    default_delimiter(&extension_of(unpacked_name(path))?)
}
