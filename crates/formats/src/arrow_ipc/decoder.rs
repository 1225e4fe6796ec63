//! Decodes validated Arrow IPC messages into record batches.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{Block, MessageHeader, MetadataVersion, RecordBatch as Header};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_device::blob::Blob;
use euphrates_flow::{Error, Result, converted_batches, converted_schema, new_batch, split_batch};

use super::byte_order::{Swap, declared_native};
use super::slices::Slices;
use super::validation::{check_batch, check_unpacked, decoded_schema, message, prefix};
use crate::columns_by_name::ColumnsByName;
use crate::format::guarded;
use crate::text::limits::ReadLimits;

pub(super) fn not_arrow_ipc() -> Error {
    Error::corrupt("this is no Arrow IPC file or stream")
}

/// The schema and byte order of a file or stream, which apply to all its messages.
pub(super) struct EncodedSchema {
    /// The schema as encoded, before any conversion of types.
    pub schema: SchemaRef,
    /// Whether buffers have the other byte order.
    pub is_swapped: bool,
}

/// Decodes the schema message that opens a stream.
pub(super) fn schema_of(bytes: &[u8], metadata: usize) -> Result<EncodedSchema> {
    let first = message(bytes, metadata)?;
    let Some(schema) = first.header_as_schema() else { return Err(not_arrow_ipc()) };
    let native = declared_native(bytes, prefix(bytes), &schema);
    let is_swapped = native.is_some();
    let bytes = native.as_deref().unwrap_or(bytes);
    let message = message(bytes, metadata)?;
    let Some(schema) = message.header_as_schema() else { return Err(not_arrow_ipc()) };
    Ok(EncodedSchema { schema: decoded_schema(schema)?, is_swapped })
}

/// Decodes record batches and dictionaries of one file or stream.
pub(super) struct Decoder {
    schema: SchemaRef,
    /// Indexes of the projected columns in the encoded schema.
    columns: Vec<usize>,
    decoder: FileDecoder,
    swap: Option<Swap>,
    bytes_max: usize,
    row_bytes_max: usize,
}

impl Decoder {
    /// Projects to the columns of `wanted`; fails if the schema lacks one.
    pub(super) fn new(own: &EncodedSchema, wanted: &Schema) -> Result<Decoder> {
        let columns = ColumnsByName::new(&own.schema).of_all(wanted)?;
        // Each message states its version, and the footer may state another (PyArrow does, with
        // version 4). V1 makes the decoder accept versions that differ.
        let mut decoder = FileDecoder::new(own.schema.clone(), MetadataVersion::V1);
        // The decoder searches the projection for each of its columns, so none is set if all are
        // read.
        if !columns.iter().copied().eq(0..own.schema.fields().len()) {
            decoder = decoder.with_projection(columns.clone());
        }
        let swap = own.is_swapped.then(|| Swap::new(&own.schema));
        let (schema, bytes_max, row_bytes_max) = (own.schema.clone(), usize::MAX, usize::MAX);
        Ok(Decoder { schema, columns, decoder, swap, bytes_max, row_bytes_max })
    }

    /// Makes a compressed batch whose decompressed size exceeds the limits an error.
    pub(super) fn within(self, limits: &ReadLimits) -> Decoder {
        let (bytes_max, row_bytes_max) = (limits.held_bytes_max, limits.record_bytes_max);
        Decoder { bytes_max, row_bytes_max, ..self }
    }

    /// Slices of the batch of a header; `None` if it is small or its layout allows no slices.
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

    /// The batch of a message; `None` if the message is a dictionary.
    pub(super) fn decode(&mut self, bytes: Bytes, metadata: usize) -> Result<Option<RecordBatch>> {
        check_unpacked(&message(&bytes, metadata)?, &bytes[metadata..], self.bytes_max)?;
        let (bytes, metadata) = match &self.swap {
            Some(swap) => guarded(|| swap.message(&bytes, metadata))?,
            None => (bytes, metadata),
        };
        let message = message(&bytes, metadata)?;
        check_batch(&message, &bytes[metadata..])?;
        let kind = message.header_type();
        // The decoder ignores the offset of a block, so 0 is as good as its place in the file.
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

/// The batch in parts of the target size, under the schema on which all files agree; run-end
/// encoded columns are decoded.
pub(super) fn converted_parts(
    batch: Result<RecordBatch>,
    schema: &SchemaRef,
) -> Box<dyn Iterator<Item = Result<RecordBatch>> + Send> {
    match batch {
        Ok(batch) if batch.num_rows() == 0 => Box::new(std::iter::empty()),
        Ok(batch) => {
            let (own, schema) = (converted_schema(&batch.schema()), schema.clone());
            let parts = converted_batches(batch, &own).flat_map(|part| match part {
                Ok(part) => split_batch(part).map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            });
            Box::new(parts.map(move |part| {
                let part = part?;
                let columns = part.columns().to_vec();
                new_batch(schema.clone(), columns, part.num_rows()).map_err(damaged)
            }))
        }
        Err(error) => Box::new(std::iter::once(Err(error))),
    }
}

fn damaged(error: arrow::error::ArrowError) -> Error {
    Error::corrupt(error)
}
