//! The interface of a file format: files are read in splits, so that a queue can balance them, and
//! written in chunks that are encoded independently and appended in order.

use std::any::Any;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;
use euphrates_flow::{Error, Result};

use crate::options::{ReadOptions, WriteOptions};
use crate::schema_unification;
use crate::stream::{Batches, Input, Stream};
use crate::text::limits::ReadLimits;

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
        schema_unification::alike(one, other)
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
    pub(crate) fn bytes(bytes: Vec<u8>) -> Chunk {
        Chunk { parts: vec![Buffer::from_vec(bytes)], note: Box::new(()) }
    }
}

/// Fails if there is no column: such a file would hold nothing but a number of rows.
pub(crate) fn some_column(schema: &arrow::datatypes::Schema, format: &dyn Format) -> Result<()> {
    match schema.fields().is_empty() {
        false => Ok(()),
        true => Err(Error::usage(format!("a {} file needs a column", format.name()))
            .remedy("select at least one")),
    }
}

/// Runs a decoder of untrusted bytes: a panic in it means that the bytes are not what they claim.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::corrupt("the file is damaged: its decoder gave up")))
}
