//! A session that writes a new version of a striped file: at any offsets, invisible until it
//! commits.
//!
//! Changed stripes stay in memory until they are full, or too many. A stripe is written as a whole,
//! with new parity, to disks chosen then; the one it replaces is not touched, so nothing is ever
//! read and modified on a disk. A block whose disk is full or fails goes to another disk.

use std::collections::BTreeSet;
use std::path::PathBuf;

use euphrates_device::buffer::{PooledBuffer, pool};
use euphrates_flow::{Error, Owner, Result};

use super::dirty::{DirtyStripe, DirtyStripes};
use super::map::StripeEntry;
use super::placement::{UnplacedBlock, WritableDisks};
use super::single::SingleBlocks;
use super::version::StripedVersion;
use super::view::StridedView;
use crate::catalog::{FileEntry, Manifest};
use crate::collection::remove_segments;

/// Stripes of a file, at most: its map is kept in memory as a whole.
const STRIPES_MAX: u64 = 1 << 23;

/// A version of a striped file that is being written. Dropping it before the commit removes all
/// that it has staged.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedReader, StripedWriter};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut writer = StripedWriter::create(home.path(), "notes", options)?;
/// writer.write_at(3, b"!")?;
/// assert_eq!(writer.bytes(), 4);
/// assert!(StripedReader::open(home.path(), "notes").is_err(), "it is not committed");
/// writer.commit()?;
/// assert_eq!(StripedReader::open(home.path(), "notes")?.bytes(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StripedWriter {
    pub(super) home: PathBuf,
    /// The version that it follows.
    pub(super) before: Option<Manifest>,
    pub(super) run_id: String,
    pub(super) final_folder: String,
    /// The version as it is now, without changes that are in memory.
    pub(super) version: StripedVersion,
    pub(super) writable: WritableDisks,
    pub(super) is_moved: bool,
    pub(super) dirty: DirtyStripes,
    pub(super) singles: SingleBlocks,
    /// Segments that others have written: of the version before, or of shares.
    pub(super) segments_before: usize,
    pub(super) has_failed: bool,
    pub(super) owner: Owner,
}

impl StripedWriter {
    /// The length of the file now.
    pub fn bytes(&self) -> u64 {
        self.version.map.bytes
    }

    /// The number of the version that it follows; 0 if there was none of the name.
    pub fn version_before(&self) -> u64 {
        self.before.as_ref().map_or(0, |before| before.version)
    }

    /// The layout of its stripes.
    pub fn layout(&self) -> &FileEntry {
        &self.version.layout
    }

    /// Whether stripes have as many blocks as the file has disks: every stripe then needs the
    /// slowest disk, and none can be written when a disk fails.
    pub fn needs_every_disk(&self) -> bool {
        self.version.map.width >= self.version.layout.disks.len() && self.version.map.width > 1
    }

    /// A warning if the disks are served by too few machines: if one of them is lost, stripes lose
    /// more blocks than parity restores.
    pub fn machine_warning(&self) -> Option<String> {
        let FileEntry { parity, disks, .. } = &self.version.layout;
        let of_file = self.version.disks.iter().filter(|disk| disks.contains(&disk.name));
        let machines: BTreeSet<&str> = of_file
            .filter(|disk| disk.disk.as_ref().is_some_and(|disk| disk.files().local().is_none()))
            .map(|disk| disk.worker.as_str())
            .collect();
        let width = self.version.map.width;
        let is_at_risk = !machines.is_empty() && width.div_ceil(machines.len()) > *parity;
        (is_at_risk && *parity > 0).then(|| {
            let (count, blocks) = (machines.len(), width.div_ceil(machines.len()));
            format!(
                "striped file {}: with {count} machines, one of them has up to {blocks} blocks of \
                 a stripe, and only {parity} may be lost; serve disks of more machines, or choose \
                 more parity",
                self.version.name
            )
        })
    }

    /// Sets the memory for changed stripes, in bytes. With more of it fewer stripes are written
    /// again.
    pub fn set_memory(&mut self, bytes: usize) {
        self.dirty.set_memory(bytes);
    }

    /// Writes bytes at an offset; a gap before them is zeros. After an error the session can only
    /// be dropped.
    pub fn write_at(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        self.expect_sound()?;
        self.expect_length(offset.saturating_add(from.len() as u64))?;
        let written = self.write(offset, from);
        self.has_failed |= written.is_err();
        if !from.is_empty() {
            let end = offset + from.len() as u64;
            self.version.map.bytes = self.version.map.bytes.max(end);
        }
        written.map_err(|error| error.at(format!("striped file {}", self.version.name)))
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        let stripe_bytes = self.version.stripe_bytes() as usize;
        let (mut offset, mut rest) = (offset, from);
        while !rest.is_empty() {
            let stripe = (offset / stripe_bytes as u64) as usize;
            let at = (offset % stripe_bytes as u64) as usize;
            let count = (stripe_bytes - at).min(rest.len());
            let (now, later) = rest.split_at(count);
            self.change(stripe, at..at + count)?;
            self.dirty.write(stripe, at, now)?;
            let reached = offset + count as u64;
            self.version.map.bytes = self.version.map.bytes.max(reached);
            let dirty = self.dirty.get(stripe).expect("it has just been changed");
            // Few programs come back to a stripe that they have filled.
            let is_full = dirty.filled >= stripe_bytes;
            if is_full {
                self.flush(stripe)?;
            }
            while let Some(stripe) = self.dirty.surplus() {
                self.flush(stripe)?;
            }
            (offset, rest) = (reached, later);
        }
        Ok(())
    }

    /// The stripe in memory, with what it contains outside the range that is about to be written.
    fn change(&mut self, stripe: usize, range: std::ops::Range<usize>) -> Result<&mut DirtyStripe> {
        let (data, block_bytes) = (self.version.layout.data, self.version.layout.block_bytes);
        let length = self.stripe_length(stripe);
        let is_known = self.dirty.has(stripe)
            || self.version.map.stripes.get(stripe).is_none_or(|entry| entry.blocks.is_empty());
        let is_replaced = range.start == 0 && range.end >= length;
        if is_known || is_replaced {
            let dirty = self.dirty.change(stripe, data, block_bytes as usize);
            dirty.bytes = dirty.bytes.max(length);
            return Ok(dirty);
        }
        self.settle_stripe(stripe)?;
        let places: Vec<usize> = (0..data).collect();
        let blocks = self.singles.blocks(&self.version, stripe, &places)?;
        let stored: usize = blocks.iter().map(|block| block.len()).sum();
        self.dirty.change(stripe, data, block_bytes as usize);
        self.dirty.fill(stripe, &blocks, stored.min(length))?;
        let dirty = self.dirty.change(stripe, data, block_bytes as usize);
        dirty.bytes = length;
        Ok(dirty)
    }

    /// Bytes of the file in a stripe.
    fn stripe_length(&self, stripe: usize) -> usize {
        let stripe_bytes = self.version.stripe_bytes();
        let start = stripe as u64 * stripe_bytes;
        self.version.map.bytes.saturating_sub(start).min(stripe_bytes) as usize
    }

    /// Reads as [`super::StripedReader::read_at`], what was written before included.
    pub fn read_at(&mut self, offset: u64, to: &mut [u8]) -> Result<usize> {
        self.expect_sound()?;
        let left = self.bytes().saturating_sub(offset);
        let count = (to.len() as u64).min(left) as usize;
        let stripe_bytes = self.version.stripe_bytes();
        let (mut offset, mut to) = (offset, &mut to[..count]);
        while !to.is_empty() {
            let (stripe, at) = ((offset / stripe_bytes) as usize, (offset % stripe_bytes) as usize);
            let (now, rest) = to.split_at_mut((stripe_bytes as usize - at).min(to.len()));
            offset += now.len() as u64;
            match self.dirty.get(stripe) {
                Some(dirty) => dirty.read(at, now),
                None if stripe >= self.version.map.stripes.len() => now.fill(0),
                None => {
                    self.settle_stripe(stripe)?;
                    self.singles.read(&self.version, stripe, at, now)?;
                }
            }
            to = rest;
        }
        Ok(count)
    }

    /// As [`super::StripedReader::read_view`], what was written before included.
    pub fn read_view(&mut self, view: &StridedView, at: u64, to: &mut [u8]) -> Result<()> {
        view.check(at, to.len())?;
        view.expect_within(self.bytes())?;
        let mut rest = to;
        for (offset, count) in view.pieces(at, rest.len() as u64) {
            let (now, later) = rest.split_at_mut(count as usize);
            self.read_at(offset, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Writes bytes of a view, from this one on. Fails if the request ends behind the view; a view
    /// that ends behind the file extends it.
    pub fn write_view(&mut self, view: &StridedView, at: u64, from: &[u8]) -> Result<()> {
        view.check(at, from.len())?;
        let mut rest = from;
        view.pieces(at, from.len() as u64).try_for_each(|(offset, count)| {
            let (now, later) = rest.split_at(count as usize);
            rest = later;
            self.write_at(offset, now)
        })
    }

    /// Cuts the file, or extends it with zeros.
    pub fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.expect_sound()?;
        self.expect_length(bytes)?;
        let stripe_bytes = self.version.stripe_bytes();
        if bytes < self.bytes() {
            let (stripe, within) = ((bytes / stripe_bytes) as usize, bytes % stripe_bytes);
            if within > 0 {
                self.change(stripe, 1..1)?;
                self.dirty.cut(stripe, within as usize);
            }
            let stripes = bytes.div_ceil(stripe_bytes) as usize;
            // No block of what is cut may come back as refused.
            self.settle()?;
            self.dirty.truncate(stripes);
            self.version.map.stripes.truncate(stripes);
            self.singles.cache.lock().forget_from(stripes);
        }
        self.version.map.bytes = bytes;
        Ok(())
    }

    /// Writes a changed stripe to disks.
    fn flush(&mut self, stripe: usize) -> Result<()> {
        let Some(dirty) = self.dirty.take(stripe) else { return Ok(()) };
        self.write_stripe(stripe, dirty)
    }

    /// Writes a stripe that its caller has filled.
    pub(super) fn put_stripe(&mut self, stripe: usize, filled: DirtyStripe) -> Result<()> {
        self.expect_sound()?;
        let end = stripe as u64 * self.version.stripe_bytes() + filled.bytes as u64;
        self.version.map.bytes = self.version.map.bytes.max(end);
        let written = self.write_stripe(stripe, filled);
        self.has_failed |= written.is_err();
        written
    }

    /// Writes a stripe to disks, in place of what it was.
    fn write_stripe(&mut self, stripe: usize, dirty: DirtyStripe) -> Result<()> {
        self.settle_stripe(stripe)?;
        self.singles.cache.lock().forget(stripe);
        let mut blocks = dirty.into_blocks()?;
        let block_bytes = blocks[0].len();
        let parity = (0..self.version.layout.parity).map(|_| pool().take(block_bytes));
        let mut parity: Vec<PooledBuffer> = parity.collect::<Result<_>>()?;
        let data: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|block| &mut block[..]).collect();
        let encoded = self.version.code.encode(&data, &mut out);
        encoded.map_err(|error| Error::failed(format!("cannot encode a stripe: {error:?}")))?;
        blocks.append(&mut parity);
        let disks = self.writable.choose(stripe, blocks.len(), &[])?;
        let placed = blocks.into_iter().zip(disks).enumerate().map(|(place, (bytes, disk))| {
            let crc = crc_fast::crc32_iscsi(&bytes);
            self.writable.write(UnplacedBlock { stripe, place, bytes, crc }, disk)
        });
        let entry = StripeEntry { block_bytes: block_bytes as u32, blocks: placed.collect() };
        let stripes = &mut self.version.map.stripes;
        if stripes.len() <= stripe {
            stripes.resize(stripe + 1, StripeEntry::default());
        }
        stripes[stripe] = entry;
        self.place_refused()
    }

    /// Writes the blocks whose disks are full or have failed to other disks.
    fn place_refused(&mut self) -> Result<()> {
        while let Some(block) = self.writable.refused.pop() {
            self.place_again(block)?;
        }
        Ok(())
    }

    /// Writes a block to a disk without another block of its stripe.
    pub(super) fn place_again(&mut self, block: UnplacedBlock) -> Result<()> {
        let (stripe, place) = (block.stripe, block.place);
        let mut others = self.version.disks_of(&self.version.map.stripes[stripe]);
        others.remove(place);
        let disk = self.writable.choose(stripe, 1, &others)?[0];
        self.version.map.stripes[stripe].blocks[place] = self.writable.write(block, disk);
        Ok(())
    }

    /// Waits until a stripe that this session has written lies on disks.
    fn settle_stripe(&mut self, stripe: usize) -> Result<()> {
        let own = self.segments_before as u32;
        let entry = self.version.map.stripes.get(stripe);
        match entry.is_some_and(|entry| entry.blocks.iter().any(|block| block.segment >= own)) {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Waits until no block is in flight.
    pub(super) fn settle(&mut self) -> Result<()> {
        loop {
            self.place_refused()?;
            if self.writable.is_idle() {
                return Ok(());
            }
            self.writable.wait_one();
        }
    }

    /// Writes all that is in memory, and waits until it lies on disks.
    pub(super) fn flush_all(&mut self) -> Result<()> {
        self.expect_sound()?;
        while let Some(stripe) = self.dirty.first() {
            self.flush(stripe)?;
        }
        let stripes = self.version.map.bytes.div_ceil(self.version.stripe_bytes());
        self.version.map.stripes.resize(stripes as usize, StripeEntry::default());
        self.settle()
    }

    /// Whether a block lies in a segment of this session.
    pub(super) fn is_own(&self, segment: u32) -> bool {
        segment as usize >= self.segments_before
    }

    fn expect_length(&self, bytes: u64) -> Result<()> {
        expect_length(&self.version.name, &self.version.layout, bytes)
    }

    fn expect_sound(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::failed("an earlier write of this file has failed")),
            false => Ok(()),
        }
    }

    /// Removes all that was staged, if it has not been committed.
    /// Does nothing in a forked child.
    pub(super) fn abandon(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        while !self.writable.is_idle() {
            self.writable.wait_one();
        }
        for disk in &mut self.writable.disks {
            let Some((held, opened)) = disk.held.take().zip(disk.disk.as_ref()) else { continue };
            let removed = match self.is_moved {
                true => remove_segments(opened, &self.final_folder),
                false => Ok(()),
            };
            // The note in its folder records for the next start what is left.
            if removed.is_ok() {
                held.remove();
            }
        }
    }
}

/// Fails if the map of a file of this length would not fit into memory.
pub(super) fn expect_length(name: &str, layout: &FileEntry, bytes: u64) -> Result<()> {
    let most = layout.stripe_bytes().saturating_mul(STRIPES_MAX);
    if bytes <= most {
        return Ok(());
    }
    let error = format!("a file of {bytes} bytes, where at most {most} are possible");
    let error = Error::usage(error).remedy("check the offset, or choose a larger `data`");
    Err(error.at(format!("striped file {name}")))
}

impl Drop for StripedWriter {
    fn drop(&mut self) {
        self.abandon();
    }
}
