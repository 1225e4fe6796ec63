//! Reads and writes Arrow IPC streams over pipes; a file that arrives through a pipe is read as the
//! stream it contains.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use euphrates_flow::{Error, Result, converted_schema};

use super::decoder::{Decoder, converted_parts, not_arrow_ipc, schema_of};
use super::framing::{END_OF_STREAM, HEAD};
use crate::arrow_ipc::validation::message;
use crate::format::{ChunkMetadata, Encoder, Writer};
use crate::stream;
use crate::stream::{BatchStream, ByteInput};
use crate::text::splits::{check_uncompressed, without_mark};

/// Reads a stream. Its columns must equal `columns` if they are given.
pub fn read(mut input: ByteInput, columns: Option<SchemaRef>) -> Result<BatchStream> {
    let mut begin = stream::up_to(&mut input, HEAD.len() as u64)?;
    if begin.is_empty() && columns.is_none() {
        return Err(stream::nothing());
    }
    if begin == HEAD {
        begin.clear();
    }
    no_other(&begin)?;
    let mut input = stream::prepend(begin, input);
    let Some((bytes, metadata)) = next_message(&mut input)? else { return Err(not_arrow_ipc()) };
    let own = schema_of(&bytes, metadata)?;
    let schema = stream::check_columns(converted_schema(&own.schema), columns)?;
    let mut decoder = Decoder::new(&own, &schema)?;
    let batches = stream::until_error(move || {
        while let Some((bytes, metadata)) = next_message(&mut input)? {
            if let Some(batch) = decoder.decode(bytes, metadata)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    });
    let of = schema.clone();
    Ok(BatchStream {
        schema,
        batches: Box::new(batches.flat_map(move |batch| converted_parts(batch, &of))),
    })
}

/// Fails if the input begins like another known format or like text.
fn no_other(begin: &[u8]) -> Result<()> {
    check_uncompressed(begin)?;
    // Four letters, read as the length of a message, would be half a gigabyte.
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    let looks_like = match without_mark(begin) {
        [b'P', b'A', b'R', b'1', ..] => "Parquet",
        [b'{', ..] => "JSON lines (json_lines)",
        text if text.len() >= 4 && text.iter().all(is_text) => "text (csv or lines)",
        _ => return Ok(()),
    };
    let remedy = "say its format, like csv, json_lines, records or lines; files of Parquet are \
                  read from disk only";
    Err(Error::usage(format!("this is no Arrow stream: it looks like {looks_like}")).remedy(remedy))
}

/// The next message, with the length of its metadata including the prefix; `None` at the end.
/// Memory grows with the bytes that arrive, not with the lengths they declare.
fn next_message(input: &mut ByteInput) -> Result<Option<(Bytes, usize)>> {
    let mut bytes = stream::up_to(input, 4)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let more = |input: &mut ByteInput, bytes: &mut Vec<u8>, count: u64| -> Result<()> {
        let part = stream::up_to(input, count)?;
        bytes.extend_from_slice(&part);
        match part.len() as u64 == count {
            true => Ok(()),
            false => Err(Error::corrupt("the stream ends within a message")),
        }
    };
    // Before version 0.15 messages had no continuation marker.
    if bytes == [0xff; 4] {
        more(input, &mut bytes, 4)?;
    }
    let length = bytes.last_chunk::<4>().map(|length| u32::from_le_bytes(*length));
    let length = length.ok_or_else(|| Error::corrupt("the stream ends within a message"))?;
    if length == 0 {
        return Ok(None);
    }
    more(input, &mut bytes, length.into())?;
    let metadata = bytes.len();
    let body = message(&bytes, metadata)?.bodyLength();
    let body = u64::try_from(body).map_err(|_| Error::corrupt("a length is negative"))?;
    more(input, &mut bytes, body)?;
    Ok(Some((bytes.into(), metadata)))
}

/// Writes the batches of a file writer as a stream: its messages without magic and footer.
pub struct StreamOf {
    /// The writer whose file contains the stream.
    pub file: Arc<dyn Writer>,
}

impl Writer for StreamOf {
    fn header(&self) -> Result<Vec<Buffer>> {
        let parts = self.file.header()?;
        Ok(parts.into_iter().filter(|part| part.as_slice() != HEAD).collect())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        self.file.encoder()
    }

    fn footer(&self, _: Vec<(u64, ChunkMetadata)>) -> Result<Vec<Buffer>> {
        Ok(vec![Buffer::from(END_OF_STREAM)])
    }
}
