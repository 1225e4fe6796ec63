//! The stripes of which a writer of a session is the owner, from the pieces of all writers.
//!
//! Every byte has its sender: two senders of one byte are a conflict, and the commit ignores the
//! pieces of a writer that has died. A stripe that is complete leaves memory, and takes no more
//! pieces of others. What is incomplete at the end goes to the owner's log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use euphrates_flow::{Error, Result};
use euphrates_policy::striping::stripe_owner;
use serde::{Deserialize, Serialize};

use super::attribution::Attribution;
use super::folder::SessionPlan;
use super::frames::{Incarnation, PieceAnswer, PieceFrame};
use crate::striped::dirty::{DirtyStripe, DirtyStripes};
use crate::striped::writer::expect_length;

/// The number of the owner among its senders.
pub(super) const ITSELF: u32 = 0;

/// A sender of pieces, and the frames that the owner has taken from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SenderRecord {
    pub incarnation: Incarnation,
    pub frames: u64,
}

/// A byte that a sender had written, and another wrote again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ByteConflict {
    pub earlier: u32,
    pub later: u32,
    pub byte: u64,
}

/// Stripes of an owner.
#[derive(Debug)]
pub(super) struct StripeAssembly {
    plan: SessionPlan,
    memory_max: usize,
    stripes: DirtyStripes,
    /// Of the stripes in memory.
    parts: BTreeMap<usize, Attribution>,
    /// Of the stripes that have left memory for disks; `None` if the owner has written all of it.
    complete: BTreeMap<usize, Option<Attribution>>,
    /// Stripes with pieces in the owner's log.
    logged: BTreeSet<usize>,
    parts_memory: usize,
    pub sources: Vec<SenderRecord>,
    conflicts: BTreeMap<(u32, u32), u64>,
    /// Complete stripes that threads are writing.
    pub writing: usize,
    /// Senders that are connected, and frames that have arrived.
    pub connected: usize,
    pub arrived: u64,
    /// Whether no more pieces of others are taken.
    pub is_closed: bool,
    /// Why a complete stripe was not written.
    pub failed: Option<Error>,
}

/// What became of the owner's own bytes.
#[derive(Debug)]
pub(super) enum OwnWrite {
    Placed,
    /// The stripe is complete; the caller writes it to disks.
    Complete(DirtyStripe),
    /// The stripe has left memory, so the caller changes it on disks, after the threads that write.
    Written,
}

/// Pieces of a stripe, each with its sender, and their bytes one after the other.
pub(super) type AttributedPieces = (Vec<(Range<u64>, u32)>, Vec<u8>);

impl StripeAssembly {
    pub fn new(plan: SessionPlan, owner: Incarnation, memory_max: usize) -> StripeAssembly {
        StripeAssembly {
            plan,
            memory_max,
            // All of what it has is surplus once this has too much.
            stripes: DirtyStripes::new(0),
            parts: BTreeMap::new(),
            complete: BTreeMap::new(),
            logged: BTreeSet::new(),
            parts_memory: 0,
            sources: vec![SenderRecord { incarnation: owner, frames: 0 }],
            conflicts: BTreeMap::new(),
            writing: 0,
            connected: 0,
            arrived: 0,
            is_closed: false,
            failed: None,
        }
    }

    pub fn set_memory(&mut self, bytes: usize) {
        self.memory_max = bytes;
    }

    pub fn owns(&self, stripe: usize) -> bool {
        stripe_owner(stripe as u64, self.plan.writers) == self.sources[0].incarnation.writer
    }

    fn stripe_bytes(&self) -> u64 {
        self.plan.layout.stripe_bytes()
    }

    /// Bytes in memory for stripes and the ranges of their senders.
    pub fn memory(&self) -> usize {
        self.stripes.memory() + self.parts_memory
    }

    /// The number of a sender.
    pub fn on_sender(&mut self, incarnation: Incarnation) -> u32 {
        let known = self.sources.iter().position(|source| source.incarnation == incarnation);
        known.unwrap_or_else(|| {
            self.sources.push(SenderRecord { incarnation, frames: 0 });
            self.sources.len() - 1
        }) as u32
    }

    /// Takes the pieces of a frame, unless it must refuse them. Also returns the stripe if it is
    /// complete now; the caller writes it to disks, and then calls `on_written`.
    pub fn on_frame(
        &mut self,
        sender: u32,
        frame: &PieceFrame<'_>,
    ) -> (PieceAnswer, Option<DirtyStripe>) {
        let (stripe, stripe_bytes) = (frame.stripe, self.stripe_bytes());
        self.arrived += 1;
        let end = (stripe as u64).saturating_add(1).saturating_mul(stripe_bytes);
        let is_possible = expect_length(&self.plan.name, &self.plan.layout, end).is_ok();
        let has_left = self.complete.contains_key(&stripe) || self.logged.contains(&stripe);
        if self.is_closed || self.failed.is_some() {
            return (PieceAnswer::Closed, None);
        }
        if !is_possible || !self.owns(stripe) || has_left {
            return (PieceAnswer::Refused, None);
        }
        // In the worst case the stripe turns from pieces into blocks.
        let more = stripe_bytes as usize + frame.ranges.len() * Attribution::RANGE_BYTES_MAX;
        if self.memory().saturating_add(more) > self.memory_max {
            return (PieceAnswer::Full, None);
        }
        for (at, piece) in frame.pieces() {
            // The sender keeps what is refused. Where both have a piece, that of the sender counts.
            if self.write(stripe, at, piece, sender).is_err() {
                return (PieceAnswer::Full, None);
            }
        }
        self.sources[sender as usize].frames += 1;
        (PieceAnswer::Taken, self.take_complete(stripe))
    }

    /// Writes the owner's own bytes into a stripe that it owns.
    pub fn write_own(&mut self, stripe: usize, at: usize, from: &[u8]) -> Result<OwnWrite> {
        let start = self.stripe_bytes() * stripe as u64;
        if let Some(complete) = self.complete.get_mut(&stripe) {
            if let Some(parts) = complete {
                let before = parts.memory();
                let others = parts.assign(at as u64..(at + from.len()) as u64, ITSELF);
                self.parts_memory = self.parts_memory - before + parts.memory();
                self.on_conflicts(others, ITSELF, start);
            }
            return Ok(OwnWrite::Written);
        }
        self.write(stripe, at, from, ITSELF)?;
        Ok(self.take_complete(stripe).map_or(OwnWrite::Placed, OwnWrite::Complete))
    }

    /// The owner writes all of a stripe that it owns, at once and to disks.
    pub fn replace_own(&mut self, stripe: usize) {
        drop(self.stripes.take(stripe));
        let in_memory = self.parts.remove(&stripe);
        let written = self.complete.insert(stripe, None).flatten();
        let start = self.stripe_bytes() * stripe as u64;
        for mut parts in in_memory.into_iter().chain(written) {
            self.parts_memory -= parts.memory();
            let others = parts.assign(0..self.stripe_bytes(), ITSELF);
            self.on_conflicts(others, ITSELF, start);
        }
    }

    fn write(&mut self, stripe: usize, at: usize, from: &[u8], sender: u32) -> Result<()> {
        let layout = &self.plan.layout;
        self.stripes.change(stripe, layout.data, layout.block_bytes as usize);
        self.stripes.write(stripe, at, from)?;
        let parts = self.parts.entry(stripe).or_default();
        let before = parts.memory();
        let others = parts.assign(at as u64..(at + from.len()) as u64, sender);
        self.parts_memory = self.parts_memory - before + parts.memory();
        self.on_conflicts(others, sender, self.stripe_bytes() * stripe as u64);
        Ok(())
    }

    fn on_conflicts(&mut self, others: Vec<(u32, u64)>, later: u32, start: u64) {
        for (earlier, byte) in others {
            self.conflicts.entry((earlier, later)).or_insert(start + byte);
        }
    }

    fn take_complete(&mut self, stripe: usize) -> Option<DirtyStripe> {
        let stripe_bytes = self.stripe_bytes();
        let parts = self.parts.remove(&stripe)?;
        if parts.bytes() < stripe_bytes {
            self.parts.insert(stripe, parts);
            return None;
        }
        let is_own = parts.ranges().all(|(_, sender)| sender == ITSELF);
        self.parts_memory -= if is_own { parts.memory() } else { 0 };
        self.complete.insert(stripe, (!is_own).then_some(parts));
        self.writing += 1;
        self.stripes.take(stripe)
    }

    /// A complete stripe was written, or not.
    pub fn on_written(&mut self, written: Result<()>) {
        self.writing -= 1;
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// The number of stripes that have been complete.
    pub fn completed(&self) -> usize {
        self.complete.len()
    }

    /// The stripe to move to the log, if there is too much in memory.
    pub fn surplus(&self) -> Option<usize> {
        (self.memory() > self.memory_max).then(|| self.stripes.surplus()).flatten()
    }

    pub fn first(&self) -> Option<usize> {
        self.stripes.first()
    }

    /// Takes the pieces of a stripe from memory; the caller appends them to the log.
    pub fn take_pieces(&mut self, stripe: usize) -> Option<AttributedPieces> {
        let dirty = self.stripes.take(stripe)?;
        let parts = self.parts.remove(&stripe).unwrap_or_default();
        self.parts_memory -= parts.memory();
        self.logged.insert(stripe);
        let mut bytes = vec![0; parts.bytes() as usize];
        let mut rest = &mut bytes[..];
        let pieces: Vec<(Range<u64>, u32)> = parts.ranges().collect();
        for (range, _) in &pieces {
            let (now, later) = rest.split_at_mut((range.end - range.start) as usize);
            dirty.read(range.start as usize, now);
            rest = later;
        }
        Some((pieces, bytes))
    }

    /// The ranges of the stripes on disks that have several senders.
    pub fn attributed(&self) -> impl Iterator<Item = (usize, Range<u64>, u32)> {
        let several = self.complete.iter().filter_map(|(stripe, it)| Some((*stripe, it.as_ref()?)));
        several.flat_map(|(stripe, parts)| {
            parts.ranges().map(move |(range, sender)| (stripe, range, sender))
        })
    }

    pub fn conflicts(&self) -> Vec<ByteConflict> {
        let conflict =
            |(&(earlier, later), &byte): (&(u32, u32), &u64)| ByteConflict { earlier, later, byte };
        self.conflicts.iter().map(conflict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::FileEntry;

    const OWNER: Incarnation = Incarnation { writer: 0, random: 1 };
    const OTHER: Incarnation = Incarnation { writer: 0, random: 2 };

    /// Of one writer, so that it owns all stripes; they have 30 bytes.
    fn assembly(memory_max: usize) -> StripeAssembly {
        let layout = FileEntry { data: 3, parity: 0, block_bytes: 10, bytes: 0, disks: vec![] };
        let plan = SessionPlan { name: "f".into(), layout, writers: 1, is_collective: true };
        StripeAssembly::new(plan, OWNER, memory_max)
    }

    fn frame(stripe: usize, range: Range<usize>) -> PieceFrame<'static> {
        PieceFrame { stripe, bytes: &[7; 30][..range.len()], ranges: vec![range] }
    }

    #[test]
    fn stripe_is_complete_once_all_its_bytes_have_a_sender() {
        let mut assembly = assembly(10_000);
        let other = assembly.on_sender(OTHER);
        assert_eq!((other, assembly.on_sender(OTHER), assembly.on_sender(OWNER)), (1, 1, ITSELF));
        assert!(matches!(assembly.write_own(4, 0, &[1; 20]).unwrap(), OwnWrite::Placed));
        let (answer, complete) = assembly.on_frame(other, &frame(4, 15..30));
        assert_eq!(answer, PieceAnswer::Taken);
        let mut read = [0; 30];
        complete.unwrap().read(0, &mut read);
        assert_eq!(read, [[1; 15], [7; 15]].as_flattened());
        let conflict = ByteConflict { earlier: ITSELF, later: other, byte: 4 * 30 + 15 };
        assert_eq!(assembly.conflicts(), [conflict]);
        let parts: Vec<_> = assembly.attributed().collect();
        assert_eq!(parts, [(4, 0..15, ITSELF), (4, 15..30, other)]);
        assert_eq!(assembly.on_frame(other, &frame(4, 0..1)).0, PieceAnswer::Refused);
        assert!(matches!(assembly.write_own(4, 0, b"x").unwrap(), OwnWrite::Written));
        assembly.on_written(Ok(()));
        assert_eq!((assembly.writing, assembly.sources[1].frames), (0, 1));
    }

    #[test]
    fn pieces_beyond_the_memory_are_refused_and_own_ones_go_to_the_log() {
        let mut assembly = assembly(200);
        let other = assembly.on_sender(OTHER);
        let mut taken = 0;
        while assembly.on_frame(other, &frame(taken, 0..12)).0 == PieceAnswer::Taken {
            taken += 1;
            assert!(assembly.memory() <= 200 && taken < 10);
        }
        assert!(taken > 0);
        for stripe in 20..30 {
            assembly.write_own(stripe, 3, &[5; 9]).unwrap();
            while let Some(stripe) = assembly.surplus() {
                let (pieces, bytes) = assembly.take_pieces(stripe).unwrap();
                let of_other = (vec![(0..12, other)], vec![7; 12]);
                let own = (vec![(3..12, ITSELF)], vec![5; 9]);
                assert_eq!((pieces, bytes), if stripe < 20 { of_other } else { own });
                assert_eq!(assembly.on_frame(other, &frame(stripe, 0..1)).0, PieceAnswer::Refused);
            }
            assert!(assembly.memory() <= 200);
        }
        while let Some(stripe) = assembly.first() {
            assembly.take_pieces(stripe).unwrap();
        }
        assert_eq!(assembly.memory(), 0);
    }

    #[test]
    fn whole_stripe_of_the_owner_conflicts_with_what_others_have_of_it() {
        let mut assembly = assembly(10_000);
        let other = assembly.on_sender(OTHER);
        assembly.on_frame(other, &frame(2, 5..6));
        assembly.replace_own(2);
        assembly.replace_own(3);
        let conflict = ByteConflict { earlier: other, later: ITSELF, byte: 65 };
        assert_eq!((assembly.conflicts(), assembly.memory()), (vec![conflict], 0));
        assert_eq!(assembly.on_frame(other, &frame(3, 0..1)).0, PieceAnswer::Refused);
        assembly.is_closed = true;
        assert_eq!(assembly.on_frame(other, &frame(9, 0..1)).0, PieceAnswer::Closed);
    }
}
