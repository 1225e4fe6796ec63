//! Graduated declustering as it is done here: the laggard first, and a disk remembers who lagged.
//!
//! By itself, *the laggard first* lets load ripple round the ring only along a slope: a disk helps
//! the reader on its left because that one lags the one on its right, so each hop costs up to a
//! block, and the reader next to a slow disk ends up behind by the square root of what the slow
//! disk did not deliver. So the disk also adds up, block by block, a part of how far each of its
//! readers lags the others, and serves whoever lags most with that added. In the long run it then
//! gives each reader the share it needs without anybody lagging: the slope vanishes, and a disk
//! that slows is felt a hop further with every block or two (integral control; with lag alone it is
//! proportional).

use super::disk::Served;

/// The laggard first, with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graduated {
    /// Bytes a reader must lag more before the disk turns to it from one that it reads on
    /// sequentially. About 8 blocks for disks that seek, 0 for those that do not.
    pub turn_bytes: u64,
    /// Parts in 256 of a lag that are remembered with every block begun.
    pub memory_gain: u32,
    /// What is remembered of a reader at most, in blocks of the size just begun.
    pub memory_blocks_max: u32,
}

/// Blocks that a reader at another machine must lag more than one at the disk's own.
const NEAR_BLOCKS: u64 = 2;

impl Default for Graduated {
    fn default() -> Graduated {
        Graduated { turn_bytes: 0, memory_gain: 32, memory_blocks_max: 4 }
    }
}

impl Graduated {
    /// The reader that lags most.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut Served)>,
        last: Option<(u32, u32)>,
    ) -> Option<u32> {
        let mut waiting: alloc::vec::Vec<_> =
            readers.filter(|(_, served)| served.next().is_some()).collect();
        let count = waiting.len() as i128;
        let sum: i128 = waiting.iter().map(|(_, served)| i128::from(served.open_bytes())).sum();
        for (_, served) in &mut waiting {
            let block_bytes = served.next().map_or(0, |claim| claim.bytes);
            let lag = i128::from(served.open_bytes()) - sum / count;
            // Smaller lags come and go with the turns themselves.
            let quiet = i128::from(self.turn_bytes / 2);
            let part = (lag - lag.clamp(-quiet, quiet)) * i128::from(self.memory_gain) / 256;
            let most = i128::from(block_bytes) * i128::from(self.memory_blocks_max);
            served.memory = (i128::from(served.memory) + part).clamp(-most, most) as i64;
        }
        let key = |(id, served): &(&u32, &mut Served)| {
            let next = served.next().map(|claim| claim.block);
            let goes_on = last
                .is_some_and(|last| next.is_some_and(|next| last == (**id, next.wrapping_sub(1))));
            let open = served.open_bytes();
            // A turn begins at a lag of `turn_bytes` and ends when the other one is overtaken. The
            // primary is home: otherwise turns, once begun, would wander round the ring for ever.
            let halves = u64::from(goes_on) + u64::from(served.rank == 0);
            let stays = (self.turn_bytes / 2 * halves).min(open / 8);
            // What the network need not carry: less than what is remembered of who lags.
            let block_bytes = served.next().map_or(0, |claim| claim.bytes);
            let far_bytes = if served.is_far { NEAR_BLOCKS * block_bytes } else { 0 };
            let stays = i128::from(stays) - i128::from(far_bytes.min(open / 8));
            (i128::from(open) + i128::from(served.memory) + stays, !served.rank, !**id)
        };
        waiting.iter().max_by_key(|reader| key(reader)).map(|(id, _)| **id)
    }
}
