//! Work units of a collection on one disk: each reader takes the next number of a counter, and
//! reads the unit of that number.
//!
//! So readers share a counter and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use euphrates_flow::Result;

use crate::segment::{BlockClaim, BlockReadOptions, BlockReader, Segment};

/// The bytes of one claim when a collection is read unordered.
const CLAIM_BYTES: u64 = 4 << 20;
/// Blocks of a run when a collection is read as a stream: the unit that one reader gets in order.
pub(crate) const RUN_BLOCKS: usize = 8;

/// Returns the next unclaimed number, from 0; a shared counter.
pub type ClaimCounter = Box<dyn FnMut() -> Result<u64> + Send>;

/// Work units of a collection on one disk, which readers claim by number.
#[derive(Debug)]
pub struct CollectionUnits {
    units: Vec<BlockClaim>,
    next: AtomicU64,
}

impl CollectionUnits {
    pub(super) fn new(segments: &[Arc<Segment>], as_stream: bool) -> Arc<CollectionUnits> {
        let mut units: Vec<BlockClaim> = vec![];
        for segment in segments {
            let mut block = 0;
            while block < segment.blocks().len() {
                let blocks = block..block + length(segment, block, as_stream);
                block = blocks.end;
                let run = units.len() as u64;
                units.push(BlockClaim { segment: segment.clone(), blocks, run });
            }
        }
        Arc::new(CollectionUnits { units, next: AtomicU64::new(0) })
    }

    /// The piece of this number; `None` after the last.
    pub fn claim(&self, number: u64) -> Option<BlockClaim> {
        self.units.get(usize::try_from(number).ok()?).cloned()
    }

    /// A counter for readers that share this object.
    pub fn numbers(self: &Arc<Self>) -> ClaimCounter {
        let claims = self.clone();
        Box::new(move || Ok(claims.next.fetch_add(1, Relaxed)))
    }

    /// A reader that claims piece by piece; its blocks carry the number of their run.
    pub fn reader(
        self: &Arc<Self>,
        options: BlockReadOptions,
        mut numbers: ClaimCounter,
    ) -> BlockReader {
        let claims = self.clone();
        BlockReader::new(move || Ok(claims.claim(numbers()?)), options)
    }
}

/// The number of blocks in the piece that begins with this one.
fn length(segment: &Segment, block: usize, as_stream: bool) -> usize {
    let rest = &segment.blocks()[block..];
    if as_stream {
        return rest.len().min(RUN_BLOCKS);
    }
    let mut bytes = 0;
    let fits = rest.iter().take_while(|block| {
        bytes += block.bytes;
        bytes <= CLAIM_BYTES
    });
    fits.count().max(1)
}
