//! Decodes Arrow IPC messages to batches, after they have been validated.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{Block, MessageHeader, MetadataVersion, RecordBatch as Header};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use euphrates_device::blob::Blob;
use euphrates_flow::{Error, Result, decoded, split_batch, without_runs};

use super::byte_order::{Swap, declared_native};
use super::slices::Slices;
use super::validation::{check_batch, check_unpacked, decoded_schema, message, prefix};
use crate::column_index::Places;
use crate::format::guarded;
use crate::text::limits::ReadLimits;

pub(super) fn strange() -> Error {
    Error::corrupt("this is no Arrow IPC file or stream")
}

/// What files and streams say of all their messages.
pub(super) struct Own {
    /// As it is encoded.
    pub schema: SchemaRef,
    /// Buffers have the other byte order.
    pub is_swapped: bool,
}

/// What the first message of a stream says.
pub(super) fn schema_of(bytes: &[u8], metadata: usize) -> Result<Own> {
    let first = message(bytes, metadata)?;
    let Some(schema) = first.header_as_schema() else { return Err(strange()) };
    let native = declared_native(bytes, prefix(bytes), &schema);
    let is_swapped = native.is_some();
    let bytes = native.as_deref().unwrap_or(bytes);
    let message = message(bytes, metadata)?;
    let Some(schema) = message.header_as_schema() else { return Err(strange()) };
    Ok(Own { schema: decoded_schema(schema)?, is_swapped })
}

/// Makes batches of messages.
pub(super) struct Decoder {
    schema: SchemaRef,
    /// The wanted columns of the schema.
    columns: Vec<usize>,
    decoder: FileDecoder,
    swap: Option<Swap>,
    bytes_max: usize,
    row_bytes_max: usize,
}

impl Decoder {
    /// Of the wanted columns.
    pub(super) fn new(own: &Own, wanted: &Schema) -> Result<Decoder> {
        let columns = Places::new(&own.schema).of_all(wanted)?;
        // Each message says its version; the footer may say another (PyArrow, with version 4). To
        // the decoder, version 1 means that they need not agree.
        let mut decoder = FileDecoder::new(own.schema.clone(), MetadataVersion::V1);
        // The decoder looks for each of its columns among those that are wanted.
        if !columns.iter().copied().eq(0..own.schema.fields().len()) {
            decoder = decoder.with_projection(columns.clone());
        }
        let swap = own.is_swapped.then(|| Swap::new(&own.schema));
        let (schema, bytes_max, row_bytes_max) = (own.schema.clone(), usize::MAX, usize::MAX);
        Ok(Decoder { schema, columns, decoder, swap, bytes_max, row_bytes_max })
    }

    /// The same, where a compressed batch that takes more than these bytes is an error.
    pub(super) fn within(self, limits: &ReadLimits) -> Decoder {
        let (bytes_max, row_bytes_max) = (limits.held_bytes_max, limits.record_bytes_max);
        Decoder { bytes_max, row_bytes_max, ..self }
    }

    /// Slices of the batch of a header, if it is large and can be read so.
    pub(super) fn slices(
        &self,
        blob: &Arc<Blob>,
        body: (u64, u64),
        header: &Header,
    ) -> Option<Slices> {
        let is_native = self.swap.is_none();
        is_native
            .then(|| {
                Slices::of(blob, body, header, &self.schema, &self.columns, self.row_bytes_max)
            })
            .flatten()
    }

    /// The batch of a message, if it has one: it may be a dictionary.
    pub(super) fn decode(&mut self, bytes: Bytes, metadata: usize) -> Result<Option<RecordBatch>> {
        check_unpacked(&message(&bytes, metadata)?, &bytes[metadata..], self.bytes_max)?;
        let (bytes, metadata) = match &self.swap {
            Some(swap) => guarded(|| swap.message(&bytes, metadata))?,
            None => (bytes, metadata),
        };
        let message = message(&bytes, metadata)?;
        check_batch(&message, &bytes[metadata..])?;
        let kind = message.header_type();
        // Where the message stands in its file does not matter any more.
        let block = Block::new(0, metadata as i32, (bytes.len() - metadata) as i64);
        let bytes = Buffer::from(bytes);
        let decoder = &mut self.decoder;
        if kind == MessageHeader::DictionaryBatch {
            guarded(|| decoder.read_dictionary(&block, &bytes).map_err(damaged))?;
            return Ok(None);
        }
        guarded(|| decoder.read_record_batch(&block, &bytes).map_err(damaged))
    }
}

/// The batch with the schema all files agree on.
fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(damaged)
}

/// The batch in parts of the usual size, with the schema all files agree on; its runs are decoded.
pub(super) fn cut(
    batch: Result<RecordBatch>,
    schema: &SchemaRef,
) -> Box<dyn Iterator<Item = Result<RecordBatch>> + Send> {
    match batch {
        Ok(batch) if batch.num_rows() == 0 => Box::new(std::iter::empty()),
        Ok(batch) => {
            let (own, schema) = (without_runs(&batch.schema()), schema.clone());
            let parts = decoded(batch, &own).flat_map(|part| match part {
                Ok(part) => split_batch(part).map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            });
            Box::new(parts.map(move |part| conform(&part?, &schema)))
        }
        Err(error) => Box::new(std::iter::once(Err(error))),
    }
}

fn damaged(error: arrow::error::ArrowError) -> Error {
    Error::corrupt(error)
}
