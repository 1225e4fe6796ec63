//! Arrow IPC files (Feather 2) and streams. A file is read in splits of whole batches; a stream,
//! which has no table of contents, in one.
//!
//! Written are files only. Dictionary columns are written as what they stand for: parts encoded
//! apart from each other have no dictionary in common, and a file holds one per column.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::IpcSchemaEncoder;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow::ipc::{Block, CompressionType, FooterBuilder, MessageHeader, MetadataVersion};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use euphrates_flow::{Error, Result, decoded, split_batch, without_runs};

use super::arrow_ipc_check::{
    check_batch, check_unpacked, decoded_schema, footer, message, next_message, prefix,
};
use super::arrow_ipc_swap::{Swap, declared_native};
use super::limits::ReadLimits;
use super::places::Places;
use super::text::SPLIT_BYTES;
use super::{
    Batches, Chunk, Compression, Encoder, Format, Input, Note, Opened, ReadOptions, Stream,
    WriteOptions, Writer, arrow_ipc_stream, guarded,
};
use crate::blob::Blob;
use crate::location::FileRef;
use crate::unions::cut_lists_of_unions;

/// The format.
pub struct ArrowIpc;

/// What a file begins and ends with, and how it begins on an 8-byte border.
const MAGIC: &[u8; 6] = b"ARROW1";
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
        let compression = match options.compression.unwrap_or(Compression::None) {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
            Compression::Snappy | Compression::Gzip | Compression::Bzip2 => {
                let error = Error::usage("Arrow IPC is compressed with lz4 or zstd, or not at all");
                return Err(error.remedy("use lz4 or zstd"));
            }
        };
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
        let writer = IpcWriter { schema: Arc::new(Schema::new(fields)), options };
        writer.stream().map_err(|error| {
            Error::usage(error.message()).remedy("cast the column, or leave it out")
        })?;
        Ok(Arc::new(writer))
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
        let mut decoder = Decoder::new(&self.own, schema)?.within(limits.held_bytes_max);
        for block in &self.dictionaries {
            let (bytes, metadata) = read_block(&blob, block)?;
            decoder.decode(bytes, metadata)?;
        }
        let schema = schema.clone();
        let blocks = 0..self.splits[split].len();
        let batches = blocks.map(move |index| {
            let block = &self.splits[split][index];
            let (bytes, metadata) = read_block(&blob, block)?;
            let batch = decoder.decode(bytes, metadata)?;
            batch.ok_or_else(|| Error::corrupt("a block without a batch"))
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
        let Some((bytes, metadata)) = next_message(blob, 0)? else { return Err(strange()) };
        let own = schema_of(&bytes, metadata)?;
        let schema = without_runs(&own.schema);
        let offset = bytes.len() as u64;
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
        let mut decoder = Decoder::new(&self.own, schema)?.within(limits.held_bytes_max);
        let schema = schema.clone();
        let mut offset = self.offset;
        let mut next = move || -> Result<Option<RecordBatch>> {
            while let Some((bytes, metadata)) = next_message(&blob, offset)? {
                offset += bytes.len() as u64;
                if let Some(batch) = decoder.decode(bytes, metadata)? {
                    return Ok(Some(batch));
                }
            }
            Ok(None)
        };
        let mut failed = false;
        let batches = std::iter::from_fn(move || {
            let batch = if failed { Ok(None) } else { next() };
            failed = batch.is_err();
            batch.transpose()
        });
        Ok(Box::new(batches.flat_map(move |batch| cut(batch, &schema))))
    }
}

/// Makes batches of messages.
pub(super) struct Decoder {
    decoder: FileDecoder,
    swap: Option<Swap>,
    bytes_max: usize,
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
            decoder = decoder.with_projection(columns);
        }
        let swap = own.is_swapped.then(|| Swap::new(&own.schema));
        Ok(Decoder { decoder, swap, bytes_max: usize::MAX })
    }

    /// The same, where a compressed batch that takes more than these bytes is an error.
    fn within(self, bytes_max: usize) -> Decoder {
        Decoder { bytes_max, ..self }
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

struct IpcWriter {
    /// Without dictionaries.
    schema: SchemaRef,
    options: IpcWriteOptions,
}

impl IpcWriter {
    fn stream(&self) -> Result<StreamEncoder> {
        Ok(StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?)
    }
}

/// Metadata and body of each batch of a chunk, in bytes.
type Batch = (usize, usize);

impl Writer for IpcWriter {
    fn header(&self) -> Result<Vec<Buffer>> {
        // A stream without batches is the schema and the mark of its end, which comes later.
        let mut parts = vec![Buffer::from(HEAD)];
        parts.extend(self.stream()?.finish()?);
        parts.pop();
        Ok(parts)
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let mut stream = self.stream()?;
        // The schema comes with the first batch; it is in the header already.
        stream.encode(&RecordBatch::new_empty(self.schema.clone()))?;
        let schema = self.schema.clone();
        Ok(Box::new(IpcEncoder { schema, stream, parts: vec![], bytes: 0, batches: vec![] }))
    }

    fn footer(&self, chunks: Vec<(u64, Note)>) -> Result<Vec<Buffer>> {
        let mut blocks = vec![];
        for (mut offset, note) in chunks {
            let batches = note.downcast::<Vec<Batch>>().expect("a note of this encoder");
            for (metadata, body) in *batches {
                blocks.push(Block::new(offset as i64, metadata as i32, body as i64));
                offset += (metadata + body) as u64;
            }
        }
        let mut builder = IpcSchemaEncoder::new().schema_to_fb(&self.schema);
        builder.reset();
        let batches = builder.create_vector(&blocks);
        let dictionaries = builder.create_vector::<Block>(&[]);
        let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut builder, &self.schema);
        let mut footer = FooterBuilder::new(&mut builder);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(batches);
        let root = footer.finish();
        builder.finish(root, None);
        let footer = builder.finished_data();
        let mut bytes = END_OF_STREAM.to_vec();
        bytes.extend_from_slice(footer);
        bytes.extend_from_slice(&(footer.len() as i32).to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        Ok(vec![Buffer::from_vec(bytes)])
    }
}

struct IpcEncoder {
    schema: SchemaRef,
    stream: StreamEncoder,
    parts: Vec<Buffer>,
    bytes: usize,
    batches: Vec<Batch>,
}

impl Encoder for IpcEncoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| plain(column, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns.collect::<Result<_>>()?,
            &options,
        )?;
        let parts = self.stream.encode(&batch)?;
        let bytes: usize = parts.iter().map(Buffer::len).sum();
        // The first part is the marker and the length of the metadata behind it.
        let metadata = u32::from_le_bytes(parts[0][4..8].try_into().expect("four bytes"));
        let metadata = metadata as usize + 8;
        self.batches.push((metadata, bytes - metadata));
        self.bytes += bytes;
        self.parts.extend(parts);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn finish(&mut self) -> Result<Chunk> {
        self.bytes = 0;
        let note = Box::new(std::mem::take(&mut self.batches));
        Ok(Chunk { parts: std::mem::take(&mut self.parts), note })
    }
}

/// A field without dictionaries.
fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(plain_type(field.data_type())))
}

fn plain_type(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => plain_type(values),
        List(field) => List(plain_field(field)),
        LargeList(field) => LargeList(plain_field(field)),
        ListView(field) => ListView(plain_field(field)),
        LargeListView(field) => LargeListView(plain_field(field)),
        FixedSizeList(field, size) => FixedSizeList(plain_field(field), *size),
        Struct(fields) => Struct(fields.iter().map(plain_field).collect()),
        Map(field, sorted) => Map(plain_field(field), *sorted),
        other => other.clone(),
    }
}

fn plain(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match column.data_type() == data_type {
        true => Ok(cut_lists_of_unions(column)),
        false => Ok(cast(column, data_type)?),
    }
}
