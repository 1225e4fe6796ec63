//! The segments of a collection in the making, and which of them a block goes to.
//!
//! Blocks of a stream are dealt to all segments at once, in the order of the stream, and each says
//! its number in its segment's table of contents: so a stream is written, and read again, by all
//! its disks together, and still has one order.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::{Cancel, Error, Result};
use euphrates_policy::dealing::{Growing, deal};

use crate::append::{Turn, Turns};
use crate::disk::Loads;
use crate::segment::{BlockEncoder, BlockInfo, EncodedBlock, SharedSegment};

/// How often who waits for a disk looks whether the flow was cancelled.
const CANCEL_LOOK: Duration = Duration::from_millis(50);

/// Segments of a new collection that one writer or several deal blocks to.
pub struct NewSegments {
    pub(super) segments: Vec<NewSegment>,
    dealt: Turns<Dealt>,
    loads: Arc<Loads>,
}

/// One of them.
pub(super) struct NewSegment {
    /// Its place in the collection.
    pub number: usize,
    /// The disks of its copies.
    pub disks: Vec<usize>,
    pub segment: SharedSegment,
}

struct Dealt {
    growing: Vec<Growing>,
    blocks: u32,
}

impl NewSegments {
    pub(super) fn new(segments: Vec<NewSegment>, loads: Arc<Loads>) -> NewSegments {
        let growing = |new: &NewSegment| Growing { disks: new.disks.clone(), dealt_bytes: 0 };
        let growing = segments.iter().map(growing).collect();
        NewSegments { segments, dealt: Turns::new(Dealt { growing, blocks: 0 }), loads }
    }

    /// An encoder for one thread.
    pub fn encoder(&self) -> Result<BlockEncoder> {
        self.segments[0].segment.encoder()
    }

    /// Writes a block to the segment whose disks have least to do; with a turn, behind all blocks
    /// of the runs before it.
    pub fn append(
        &self,
        turn: Option<Turn>,
        encoded: &EncodedBlock,
        cancel: &Cancel,
    ) -> Result<BlockInfo> {
        let (at, offset, number) = self.dealt.take(turn, cancel, |dealt| {
            let at = self.choose(&dealt.growing, cancel)?;
            let number = dealt.blocks;
            dealt.blocks = number.checked_add(1).ok_or_else(too_many)?;
            dealt.growing[at].dealt_bytes += encoded.block.bytes;
            Ok((at, self.segments[at].segment.place(encoded)?, number))
        })?;
        let number = if self.segments.len() > 1 { number } else { 0 };
        let written = self.segments[at].segment.write(offset, number, encoded);
        written.inspect_err(|_| self.dealt.fail())
    }

    fn choose(&self, growing: &[Growing], cancel: &Cancel) -> Result<usize> {
        if growing.len() == 1 {
            // There is nothing to choose; the file's own bound makes its writers wait.
            return Ok(0);
        }
        loop {
            cancel.check()?;
            if let Some(at) = self.loads.choose(CANCEL_LOOK, |backlogs| deal(growing, backlogs)) {
                return Ok(at);
            }
        }
    }

    /// Says that no more blocks of this run will come.
    pub fn end_run(&self, run: u64, cancel: &Cancel) -> Result<()> {
        self.dealt.take(Some(Turn { run, last: true }), cancel, |_| Ok(()))
    }

    /// Waits until all runs before this one are complete; what `waiting` returns is kept as long
    /// as there is something to wait for.
    pub fn await_turn<G>(
        &self,
        run: Option<u64>,
        cancel: &Cancel,
        waiting: impl FnOnce() -> G,
    ) -> Result<()> {
        self.dealt.wait(run, cancel, waiting)
    }
}

fn too_many() -> Error {
    Error::failed("a collection has at most 4 294 967 295 blocks")
}
