//! The interface of a file format. Files are read in splits, so that a queue can balance them, and
//! written in chunks that are encoded independently and appended in order.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;
use euphrates_flow::{Error, Result};

use crate::dataset::row_filter::RowMatcher;
use crate::options::{ReadOptions, WriteOptions};
use crate::predicate::{RowPredicate, StoredBounds};
use crate::schema_unification;
use crate::stream::{BatchStream, ByteInput, SplitBatches};
use crate::text::limits::ReadLimits;

/// Data that a format's encoder passes to [`Writer::footer`]; each format downcasts its own type.
pub type ChunkMetadata = Box<dyn Any + Send>;

/// The constant properties of a format.
pub struct FormatInfo {
    /// Its name in configurations and messages.
    pub name: &'static str,
    /// The extensions of its files, in lower case, without the dot.
    pub extensions: &'static [&'static str],
    /// The options it supports beyond those every format does.
    pub options: &'static [&'static str],
    /// Whether its files are plain bytes from front to back, which may be compressed as a whole;
    /// other formats compress inside, if at all.
    pub compresses_whole: bool,
    /// Whether it stores no types, and infers them from a sample.
    pub infers_types: bool,
    /// Whether a record may lack columns, or have some that no sample shows.
    pub records_omit_columns: bool,
    /// Whether `read` without columns returns as many rows as there are.
    pub counts_rows: bool,
    /// Whether `read_matching` leaves out rows.
    pub selects_rows: bool,
}

/// A file format: opens files and streams, and makes writers for them.
pub trait Format: Sync {
    /// What is fixed about it.
    fn about(&self) -> &'static FormatInfo;

    /// Reads what determines the schema and the splits of a file. `file` opens it again later.
    fn open(
        &self,
        file: &FileRef,
        blob: Blob,
        options: &ReadOptions,
    ) -> Result<Arc<dyn OpenedFile>>;

    /// The schema of two files read as one, or an error that says where they differ. Columns are
    /// matched by name; `union_by_name` as in [`ReadOptions`].
    fn unify(&self, one: &Schema, other: &Schema, union_by_name: Option<bool>) -> Result<Schema> {
        schema_unification::alike(one, other, union_by_name)
    }

    /// A writer of files with this schema; a usage error if the format cannot represent it.
    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>>;

    /// Reads an input from front to back, once. Fails if the input does not have the `columns`;
    /// without them it may block until a sample has arrived.
    fn read_stream(
        &self,
        input: ByteInput,
        columns: Option<SchemaRef>,
        options: &ReadOptions,
    ) -> Result<BatchStream> {
        let _ = (input, columns, options);
        Err(Error::usage(format!("{} cannot be read from a pipe", self.about().name))
            .remedy("save it to a file, and `scan` that"))
    }

    /// A writer to an output that is written from front to back, once.
    fn stream_writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        self.writer(schema, options)
    }
}

/// A file whose schema and splits are known. It holds no file descriptor.
pub trait OpenedFile: Send + Sync {
    /// The columns, in the order of the file.
    fn schema(&self) -> &SchemaRef;

    /// The schema to use if no file of the table has a column: for JSON the raw text of each
    /// record. `None` if this file is empty.
    fn fallback_schema(&self) -> Option<SchemaRef> {
        None
    }

    /// Number of splits; an empty file may have none.
    fn splits(&self) -> usize;

    /// The offset in the file where a split begins; 0 if the file does not know.
    fn split_begin(&self, split: usize) -> u64 {
        let _ = split;
        0
    }

    /// Bytes that will be read; `None` if that is not known.
    fn bytes(&self) -> Option<u64>;

    /// What the file tells of its splits without their being read; `None` if it tells nothing.
    fn statistics(&self) -> Option<&dyn SplitStatistics> {
        None
    }

    /// The batches of a split, or of some rows of it, under exactly this schema: columns are
    /// matched by name and have the types on which all files agree. A resource error if they take
    /// more than the limits.
    fn read(
        &self,
        part: &SplitPart,
        schema: &SchemaRef,
        limits: &ReadLimits,
    ) -> Result<SplitBatches>;

    /// Like `read`, without some of the rows that do not match: what is not cheaper to leave out is
    /// returned.
    fn read_matching(
        &self,
        part: &SplitPart,
        schema: &SchemaRef,
        limits: &ReadLimits,
        matcher: RowMatcher,
    ) -> Result<SplitBatches> {
        let _ = matcher;
        self.read(part, schema, limits)
    }

    /// Whether it stores a column of this name and type with few different values, which are read
    /// faster with a dictionary: then `read` accepts it with one.
    fn has_dictionary(&self, field: &Field) -> bool {
        let _ = field;
        false
    }

    /// Approximate memory while a split is read with this schema, in bytes, beyond a few batches.
    fn held_bytes(&self, schema: &Schema) -> u64 {
        let _ = schema;
        0
    }
}

/// A split, or some rows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPart {
    /// The number of the split in its file.
    pub split: usize,
    /// The rows that are read; `None` for all. Only of a split that has
    /// [`SplitStatistics::divisible_rows`].
    pub rows: Option<Range<usize>>,
}

/// The rows of a split of which a range can be read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivisibleRows {
    /// Their number.
    pub rows: usize,
    /// Mean bytes of a column, as they are decoded.
    pub column_bytes: u64,
}

/// What a file tells of the rows of its splits.
pub trait SplitStatistics {
    /// The rows of a split if a range of them is read at about its share of the cost; else `None`.
    fn divisible_rows(&self, split: usize) -> Option<DivisibleRows> {
        let _ = split;
        None
    }

    /// For each of these splits, whether any of its rows may pass a filter with this predicate.
    /// Reads nothing beyond what `open` did.
    fn may_pass(&self, splits: Range<usize>, predicate: &RowPredicate) -> Vec<bool>;

    /// The bounds of a column, by its name, in each of these splits; `None` if they are not known.
    /// Reads nothing beyond what `open` did.
    fn bounds(&self, splits: Range<usize>, column: &str) -> Option<StoredBounds>;

    /// Whether any row of a split may pass a filter with this predicate. May read more of the file,
    /// far less than the split.
    fn may_pass_any(&self, split: usize, predicate: &RowPredicate) -> Result<bool>;
}

/// A file whose splits a function reads.
pub(crate) struct OpenFile<R> {
    /// The columns, in the order of the file.
    pub schema: SchemaRef,
    /// Used if no file of the table has a column, see [`OpenedFile::fallback_schema`].
    pub bare: Option<SchemaRef>,
    /// Where each split begins; `read` reads it independently of the others.
    pub splits: Vec<u64>,
    /// Bytes that will be read; `None` if that is not known.
    pub bytes: Option<u64>,
    /// Reads a split, see [`OpenedFile::read`].
    pub read: R,
}

impl<R> OpenedFile for OpenFile<R>
where
    R: Fn(usize, &SchemaRef, &ReadLimits) -> Result<SplitBatches> + Send + Sync,
{
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn fallback_schema(&self) -> Option<SchemaRef> {
        self.bare.clone()
    }

    fn splits(&self) -> usize {
        self.splits.len()
    }

    fn split_begin(&self, split: usize) -> u64 {
        self.splits[split]
    }

    fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    fn read(
        &self,
        part: &SplitPart,
        schema: &SchemaRef,
        limits: &ReadLimits,
    ) -> Result<SplitBatches> {
        (self.read)(part.split, schema, limits)
    }
}

/// Adds the file to the error's places, unless the error names it already.
pub(crate) fn at(error: Error, file: &str) -> Error {
    if error.places().any(|place| place.starts_with(file)) { error } else { error.at(file) }
}

/// Writes one file: a header, chunks and a footer.
pub trait Writer: Send + Sync {
    /// The bytes before the first chunk.
    fn header(&self) -> Result<Vec<Buffer>> {
        Ok(vec![])
    }

    /// A new encoder, which works independently of other encoders.
    fn encoder(&self) -> Result<Box<dyn Encoder>>;

    /// The bytes after the last chunk, given the offset and the note of each chunk in file order.
    fn footer(&self, chunks: Vec<(u64, ChunkMetadata)>) -> Result<Vec<Buffer>> {
        let _ = chunks;
        Ok(vec![])
    }
}

/// Encodes batches into chunks of a file.
pub trait Encoder: Send {
    /// Encodes a batch after those pushed before.
    fn push(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Approximate bytes encoded since the last `finish`.
    fn bytes(&self) -> usize;

    /// Approximate memory of the encoder in bytes; more than `bytes` while it builds dictionaries.
    fn held_bytes(&self) -> usize {
        self.bytes()
    }

    /// The chunk of the batches pushed; the encoder is empty afterwards.
    fn finish(&mut self) -> Result<EncodedChunk>;
}

/// A self-contained part of a file.
pub struct EncodedChunk {
    /// Its bytes, to be concatenated.
    pub parts: Vec<Buffer>,
    /// What the footer records about it.
    pub note: ChunkMetadata,
}

impl EncodedChunk {
    /// A chunk about which the footer records nothing.
    pub(crate) fn bytes(bytes: Vec<u8>) -> EncodedChunk {
        EncodedChunk { parts: vec![Buffer::from_vec(bytes)], note: Box::new(()) }
    }
}

/// Opens a file again; a corruption error if its length is no longer `bytes`.
pub(crate) fn open_again(file: &FileRef, bytes: u64) -> Result<Blob> {
    let blob = file.open()?;
    if blob.bytes() != bytes {
        let message = "the file changed between being opened and being read";
        return Err(Error::corrupt(message).at(blob.name()).remedy("run again"));
    }
    Ok(blob)
}

/// Fails if there is no column: such a file would hold nothing but a number of rows.
pub(crate) fn some_column(schema: &arrow::datatypes::Schema, format: &dyn Format) -> Result<()> {
    match schema.fields().is_empty() {
        false => Ok(()),
        true => Err(Error::usage(format!("a {} file needs a column", format.about().name))
            .remedy("select at least one")),
    }
}

/// Runs a decoder of untrusted bytes; a panic in it becomes an error that the bytes are damaged.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::corrupt("the file is damaged: its decoder gave up")))
}
