//! Encoding of batches into blocks: IPC messages that share the batch's buffers without a copy.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, new_empty_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{ByteViewType, DataType, Field, SchemaRef};
use arrow::ipc::writer::{DictionaryTracker, IpcWriteOptions, StreamEncoder};
use arrow::ipc::{self, CompressionType, FooterBuilder, MetadataVersion};
use euphrates_flow::{Error, Result};

use super::block::{Block, EOS};
use super::bounds::{BoundsOfBlock, ColumnBounds};
use euphrates_flow::nested::{cut_nested, needs_cut};

/// The compression of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCompression {
    /// LZ4: fast, about half the size.
    Lz4,
    /// Zstandard: slower, and smaller than LZ4.
    Zstd,
}

impl BlockCompression {
    /// Parses `lz4` or `zstd`; any other word is an error.
    ///
    /// ```
    /// use euphrates_store::segment::BlockCompression;
    ///
    /// assert_eq!(BlockCompression::parse("zstd")?, BlockCompression::Zstd);
    /// assert!(BlockCompression::parse("gzip").is_err(), "the codecs of Arrow IPC only");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn parse(word: &str) -> Result<BlockCompression> {
        match word {
            "lz4" => Ok(BlockCompression::Lz4),
            "zstd" => Ok(BlockCompression::Zstd),
            other => Err(euphrates_flow::error::unknown(
                "compression",
                other,
                ["lz4", "zstd"].into_iter(),
            )),
        }
    }
}

/// The length of every block of at least `ALIGNED_BYTES_MIN` bytes is a multiple of this; so is its
/// offset, unless an unpadded block precedes it.
pub(super) const BLOCK_ALIGN_BYTES: usize = 4096;
/// The size of the smallest block that is padded.
const ALIGNED_BYTES_MIN: usize = 64 << 10;

/// A block that has no offset yet.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    /// The bytes, in order.
    pub parts: Vec<Buffer>,
    /// Its entry in the table of contents, but for the offset.
    pub block: Block,
    /// Dictionary messages in front of the batch: offset, metadata bytes and body bytes.
    pub(super) dictionaries: Vec<(u64, u32, u64)>,
    /// The bounds of some columns, by position; empty if the encoder computes none.
    pub(super) bounds: Vec<(usize, ColumnBounds)>,
}

impl EncodedBlock {
    /// The bounds of the column at this position, if the encoder has computed them.
    pub(crate) fn bounds(&self, column: usize) -> Option<&ColumnBounds> {
        let at = self.bounds.binary_search_by_key(&column, |(column, _)| *column);
        at.ok().map(|at| &self.bounds[at].1)
    }
}

/// Encodes the batches of one schema. Each thread has its own.
pub struct BlockEncoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    /// Reused for all blocks, unless each must carry its own dictionaries.
    encoder: Option<StreamEncoder>,
    /// Computes the bounds of columns, if they are wanted.
    bounds: Option<BoundsOfBlock>,
}

impl BlockEncoder {
    /// An encoder for batches of this schema.
    pub fn new(schema: SchemaRef, compression: Option<BlockCompression>) -> Result<BlockEncoder> {
        let codec = compression.map(|compression| match compression {
            BlockCompression::Lz4 => CompressionType::LZ4_FRAME,
            BlockCompression::Zstd => CompressionType::ZSTD,
        });
        let options = IpcWriteOptions::default().try_with_compression(codec)?;
        Ok(BlockEncoder { schema, options, encoder: None, bounds: None })
    }

    /// The same encoder, whose blocks carry the bounds of their columns for the statistics of a
    /// segment.
    pub(super) fn with_bounds(self) -> BlockEncoder {
        BlockEncoder { bounds: BoundsOfBlock::new(&self.schema), ..self }
    }

    /// Encodes a batch as a block. Of a slice, only the slice is written.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use euphrates_store::segment::BlockEncoder;
    ///
    /// let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    /// let batch = RecordBatch::try_from_iter([("n", column)])?;
    /// let mut encoder = BlockEncoder::new(batch.schema(), None)?;
    /// let [whole, slice] = [encoder.encode(&batch)?, encoder.encode(&batch.slice(0, 10))?];
    /// assert_eq!((whole.block.rows, slice.block.rows), (100_000, 10));
    /// assert!(whole.block.bytes > 800_000 && slice.block.bytes < 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<EncodedBlock> {
        if !Arc::ptr_eq(batch.schema_ref(), &self.schema)
            && !same_types(batch.schema_ref(), &self.schema)
        {
            return Err(Error::failed(format!(
                "a batch of another schema: {:?} instead of {:?}",
                batch.schema_ref().fields(),
                self.schema.fields()
            )));
        }
        let compact = compact(batch)?;
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => self.fresh_encoder()?,
        };
        let parts = encoder.encode(compact.as_ref().unwrap_or(batch))?;
        if !self.schema.fields().iter().any(|field| has_dictionary(field)) {
            self.encoder = Some(encoder);
        }
        let bounds = self.bounds.as_ref().map(|bounds| bounds.of(batch)).unwrap_or_default();
        encoded(aligned(parts)?, batch.num_rows(), bounds)
    }

    /// An encoder that has already emitted its schema, so that it emits only blocks.
    fn fresh_encoder(&self) -> Result<StreamEncoder> {
        let options = self.options.clone();
        let mut encoder = StreamEncoder::try_new_with_options(&self.schema, options)?;
        let columns = self.schema.fields().iter().map(|field| new_empty_array(field.data_type()));
        let count = arrow::array::RecordBatchOptions::new().with_row_count(Some(0));
        let empty =
            RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &count)?;
        encoder.encode(&empty)?;
        Ok(encoder)
    }
}

/// The record batch message of a table, without its schema, and with the least padding that Arrow
/// allows.
pub(super) fn compact_message(table: &RecordBatch) -> Result<Vec<u8>> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let encoder = BlockEncoder { schema: table.schema(), options, encoder: None, bounds: None };
    let parts = encoder.fresh_encoder()?.encode(table)?;
    Ok(parts.iter().flat_map(|part| part.iter().copied()).collect())
}

/// The parts with the metadata of their last message padded, so that the whole is a multiple of
/// [`BLOCK_ALIGN_BYTES`]: then direct I/O can write and read each block by itself. Small blocks are
/// not padded.
fn aligned(parts: Vec<Buffer>) -> Result<Vec<Buffer>> {
    let bytes: usize = parts.iter().map(Buffer::len).sum();
    let padding = bytes.next_multiple_of(BLOCK_ALIGN_BYTES) - bytes;
    if bytes < ALIGNED_BYTES_MIN || padding == 0 {
        return Ok(parts);
    }
    let last = messages(&parts)?.last().map(|last| last.part).unwrap_or_default();
    Ok(pad_message(parts, last, padding))
}

/// The parts with `padding` more bytes after the metadata of the message that begins with this
/// part: a prefix of eight bytes, then the metadata.
pub(super) fn pad_message(mut parts: Vec<Buffer>, prefix: usize, padding: usize) -> Vec<Buffer> {
    static ZEROS: LazyLock<Buffer> = LazyLock::new(|| Buffer::from(&[0; BLOCK_ALIGN_BYTES][..]));
    if padding == 0 {
        return parts;
    }
    let metadata = u32::from_le_bytes(parts[prefix][4..].try_into().expect("four bytes"));
    let longer = (metadata + padding as u32).to_le_bytes();
    parts[prefix] = Buffer::from([&EOS[..4], &longer].concat());
    parts.insert(prefix + 2, ZEROS.slice_with_length(0, padding));
    parts
}

/// Whether the names and types of two schemas agree, so that data of one may be written under the
/// other.
fn same_types(one: &SchemaRef, other: &SchemaRef) -> bool {
    let same = |(one, other): (&Arc<Field>, &Arc<Field>)| {
        one.name() == other.name() && one.data_type() == other.data_type()
    };
    one.fields().len() == other.fields().len() && one.fields().iter().zip(other.fields()).all(same)
}

/// Copies string and binary views that use less than half of their buffers, because an IPC message
/// would contain the whole buffers. Cuts lists of unions, and list views, to the used range.
fn compact(batch: &RecordBatch) -> Result<Option<RecordBatch>> {
    let compact = |column: &ArrayRef| -> Option<ArrayRef> {
        match column.data_type() {
            DataType::Utf8View => gathered_views(column.as_string_view()),
            DataType::BinaryView => gathered_views(column.as_binary_view()),
            other if needs_cut(other) => Some(cut_nested(column)),
            _ => None,
        }
    };
    let gathered: Vec<Option<ArrayRef>> = batch.columns().iter().map(compact).collect();
    if gathered.iter().all(Option::is_none) {
        return Ok(None);
    }
    let columns = gathered.into_iter().zip(batch.columns());
    let columns = columns.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
    Ok(Some(RecordBatch::try_new(batch.schema(), columns)?))
}

fn gathered_views<T: ByteViewType>(views: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = views.data_buffers().iter().map(Buffer::len).sum();
    (held > 2 * views.total_buffer_bytes_used()).then(|| Arc::new(views.gc()) as ArrayRef)
}

/// Whether a field contains a dictionary at any depth.
pub(crate) fn has_dictionary(field: &Field) -> bool {
    match field.data_type() {
        DataType::Dictionary(..) => true,
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _)
        | DataType::RunEndEncoded(_, inner) => has_dictionary(inner),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field)),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_dictionary(field)),
        _ => false,
    }
}

/// Finds the messages in the parts, and computes their checksum.
fn encoded(
    parts: Vec<Buffer>,
    rows: usize,
    bounds: Vec<(usize, ColumnBounds)>,
) -> Result<EncodedBlock> {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let mut messages = messages(&parts)?;
    let batch = messages.pop().ok_or_else(no_message_error)?;
    let dictionaries =
        messages.iter().map(|one| (one.at, one.meta_bytes, one.body_bytes)).collect();
    let (batch_at, meta_bytes) = (batch.at, batch.meta_bytes);
    let batch_at = u32::try_from(batch_at)
        .map_err(|_| Error::failed("dictionaries of more than 4 GiB in one batch"))?;
    let crc = digest.finalize() as u32;
    let block = Block { bytes, rows: rows as u64, batch_at, meta_bytes, crc, ..Block::default() };
    Ok(EncodedBlock { parts, block, dictionaries, bounds })
}

/// A message among the parts of a block.
struct BlockMessage {
    /// The index of its first part: prefix, then metadata.
    part: usize,
    /// The number of bytes before it.
    at: u64,
    /// The bytes of its metadata, with the prefix.
    meta_bytes: u32,
    body_bytes: u64,
}

/// The messages of a block, found by the lengths in their metadata. A search for prefixes would not
/// do: a value may have the bytes of a prefix.
fn messages(parts: &[Buffer]) -> Result<Vec<BlockMessage>> {
    let (mut found, mut at, mut end) = (vec![], 0, 0);
    for (part, bytes) in parts.iter().enumerate() {
        if at == end && !bytes.is_empty() {
            let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
            let meta_bytes = u32::from_le_bytes(length.ok_or_else(no_message_error)?) + 8;
            let metadata = parts.get(part + 1).ok_or_else(no_message_error)?;
            let message = ipc::root_as_message(metadata).map_err(|_| no_message_error())?;
            let body_bytes = message.bodyLength() as u64;
            found.push(BlockMessage { part, at, meta_bytes, body_bytes });
            end = at + u64::from(meta_bytes) + body_bytes;
        }
        at += bytes.len() as u64;
    }
    if at == end { Ok(found) } else { Err(no_message_error()) }
}

fn no_message_error() -> Error {
    Error::failed("the batch cannot be encoded: its messages have no beginning")
}

/// The bytes after the last block: the end of the stream, and the footer with the offset of every
/// message.
pub(super) fn footer(
    schema: &SchemaRef,
    blocks: &[Block],
    dictionaries: &[(u64, u32, u64)],
) -> Vec<u8> {
    let message_block = |offset: u64, meta: u32, body: u64| {
        ipc::Block::new(offset as i64, meta as i32, body as i64)
    };
    let batches: Vec<ipc::Block> = blocks
        .iter()
        .map(|block| {
            let head = u64::from(block.batch_at);
            let body = block.bytes - head - u64::from(block.meta_bytes);
            message_block(block.offset + head, block.meta_bytes, body)
        })
        .collect();
    let dictionaries: Vec<ipc::Block> =
        dictionaries.iter().map(|(at, meta, body)| message_block(*at, *meta, *body)).collect();
    let mut tracker = DictionaryTracker::new(false);
    let mut encoder = ipc::convert::IpcSchemaEncoder::new().with_dictionary_tracker(&mut tracker);
    // Arrow does not export the crate that has the builder's type; this expression yields one.
    let mut builder =
        ipc::convert::IpcSchemaEncoder::new().schema_to_fb(&arrow::datatypes::Schema::empty());
    builder.reset();
    let schema = encoder.schema_to_fb_offset(&mut builder, schema);
    let dictionaries = builder.create_vector(&dictionaries);
    let batches = builder.create_vector(&batches);
    let mut footer = FooterBuilder::new(&mut builder);
    footer.add_version(MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_dictionaries(dictionaries);
    footer.add_recordBatches(batches);
    let root = footer.finish();
    builder.finish(root, None);
    let footer = builder.finished_data();
    let length = (footer.len() as u32).to_le_bytes();
    [&EOS[..], footer, &length, b"ARROW1"].concat()
}
