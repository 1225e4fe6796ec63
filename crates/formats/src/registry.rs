//! Lists all formats and finds them by name or file extension.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_device::location::extension_of;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use crate::format::{Format, Writer};
use crate::options::{WriteOptions, default_delimiter, default_delimiter_of_path};
use crate::text::compressed_writer::PackedWriter;
use crate::text::compression::{FileCodec, unpacked_name};
use crate::{arrow_ipc, csv, json, lines, parquet, records};

/// All formats. The first one with a file's extension reads it.
pub static FORMATS: &[&dyn Format] = &[
    &parquet::Parquet,
    &csv::Csv,
    &json::Json,
    &arrow_ipc::ArrowIpc,
    &records::RecordsFormat,
    &lines::Lines,
];

/// The format with this name or extension.
///
/// ```
/// use euphrates_formats::format_named;
///
/// assert_eq!(format_named("parquet")?.about().name, "parquet");
/// assert_eq!(format_named("tsv")?.about().name, "csv", "an extension");
/// assert!(format_named("parqet").is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn format_named(name: &str) -> Result<&'static dyn Format> {
    let called = |format: &&'static dyn Format| {
        format.about().name == name || format.about().extensions.contains(&name)
    };
    let found = FORMATS.iter().copied().find(called);
    found.ok_or_else(|| unknown("format", name, FORMATS.iter().map(|format| format.about().name)))
}

/// The named format, or the one of the path's extension; after the extension of a plain format,
/// that of a compression may follow.
///
/// ```
/// use euphrates_formats::format_of;
///
/// assert_eq!(format_of("days/1.csv.gz", None)?.about().name, "csv");
/// assert!(format_of("days/1.parquet.gz", None).is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn format_of(path: &str, named: Option<&str>) -> Result<&'static dyn Format> {
    if let Some(name) = named {
        return format_named(name);
    }
    let packing = FileCodec::of_path(path);
    let extension = extension_of(unpacked_name(path)).unwrap_or_default();
    let known =
        |format: &&'static dyn Format| format.about().extensions.contains(&extension.as_str());
    match (FORMATS.iter().copied().find(known), packing) {
        (Some(format), None) => Ok(format),
        (Some(format), Some(_)) if format.about().compresses_whole => Ok(format),
        (Some(format), Some(_)) => Err(Error::usage(format!(
            "{path}: {} is not compressed as a whole",
            format.about().name
        ))
        .remedy("decompress it; Parquet and Arrow files are compressed inside")),
        (None, _) if matches!(extension.as_str(), "xz" | "zip" | "lz4") => {
            Err(Error::usage(format!("{path} is compressed with {extension}"))
                .remedy("decompress it, or compress it with gzip, bzip2 or zstd instead"))
        }
        (None, _) => {
            let names: Vec<&str> = FORMATS.iter().map(|format| format.about().name).collect();
            Err(Error::usage(format!("the format of {path} cannot be told from its name"))
                .remedy(format!("name it: `format=\"csv\"`; formats are {}", names.join(", "))))
        }
    }
}

/// The suffixes of the names of a format's files.
pub(crate) fn endings(format: &dyn Format) -> Vec<String> {
    let with = |extension: &&'static str| {
        let packed = FileCodec::ALL.iter().filter(|_| format.about().compresses_whole);
        let packed = packed.map(move |packing| format!("{extension}.{}", packing.extension()));
        std::iter::once(extension.to_string()).chain(packed).collect::<Vec<_>>()
    };
    format.about().extensions.iter().flat_map(with).collect()
}

/// A writer to a file of this name, in the named format if there is one. Without an option
/// the extension determines compression of the whole file; an option must not contradict it.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_formats::{WriteOptions, writer_of};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let writer = writer_of("days.csv", None, &batch.schema(), &WriteOptions::default())?;
/// let mut encoder = writer.encoder()?;
/// encoder.push(&batch)?;
/// assert_eq!(writer.header()?[0].as_slice(), b"n\n");
/// assert_eq!(encoder.finish()?.parts[0].as_slice(), b"7\n8\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn writer_of(
    path: &str,
    named: Option<&str>,
    schema: &SchemaRef,
    options: &WriteOptions,
) -> Result<Arc<dyn Writer>> {
    let format = format_of(path, named)?;
    let usual = named.and_then(default_delimiter).or_else(|| default_delimiter_of_path(path));
    let usual = usual.filter(|_| format.about().options.contains(&"delimiter"));
    let options = WriteOptions { delimiter: options.delimiter.or(usual), ..options.clone() };
    options.check(format)?;
    let by_name = FileCodec::of_path(path).filter(|_| format.about().compresses_whole);
    let packing = match (options.compression, by_name) {
        (None, by_name) => by_name,
        (Some(_), Some(by_name)) if options.packing() != Some(by_name) => {
            let message = format!("{path} would not be compressed as its name says");
            return Err(Error::usage(message).remedy("leave out `compression`, or rename it"));
        }
        (Some(_), _) => options.packing(),
    };
    Ok(packed(format, format.writer(schema, &options)?, packing))
}

/// Wraps the writer to compress chunks, if its format is plain and the options ask for it.
pub(crate) fn packed(
    format: &dyn Format,
    inner: Arc<dyn Writer>,
    packing: Option<FileCodec>,
) -> Arc<dyn Writer> {
    match packing.filter(|_| format.about().compresses_whole) {
        Some(packing) => Arc::new(PackedWriter { inner, packing }),
        None => inner,
    }
}
