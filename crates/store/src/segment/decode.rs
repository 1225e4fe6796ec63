//! Decoding of blocks into batches: checked first, then decoded in place.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc;
use arrow::ipc::reader::FileDecoder;
use euphrates_flow::{Error, Result};

use super::{Block, has_dictionary};

/// Decodes the blocks of one schema.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow::buffer::Buffer;
/// use euphrates_store::segment::{BlockDecoder, BlockEncoder};
///
/// let column = |from| Arc::new(Int64Array::from_iter_values(from..from + 3)) as ArrayRef;
/// let batch = RecordBatch::try_from_iter([("n", column(0)), ("m", column(10))])?;
/// let encoded = BlockEncoder::new(batch.schema(), None)?.encode(&batch)?;
/// let bytes: Vec<u8> = encoded.parts.iter().flat_map(|part| part.as_slice().to_vec()).collect();
/// encoded.block.check(&bytes)?;
/// let second_column = BlockDecoder::new(&batch.schema(), Some(vec![1]));
/// let decoded = second_column.decode(&encoded.block, &Buffer::from(bytes.as_slice()))?;
/// assert_eq!(decoded.column(0), &column(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockDecoder {
    schema: SchemaRef,
    columns: Option<Vec<usize>>,
    /// Without dictionaries, one decoder serves all blocks.
    shared: Option<FileDecoder>,
}

impl Block {
    /// Fails unless the checksum of these bytes is the one that was written.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        expect_crc(bytes, self.crc)
    }
}

/// Fails unless this is the checksum of the bytes.
pub(crate) fn expect_crc(bytes: &[u8], expected: u32) -> Result<()> {
    match crc_fast::crc32_iscsi(bytes) {
        crc if crc == expected => Ok(()),
        crc => Err(Error::corrupt(format!("its checksum is {crc:08x}, not {expected:08x}"))),
    }
}

impl BlockDecoder {
    /// A decoder of all columns, or of those at these positions.
    pub fn new(schema: &SchemaRef, columns: Option<Vec<usize>>) -> BlockDecoder {
        let mut decoder = BlockDecoder { schema: schema.clone(), columns, shared: None };
        if !schema.fields().iter().any(|field| has_dictionary(field)) {
            decoder.shared = Some(decoder.fresh());
        }
        decoder
    }

    /// Decodes a block. Arrow does not validate the bytes: they must have passed [`Block::check`],
    /// or come from an encoder of this process.
    pub fn decode(&self, block: &Block, bytes: &Buffer) -> Result<RecordBatch> {
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode_checked(block, bytes)));
        let batch = match decoded {
            Ok(Ok(batch)) => batch,
            Ok(Err(error)) => return Err(Error::corrupt(error.message())),
            Err(_) => return Err(Error::corrupt("it cannot be decoded")),
        };
        if batch.num_rows() as u64 != block.rows {
            let rows = batch.num_rows();
            return Err(Error::corrupt(format!("{rows} rows, not {}", block.rows)));
        }
        Ok(batch)
    }

    fn fresh(&self) -> FileDecoder {
        let decoder = FileDecoder::new(self.schema.clone(), ipc::MetadataVersion::V5);
        let decoder = match &self.columns {
            Some(columns) => decoder.with_projection(columns.clone()),
            None => decoder,
        };
        // SAFETY: a block is decoded only after its CRC has proved that these are the bytes that an
        // Arrow encoder of Euphrates wrote from a valid batch.
        unsafe { decoder.with_skip_validation(true) }
    }

    fn decode_checked(&self, block: &Block, bytes: &Buffer) -> Result<RecordBatch> {
        let message_block = |message: &Buffer, meta: u32| {
            ipc::Block::new(0, meta as i32, message.len() as i64 - i64::from(meta))
        };
        let batch = bytes.slice(block.batch_at as usize);
        let batch_block = message_block(&batch, block.meta_bytes);
        let nothing = || Error::corrupt("it holds no batch");
        if let Some(decoder) = &self.shared {
            return decoder.read_record_batch(&batch_block, &batch)?.ok_or_else(nothing);
        }
        let mut decoder = self.fresh();
        let mut at = 0;
        while at < block.batch_at as usize {
            let message = bytes.slice(at);
            let word = message.get(4..8).and_then(|word| word.try_into().ok());
            let meta = word.map(u32::from_le_bytes).ok_or_else(nothing)? + 8;
            let header = message.get(8..meta as usize).ok_or_else(nothing)?;
            let header = ipc::root_as_message(header).map_err(Error::corrupt)?;
            decoder.read_dictionary(&message_block(&message, meta), &message)?;
            at += meta as usize + header.bodyLength() as usize;
        }
        decoder.read_record_batch(&batch_block, &batch)?.ok_or_else(nothing)
    }
}
