//! What of a collection on one disk nobody has begun to read. Whoever is free claims the next
//! piece.

use std::sync::{Arc, Mutex};

use crate::segment::{Claim, ReadOptions, Reader, Segment};

/// What one claim takes of a collection that is read unordered.
const CLAIM_BYTES: u64 = 4 << 20;
/// Blocks of a run when a collection is read as a stream: what one reader is given in order.
pub(crate) const RUN_BLOCKS: usize = 8;

/// What of a collection nobody has begun to read. Whoever is free claims the next piece.
#[derive(Debug)]
pub struct Claims {
    segments: Vec<Arc<Segment>>,
    as_stream: bool,
    next: Mutex<Next>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Next {
    segment: usize,
    block: usize,
    run: u64,
}

impl Claims {
    pub(super) fn new(segments: Vec<Arc<Segment>>, as_stream: bool) -> Arc<Claims> {
        Arc::new(Claims { segments, as_stream, next: Mutex::default() })
    }

    /// The next piece; `None` when all have been claimed.
    pub fn claim(&self) -> Option<Claim> {
        let mut next = self.next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while self.segments.get(next.segment)?.blocks().len() == next.block {
            (next.segment, next.block) = (next.segment + 1, 0);
        }
        let segment = &self.segments[next.segment];
        let rest = &segment.blocks()[next.block..];
        let blocks = if self.as_stream {
            rest.len().min(RUN_BLOCKS)
        } else {
            let fits = rest.iter().take_while(|block| block.end() - rest[0].offset <= CLAIM_BYTES);
            fits.count().max(1)
        };
        let blocks = next.block..next.block + blocks;
        let claim = Claim { segment: segment.clone(), blocks: blocks.clone(), run: next.run };
        (next.block, next.run) = (blocks.end, next.run + 1);
        Some(claim)
    }

    /// A reader that claims piece by piece; its blocks say which run they are of.
    pub fn reader(self: &Arc<Self>, options: ReadOptions) -> Reader {
        let claims = self.clone();
        Reader::new(move || claims.claim(), options)
    }
}
