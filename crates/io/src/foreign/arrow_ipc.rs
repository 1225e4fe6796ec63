//! Arrow IPC files (Feather 2) and streams. A file is read in splits of whole batches; a stream,
//! which has no table of contents, in one.
//!
//! A large batch is read in slices (`arrow_ipc_slices`). Written are files only
//! (`arrow_ipc_write`).

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{Block, MessageHeader, MetadataVersion, RecordBatch as Header};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use euphrates_flow::{Error, Result, decoded, split_batch, without_runs};

use super::arrow_ipc_check::{
    check_batch, check_unpacked, decoded_schema, footer, message, next_head, prefix,
};
use super::arrow_ipc_slices::Slices;
use super::arrow_ipc_swap::{Swap, declared_native};
use super::arrow_ipc_write::IpcWriter;
use super::limits::ReadLimits;
use super::places::Places;
use super::text::SPLIT_BYTES;
use super::{
    Batches, Format, Input, Opened, ReadOptions, Stream, WriteOptions, Writer, arrow_ipc_stream,
    guarded,
};
use crate::blob::Blob;
use crate::location::FileRef;

/// The format.
pub struct ArrowIpc;

/// What a file begins and ends with, and how it begins on an 8-byte border.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";
pub(super) const HEAD: &[u8; 8] = b"ARROW1\0\0";

/// Bytes behind the footer: its length and the magic.
const TAIL_BYTES: u64 = 10;

/// Marks the end of the batches, in front of the footer.
pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

impl Format for ArrowIpc {
    fn name(&self) -> &'static str {
        "arrow_ipc"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["arrow", "arrows", "feather", "ipc"]
    }

    fn options(&self) -> &'static [&'static str] {
        &["compression"]
    }

    fn open(&self, file: &FileRef, blob: Blob, _: &ReadOptions) -> Result<Arc<dyn Opened>> {
        let head = blob.read_at(0, blob.bytes().min(8) as usize)?;
        if head.starts_with(b"FEA1") {
            return Err(Error::usage("this is the old Feather 1 format")
                .remedy("write it as Feather 2 (Arrow IPC) or Parquet"));
        }
        if head.starts_with(MAGIC) {
            return guarded(|| Ok(Arc::new(IpcFile::open(file, &blob)?) as Arc<dyn Opened>));
        }
        guarded(|| Ok(Arc::new(IpcStream::open(file, &blob)?) as Arc<dyn Opened>))
    }

    fn read_stream(
        &self,
        input: Input,
        columns: Option<SchemaRef>,
        _: &ReadOptions,
    ) -> Result<Stream> {
        arrow_ipc_stream::read(input, columns)
    }

    fn stream_writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        let file = self.writer(schema, options)?;
        Ok(Arc::new(arrow_ipc_stream::StreamOf { file }))
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        Ok(Arc::new(IpcWriter::new(schema, options)?))
    }
}

/// A file with a footer that says where its batches are.
struct IpcFile {
    file: FileRef,
    bytes: u64,
    own: Own,
    /// As it is read.
    schema: SchemaRef,
    dictionaries: Vec<Block>,
    splits: Vec<Vec<Block>>,
}

impl IpcFile {
    fn open(file: &FileRef, blob: &Blob) -> Result<IpcFile> {
        let (bytes, tail) = (blob.bytes(), TAIL_BYTES as usize);
        let cut = || Error::corrupt("the end is missing: this Arrow file is cut short");
        let end = blob.read_at(bytes.checked_sub(TAIL_BYTES).ok_or_else(cut)?, tail)?;
        if &end[4..] != MAGIC {
            return Err(cut());
        }
        let length = u32::from_le_bytes(end[..4].try_into().expect("four bytes"));
        let before = (bytes - TAIL_BYTES).checked_sub(length.into()).ok_or_else(cut)?;
        let mut footer_bytes = blob.read_at(before, length as usize)?;
        let native = declared_native(&footer_bytes, 0, &footer(&footer_bytes, before)?.schema);
        let is_swapped = native.is_some();
        footer_bytes = native.map_or(footer_bytes, Bytes::from);
        let footer = footer(&footer_bytes, before)?;
        let mut splits: Vec<Vec<Block>> = vec![];
        let mut filled = u64::MAX;
        for block in footer.batches {
            if filled >= SPLIT_BYTES {
                splits.push(vec![]);
                filled = 0;
            }
            filled += block.bodyLength() as u64 + block.metaDataLength() as u64;
            splits.last_mut().expect("just pushed").push(block);
        }
        let encoded = decoded_schema(footer.schema)?;
        let schema = without_runs(&encoded);
        let (dictionaries, own) = (footer.dictionaries, Own { schema: encoded, is_swapped });
        Ok(IpcFile { file: file.clone(), bytes, own, schema, dictionaries, splits })
    }
}

/// The batches of a message that begins at an offset: one, or slices of one that is large; none if
/// it is a dictionary.
fn batches_at(
    blob: &Arc<Blob>,
    (offset, metadata, body): (u64, usize, u64),
    decoder: &mut Decoder,
) -> Result<Batches> {
    let head = blob.read_at(offset, metadata)?;
    let body_at = offset + metadata as u64;
    if let Some(header) = message(&head, metadata)?.header_as_record_batch()
        && let Some(slices) = decoder.slices(blob, (body_at, body), &header)
    {
        return Ok(Box::new(slices));
    }
    let bytes = blob.read_at(offset, metadata + body as usize)?;
    Ok(Box::new(decoder.decode(bytes, metadata)?.map(Ok).into_iter()))
}

/// The bytes of a block, and the length of its metadata.
fn read_block(blob: &Blob, block: &Block) -> Result<(Bytes, usize)> {
    // Checked against the file by `footer`.
    let bytes = block.metaDataLength() as u64 + block.bodyLength() as u64;
    let read = blob.read_at(block.offset() as u64, bytes as usize)?;
    Ok((read, block.metaDataLength() as usize))
}

impl Opened for IpcFile {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn splits(&self) -> usize {
        self.splits.len()
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn read(
        self: Arc<Self>,
        split: usize,
        schema: &SchemaRef,
        limits: &ReadLimits,
    ) -> Result<Batches> {
        let blob = self.file.open()?;
        if blob.bytes() != self.bytes {
            let message = "the file changed between being opened and being read";
            return Err(Error::corrupt(message).remedy("run again"));
        }
        let mut decoder = Decoder::new(&self.own, schema)?.within(limits);
        for block in &self.dictionaries {
            let (bytes, metadata) = read_block(&blob, block)?;
            decoder.decode(bytes, metadata)?;
        }
        let (schema, blob) = (schema.clone(), Arc::new(blob));
        let blocks = 0..self.splits[split].len();
        let batches = blocks.flat_map(move |index| {
            let block = &self.splits[split][index];
            // Checked against the file by `footer`.
            let (metadata, body) = (block.metaDataLength() as usize, block.bodyLength() as u64);
            or_error(batches_at(&blob, (block.offset() as u64, metadata, body), &mut decoder))
        });
        Ok(Box::new(batches.flat_map(move |batch| cut(batch, &schema))))
    }
}

/// A stream: messages one behind the other.
struct IpcStream {
    file: FileRef,
    own: Own,
    /// As it is read.
    schema: SchemaRef,
    /// Where the message behind the schema begins.
    offset: u64,
}

impl IpcStream {
    fn open(file: &FileRef, blob: &Blob) -> Result<IpcStream> {
        let Some((head, body)) = next_head(blob, 0)? else { return Err(strange()) };
        let own = schema_of(&head, head.len())?;
        let schema = without_runs(&own.schema);
        let offset = head.len() as u64 + body;
        Ok(IpcStream { file: file.clone(), own, schema, offset })
    }
}

pub(super) fn strange() -> Error {
    Error::corrupt("this is no Arrow IPC file or stream")
}

/// What files and streams say of all their messages.
pub(super) struct Own {
    /// As it is encoded.
    pub schema: SchemaRef,
    /// Buffers have the other byte order.
    is_swapped: bool,
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

impl Opened for IpcStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn splits(&self) -> usize {
        1
    }

    fn bytes(&self) -> Option<u64> {
        None
    }

    fn read(self: Arc<Self>, _: usize, schema: &SchemaRef, limits: &ReadLimits) -> Result<Batches> {
        let blob = self.file.open()?;
        let mut decoder = Decoder::new(&self.own, schema)?.within(limits);
        let (schema, blob) = (schema.clone(), Arc::new(blob));
        let (mut offset, mut failed) = (self.offset, false);
        let mut next = move || -> Result<Option<Batches>> {
            let Some((head, body)) = next_head(&blob, offset)? else { return Ok(None) };
            let place = (offset, head.len(), body);
            offset += head.len() as u64 + body;
            batches_at(&blob, place, &mut decoder).map(Some)
        };
        let messages = std::iter::from_fn(move || {
            let batches = if failed { Ok(None) } else { next() };
            failed = batches.is_err();
            batches.transpose()
        });
        let batches = messages.flat_map(or_error);
        Ok(Box::new(batches.flat_map(move |batch| cut(batch, &schema))))
    }
}

/// The batches, or the error in their place.
fn or_error(batches: Result<Batches>) -> Batches {
    batches.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
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
    fn within(self, limits: &ReadLimits) -> Decoder {
        let (bytes_max, row_bytes_max) = (limits.held_bytes_max, limits.record_bytes_max);
        Decoder { bytes_max, row_bytes_max, ..self }
    }

    /// Slices of the batch of a header, if it is large and can be read so.
    fn slices(&self, blob: &Arc<Blob>, body: (u64, u64), header: &Header) -> Option<Slices> {
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
