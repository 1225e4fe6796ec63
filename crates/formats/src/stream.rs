//! Types and helpers for streams: input that is read once, from front to back.

use std::io::{self, BufRead, Cursor, ErrorKind, Read};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result};

use crate::text::limits::RECORD_BYTES_MAX;
use euphrates_device::pipe::Stopped;

/// The batches of a split, in order, of about a megabyte each.
pub type SplitBatches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What a stream is read from; reads may return few bytes.
pub type ByteInput = Box<dyn BufRead + Send>;

/// Bytes per read of an input.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// The batches of an input, which can be read once.
pub struct BatchStream {
    /// The schema of every batch.
    pub schema: SchemaRef,
    /// The batches in the order of the input.
    pub batches: SplitBatches,
}

/// Wraps a Euphrates error to pass it through an I/O reader.
pub(crate) fn carried(error: Error) -> io::Error {
    io::Error::other(error)
}

/// Whether the cause of an I/O error is self-explanatory: a Euphrates error or a stop.
pub(crate) fn is_known(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    cause.is::<Stopped>() || cause.is::<Error>()
}

pub(crate) fn failed(doing: &str, error: &io::Error) -> Error {
    if let Some(cause) = error.get_ref() {
        if cause.is::<Stopped>() {
            return Error::interrupted();
        }
        if let Some(own) = cause.downcast_ref::<Error>() {
            return own.clone();
        }
    }
    match error.kind() {
        ErrorKind::BrokenPipe => Error::closed(),
        _ => Error::os(doing, "the stream", error),
    }
}

/// Reads `count` bytes, or fewer if the input ends.
pub(crate) fn up_to(input: &mut ByteInput, count: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    let read = input.take(count).read_to_end(&mut bytes);
    read.map_err(|error| failed("read", &error))?;
    Ok(bytes)
}

/// Appends the input up to the end of its first line to `head`.
pub(crate) fn line(input: &mut ByteInput, head: &mut Vec<u8>) -> Result<()> {
    if head.contains(&b'\n') {
        return Ok(());
    }
    let read = input.take(RECORD_BYTES_MAX as u64).read_until(b'\n', head);
    read.map(drop).map_err(|error| failed("read", &error))
}

/// Puts bytes back in front of the input.
pub(crate) fn prepend(head: Vec<u8>, input: ByteInput) -> ByteInput {
    Box::new(Cursor::new(head).chain(input))
}

/// The error of an input that ends before its first byte.
pub(crate) fn nothing() -> Error {
    Error::usage("there is nothing in the input to tell the columns from")
        .remedy("see why nothing was written, or name the `columns`")
}

/// The items that `next` returns, until it has no more or fails.
pub(crate) fn until_error<T>(
    mut next: impl FnMut() -> Result<Option<T>> + Send,
) -> impl Iterator<Item = Result<T>> + Send {
    let mut failed = false;
    std::iter::from_fn(move || {
        let item = if failed { Ok(None) } else { next() };
        failed = item.is_err();
        item.transpose()
    })
}

/// Reads the input in parts of about a batch each, until it ends or fails.
pub(crate) fn parts(mut input: ByteInput) -> impl Iterator<Item = Result<Bytes>> + Send {
    until_error(move || {
        let part = Bytes::from(up_to(&mut input, BATCH_BYTES_TARGET as u64)?);
        Ok((!part.is_empty()).then_some(part))
    })
}

/// The format's own columns; an error if others are wanted.
pub(crate) fn check_columns(own: SchemaRef, columns: Option<SchemaRef>) -> Result<SchemaRef> {
    let Some(columns) = columns else { return Ok(own) };
    let names = |schema: &Schema| -> Vec<_> {
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    if names(&own) == names(&columns) { Ok(own) } else { Err(differ(&columns, &own)) }
}

/// The error of an input whose columns are not the declared ones.
pub(crate) fn differ(wanted: &Schema, found: &Schema) -> Error {
    let names = |schema: &Schema| {
        let names =
            schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
        names.collect::<Vec<_>>().join(", ")
    };
    Error::corrupt(format!(
        "the input has other columns than it was said to have: {}",
        names(found)
    ))
    .remedy(format!("expected: {}", names(wanted)))
}
