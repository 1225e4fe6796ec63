//! Validates Arrow IPC metadata before Arrow decodes it.
//!
//! The decoder trusts lengths: one flipped bit makes it request petabytes, which aborts the
//! process. So every offset and length is compared with the bytes that exist.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{
    Block, CompressionType, Field, Message as IpcMessage, RecordBatch, Schema, root_as_footer,
    root_as_message,
};
use bytes::Bytes;
use euphrates_flow::depth::too_deep;
use euphrates_flow::{Error, Result};

use crate::format::guarded;
use euphrates_device::blob::Blob;

/// A message whose flatbuffer has been verified.
pub type VerifiedMessage<'a> = IpcMessage<'a>;

/// A footer whose blocks lie within the file.
pub struct Footer<'a> {
    /// The schema, in flatbuffer form.
    pub schema: Schema<'a>,
    /// Blocks of the dictionaries; all lie within the file.
    pub dictionaries: Vec<Block>,
    /// Blocks of the record batches; all lie within the file.
    pub batches: Vec<Block>,
}

/// Decodes and validates the footer of a file whose blocks end before the offset `end`.
pub fn footer(bytes: &[u8], end: u64) -> Result<Footer<'_>> {
    let footer = root_as_footer(bytes).map_err(|error| unsound("footer", error))?;
    let schema = footer.schema().ok_or_else(|| wrong("the footer has no schema"))?;
    let batches = within(footer.recordBatches().into_iter().flatten(), end)?;
    let dictionaries = within(footer.dictionaries().into_iter().flatten(), end)?;
    Ok(Footer { schema, dictionaries, batches })
}

/// The blocks; fails if one ends after the offset `end`.
fn within<'a>(blocks: impl Iterator<Item = &'a Block>, end: u64) -> Result<Vec<Block>> {
    let is_within = |block: &Block| {
        let offset = u64::try_from(block.offset()).ok()?;
        let metadata = u64::try_from(block.metaDataLength()).ok()?;
        let body = u64::try_from(block.bodyLength()).ok()?;
        let until = offset.checked_add(metadata)?.checked_add(body)?;
        (metadata >= 8 && until <= end).then_some(())
    };
    blocks
        .map(|block| is_within(block).map(|()| *block))
        .collect::<Option<_>>()
        .ok_or_else(|| wrong("a block lies outside the file"))
}

/// The number of bytes before the flatbuffer of a message: 8 with continuation marker, else 4.
pub fn prefix(message: &[u8]) -> usize {
    // Before version 0.15 messages had no continuation marker.
    if message.starts_with(&[0xff; 4]) { 8 } else { 4 }
}

/// Verifies the message in the first `metadata` bytes, which include its prefix.
pub fn message(bytes: &[u8], metadata: usize) -> Result<VerifiedMessage<'_>> {
    let metadata = bytes.get(..metadata).filter(|metadata| metadata.len() >= 8);
    let metadata = metadata.ok_or_else(|| wrong("a message is cut short"))?;
    root_as_message(&metadata[prefix(metadata)..]).map_err(|error| unsound("message", error))
}

/// The metadata of the message at an offset, with its prefix, and the length of its body; `None` at
/// the end of the stream.
pub fn next_head(blob: &Blob, offset: u64) -> Result<Option<(Bytes, u64)>> {
    if offset == blob.bytes() {
        return Ok(None);
    }
    let word = |at: u64| -> Result<u32> {
        Ok(u32::from_le_bytes(blob.read_at(at, 4)?[..].try_into().expect("four bytes")))
    };
    let (prefix, length) = match word(offset)? {
        u32::MAX => (8, word(offset + 4)?),
        // Before version 0.15 messages had no continuation marker.
        length => (4, length),
    };
    if length == 0 {
        return Ok(None);
    }
    let metadata = prefix + length as usize;
    let head = blob.read_at(offset, metadata)?;
    let body = message(&head, metadata)?.bodyLength();
    let body = u64::try_from(body).map_err(|_| Error::corrupt("a length is negative"))?;
    let end = (offset + metadata as u64).checked_add(body).filter(|end| *end <= blob.bytes());
    end.ok_or_else(|| Error::corrupt("a batch is longer than its file"))?;
    Ok(Some((head, body)))
}

/// Decodes the schema of a file or a message, or one embedded in another format.
pub fn decoded_schema(schema: Schema) -> Result<SchemaRef> {
    schema.fields().into_iter().flatten().try_for_each(|field| check_width(&field))?;
    guarded(|| Ok(Arc::new(fb_to_schema(schema))))
}

/// Rejects integers that are not 8, 16, 32 or 64 bits wide: Polars writes 128-bit integers as
/// Arrow's, which has none.
fn check_width(field: &Field) -> Result<()> {
    match field.type_as_int().map(|int| int.bitWidth()) {
        Some(bits) if bits > 64 => {
            let name = field.name().unwrap_or_default();
            Err(Error::usage(format!("column `{name}` has integers of {bits} bits"))
                .remedy("Arrow has none: write it as decimal(38, 0), or as text"))
        }
        _ => field.children().into_iter().flatten().try_for_each(|field| check_width(&field)),
    }
}

/// Validates the lengths and buffers of a record batch or dictionary message against its body.
pub fn check_batch(message: &VerifiedMessage, body: &[u8]) -> Result<()> {
    if usize::try_from(message.bodyLength()) != Ok(body.len()) {
        return Err(wrong("a message and the footer disagree about its length"));
    }
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
    match batch {
        Some(batch) => check_buffers(&batch, body),
        None => Err(wrong("a message is no batch")),
    }
}

/// A resource error if the buffers of a compressed batch declare more than `bytes_max` bytes in
/// memory, or than `UNPACKED_BYTES_MIN` if that is larger.
pub fn check_unpacked(message: &VerifiedMessage, body: &[u8], bytes_max: usize) -> Result<()> {
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    let unpacked = |from: i64| {
        let length = body.get(usize::try_from(from).ok()?..)?.first_chunk::<8>()?;
        u64::try_from(i64::from_le_bytes(*length)).ok()
    };
    let buffers = batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() > 0);
    let bytes = buffers.fold(body.len() as u64, |sum, buffer| {
        sum.saturating_add(unpacked(buffer.offset()).unwrap_or(0))
    });
    let bytes_max = bytes_max.max(UNPACKED_BYTES_MIN) as u64;
    if bytes <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "a compressed batch takes {:.1} MiB in memory, more than the {:.1} MiB that \
         reading may take",
        bytes as f64 / f64::from(1 << 20),
        bytes_max as f64 / f64::from(1 << 20)
    );
    Err(Error::resource(message)
        .remedy("give the flow more memory (`memory=`), or write the file in smaller batches"))
}

/// The lower bound of that limit: batches of 65,536 rows with some dozens of columns have fewer
/// bytes.
const UNPACKED_BYTES_MIN: usize = 32 << 20;

fn check_buffers(batch: &RecordBatch, body: &[u8]) -> Result<()> {
    if !(0..=i32::MAX.into()).contains(&batch.length()) {
        return Err(wrong("a batch has an impossible number of rows"));
    }
    for node in batch.nodes().into_iter().flatten() {
        let possible = 0 <= node.null_count() && node.null_count() <= node.length();
        if !possible || node.length() > i32::MAX.into() {
            return Err(wrong("a column has an impossible number of rows"));
        }
    }
    let buffers = batch.buffers().map_or(0, |buffers| buffers.len()) as i64;
    let variadic: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    if variadic.iter().any(|count| !(0..=buffers).contains(count)) {
        return Err(wrong("a column has an impossible number of buffers"));
    }
    let codec = batch.compression().map(|compression| compression.codec());
    for buffer in batch.buffers().into_iter().flatten() {
        let range =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range.and_then(|(from, length)| body.get(from..from.checked_add(length)?));
        let bytes = bytes.ok_or_else(|| wrong("a buffer lies outside its batch"))?;
        if let (Some(codec), false) = (codec, bytes.is_empty()) {
            check_compressed(codec, bytes)?;
        }
    }
    Ok(())
}

/// Fails if a compressed buffer declares a length that its bytes cannot expand to.
fn check_compressed(codec: CompressionType, bytes: &[u8]) -> Result<()> {
    let Some((length, packed)) = bytes.split_first_chunk::<8>() else {
        return Err(wrong("a compressed buffer is cut short"));
    };
    // The most bytes one compressed byte can stand for: an LZ4 match length byte adds 255; a zstd
    // block of 128 KiB takes at least four bytes.
    let expansion = if codec == CompressionType::LZ4_FRAME { 255 } else { 32 << 10 };
    let most = packed.len().saturating_mul(expansion);
    match i64::from_le_bytes(*length) {
        -1 => Ok(()),
        length if usize::try_from(length).is_ok_and(|length| length <= most) => Ok(()),
        _ => Err(wrong("a compressed buffer has an impossible length")),
    }
}

/// The error of metadata that fails verification. The verifier also stops at 64 nested tables, of
/// which a schema needs a few.
fn unsound(what: &str, error: impl std::fmt::Debug + std::fmt::Display) -> Error {
    match format!("{error:?}").contains("DepthLimitReached") {
        true => too_deep("the schema"),
        false => wrong(format!("{what}: {error}")),
    }
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("damaged Arrow IPC: {what}"))
}
