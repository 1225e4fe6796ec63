//! The segments of a staged collection, and the choice of the segment that receives each block.
//!
//! The blocks of a stream are distributed over all segments, so that all disks write and read in
//! parallel. The table of contents of each segment records the number of each of its blocks in the
//! stream; the numbers restore the order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Cancel, Error, Result, RunIndex};
use euphrates_policy::block_assignment::OpenSegment;

use crate::append::{AppendTurn, Turns};
use crate::segment::{BlockEncoder, BlockInfo, EncodedBlock, SharedSegment};
use euphrates_device::disk::{LoadReservation, Loads};

/// The interval at which a writer that waits for a disk checks for cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Segments of a new collection, over which one or several writers spread blocks.
pub struct NewSegments {
    pub(super) segments: Vec<NewSegment>,
    dealt: Turns<Dealt>,
    loads: Arc<Loads>,
    /// The run of each block, in order of arrival, if other processes write runs of the same
    /// stream; [`NewSegments::number_blocks`] turns these into block numbers when all runs are
    /// complete.
    runs: Mutex<Vec<RunIndex>>,
}

/// One segment and the disks of its copies.
pub(super) struct NewSegment {
    /// Its index in the collection.
    pub number: usize,
    /// The disks of its copies.
    pub disks: Vec<usize>,
    pub segment: SharedSegment,
}

struct Dealt {
    growing: Vec<OpenSegment>,
    blocks: u32,
}

impl NewSegments {
    pub(super) fn new(segments: Vec<NewSegment>, loads: Arc<Loads>) -> NewSegments {
        let growing =
            |new: &NewSegment| OpenSegment { disks: new.disks.clone(), assigned_bytes: 0 };
        let growing = segments.iter().map(growing).collect();
        NewSegments {
            segments,
            dealt: Turns::new(Dealt { growing, blocks: 0 }),
            loads,
            runs: Mutex::default(),
        }
    }

    /// A block encoder for one thread.
    pub fn encoder(&self) -> Result<BlockEncoder> {
        self.segments[0].segment.encoder()
    }

    /// Writes a block to the segment whose disks have the least in flight; with a turn, after all
    /// blocks of the runs before it.
    pub fn append(
        &self,
        turn: Option<AppendTurn>,
        encoded: &EncodedBlock,
        cancel: &Cancel,
    ) -> Result<BlockInfo> {
        let bytes = encoded.block.bytes;
        let (at, reserved, offset, number) = self.dealt.take(turn, cancel, |dealt| {
            let (at, reserved) = self.choose(&dealt.growing, bytes, cancel)?;
            let number = dealt.blocks;
            dealt.blocks = number.checked_add(1).ok_or_else(too_many)?;
            dealt.growing[at].assigned_bytes += bytes;
            Ok((at, reserved, self.segments[at].segment.reserve_range(encoded)?, number))
        })?;
        let number = if self.segments.len() > 1 { number } else { 0 };
        let written = self.segments[at].segment.write(offset, number, encoded);
        drop(reserved);
        written.inspect_err(|_| self.dealt.fail())
    }

    /// Writes the next block of a run, for the only writer of these segments; other processes write
    /// other runs of the stream.
    pub fn append_unnumbered(
        &self,
        run: RunIndex,
        encoded: &EncodedBlock,
        cancel: &Cancel,
    ) -> Result<BlockInfo> {
        let bytes = encoded.block.bytes;
        let (at, _reserved) = self.dealt.take(None, cancel, |dealt| {
            let chosen = self.choose(&dealt.growing, bytes, cancel)?;
            dealt.growing[chosen.0].assigned_bytes += bytes;
            Ok(chosen)
        })?;
        let offset = self.segments[at].segment.reserve_range(encoded)?;
        let number = {
            let mut runs = self.runs.lock();
            runs.push(run);
            u32::try_from(runs.len() - 1).map_err(|_| too_many())?
        };
        self.segments[at].segment.write(offset, number, encoded)
    }

    /// The number of blocks of each run that `append_of` has written.
    pub fn blocks_by_run(&self) -> BTreeMap<RunIndex, u32> {
        let mut blocks = BTreeMap::new();
        self.runs.lock().iter().for_each(|run| *blocks.entry(*run).or_default() += 1);
        blocks
    }

    /// Numbers the blocks within the stream; `first` gives the number at which each run begins.
    pub fn number_blocks(&self, first: &BTreeMap<RunIndex, u32>) -> Result<()> {
        let mut next = first.clone();
        let mut number = |run: &RunIndex| {
            let next = next.get_mut(run);
            let next =
                next.ok_or_else(|| Error::failed(format!("run {run} has no block number")))?;
            *next += 1;
            Ok(*next - 1)
        };
        let numbers: Vec<u32> = self.runs.lock().iter().map(&mut number).collect::<Result<_>>()?;
        let renumber = |new: &NewSegment| new.segment.renumber(|at| numbers[at as usize]);
        self.segments.iter().for_each(renumber);
        Ok(())
    }

    /// Whether its blocks are part of a stream of which other processes write a part.
    pub(super) fn is_part(&self) -> bool {
        !self.runs.lock().is_empty()
    }

    fn choose(
        &self,
        growing: &[OpenSegment],
        bytes: u64,
        cancel: &Cancel,
    ) -> Result<(usize, LoadReservation)> {
        // A single segment waits as well: another process could still take a block that waits for a
        // disk here.
        loop {
            cancel.check()?;
            if let Some(chosen) = self.loads.choose(CANCEL_POLL_INTERVAL, growing, bytes) {
                return Ok(chosen);
            }
        }
    }

    /// Marks a run as complete.
    pub fn end_run(&self, run: u64, cancel: &Cancel) -> Result<()> {
        self.dealt.take(Some(AppendTurn { run, last: true }), cancel, |_| Ok(()))
    }

    /// Waits until all runs before this one are complete. `waiting` is called only if there is a
    /// wait, and its result is held until the wait ends.
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
