//! The table of contents of a segment: the schema, and the offset, size and CRC-32C of each block.
//!
//! Arrow's format has no checksums: most flipped bits in an IPC file give wrong data silently. So
//! the table has the CRC-32C of every block, and guards itself with its length and CRC.
//!
//! Layout, little endian: magic (8), version (4), CRC-32C of all that follows (4), length of the
//! table (8), length of the segment (8), CRC-32C of the segment outside its blocks (4), length of
//! the schema message (4), number of blocks (8), in version 2 length of the statistics (8), the
//! schema message, the blocks (40 each), in version 2 the statistics (`statistics.rs`). A table
//! without statistics is of version 1.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::try_schema_from_ipc_buffer;
use arrow::ipc::writer::StreamEncoder;
use euphrates_flow::Result;

use super::block::{Block, EOS, damaged};
use super::statistics::BlockStatistics;

const MAGIC: &[u8; 8] = b"EUPHRTOC";
/// The version of a table without statistics.
const VERSION_PLAIN: u32 = 1;
/// The version of a table with statistics.
const VERSION_STATISTICS: u32 = 2;
/// The bytes before the length of the statistics.
const HEAD_BYTES: usize = 48;
const BLOCK_BYTES: usize = 40;
/// The offset at which the checksum's range begins.
const GUARDED_FROM: usize = 16;
/// A decoded table of contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Toc {
    /// The schema, as in the file.
    pub schema: SchemaRef,
    /// The schema's IPC message.
    pub schema_message: Vec<u8>,
    /// The blocks, in the order of writing.
    pub blocks: Vec<Block>,
    /// The length of the segment's file.
    pub segment_bytes: u64,
    /// CRC-32C of the bytes before the first block and after the last.
    pub rest_crc: u32,
    /// The statistics of the blocks as stored; empty if there are none.
    pub(super) statistics: Vec<u8>,
    /// The blocks of the segment that are left, if some are left out.
    pub(super) left: Option<BlocksLeft>,
}

/// The blocks of a segment that a reading does not leave out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BlocksLeft {
    /// The index of each in the segment.
    indices: Vec<u32>,
    /// The number of the segment's blocks.
    of: usize,
}

impl Toc {
    /// What is known of the values in each block; `None` if nothing is. Fails with `Corrupt` if the
    /// statistics are not those of these blocks.
    pub fn statistics(&self) -> Result<Option<BlockStatistics>> {
        if self.statistics.is_empty() {
            return Ok(None);
        }
        BlockStatistics::decode(&self.schema, &self.blocks, &self.statistics).map(Some)
    }

    /// A table of some of the blocks, without statistics. The flags are by block.
    pub(crate) fn keeping(&self, is_kept: &[bool]) -> Toc {
        let all = self.blocks.iter().zip(0..).zip(is_kept);
        let kept = all.filter(|(_, is_kept)| **is_kept).map(|(block, _)| block);
        let (blocks, indices) = kept.map(|(block, at)| (*block, self.index_in_segment(at))).unzip();
        let left = Some(BlocksLeft { indices, of: self.blocks_in_segment() });
        let (schema, schema_message) = (self.schema.clone(), self.schema_message.clone());
        Toc { schema, schema_message, blocks, statistics: vec![], left, ..*self }
    }

    /// The index in the segment of the block at this index of the table.
    pub(crate) fn index_in_segment(&self, block: u32) -> u32 {
        self.left.as_ref().map_or(block, |left| left.indices[block as usize])
    }

    /// The number of the segment's blocks, with those that the table leaves out.
    pub(crate) fn blocks_in_segment(&self) -> usize {
        self.left.as_ref().map_or(self.blocks.len(), |left| left.of)
    }

    /// Rows of all blocks.
    pub fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    /// The table as stored on disk; must have all blocks.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.left.is_none(), "the table of a whole segment");
        let (version, length_bytes) = match self.statistics.len() {
            0 => (VERSION_PLAIN, 0),
            _ => (VERSION_STATISTICS, size_of::<u64>()),
        };
        let fixed = HEAD_BYTES + length_bytes + self.blocks.len() * BLOCK_BYTES;
        let bytes = fixed + self.schema_message.len() + self.statistics.len();
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(bytes as u64).to_le_bytes());
        out.extend_from_slice(&self.segment_bytes.to_le_bytes());
        out.extend_from_slice(&self.rest_crc.to_le_bytes());
        out.extend_from_slice(&(self.schema_message.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.blocks.len() as u64).to_le_bytes());
        if version == VERSION_STATISTICS {
            out.extend_from_slice(&(self.statistics.len() as u64).to_le_bytes());
        }
        out.extend_from_slice(&self.schema_message);
        for block in &self.blocks {
            for field in [block.offset, block.bytes, block.rows] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            for field in [block.batch_at, block.meta_bytes, block.crc, block.number] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.statistics);
        let crc = crc_fast::crc32_iscsi(&out[GUARDED_FROM..]);
        out[GUARDED_FROM - 4..GUARDED_FROM].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a table; fails with `Corrupt` unless it is whole and unchanged. Allocates no more
    /// than the size of the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Toc> {
        let mut head = FieldCursor(bytes);
        if head.take(8)? != MAGIC {
            return Err(damaged("it does not begin as one"));
        }
        let version = head.u32()?;
        let crc = head.u32()?;
        let (length, segment_bytes) = (head.u64()?, head.u64()?);
        let (rest_crc, schema_bytes, blocks) = (head.u32()?, head.u32()?, head.u64()?);
        if length != bytes.len() as u64 {
            return Err(damaged(format!("{} bytes of {length}", bytes.len())));
        }
        if crc_fast::crc32_iscsi(&bytes[GUARDED_FROM..]) != crc {
            return Err(damaged("its checksum is wrong"));
        }
        let statistics_bytes = match version {
            VERSION_PLAIN => 0,
            VERSION_STATISTICS => head.u64()?,
            _ => {
                let known = format!("{VERSION_PLAIN} and {VERSION_STATISTICS}");
                return Err(damaged(format!("version {version}, known are {known}"))
                    .remedy("read it with the release that wrote it"));
            }
        };
        let mut rest = head;
        let schema_message = rest.take(schema_bytes as usize)?.to_vec();
        let entries_bytes = blocks.saturating_mul(BLOCK_BYTES as u64);
        if rest.0.len() as u64 != entries_bytes.saturating_add(statistics_bytes) {
            return Err(damaged("its blocks do not fill it"));
        }
        let (entries, statistics) = rest.0.split_at(entries_bytes as usize);
        if (version == VERSION_STATISTICS) == statistics.is_empty() {
            return Err(damaged("it lacks its statistics"));
        }
        let blocks = entries.chunks_exact(BLOCK_BYTES).map(Block::decode);
        let blocks = blocks.collect::<Result<Vec<Block>>>()?;
        let schema = schema_of_message(&schema_message)?;
        let statistics = statistics.to_vec();
        let toc =
            Toc { schema, schema_message, blocks, segment_bytes, rest_crc, statistics, left: None };
        toc.check().map(|()| toc)
    }

    /// Fails unless the blocks are in ascending order, do not overlap and lie within the file.
    fn check(&self) -> Result<()> {
        let mut end = 0;
        for block in &self.blocks {
            let fits = block.offset.checked_add(block.bytes);
            let fits = fits.filter(|next| *next <= self.segment_bytes && block.offset >= end);
            let meta = u64::from(block.batch_at) + u64::from(block.meta_bytes);
            end = fits.filter(|_| meta <= block.bytes).ok_or_else(|| damaged("blocks overlap"))?;
        }
        Ok(())
    }
}

impl Block {
    fn decode(bytes: &[u8]) -> Result<Block> {
        let mut fields = FieldCursor(bytes);
        Ok(Block {
            offset: fields.u64()?,
            bytes: fields.u64()?,
            rows: fields.u64()?,
            batch_at: fields.u32()?,
            meta_bytes: fields.u32()?,
            crc: fields.u32()?,
            number: fields.u32()?,
        })
    }
}

/// A schema as an IPC message, padded to 64 bytes.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_store::segment::{message_of_schema, schema_of_message};
///
/// let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
/// let message = message_of_schema(&schema)?;
/// assert_eq!(*schema_of_message(&message)?, schema);
/// assert!(schema_of_message(&message[..10]).is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn message_of_schema(schema: &Schema) -> Result<Vec<u8>> {
    let stream = StreamEncoder::try_new(schema)?.finish()?;
    let mut message: Vec<u8> = stream.iter().flat_map(|part| part.iter().copied()).collect();
    debug_assert!(message.ends_with(&EOS));
    message.truncate(message.len() - EOS.len());
    Ok(message)
}

/// The schema of a message, with the numbers of its dictionaries.
pub fn schema_of_message(message: &[u8]) -> Result<SchemaRef> {
    let decoded = catch_unwind(AssertUnwindSafe(|| try_schema_from_ipc_buffer(message)));
    match decoded {
        Ok(Ok(schema)) => Ok(Arc::new(schema)),
        Ok(Err(error)) => Err(damaged(error)),
        Err(_) => Err(damaged("its schema cannot be decoded")),
    }
}

/// A cursor over fixed-size fields.
struct FieldCursor<'a>(&'a [u8]);

impl<'a> FieldCursor<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(|| damaged("it is cut"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    #[test]
    fn table_round_trips_and_inconsistent_tables_are_refused() {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("key", DataType::FixedSizeBinary(10), false),
            Field::new("names", DataType::new_list(DataType::Utf8View, true), true),
        ]));
        let schema_message = message_of_schema(&schema).unwrap();
        assert!(schema_message.len().is_multiple_of(64));
        let block = Block { offset: 64, bytes: 128, rows: 3, meta_bytes: 64, ..Block::default() };
        let later = Block { offset: 192, number: 7, ..block };
        let blocks = vec![block, later];
        let (segment_bytes, rest_crc, left) = (320, 9, None);
        let statistics = vec![];
        let toc = Toc { schema, schema_message, blocks, segment_bytes, rest_crc, statistics, left };
        assert_eq!(Toc::decode(&toc.encode()).unwrap(), toc);
        let known = Toc { statistics: vec![7; 9], ..toc.clone() };
        assert_eq!(Toc::decode(&known.encode()).unwrap(), known);
        assert!(known.statistics().is_err(), "they are no message");
        assert_eq!(toc.rows(), 6);
        for wrong in [
            Block { offset: 100, ..block },
            Block { bytes: 129, ..later },
            Block { offset: u64::MAX, ..later },
            Block { meta_bytes: 129, ..later },
        ] {
            let lying = Toc { blocks: vec![block, wrong], ..toc.clone() };
            let error = Toc::decode(&lying.encode()).unwrap_err();
            assert_eq!(error.kind(), euphrates_flow::Kind::Corrupt);
        }
    }
}
