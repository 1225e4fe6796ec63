//! Files of others: what they are, how they are read in splits and written in chunks.
//!
//! A format is one file here and one line in `FORMATS`. Reading is by splits, so that a queue can
//! balance it; writing is by chunks that are encoded apart from each other and appended in order.

use std::any::Any;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use crate::blob::Blob;
use crate::location::FileRef;
use packing::{PackedWriter, Packing, unpacked_name};

pub mod dataset;
pub mod options;
pub mod stream;

mod agree;
mod arrow_ipc;
mod arrow_ipc_check;
mod arrow_ipc_slices;
mod arrow_ipc_stream;
mod arrow_ipc_swap;
mod arrow_ipc_write;
mod charset;
mod csv;
mod csv_cell;
mod csv_dialect;
mod csv_fields;
mod csv_quotes;
mod csv_rows;
mod guess;
mod json_documents;
mod json_escapes;
mod json_guess;
mod json_lines;
mod json_rows;
mod json_texts;
mod limits;
mod lines;
mod moments;
mod packing;
mod parquet;
mod places;
mod printed;
mod records;
mod rows;
mod source;
mod text;
mod typed;

pub use dataset::Dataset;
pub use limits::{ReadLimits, limit_samples};
pub use options::{Compression, ReadOptions, WriteOptions, is_uncompressed, usual_delimiter};
pub use stream::{Input, Sink, Stream};

/// All formats. The first one that has a file's extension reads it.
pub static FORMATS: &[&dyn Format] = &[
    &parquet::Parquet,
    &csv::Csv,
    &json_lines::JsonLines,
    &arrow_ipc::ArrowIpc,
    &records::Records,
    &lines::Lines,
];

/// The batches of a split, in order, of about a megabyte each.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What an encoder has to tell the footer about a chunk; each format has its own.
pub type Note = Box<dyn Any + Send>;

/// A file format.
pub trait Format: Sync {
    /// Its name in configurations.
    fn name(&self) -> &'static str;

    /// The extensions it is known by, in lower case, without the dot.
    fn extensions(&self) -> &'static [&'static str];

    /// The options it understands beyond those every format does.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether its files are plain bytes from front to back, so that they may be compressed as a
    /// whole; others are compressed inside, if at all.
    fn is_plain(&self) -> bool {
        false
    }

    /// Reads what is needed to know schema and splits of a file. `file` is how to open it again.
    fn open(&self, file: &FileRef, blob: Blob, options: &ReadOptions) -> Result<Arc<dyn Opened>>;

    /// The schema of two files read as one, or an error that says where they differ. Columns are
    /// matched by name.
    fn agree(&self, one: &Schema, other: &Schema) -> Result<Schema> {
        agree::alike(one, other)
    }

    /// Whether it has no types of its own, and infers them from a sample.
    fn infers(&self) -> bool {
        false
    }

    /// A writer of files with this schema; a usage error if the format cannot hold it.
    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>>;

    /// Reads what can be read only once, from front to back. Fails if it does not have the
    /// `columns`; without them it may have to wait for a sample.
    fn read_stream(
        &self,
        input: Input,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<Stream> {
        let _ = (input, columns, options);
        Err(Error::usage(format!("{} cannot be read from a pipe", self.name()))
            .remedy("save it to a file, and `scan` that"))
    }

    /// A writer to what can be written only once, from front to back.
    fn stream_writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        self.writer(schema, options)
    }
}

/// A file whose schema and splits are known. It holds no file descriptor.
pub trait Opened: Send + Sync {
    /// The columns, in the order of the file.
    fn schema(&self) -> &SchemaRef;

    /// The columns of the table if none of its files has any, although there is something in it.
    fn bare(&self) -> Option<SchemaRef> {
        None
    }

    /// How many splits it has.
    fn splits(&self) -> usize;

    /// Bytes that will be read, if that is known.
    fn bytes(&self) -> Option<u64>;

    /// The batches of a split, with exactly this schema: columns of the file by name, with types
    /// all files of the data set agree on. A resource error if it takes more than the limits allow.
    fn read(
        self: Arc<Self>,
        split: usize,
        schema: &SchemaRef,
        limits: &ReadLimits,
    ) -> Result<Batches>;

    /// About what is held while a split is read with this schema, beyond a few batches.
    fn bytes_held(&self, schema: &Schema) -> u64 {
        let _ = schema;
        0
    }
}

/// Makes the bytes of one file.
pub trait Writer: Send + Sync {
    /// What the file begins with.
    fn header(&self) -> Result<Vec<Buffer>> {
        Ok(vec![])
    }

    /// Something that encodes batches independently of other encoders.
    fn encoder(&self) -> Result<Box<dyn Encoder>>;

    /// What the file ends with, given where each chunk begins and what was noted about it, in the
    /// order of the file.
    fn footer(&self, chunks: Vec<(u64, Note)>) -> Result<Vec<Buffer>> {
        let _ = chunks;
        Ok(vec![])
    }
}

/// Encodes batches to chunks of a file.
pub trait Encoder: Send {
    /// Encodes a batch behind what was pushed before.
    fn push(&mut self, batch: &RecordBatch) -> Result<()>;

    /// About how many bytes have been encoded since the last `finish`.
    fn bytes(&self) -> usize;

    /// About how many bytes it holds, which may be far more where it looks for equal values.
    fn held_bytes(&self) -> usize {
        self.bytes()
    }

    /// The chunk of what was pushed; the encoder is empty afterwards.
    fn finish(&mut self) -> Result<Chunk>;
}

/// A part of a file that is whole in itself.
pub struct Chunk {
    /// Its bytes, one part behind the other.
    pub parts: Vec<Buffer>,
    /// What the footer needs to know of it.
    pub note: Note,
}

impl Chunk {
    /// A chunk the footer need not know of.
    fn bytes(bytes: Vec<u8>) -> Chunk {
        Chunk { parts: vec![Buffer::from_vec(bytes)], note: Box::new(()) }
    }
}

/// The format of this name, or of this extension.
pub fn format_named(name: &str) -> Result<&'static dyn Format> {
    let called =
        |format: &&'static dyn Format| format.name() == name || format.extensions().contains(&name);
    let found = FORMATS.iter().copied().find(called);
    found.ok_or_else(|| unknown("format", name, FORMATS.iter().map(|format| format.name())))
}

/// The format a path's extension stands for, or the one named. Behind that of a plain format may
/// stand the extension of a compression.
pub fn format_of(path: &str, named: Option<&str>) -> Result<&'static dyn Format> {
    if let Some(name) = named {
        return format_named(name);
    }
    let packing = Packing::of_path(path);
    let extension = crate::location::extension_of(unpacked_name(path)).unwrap_or_default();
    let known = |format: &&'static dyn Format| format.extensions().contains(&extension.as_str());
    match (FORMATS.iter().copied().find(known), packing) {
        (Some(format), None) => Ok(format),
        (Some(format), Some(_)) if format.is_plain() => Ok(format),
        (Some(format), Some(_)) => {
            Err(Error::usage(format!("{path}: {} is not compressed as a whole", format.name()))
                .remedy("decompress it; Parquet and Arrow files are compressed inside"))
        }
        (None, _) if matches!(extension.as_str(), "xz" | "zip" | "lz4") => {
            Err(Error::usage(format!("{path} is compressed with {extension}"))
                .remedy("decompress it, or compress it with gzip, bzip2 or zstd instead"))
        }
        (None, _) => {
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
            Err(Error::usage(format!("the format of {path} cannot be told from its name"))
                .remedy(format!("give its `format`, one of {}", names.join(", "))))
        }
    }
}

/// The ends of the names of a format's files.
fn endings(format: &dyn Format) -> Vec<String> {
    let with = |extension: &&'static str| {
        let packed = Packing::ALL.iter().filter(|_| format.is_plain());
        let packed = packed.map(move |packing| format!("{extension}.{}", packing.extension()));
        std::iter::once(extension.to_string()).chain(packed).collect::<Vec<_>>()
    };
    format.extensions().iter().flat_map(with).collect()
}

/// What stands between fields of a file of this name, if that is not a comma.
pub fn usual_delimiter_of(path: &str) -> Option<char> {
    usual_delimiter(&crate::location::extension_of(unpacked_name(path))?)
}

/// A writer to a file of this name, or the format named. What is compressed as a whole is told from
/// the extension, unless the options say it.
pub fn writer_of(
    path: &str,
    named: Option<&str>,
    schema: &SchemaRef,
    options: &WriteOptions,
) -> Result<Arc<dyn Writer>> {
    let format = format_of(path, named)?;
    let usual = named.and_then(usual_delimiter).or_else(|| usual_delimiter_of(path));
    let usual = usual.filter(|_| format.options().contains(&"delimiter"));
    let options = WriteOptions { delimiter: options.delimiter.or(usual), ..options.clone() };
    options.check(format)?;
    let by_name = Packing::of_path(path).filter(|_| format.is_plain());
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

/// The writer, of compressed chunks if its format is plain and they are to be.
fn packed(
    format: &dyn Format,
    inner: Arc<dyn Writer>,
    packing: Option<Packing>,
) -> Arc<dyn Writer> {
    match packing.filter(|_| format.is_plain()) {
        Some(packing) => Arc::new(PackedWriter { inner, packing }),
        None => inner,
    }
}

/// Fails if there is no column: such a file would hold nothing but a number of rows.
fn some_column(schema: &arrow::datatypes::Schema, format: &dyn Format) -> Result<()> {
    match schema.fields().is_empty() {
        false => Ok(()),
        true => Err(Error::usage(format!("a {} file needs a column", format.name()))
            .remedy("select at least one")),
    }
}

/// Runs a decoder of untrusted bytes: a panic in it means that the bytes are not what they claim.
fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::corrupt("the file is damaged: its decoder gave up")))
}
