//! The blocks of one stripe in memory: restores the missing ones, and copies ranges out of them.

use std::collections::VecDeque;

use arrow::buffer::Buffer;
use euphrates_device::buffer::pool;
use euphrates_flow::{Error, Result};
use euphrates_parity::ErasureCode;

/// Data blocks that a handle remembers: for programs that read a few bytes here and there.
pub(super) const CACHED_BLOCKS_MAX: usize = 16;

/// Restores the `wanted` blocks of a stripe from the blocks that are left.
pub(super) fn restore(
    code: &ErasureCode,
    left: &[(usize, Buffer)],
    wanted: &[usize],
) -> Result<Vec<Buffer>> {
    let has = |place: usize| left.iter().find(|(at, _)| *at == place).map(|(_, bytes)| bytes);
    let bytes = left.first().map_or(0, |(_, bytes)| bytes.len());
    let missing = wanted.iter().filter(|&&place| has(place).is_none());
    let mut made =
        missing.map(|&place| Ok((place, pool().take(bytes)?))).collect::<Result<Vec<_>>>()?;
    if !made.is_empty() {
        let left: Vec<(usize, &[u8])> =
            left.iter().map(|(place, bytes)| (*place, bytes.as_slice())).collect();
        let mut missing: Vec<(usize, &mut [u8])> =
            made.iter_mut().map(|(place, bytes)| (*place, &mut bytes[..])).collect();
        let restored = code.recover(&left, &mut missing);
        restored.map_err(|error| Error::failed(format!("cannot restore a stripe: {error:?}")))?;
    }
    let mut made = made.into_iter().map(|(_, bytes)| bytes.into_arrow());
    let block = |&place: &usize| match has(place) {
        Some(bytes) => bytes.clone(),
        None => made.next().expect("as many as are missing"),
    };
    Ok(wanted.iter().map(block).collect())
}

/// Copies a range of a stripe's data out of its blocks, of which the first has the number `first`;
/// zeros lie beyond them. `at` is the offset in the stripe.
pub(super) fn copy_out(
    blocks: &[Buffer],
    first: usize,
    block_bytes: usize,
    at: usize,
    to: &mut [u8],
) {
    let (mut at, mut to) = (at, to);
    while !to.is_empty() {
        let block = (at / block_bytes).checked_sub(first).and_then(|number| blocks.get(number));
        let Some(block) = block else { return to.fill(0) };
        let within = at % block_bytes;
        let count = (block.len() - within).min(to.len());
        let (now, rest) = to.split_at_mut(count);
        now.copy_from_slice(&block[within..within + count]);
        (at, to) = (at + count, rest);
    }
}

/// The data blocks that were read last.
#[derive(Debug, Default)]
pub(super) struct BlockCache(VecDeque<((usize, usize), Buffer)>);

impl BlockCache {
    /// A block by stripe and place.
    pub fn get(&mut self, key: (usize, usize)) -> Option<Buffer> {
        let at = self.0.iter().position(|(known, _)| *known == key)?;
        let found = self.0.remove(at)?;
        let bytes = found.1.clone();
        self.0.push_front(found);
        Some(bytes)
    }

    pub fn put(&mut self, key: (usize, usize), bytes: Buffer) {
        if !self.0.iter().any(|(known, _)| *known == key) {
            self.0.push_front((key, bytes));
            self.0.truncate(CACHED_BLOCKS_MAX);
        }
    }

    /// Forgets the blocks of a stripe that has changed.
    pub fn forget(&mut self, stripe: usize) {
        self.0.retain(|((known, _), _)| *known != stripe);
    }

    /// Forgets the blocks of the stripes from this one on.
    pub fn forget_from(&mut self, stripe: usize) {
        self.0.retain(|((known, _), _)| *known < stripe);
    }
}
