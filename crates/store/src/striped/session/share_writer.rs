//! A writer of a session: one of those that fill ranges of the same new version.
//!
//! A stripe that it fills is written as in any other session. Pieces of the other stripes, which
//! several writers share, stay in memory as long as there are few of them, and then go to the log.

use std::collections::BTreeMap;

use euphrates_flow::{Error, Result};

use super::folder::{SessionFolder, begin_writer};
use super::ranges::Ranges;
use super::share::{SharePiece, WriterShare, ended_error, share_path};
use crate::striped::dirty::DirtyStripes;
use crate::striped::version::ShareStripes;
use crate::striped::view::StridedView;
use crate::striped::writer::StripedWriter;

/// A writer of a session, in any process that sees the home and the disks. Dropping it before
/// `end` removes what it has written.
#[derive(Debug)]
pub struct ShareWriter {
    session: SessionFolder,
    number: usize,
    run_id: String,
    stripes: StripedWriter,
    log: Option<StripedWriter>,
    pieces: Vec<SharePiece>,
    /// Stripes that are not filled, and what of them has been written.
    partial: DirtyStripes,
    ranges: BTreeMap<usize, Ranges>,
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
        let stripes = begin_writer(&session, run_id)?;
        Ok(ShareWriter {
            session,
            number,
            run_id: run_id.to_string(),
            stripes,
            log: None,
            pieces: vec![],
            partial: DirtyStripes::default(),
            ranges: BTreeMap::new(),
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
        self.stripes.expect_length(end)?;
        let stripe_bytes = self.stripes.version.stripe_bytes();
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

    fn write_in(&mut self, stripe: usize, at: usize, from: &[u8]) -> Result<()> {
        let stripe_bytes = self.stripes.version.stripe_bytes();
        let is_whole = from.len() as u64 == stripe_bytes;
        if is_whole || self.stripes.has_stripe(stripe) {
            if is_whole {
                drop(self.partial.take(stripe));
                self.ranges.remove(&stripe);
            }
            return self.stripes.write_at(stripe as u64 * stripe_bytes + at as u64, from);
        }
        let layout = &self.stripes.version.layout;
        let (data, block_bytes) = (layout.data, layout.block_bytes as usize);
        self.partial.change(stripe, data, block_bytes).write(at, from)?;
        let ranges = self.ranges.entry(stripe).or_default();
        ranges.add(at as u64..(at + from.len()) as u64);
        if ranges.is(0..stripe_bytes) {
            self.ranges.remove(&stripe);
            let filled = self.partial.take(stripe).expect("it has just been changed");
            return self.stripes.put_stripe(stripe, filled);
        }
        match self.partial.surplus() {
            Some(stripe) => self.spill(stripe),
            None => Ok(()),
        }
    }

    /// Moves the pieces of a stripe from memory to the log.
    fn spill(&mut self, stripe: usize) -> Result<()> {
        let (Some(partial), Some(ranges)) =
            (self.partial.take(stripe), self.ranges.remove(&stripe))
        else {
            return Ok(());
        };
        let log = match &mut self.log {
            Some(log) => log,
            None => self.log.insert(begin_writer(&self.session, &self.run_id)?),
        };
        let start = stripe as u64 * self.stripes.version.stripe_bytes();
        let mut piece = vec![];
        for range in ranges.iter() {
            piece.resize((range.end - range.start) as usize, 0);
            partial.read(range.start as usize, &mut piece);
            let at = log.bytes();
            log.write_at(at, &piece)?;
            let (offset, bytes) = (start + range.start, piece.len() as u64);
            self.pieces.push(SharePiece { offset, bytes, at });
        }
        Ok(())
    }

    /// Makes durable what was written, and gives it to the session, which publishes it. Fails if
    /// the session has ended.
    pub fn end(mut self) -> Result<()> {
        let name = self.session.plan.name.clone();
        self.finish().map_err(|error| error.at(format!("striped file {name}")))
    }

    fn finish(&mut self) -> Result<()> {
        while let Some(stripe) = self.partial.first() {
            self.spill(stripe)?;
        }
        let stripe_bytes = self.stripes.version.stripe_bytes();
        // What was written again as a whole is not in the log.
        let stripes = &self.stripes;
        self.pieces.retain(|piece| !stripes.has_stripe((piece.offset / stripe_bytes) as usize));
        let stripes = self.stripes.share()?;
        let log = self.log.as_mut().map(StripedWriter::share).transpose()?;
        self.session.expect_open()?;
        let pieces = std::mem::take(&mut self.pieces);
        let share = WriterShare { bytes: self.bytes, stripes, log, pieces };
        share.put(&self.session.folder(), self.number)?;
        self.stripes.leave_staged();
        self.log.iter_mut().for_each(StripedWriter::leave_staged);
        Ok(())
    }
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
}
