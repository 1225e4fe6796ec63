//! The log as bytes: records in chunks, chunks as blocks with parity, and how a replay orders them.

mod block;
mod chunk;
mod replay;

pub use block::{BLOCK_ALIGN, BlockHeader, HEADER_BYTES, crc, find_blocks};
pub use chunk::{ChunkCode, ChunkPlace, restore};
pub use replay::{FoundBlock, LogDamage, LogEnd, ReplayedChunk, in_order};
