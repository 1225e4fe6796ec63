//! What a writer of a collective session exchanges with the others.
//!
//! Pieces of stripes that others own stay in memory for a while, since the writer may fill the
//! stripe itself; a writer of a contiguous range does. Once it has gone on to other stripes, it
//! sends them. What cannot be sent goes to the log, as without owners.

use std::collections::BTreeSet;
use std::sync::Arc;

use euphrates_flow::Result;
use euphrates_policy::striping::stripe_owner;

use super::assembly::{ITSELF, OwnWrite};
use super::filled::FilledStripes;
use super::folder::SessionFolder;
use super::frames::{FRAME_PIECES_MAX, Incarnation, PieceFrame};
use super::partial::PartialStripes;
use super::piece_log::PieceLog;
use super::sender::PieceSender;
use super::service::PieceService;
use super::share::{IN_STRIPE, ShareParts, SharePiece};
use crate::catalog::FileEntry;

/// Stripes that a writer may be about to fill: those that it has changed last.
const STRIPES_KEPT: usize = 2;
/// Part of a stripe that is written between two times of sending.
const SENT_PART: u64 = 4;

/// The connections of a writer to the others.
#[derive(Debug)]
pub(super) struct PieceExchange {
    layout: FileEntry,
    writers: usize,
    itself: Incarnation,
    service: PieceService,
    sender: PieceSender,
    filled: Arc<FilledStripes>,
    /// Stripes of others with pieces in the log. No more of them are sent.
    logged: BTreeSet<usize>,
    /// Owners of stripes that were written.
    known: BTreeSet<usize>,
    /// Bytes that were written since pieces were sent last.
    unsent: u64,
}

impl PieceExchange {
    pub fn begin(
        session: &SessionFolder,
        itself: Incarnation,
        filled: Arc<FilledStripes>,
        memory: usize,
    ) -> PieceExchange {
        PieceExchange {
            layout: session.plan.layout.clone(),
            writers: session.plan.writers,
            itself,
            service: PieceService::begin(session, itself, filled.clone(), memory),
            sender: PieceSender::new(session, itself),
            filled,
            logged: BTreeSet::new(),
            known: BTreeSet::new(),
            unsent: 0,
        }
    }

    pub fn set_memory(&mut self, bytes: usize) {
        self.service.assembly().set_memory(bytes);
    }

    pub fn owns(&self, stripe: usize) -> bool {
        stripe_owner(stripe as u64, self.writers) == self.itself.writer
    }

    /// Writes into a stripe that this writer owns.
    pub fn write_own(
        &mut self,
        stripe: usize,
        at: usize,
        from: &[u8],
        log: &mut PieceLog,
    ) -> Result<()> {
        self.service.check()?;
        let stripe_bytes = self.layout.stripe_bytes();
        let is_whole = from.len() as u64 == stripe_bytes;
        let written = match is_whole {
            true => {
                self.service.assembly().replace_own(stripe);
                OwnWrite::Written
            }
            false => self.service.assembly().write_own(stripe, at, from)?,
        };
        match written {
            OwnWrite::Placed => {}
            OwnWrite::Complete(complete) => self.service.write_complete(stripe, complete),
            OwnWrite::Written => {
                self.service.settle();
                self.filled.write_at(stripe as u64 * stripe_bytes + at as u64, from)?;
            }
        }
        loop {
            let surplus = self.service.assembly().surplus();
            match surplus {
                Some(stripe) => self.spill_own(stripe, log)?,
                None => return Ok(()),
            }
        }
    }

    /// Moves the pieces of a stripe that it owns from memory to the log.
    fn spill_own(&mut self, stripe: usize, log: &mut PieceLog) -> Result<()> {
        let taken = self.service.assembly().take_pieces(stripe);
        let Some((pieces, content)) = taken else { return Ok(()) };
        let place = |(range, sender): (std::ops::Range<u64>, u32)| {
            (range.start as usize..range.end as usize, sender)
        };
        log.append(stripe, pieces.into_iter().map(place), &content)
    }

    /// Pieces of a stripe of another owner went from memory to the log.
    pub fn on_spilled(&mut self, stripe: usize) {
        self.logged.insert(stripe);
    }

    /// Bytes of a stripe of another owner were written: sends what the writer has left behind. From
    /// the first bytes on, the owner has a connection, by which it knows that pieces will come.
    pub fn on_written(
        &mut self,
        (stripe, bytes): (usize, usize),
        partial: &mut PartialStripes,
        log: &mut PieceLog,
    ) -> Result<()> {
        let owner = stripe_owner(stripe as u64, self.writers);
        if self.known.insert(owner) {
            self.sender.reach(owner);
        }
        self.unsent += bytes as u64;
        if self.unsent * SENT_PART < self.layout.stripe_bytes() {
            return Ok(());
        }
        self.send(partial.all_but_newest(STRIPES_KEPT), partial, log)
    }

    /// Sends all that owners take.
    pub fn send_all(&mut self, partial: &mut PartialStripes, log: &mut PieceLog) -> Result<()> {
        self.send(partial.all_but_newest(0), partial, log)
    }

    fn send(
        &mut self,
        stripes: Vec<usize>,
        partial: &mut PartialStripes,
        log: &mut PieceLog,
    ) -> Result<()> {
        self.unsent = 0;
        let mut unreached = BTreeSet::new();
        for stripe in stripes {
            if self.logged.contains(&stripe) {
                continue;
            }
            let owner = stripe_owner(stripe as u64, self.writers);
            // An owner that has not begun is tried once for all stripes.
            if unreached.contains(&owner) || !self.sender.reach(owner) {
                unreached.insert(owner);
                continue;
            }
            let Some(pieces) = partial.take(stripe) else { continue };
            let (ranges, content) = pieces.into_pieces(&self.layout)?;
            let (mut rest, mut content) = (&ranges[..], &content[..]);
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(FRAME_PIECES_MAX));
                let bytes = now.iter().map(ExactSizeIterator::len).sum();
                let (sent, unsent) = content.split_at(bytes);
                let frame = PieceFrame { stripe, ranges: now.to_vec(), bytes: sent };
                if !self.sender.send(owner, &frame) {
                    break;
                }
                (rest, content) = (later, unsent);
            }
            if !rest.is_empty() {
                self.logged.insert(stripe);
                log.append(stripe, rest.iter().map(|range| (range.clone(), ITSELF)), content)?;
            }
        }
        Ok(())
    }

    /// Takes no more pieces, and moves those of incomplete stripes to the log. Returns what the
    /// share says about the others.
    pub fn end(&mut self, log: &mut PieceLog) -> Result<ShareParts> {
        self.sender.end();
        self.service.close()?;
        loop {
            let first = self.service.assembly().first();
            match first {
                Some(stripe) => self.spill_own(stripe, log)?,
                None => break,
            }
        }
        let assembly = self.service.assembly();
        let start = |stripe: usize| stripe as u64 * self.layout.stripe_bytes();
        log.pieces.extend(assembly.attributed().map(|(stripe, range, sender)| SharePiece {
            offset: start(stripe) + range.start,
            bytes: range.end - range.start,
            at: IN_STRIPE,
            sender,
        }));
        Ok(ShareParts {
            sources: assembly.sources.clone(),
            conflicts: assembly.conflicts(),
            handed: self.sender.handed(),
        })
    }
}
