//! A writer of a session: one of those that fill ranges of the same new version.
//!
//! A stripe that it fills is written as in any other session. Pieces of the other stripes, which
//! several writers share, stay in memory as long as they are few, and then go to the log. The log
//! has parity, so a disk may be lost before the commit, but is not synced: the commit reads it from
//! the page cache, and its files are removed before the kernel has written much of them.

use euphrates_flow::{Error, Result};

use super::folder::{SessionFolder, begin_writer};
use super::partial::PartialStripes;
use super::share::{SharePiece, WriterShare, ended_error, share_path};
use crate::catalog::FileEntry;
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
    number: usize,
    run_id: String,
    /// The stripes that it has filled, and the log, from their first on.
    stripes: Option<StripedWriter>,
    log: Option<StripedWriter>,
    pieces: Vec<SharePiece>,
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
        Ok(ShareWriter {
            session,
            number,
            run_id: run_id.to_string(),
            stripes: None,
            log: None,
            pieces: vec![],
            partial: PartialStripes::new(PARTIAL_BYTES_MAX),
            bytes: 0,
        })
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

    fn has_stripe(&self, stripe: usize) -> bool {
        self.stripes.as_ref().is_some_and(|stripes| stripes.has_stripe(stripe))
    }

    /// The writer of the stripes that it has filled.
    fn stripes(&mut self) -> Result<&mut StripedWriter> {
        match &mut self.stripes {
            Some(stripes) => Ok(stripes),
            empty => Ok(empty.insert(begin_writer(&self.session, &self.run_id, false)?)),
        }
    }

    fn write_in(&mut self, stripe: usize, at: usize, from: &[u8]) -> Result<()> {
        let stripe_bytes = self.layout().stripe_bytes();
        let is_whole = from.len() as u64 == stripe_bytes;
        if is_whole || self.has_stripe(stripe) {
            if is_whole {
                drop(self.partial.take(stripe));
            }
            return self.stripes()?.write_at(stripe as u64 * stripe_bytes + at as u64, from);
        }
        if self.partial.add(stripe, at, from, stripe_bytes) {
            let filled = self.partial.take(stripe).expect("it has just been changed");
            let filled = filled.assemble(self.layout())?;
            self.stripes()?.put_stripe(stripe, filled)?;
        }
        while let Some(stripe) = self.partial.surplus() {
            self.spill(stripe)?;
        }
        Ok(())
    }

    /// Moves the pieces of a stripe from memory to the log.
    fn spill(&mut self, stripe: usize) -> Result<()> {
        let Some(partial) = self.partial.take(stripe) else { return Ok(()) };
        let start = stripe as u64 * self.layout().stripe_bytes();
        let (pieces, content) = partial.into_pieces(self.layout())?;
        let log = match &mut self.log {
            Some(log) => log,
            empty => empty.insert(begin_writer(&self.session, &self.run_id, true)?),
        };
        let mut at = log.bytes();
        log.write_at(at, &content)?;
        for range in pieces {
            let (offset, bytes) = (start + range.start as u64, range.len() as u64);
            self.pieces.push(SharePiece { offset, bytes, at });
            at += bytes;
        }
        Ok(())
    }

    /// Makes durable the stripes that it has filled, and gives all that was written to the session,
    /// which publishes it. Fails if the session has ended.
    pub fn end(mut self) -> Result<()> {
        let name = self.session.plan.name.clone();
        self.finish().map_err(|error| error.at(format!("striped file {name}")))
    }

    fn finish(&mut self) -> Result<()> {
        while let Some(stripe) = self.partial.first() {
            self.spill(stripe)?;
        }
        let stripe_bytes = self.layout().stripe_bytes();
        // What was written again as a whole is not in the log.
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.retain(|piece| !self.has_stripe((piece.offset / stripe_bytes) as usize));
        let stripes = match &mut self.stripes {
            Some(stripes) => stripes.share()?,
            None => no_stripes(self.layout()),
        };
        let log = self.log.as_mut().map(StripedWriter::share_log).transpose()?;
        self.session.expect_open()?;
        let share = WriterShare { bytes: self.bytes, stripes, log, pieces };
        share.put(&self.session.folder(), self.number)?;
        self.stripes.iter_mut().chain(&mut self.log).for_each(StripedWriter::leave_staged);
        Ok(())
    }
}

fn no_stripes(layout: &FileEntry) -> ShareStripes {
    let map = StripeMap { width: layout.data + layout.parity, bytes: 0, stripes: vec![] };
    ShareStripes { map, segments: vec![] }
}

impl StripedWriter {
    /// Whether a stripe has been written, or has changes in memory.
    fn has_stripe(&self, stripe: usize) -> bool {
        let written = self.version.map.stripes.get(stripe);
        self.dirty.has(stripe) || written.is_some_and(|entry| !entry.blocks.is_empty())
    }

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
