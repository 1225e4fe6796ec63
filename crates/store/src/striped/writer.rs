//! A session that writes a new version of a striped file: at any offsets, invisible until it
//! commits.
//!
//! Changed stripes stay in memory until they are full, or too many. A stripe is written as a whole,
//! with new parity, to disks chosen then; the one it replaces is not touched, so nothing is ever
//! read and modified on a disk. A block whose disk is full or fails goes to another disk.

use std::path::{Path, PathBuf};

use euphrates_device::buffer::{PooledBuffer, pool};
use euphrates_device::disk::Disks;
use euphrates_flow::error::REMEDY_TAKEN;
use euphrates_flow::{Error, Owner, Result};
use euphrates_parity::BLOCKS_MAX;
use euphrates_policy::io_path::IoPath;

use super::dirty::{DirtyStripe, DirtyStripes};
use super::map::StripeEntry;
use super::options::{StripedOptions, disks_for};
use super::placement::{DiskHealth, SEGMENT_FILE, UnplacedBlock, WritableDisk, WritableDisks};
use super::single::SingleBlocks;
use super::version::{StripeSegment, StripedVersion};
use crate::catalog::{Catalog, Existence, FileEntry, Manifest, SegmentEntry, check_name};
use crate::collection::{CommitIntent, attempt, final_folder_of, reclaim_disk, remove_segments};

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
    dirty: DirtyStripes,
    singles: SingleBlocks,
    /// Segments of the version before.
    segments_before: usize,
    has_failed: bool,
    owner: Owner,
}

impl StripedWriter {
    /// Begins a new file. Fails if stripes have more blocks than there are disks.
    pub fn create(home: &Path, name: &str, options: StripedOptions) -> Result<StripedWriter> {
        check_name(name)?;
        let StripedOptions { data, parity, block_bytes, overwrite, run_id, .. } = &options;
        if *data == 0 || data.saturating_add(*parity) > BLOCKS_MAX {
            let error = Error::usage(format!("a stripe cannot have {data} + {parity} blocks"));
            return Err(
                error.remedy(format!("choose data >= 1, and data + parity <= {BLOCKS_MAX}"))
            );
        }
        let before = Catalog::of(home)?.predecessor_of_next(name)?;
        before.as_ref().map_or(Ok(()), Manifest::expect_file)?;
        let is_taken = before.as_ref().is_some_and(|before| before.life == Existence::Live);
        if is_taken && !overwrite {
            let error = Error::usage(format!("there is a striped file `{name}` already"));
            return Err(error.remedy(REMEDY_TAKEN));
        }
        let disks = disks_for(home, &options)?;
        let layout = FileEntry {
            data: *data,
            parity: *parity,
            block_bytes: *block_bytes as u64,
            bytes: 0,
            disks: disks.clone(),
        };
        let version = StripedVersion::empty(home, name, layout)?;
        StripedWriter::begin(home, before, version, &disks, run_id)
    }

    /// Begins to change the newest version of a file, of which the changed stripes are replaced.
    pub fn update(home: &Path, name: &str, run_id: &str) -> Result<StripedWriter> {
        StripedWriter::update_on(home, name, run_id, &[])
    }

    /// As `update`; new blocks may go to these disks as well.
    pub(super) fn update_on(
        home: &Path,
        name: &str,
        run_id: &str,
        more: &[String],
    ) -> Result<StripedWriter> {
        let found = Catalog::of(home)?.find_file(name)?;
        let newest = found.version;
        let manifest = found.current()?;
        let mut version = StripedVersion::open(home, &manifest)
            .map_err(|error| error.at(format!("striped file {name}")))?;
        let mut disks = version.layout.disks.clone();
        for disk in more.iter().filter(|disk| !manifest.disks().contains(disk.as_str())) {
            version.add_disk(home, disk)?;
            disks.push(disk.clone());
        }
        version.layout.disks.clone_from(&disks);
        // A damaged newest version keeps its number, and is replaced.
        let before = Manifest { version: newest, ..manifest };
        StripedWriter::begin(home, Some(before), version, &disks, run_id)
    }

    fn begin(
        home: &Path,
        before: Option<Manifest>,
        mut version: StripedVersion,
        disks: &[String],
        run_id: &str,
    ) -> Result<StripedWriter> {
        let (catalog, all, attempt) = (Catalog::of(home)?, Disks::of(home)?, attempt(run_id));
        let final_folder = final_folder_of(home, &version.name, &attempt);
        let note = CommitIntent {
            home: home.to_path_buf(),
            name: version.name.clone(),
            final_folder: final_folder.clone(),
        };
        let mut workers: Vec<String> = vec![];
        let segments_before = version.segments.len();
        let mut writable = vec![];
        for number in 0..version.disks.len() {
            let (name, worker) = (&version.disks[number].name, &version.disks[number].worker);
            let known = workers.iter().position(|known| known == worker).unwrap_or(workers.len());
            if known == workers.len() {
                workers.push(worker.clone());
            }
            let mut disk = WritableDisk::new(name, known as u32);
            if disks.contains(name) {
                let opened = all.open(name).and_then(|opened| {
                    reclaim_disk(home, &opened, &catalog);
                    disk.open(&opened, &attempt, &note)
                });
                opened.unwrap_or_else(|error| disk.fail(DiskHealth::Failed, error));
            }
            if let Some(file) = &disk.file {
                disk.segment = version.segments.len() as u32;
                version.disks[number].disk.clone_from(&disk.disk);
                let entry = SegmentEntry {
                    disk: disk.name.clone(),
                    path: format!("{final_folder}/{SEGMENT_FILE}"),
                    rows: 0,
                    bytes: 0,
                    blocks: 0,
                    toc_crc: 0,
                    mirrors: vec![],
                };
                let (file, path) = (Some(file.clone()), IoPath::Buffered);
                version.segments.push(StripeSegment { disk: number, entry, file, path });
            }
            writable.push(disk);
        }
        Ok(StripedWriter {
            home: home.to_path_buf(),
            before,
            run_id: run_id.to_string(),
            final_folder,
            version,
            writable: WritableDisks::new(writable),
            is_moved: false,
            dirty: DirtyStripes::default(),
            singles: SingleBlocks::default(),
            segments_before,
            has_failed: false,
            owner: Owner::here(),
        })
    }

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

    /// Writes bytes at an offset; a gap before them is zeros. After an error the session can only
    /// be dropped.
    pub fn write_at(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        self.expect_sound()?;
        let end = offset.checked_add(from.len() as u64);
        let end = end.ok_or_else(|| Error::usage("a file of more than 2^64 bytes"))?;
        let written = self.write(offset, from);
        self.has_failed |= written.is_err();
        if !from.is_empty() {
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
            self.change(stripe, at..at + count)?.write(at, now)?;
            let reached = offset + count as u64;
            self.version.map.bytes = self.version.map.bytes.max(reached);
            let dirty = self.dirty.get(stripe).expect("it has just been changed");
            // A program that writes in order is done with a stripe when it has filled it.
            let is_full = dirty.bytes == stripe_bytes && at + count == stripe_bytes;
            let done = if is_full { Some(stripe) } else { self.dirty.surplus() };
            if let Some(stripe) = done {
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
        let dirty = self.dirty.change(stripe, data, block_bytes as usize);
        dirty.fill(&blocks, stored.min(length))?;
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

    /// Cuts the file, or extends it with zeros.
    pub fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.expect_sound()?;
        let stripe_bytes = self.version.stripe_bytes();
        if bytes < self.bytes() {
            let (stripe, within) = ((bytes / stripe_bytes) as usize, bytes % stripe_bytes);
            if within > 0 {
                let cut = self.change(stripe, 1..1)?;
                cut.cut(within as usize);
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

impl Drop for StripedWriter {
    fn drop(&mut self) {
        self.abandon();
    }
}
