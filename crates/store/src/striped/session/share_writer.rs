//! A writer of a session: one of those that fill ranges of the same new version.
//!
//! A stripe that it fills is written as in any other session. Pieces of the other stripes, which
//! several writers share, stay in memory as long as they are few, and then go to the log. The log
//! has parity, so a disk may be lost before the commit, but is not synced: the commit reads it from
//! the page cache, and its files are removed before the kernel has written much of them.
//!
//! In a collective session pieces are first sent to the owners of their stripes (`exchange.rs`),
//! and the log has what these do not take.

use std::sync::Arc;

use euphrates_flow::{Error, Result};

use super::assembly::ITSELF;
use super::exchange::PieceExchange;
use super::filled::FilledStripes;
use super::folder::SessionFolder;
use super::frames::Incarnation;
use super::partial::PartialStripes;
use super::piece_log::PieceLog;
use super::share::{IN_STRIPE, ShareParts, WriterShare, ended_error, share_path};
use crate::catalog::FileEntry;
use crate::striped::dirty::DIRTY_BYTES_MAX;
use crate::striped::map::StripeMap;
use crate::striped::version::ShareStripes;
use crate::striped::view::StridedView;
use crate::striped::writer::{StripedWriter, expect_length};

/// Bytes of pieces that a writer keeps in memory.
const PARTIAL_BYTES_MAX: usize = 64 << 20;

/// A writer of a session, in any process that sees the home and the disks. Dropping it before
/// `end` removes what it has written.
#[derive(Debug)]
pub struct ShareWriter {
    session: SessionFolder,
    itself: Incarnation,
    /// Receives pieces of others, and sends own ones. It ends before what it writes to is dropped.
    exchange: Option<PieceExchange>,
    /// The stripes that it has filled.
    filled: Arc<FilledStripes>,
    log: PieceLog,
    partial: PartialStripes,
    /// The end of the last byte.
    bytes: u64,
}

impl ShareWriter {
    pub(super) fn begin(session: SessionFolder, number: usize, run_id: &str) -> Result<Self> {
        let writers = session.plan.writers;
        if number >= writers {
            let error = Error::usage(format!("there is no writer {number} of {writers}"));
            return Err(error.remedy("writers are numbered from 0 on"));
        }
        if share_path(&session.folder(), number).exists() {
            return Err(ended_error(number));
        }
        let itself = Incarnation::new(number)?;
        let filled = Arc::new(FilledStripes::new(session.clone(), run_id));
        let begin = || PieceExchange::begin(&session, itself, filled.clone(), DIRTY_BYTES_MAX);
        let exchange = session.plan.is_collective.then(begin);
        Ok(ShareWriter {
            itself,
            exchange,
            filled,
            log: PieceLog::new(session.clone(), run_id),
            partial: PartialStripes::new(PARTIAL_BYTES_MAX),
            bytes: 0,
            session,
        })
    }

    /// Sets the memory for stripes of which it has pieces, its own and those of others, in bytes.
    pub fn set_memory(&mut self, bytes: usize) {
        self.partial.set_memory(bytes.min(PARTIAL_BYTES_MAX));
        if let Some(exchange) = &mut self.exchange {
            exchange.set_memory(bytes);
        }
    }

    /// The end of the last byte that it has written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes bytes at an offset of the file.
    pub fn write_at(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        let end = offset.saturating_add(from.len() as u64);
        expect_length(&self.session.plan.name, self.layout(), end)?;
        let stripe_bytes = self.layout().stripe_bytes();
        let (mut offset, mut rest) = (offset, from);
        while !rest.is_empty() {
            let (stripe, at) = ((offset / stripe_bytes) as usize, (offset % stripe_bytes) as usize);
            let (now, later) = rest.split_at((stripe_bytes as usize - at).min(rest.len()));
            self.write_in(stripe, at, now)?;
            (offset, rest) = (offset + now.len() as u64, later);
        }
        if !from.is_empty() {
            self.bytes = self.bytes.max(end);
        }
        Ok(())
    }

    /// Writes bytes of a view, from this one on. Fails if the request ends behind the view.
    pub fn write_view(&mut self, view: &StridedView, at: u64, from: &[u8]) -> Result<()> {
        view.check(at, from.len())?;
        let mut rest = from;
        view.pieces(at, from.len() as u64).try_for_each(|(offset, count)| {
            let (now, later) = rest.split_at(count as usize);
            rest = later;
            self.write_at(offset, now)
        })
    }

    fn layout(&self) -> &FileEntry {
        &self.session.plan.layout
    }

    fn write_in(&mut self, stripe: usize, at: usize, from: &[u8]) -> Result<()> {
        let stripe_bytes = self.layout().stripe_bytes();
        let is_whole = from.len() as u64 == stripe_bytes;
        if let Some(exchange) = self.exchange.as_mut().filter(|exchange| exchange.owns(stripe)) {
            return exchange.write_own(stripe, at, from, &mut self.log);
        }
        if is_whole || self.filled.has(stripe) {
            if is_whole {
                drop(self.partial.take(stripe));
            }
            return self.filled.write_at(stripe as u64 * stripe_bytes + at as u64, from);
        }
        if self.partial.add(stripe, at, from, stripe_bytes) {
            let filled = self.partial.take(stripe).expect("it has just been changed");
            let filled = filled.assemble(self.layout())?;
            self.filled.put(stripe, filled)?;
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.on_written((stripe, from.len()), &mut self.partial, &mut self.log)?;
        }
        while let Some(stripe) = self.partial.surplus() {
            self.spill(stripe)?;
        }
        Ok(())
    }

    /// Moves the pieces of a stripe from memory to the log.
    fn spill(&mut self, stripe: usize) -> Result<()> {
        let Some(partial) = self.partial.take(stripe) else { return Ok(()) };
        let (pieces, content) = partial.into_pieces(self.layout())?;
        if let Some(exchange) = &mut self.exchange {
            exchange.on_spilled(stripe);
        }
        self.log.append(stripe, pieces.into_iter().map(|range| (range, ITSELF)), &content)
    }

    /// Makes durable the stripes that it has filled, and gives all that was written to the session,
    /// which publishes it. Fails if the session has ended.
    pub fn end(mut self) -> Result<()> {
        let name = self.session.plan.name.clone();
        self.finish().map_err(|error| error.at(format!("striped file {name}")))
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(exchange) = &mut self.exchange {
            exchange.send_all(&mut self.partial, &mut self.log)?;
        }
        while let Some(stripe) = self.partial.first() {
            self.spill(stripe)?;
        }
        let parts = match &mut self.exchange {
            Some(exchange) => exchange.end(&mut self.log)?,
            None => ShareParts::of_one(self.itself),
        };
        let stripe_bytes = self.layout().stripe_bytes();
        // What was written again as a whole is not in the log.
        let mut pieces = std::mem::take(&mut self.log.pieces);
        pieces.retain(|piece| {
            let stripe = (piece.offset / stripe_bytes) as usize;
            piece.sender != ITSELF || piece.at == IN_STRIPE || !self.filled.has(stripe)
        });
        let stripes = self.filled.with_any(StripedWriter::share)?;
        let stripes = stripes.unwrap_or_else(|| no_stripes(self.layout()));
        let log = self.log.writer.as_mut().map(StripedWriter::share_log).transpose()?;
        self.session.expect_open()?;
        let share = WriterShare { bytes: self.bytes, stripes, log, pieces, parts };
        share.put(&self.session.folder(), self.itself.writer)?;
        self.filled.with_any(|writer| {
            writer.leave_staged();
            Ok(())
        })?;
        self.log.writer.iter_mut().for_each(StripedWriter::leave_staged);
        Ok(())
    }
}

fn no_stripes(layout: &FileEntry) -> ShareStripes {
    let map = StripeMap { width: layout.data + layout.parity, bytes: 0, stripes: vec![] };
    ShareStripes { map, segments: vec![] }
}

impl StripedWriter {
    /// Makes the stripes durable, and moves their segments to where a manifest will have them.
    fn share(&mut self) -> Result<ShareStripes> {
        self.sync_stripes()?;
        let (map, segments) = self.used_segments()?;
        self.move_used(&segments)?;
        Ok(ShareStripes { map, segments })
    }

    /// Leaves the stripes of a log where they were staged.
    fn share_log(&mut self) -> Result<ShareStripes> {
        self.flush_all()?;
        let (map, segments) = self.used_segments()?;
        Ok(ShareStripes { map, segments })
    }
}
