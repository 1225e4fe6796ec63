//! Reads and writes Arrow IPC: files (Feather 2) in splits of whole batches, streams in one split,
//! as a stream has no footer.
//!
//! A large batch is read in slices (`slices`). Only files are written (`writer`); `stream` turns a
//! written file into a stream.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::ipc::Block;
use bytes::Bytes;
use euphrates_flow::{Error, Result, without_runs};

use crate::arrow_ipc::byte_order::declared_native;
use crate::arrow_ipc::decoder::{Decoder, Own, cut, schema_of, strange};
use crate::arrow_ipc::framing::MAGIC;
use crate::arrow_ipc::validation::{decoded_schema, footer, message, next_head};
use crate::arrow_ipc::writer::IpcWriter;
use crate::format::{Format, Opened, Writer, guarded};
use crate::options::{ReadOptions, WriteOptions};
use crate::stream::{Batches, Input, Stream};
use crate::text::limits::ReadLimits;
use crate::text::splits::SPLIT_BYTES;
use euphrates_device::blob::Blob;
use euphrates_device::location::FileRef;

mod byte_order;
mod decoder;
mod framing;
mod slices;
mod stream;
pub(crate) mod validation;
mod writer;

/// Arrow IPC files and streams, as the registry lists them.
pub struct ArrowIpc;

/// Bytes after the footer: its length (4) and the magic (6).
const TAIL_BYTES: u64 = 10;

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
        stream::read(input, columns)
    }

    fn stream_writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        let file = self.writer(schema, options)?;
        Ok(Arc::new(stream::StreamOf { file }))
    }

    fn writer(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<Arc<dyn Writer>> {
        Ok(Arc::new(IpcWriter::new(schema, options)?))
    }
}

/// A file whose footer lists the offsets of its batches.
struct IpcFile {
    file: FileRef,
    bytes: u64,
    own: Own,
    /// The file's schema, in types that Euphrates reads.
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

/// The batches of the message at an offset: one batch, or the slices of a large one. A dictionary
/// message has none.
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

/// The bytes of a block, with the length of its metadata.
fn read_block(blob: &Blob, block: &Block) -> Result<(Bytes, usize)> {
    // `footer` has checked both lengths against the file.
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
            // `footer` has checked both lengths against the file.
            let (metadata, body) = (block.metaDataLength() as usize, block.bodyLength() as u64);
            or_error(batches_at(&blob, (block.offset() as u64, metadata, body), &mut decoder))
        });
        Ok(Box::new(batches.flat_map(move |batch| cut(batch, &schema))))
    }
}

/// A stream: a schema message, then dictionaries and batches in sequence.
struct IpcStream {
    file: FileRef,
    own: Own,
    /// The stream's schema, in types that Euphrates reads.
    schema: SchemaRef,
    /// Offset of the first message after the schema.
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

/// The batches, or an iterator whose only item is the error.
fn or_error(batches: Result<Batches>) -> Batches {
    batches.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
}
