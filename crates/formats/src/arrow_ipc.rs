//! Reads and writes Arrow IPC. A file (Feather 2) has a footer and is read in splits of whole
//! batches; a stream has none and is one split.
//!
//! A large batch is read in slices (`slices`). `writer` makes files; `stream` writes the same
//! messages without magic and footer.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::ipc::Block;
use bytes::Bytes;
use euphrates_flow::{Error, Result, converted_schema};

use crate::arrow_ipc::byte_order::declared_native;
use crate::arrow_ipc::decoder::{
    Decoder, EncodedSchema, converted_parts, not_arrow_ipc, schema_of,
};
use crate::arrow_ipc::framing::MAGIC;
use crate::arrow_ipc::validation::{decoded_schema, footer, message, next_head};
use crate::arrow_ipc::writer::IpcWriter;
use crate::format::{Format, FormatInfo, OpenFile, OpenedFile, Writer, guarded, open_again};
use crate::options::{ReadOptions, WriteOptions};
use crate::stream::{BatchStream, ByteInput, SplitBatches, until_error};
use crate::text::contents::other_than;
use crate::text::limits::ReadLimits;
use crate::text::splits::split_bytes;
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
    fn about(&self) -> &'static FormatInfo {
        &FormatInfo {
            name: "arrow_ipc",
            extensions: &["arrow", "arrows", "feather", "ipc"],
            options: &["compression"],
            compresses_whole: false,
            infers_types: false,
            records_omit_columns: false,
            counts_rows: false,
            selects_rows: false,
        }
    }

    fn open(&self, file: &FileRef, blob: Blob, _: &ReadOptions) -> Result<Arc<dyn OpenedFile>> {
        let head = blob.read_at(0, blob.bytes().min(8) as usize)?;
        if head.starts_with(b"FEA1") {
            return Err(Error::usage("this is the old Feather 1 format")
                .remedy("write it as Feather 2 (Arrow IPC) or Parquet"));
        }
        if let Some(error) = other_than("arrow_ipc", &head) {
            return Err(error);
        }
        if head.starts_with(MAGIC) {
            return guarded(|| open_file(file, &blob));
        }
        guarded(|| open_stream(file, &blob))
    }

    fn read_stream(
        &self,
        input: ByteInput,
        columns: Option<SchemaRef>,
        _: &ReadOptions,
    ) -> Result<BatchStream> {
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

/// Opens a file, whose footer lists the offsets of its batches.
fn open_file(file: &FileRef, blob: &Blob) -> Result<Arc<dyn OpenedFile>> {
    let (bytes, tail) = (blob.bytes(), TAIL_BYTES as usize);
    let is_cut = || Error::corrupt("the end is missing: this Arrow file is cut short");
    let end = blob.read_at(bytes.checked_sub(TAIL_BYTES).ok_or_else(is_cut)?, tail)?;
    if &end[4..] != MAGIC {
        return Err(is_cut());
    }
    let length = u32::from_le_bytes(end[..4].try_into().expect("four bytes"));
    let before = (bytes - TAIL_BYTES).checked_sub(length.into()).ok_or_else(is_cut)?;
    let mut footer_bytes = blob.read_at(before, length as usize)?;
    let native = declared_native(&footer_bytes, 0, &footer(&footer_bytes, before)?.schema);
    let is_swapped = native.is_some();
    footer_bytes = native.map_or(footer_bytes, Bytes::from);
    let footer = footer(&footer_bytes, before)?;
    let mut splits: Vec<Vec<Block>> = vec![];
    let bytes_of = |block: &Block| block.bodyLength() as u64 + block.metaDataLength() as u64;
    // Each split decodes all dictionaries.
    let dictionary_bytes = footer.dictionaries.iter().map(bytes_of).sum();
    let (split_bytes, mut filled) = (split_bytes(blob).max(dictionary_bytes), u64::MAX);
    for block in footer.batches {
        if filled >= split_bytes {
            splits.push(vec![]);
            filled = 0;
        }
        filled += bytes_of(&block);
        splits.last_mut().expect("just pushed").push(block);
    }
    let encoded = decoded_schema(footer.schema)?;
    // In types that Euphrates reads.
    let schema = converted_schema(&encoded);
    let (dictionaries, own) = (footer.dictionaries, EncodedSchema { schema: encoded, is_swapped });
    let file = file.clone();
    let begins = splits.iter().map(|blocks| extent_of(&blocks[0]).0).collect();
    let read =
        move |split: usize, schema: &SchemaRef, limits: &ReadLimits| -> Result<SplitBatches> {
            let blob = Arc::new(open_again(&file, bytes)?);
            let mut decoder = Decoder::new(&own, schema)?.within(limits);
            for block in &dictionaries {
                let (offset, metadata, body) = extent_of(block);
                decoder.decode(blob.read_at(offset, metadata + body as usize)?, metadata)?;
            }
            let (schema, blocks) = (schema.clone(), splits[split].clone());
            let batches = blocks.into_iter().flat_map(move |block| {
                or_error(batches_at(&blob, extent_of(&block), &mut decoder))
            });
            Ok(Box::new(batches.flat_map(move |batch| converted_parts(batch, &schema))))
        };
    Ok(Arc::new(OpenFile { schema, bare: None, splits: begins, bytes: Some(bytes), read }))
}

/// Offset, bytes of metadata and bytes of body; `footer` has checked them against the file.
fn extent_of(block: &Block) -> (u64, usize, u64) {
    (block.offset() as u64, block.metaDataLength() as usize, block.bodyLength() as u64)
}

/// The batches of the message at an offset: one batch, or the slices of a large one. A dictionary
/// message has none.
fn batches_at(
    blob: &Arc<Blob>,
    (offset, metadata, body): (u64, usize, u64),
    decoder: &mut Decoder,
) -> Result<SplitBatches> {
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

/// Opens a stream: a schema message, then dictionaries and batches in sequence.
fn open_stream(file: &FileRef, blob: &Blob) -> Result<Arc<dyn OpenedFile>> {
    let Some((head, body)) = next_head(blob, 0)? else { return Err(not_arrow_ipc()) };
    let own = schema_of(&head, head.len())?;
    let schema = converted_schema(&own.schema);
    // Of the first message after the schema.
    let first_offset = head.len() as u64 + body;
    let file = file.clone();
    let read = move |_: usize, schema: &SchemaRef, limits: &ReadLimits| -> Result<SplitBatches> {
        let blob = Arc::new(file.open()?);
        let mut decoder = Decoder::new(&own, schema)?.within(limits);
        let (schema, mut offset) = (schema.clone(), first_offset);
        let messages = until_error(move || {
            let Some((head, body)) = next_head(&blob, offset)? else { return Ok(None) };
            let extent = (offset, head.len(), body);
            offset += head.len() as u64 + body;
            batches_at(&blob, extent, &mut decoder).map(Some)
        });
        let batches = messages.flat_map(or_error);
        Ok(Box::new(batches.flat_map(move |batch| converted_parts(batch, &schema))))
    };
    Ok(Arc::new(OpenFile { schema, bare: None, splits: vec![0], bytes: None, read }))
}

/// The batches, or an iterator whose only item is the error.
fn or_error(batches: Result<SplitBatches>) -> SplitBatches {
    batches.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
}
