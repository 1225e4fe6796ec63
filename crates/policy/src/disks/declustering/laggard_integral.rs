//! The default disk order of graduated declustering: proportional-integral control of the readers'
//! lags. A reader's lag is its unbegun bytes above the mean of the waiting readers.
//!
//! *Laggard first* alone is proportional control, which has a steady-state error. Load moves along
//! the ring only while lags differ: a disk serves the reader on one side more because it lags
//! behind the reader on the other side, so each hop leaves a difference of up to a block. The lag
//! of the reader next to a slow disk grows with the square root of the bytes that the slow disk did
//! not deliver. The disk therefore also integrates, block by block, a fraction of each reader's
//! lag, and serves the reader with the largest sum of both (proportional-integral control). It
//! converges to the share that each reader needs, with no remaining lag, and the effect of a slow
//! disk moves one hop further with every block or two.

use super::served::ReaderAtDisk;

/// Serves the reader with the largest sum of its lag and its integral.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaggardIntegral {
    /// The additional lag, in bytes, for which the disk leaves a sequential read of another reader:
    /// about 8 blocks for disks that seek, 0 for others.
    pub turn_bytes: u64,
    /// The gain of the memory: 256ths of the lag that are added with every block.
    pub integral_gain: u32,
    /// The bound of the memory, in blocks.
    pub integral_blocks_max: u32,
}

/// The additional lag, in blocks, for which the disk serves a remote reader before a local one.
const NEAR_BLOCKS: u64 = 2;

impl Default for LaggardIntegral {
    fn default() -> LaggardIntegral {
        LaggardIntegral { turn_bytes: 0, integral_gain: 32, integral_blocks_max: 4 }
    }
}

impl LaggardIntegral {
    /// Chooses the reader that lags most, memory included.
    pub(super) fn choose<'a>(
        &self,
        readers: impl Iterator<Item = (&'a u32, &'a mut ReaderAtDisk)>,
        last: Option<(u32, u32)>,
    ) -> Option<u32> {
        let mut waiting: alloc::vec::Vec<_> =
            readers.filter(|(_, served)| served.next().is_some()).collect();
        let count = waiting.len() as i128;
        let sum: i128 = waiting.iter().map(|(_, served)| i128::from(served.open_bytes())).sum();
        for (_, served) in &mut waiting {
            let block_bytes = served.next().map_or(0, |claim| claim.bytes);
            let lag = i128::from(served.open_bytes()) - sum / count;
            // Turns themselves cause smaller lags.
            let quiet = i128::from(self.turn_bytes / 2);
            let part = (lag - lag.clamp(-quiet, quiet)) * i128::from(self.integral_gain) / 256;
            let most = i128::from(block_bytes) * i128::from(self.integral_blocks_max);
            served.memory = (i128::from(served.memory) + part).clamp(-most, most) as i64;
        }
        let key = |(id, served): &(&u32, &mut ReaderAtDisk)| {
            let next = served.next().map(|claim| claim.block);
            let goes_on = last
                .is_some_and(|last| next.is_some_and(|next| last == (**id, next.wrapping_sub(1))));
            let open = served.open_bytes();
            // A turn begins at a lag of `turn_bytes` and ends when the other reader is overtaken.
            // The primary copy has an advantage, or turns would travel round the ring forever.
            let halves = u64::from(goes_on) + u64::from(served.rank == 0);
            let stays = (self.turn_bytes / 2 * halves).min(open / 8);
            // The preference for local readers is smaller than the bound of the memory.
            let block_bytes = served.next().map_or(0, |claim| claim.bytes);
            let far_bytes = if served.is_far { NEAR_BLOCKS * block_bytes } else { 0 };
            let stays = i128::from(stays) - i128::from(far_bytes.min(open / 8));
            (i128::from(open) + i128::from(served.memory) + stays, !served.rank, !**id)
        };
        waiting.iter().max_by_key(|reader| key(reader)).map(|(id, _)| **id)
    }
}
