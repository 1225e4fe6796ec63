//! The order of a replay: which chunks of the blocks that were found belong to the log.
//!
//! The log ends before the first chunk that cannot be restored. That is where the mount was killed,
//! unless a later block says that the chunk was durable: then the log is damaged, and what follows
//! cannot be trusted.

use std::collections::BTreeMap;

use super::block::{BlockHeader, crc};
use super::chunk::assemble;

/// A whole block of a segment.
#[derive(Clone, Debug)]
pub struct FoundBlock {
    pub header: BlockHeader,
    pub disk: u32,
    /// The offset of its header in the segment's file of the disk.
    pub offset: u64,
    /// Its bytes, without the header.
    pub body: Vec<u8>,
}

/// A chunk of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedChunk {
    pub number: u64,
    pub payload: Vec<u8>,
    pub data: u8,
    /// The disk and the offset of each block; missing ones have the disk `u32::MAX`.
    pub blocks: Vec<(u32, u64)>,
}

/// A damaged chunk that was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDamage {
    pub chunk: u64,
    /// Blocks that were found of it, and how many it needs.
    pub found: usize,
    pub needed: usize,
}

/// How far a replay has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The chunk that comes next.
    pub next: u64,
    /// The first chunk that is missing, and what is left of it.
    gap: Option<LogDamage>,
}

impl LogEnd {
    /// The log from a chunk on.
    pub fn from(next: u64) -> LogEnd {
        LogEnd { next, gap: None }
    }
}

/// The chunks of a segment that continue the log, in order. Segments must come in their order.
pub fn in_order(
    end: &mut LogEnd,
    epoch: u64,
    found: Vec<FoundBlock>,
) -> Result<Vec<ReplayedChunk>, LogDamage> {
    let mut chunks: BTreeMap<u64, Vec<FoundBlock>> = BTreeMap::new();
    for block in found.into_iter().filter(|block| block.header.epoch == epoch) {
        chunks.entry(block.header.chunk).or_default().push(block);
    }
    let mut replayed = vec![];
    for (number, blocks) in chunks.range_mut(end.next..) {
        let durable = blocks[0].header.durable;
        if end.gap.is_none() && *number == end.next {
            match restored(*number, std::mem::take(blocks)) {
                Ok(chunk) => {
                    replayed.push(chunk);
                    end.next += 1;
                    continue;
                }
                Err(gap) => end.gap = Some(gap),
            }
        }
        let missing = LogDamage { chunk: end.next, found: 0, needed: 1 };
        let gap = *end.gap.get_or_insert(missing);
        if gap.chunk < durable {
            return Err(gap);
        }
    }
    Ok(replayed)
}

fn restored(number: u64, blocks: Vec<FoundBlock>) -> Result<ReplayedChunk, LogDamage> {
    let header = blocks[0].header;
    let (data, parity) = (usize::from(header.data), usize::from(header.parity));
    let mut places = vec![(u32::MAX, 0); data + parity];
    let mut bodies = vec![];
    for block in blocks {
        let index = usize::from(block.header.index);
        if let Some(place) = places.get_mut(index).filter(|place| place.0 == u32::MAX) {
            *place = (block.disk, block.offset);
            bodies.push((index, block.body));
        }
    }
    let damage = LogDamage { chunk: number, found: bodies.len(), needed: data };
    let payload = assemble(header.payload_bytes as usize, data, parity, &bodies).ok_or(damage)?;
    match crc(&payload) == header.payload_crc {
        true => Ok(ReplayedChunk { number, payload, data: header.data, blocks: places }),
        false => Err(damage),
    }
}
