//! The commit of a session: syncs its segments, writes the map to every disk, and publishes the
//! manifest.
//!
//! A disk that fails before the commit loses nothing: its blocks are restored from the others of
//! their stripes, and written elsewhere.

use std::io::ErrorKind;
use std::path::Path;

use euphrates_device::disk::at_once;
use euphrates_device::durable::Durability;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{DecisionRef, Error, Result};

use super::map::StripeMap;
use super::placement::{DiskHealth, SEGMENT_FILE, UnplacedBlock, WritableDisk};
use super::single::SingleBlocks;
use super::writer::StripedWriter;
use crate::catalog::{
    Catalog, CopyEntry, CopyLayout, Existence, FileEntry, Manifest, SegmentEntry,
};
use crate::collection::{NameReservation, NewVersion, expect_durable, now, segments_folder};

/// The name of a copy of the map.
const MAP_FILE: &str = "map";

impl StripedWriter {
    /// Publishes the version atomically, and returns its number. If another writer was faster,
    /// fails and removes all that was staged.
    pub fn commit(mut self) -> Result<u64> {
        let published = self.publish();
        published.map_err(|error| error.at(format!("striped file {}", self.version.name)))
    }

    fn publish(&mut self) -> Result<u64> {
        self.sync_stripes()?;
        let (version, named) = self.prepare(None)?;
        let published = version.publish();
        named.release();
        let durability = published?;
        match durability {
            // A loss of power may undo the publication, so the next reclaim has to decide.
            Durability::Unknown(_) | Durability::Unanswered(_) => self.leave_staged(),
            Durability::Durable => {
                self.forget_staged();
                version.clean();
            }
        }
        expect_durable(durability, &version.manifest.title())?;
        Ok(version.manifest.version)
    }

    /// Writes all that is in memory, and makes it durable.
    pub(crate) fn sync_stripes(&mut self) -> Result<()> {
        self.flush_all()?;
        self.sync()
    }

    /// After `sync_stripes`: moves the segments to where the manifest says, and reserves the name.
    /// The caller or another process publishes the version. Fails if another writer was faster.
    pub(crate) fn prepare(
        &mut self,
        decision: Option<&DecisionRef>,
    ) -> Result<(NewVersion, NameReservation)> {
        let manifest = self.stage()?;
        let catalog = Catalog::of(&self.home)?;
        self.move_segments()?;
        NewVersion::reserve(&self.home, &catalog, manifest, self.before.as_ref(), decision)
    }

    fn move_segments(&mut self) -> Result<()> {
        self.is_moved = true;
        let folder = &self.final_folder;
        at_once(self.writable.disks.iter().filter(is_written), |disk| move_on(disk, folder))
    }

    /// As `move_segments`, for a share of a version: only disks with one of these segments get a
    /// folder.
    pub(super) fn move_used(&mut self, segments: &[SegmentEntry]) -> Result<()> {
        self.is_moved = true;
        let own = |disk: &&WritableDisk| {
            let is_its = |segment: &SegmentEntry| {
                segment.disk == disk.name && segment.path.starts_with(&self.final_folder)
            };
            is_written(disk) && segments.iter().any(is_its)
        };
        let folder = &self.final_folder;
        at_once(self.writable.disks.iter().filter(own), |disk| move_on(disk, folder))
    }

    /// After the publication: removes the empty staging folders.
    pub(crate) fn forget_staged(&mut self) {
        for disk in &mut self.writable.disks {
            disk.held.take().into_iter().for_each(|held| held.remove());
        }
    }

    /// Leaves what was staged to the next reclaim, which reads the notes in the staging folders.
    pub(crate) fn leave_staged(&mut self) {
        self.writable.disks.iter_mut().for_each(|disk| drop(disk.held.take()));
    }

    /// Syncs the segments. Blocks on disks that have failed are written elsewhere.
    fn sync(&mut self) -> Result<()> {
        loop {
            self.move_from_failed()?;
            let failed = Mutex::new(vec![]);
            let good = self.writable.disks.iter().enumerate();
            let good = good.filter(|(_, disk)| disk.bytes > 0 && disk.health != DiskHealth::Failed);
            at_once(good, |(number, disk)| {
                let file = disk.file.as_ref().expect("it has bytes");
                let synced = file.publish().and_then(|()| file.sync());
                synced.or_else(|error| {
                    failed.lock().push((number, Error::os("sync", file.path(), &error)));
                    Ok(())
                })
            })?;
            let failed = failed.into_inner();
            if failed.is_empty() {
                return Ok(());
            }
            for (number, error) in failed {
                self.writable.disks[number].fail(DiskHealth::Failed, error);
            }
        }
    }

    /// Restores the blocks of this session on failed disks from the others of their stripes.
    fn move_from_failed(&mut self) -> Result<()> {
        let is_failed = |disk: &WritableDisk| disk.health == DiskHealth::Failed && disk.bytes > 0;
        if !self.writable.disks.iter().any(is_failed) {
            return Ok(());
        }
        let singles = SingleBlocks::default();
        for disk in self.writable.disks.iter().filter(|disk| is_failed(disk)) {
            // It is not read either.
            self.version.segments[disk.segment as usize].file = None;
        }
        for stripe in 0..self.version.map.stripes.len() {
            let blocks = self.version.map.stripes[stripe].blocks.iter();
            let lost = blocks.enumerate().filter(|(_, block)| {
                let segment = &self.version.segments[block.segment as usize];
                self.is_own(block.segment) && segment.file.is_none()
            });
            let lost: Vec<usize> = lost.map(|(place, _)| place).collect();
            self.restore(&singles, stripe, &lost)?;
        }
        self.settle()
    }

    /// Restores blocks of a stripe, and writes them to other disks, or anew to their own.
    pub(super) fn restore(
        &mut self,
        singles: &SingleBlocks,
        stripe: usize,
        places: &[usize],
    ) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let blocks = singles.blocks(&self.version, stripe, places)?;
        for (&place, block) in places.iter().zip(blocks) {
            let mut bytes = euphrates_device::buffer::pool().take(block.len())?;
            bytes.copy_from_slice(&block);
            let crc = crc_fast::crc32_iscsi(&bytes);
            self.place_again(UnplacedBlock { stripe, place, bytes, crc })?;
        }
        Ok(())
    }

    /// Stages what makes the version complete: the map on each disk, and the manifest.
    fn stage(&mut self) -> Result<Manifest> {
        let (map, mut segments) = self.used_segments()?;
        let map = self.stage_map(&map.encode())?;
        let bytes = segments.iter().map(|segment| segment.bytes).sum();
        segments.insert(0, map);
        let file = FileEntry { bytes: self.version.map.bytes, ..self.version.layout.clone() };
        Ok(Manifest {
            name: self.version.name.clone(),
            version: self.before.as_ref().map_or(0, |before| before.version) + 1,
            life: Existence::Live,
            run_id: self.run_id.clone(),
            created: now(),
            columns: vec![],
            schema: String::new(),
            layout: CopyLayout::Plain,
            ordered: false,
            interleaved: false,
            sort_keys: vec![],
            rows: 0,
            bytes,
            segments,
            statistics: Default::default(),
            file: Some(file),
        })
    }

    /// The segments that have blocks of the file, and the map with their numbers. Removes those of
    /// this session that have none.
    pub(super) fn used_segments(&mut self) -> Result<(StripeMap, Vec<SegmentEntry>)> {
        let mut used = vec![false; self.version.segments.len()];
        let mut blocks = vec![0u64; used.len()];
        for block in self.version.map.stripes.iter().flat_map(|stripe| &stripe.blocks) {
            used[block.segment as usize] = true;
            blocks[block.segment as usize] += 1;
        }
        for disk in self.writable.disks.iter_mut().filter(|disk| disk.file.is_some()) {
            let number = disk.segment as usize;
            self.version.segments[number].entry.bytes = disk.bytes;
            if !used[number]
                && is_written(&&*disk)
                && let Err(error) = remove_unused(disk)
            {
                // A lost disk has nothing of the file.
                if disk.disk.as_ref().is_some_and(|opened| opened.files().facts().is_ok()) {
                    return Err(error);
                }
                disk.fail(DiskHealth::Failed, error);
            }
        }
        let mut number = vec![0; used.len()];
        let mut segments = vec![];
        for at in (0..used.len()).filter(|&at| used[at]) {
            number[at] = segments.len() as u32;
            let entry = self.version.segments[at].entry.clone();
            segments.push(SegmentEntry { blocks: blocks[at], ..entry });
        }
        let mut map: StripeMap = self.version.map.clone();
        let all = map.stripes.iter_mut().flat_map(|stripe| &mut stripe.blocks);
        all.for_each(|block| block.segment = number[block.segment as usize]);
        Ok((map, segments))
    }

    /// Writes the map to each disk that can take it. As many copies as a stripe has parity blocks,
    /// and one more, must be written.
    fn stage_map(&mut self, map: &[u8]) -> Result<SegmentEntry> {
        let done = Mutex::new(vec![]);
        let open = self.writable.disks.iter().enumerate();
        let open =
            open.filter(|(_, disk)| disk.held.is_some() && disk.health != DiskHealth::Failed);
        at_once(open, |(number, disk)| {
            let held = disk.held.as_ref().expect("it is open");
            let opened = disk.disk.as_ref().expect("it is open");
            let path = segments_folder(held.path()).join(MAP_FILE);
            let written = opened.files().write(&path, map, true);
            let written =
                written.map_err(|error| Error::os("write", opened.folder().join(path), &error));
            done.lock().push((number, written));
            Ok(())
        })?;
        let mut copies = vec![];
        let mut done = done.into_inner();
        done.sort_by_key(|(number, _)| *number);
        let mut first_error = None;
        for (number, written) in done {
            let disk = &mut self.writable.disks[number];
            let path = format!("{}/{MAP_FILE}", self.final_folder);
            match written {
                Ok(()) => copies.push(CopyEntry { disk: disk.name.clone(), path }),
                Err(error) => {
                    if disk.bytes == 0 {
                        // It has nothing of the file, so nothing of it is moved.
                        disk.fail(DiskHealth::Failed, error.clone());
                    }
                    first_error.get_or_insert(error);
                }
            }
        }
        if copies.len() < (self.version.layout.parity + 1).min(self.version.layout.disks.len()) {
            let error = first_error.unwrap_or_else(|| Error::resource("disks have failed"));
            return Err(error);
        }
        let primary = copies.remove(0);
        Ok(SegmentEntry {
            disk: primary.disk,
            path: primary.path,
            rows: 0,
            bytes: map.len() as u64,
            blocks: 0,
            toc_crc: crc_fast::crc32_iscsi(map),
            mirrors: copies,
        })
    }
}

/// Moves a disk's segments to their final folder.
fn move_on(disk: &WritableDisk, final_folder: &str) -> Result<()> {
    let (held, opened) = disk.held.as_ref().zip(disk.disk.as_ref()).expect("it is open");
    let moved = opened.files().move_folder(&segments_folder(held.path()), Path::new(final_folder));
    moved.map_err(|error| {
        Error::os("move the segments to", opened.folder().join(final_folder), &error)
    })
}

/// Removes a segment to which nothing refers. Published with the map, it would never be reclaimed.
fn remove_unused(disk: &WritableDisk) -> Result<()> {
    let Some((held, opened)) = disk.held.as_ref().zip(disk.disk.as_ref()) else { return Ok(()) };
    let path = segments_folder(held.path()).join(SEGMENT_FILE);
    match opened.files().remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::os("remove the unused", opened.folder().join(path), &error))
        }
        _ => Ok(()),
    }
}

/// Whether files of the session are to be published on this disk.
fn is_written(disk: &&WritableDisk) -> bool {
    disk.held.is_some() && disk.health != DiskHealth::Failed
}

#[cfg(test)]
mod tests {
    use std::fs;

    use euphrates_device::disk::{NamedDisk, save_named_disks};

    use super::*;
    use crate::striped::{StripedOptions, StripedReader, verify_file};

    fn begin(home: &Path, disks: usize) -> StripedWriter {
        let disk = |number| NamedDisk {
            name: format!("d{number}"),
            folder: format!("d{number}").into(),
            mode: Default::default(),
            rate: None,
            worker: "local".into(),
        };
        save_named_disks(home, &(0..disks).map(disk).collect::<Vec<_>>()).unwrap();
        let options = StripedOptions { data: 2, block_bytes: 5000, ..Default::default() };
        StripedWriter::create(home, "f", options).unwrap()
    }

    #[test]
    fn blocks_of_a_disk_that_fails_before_the_commit_are_written_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let mut writer = begin(home.path(), 4);
        let content: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
        writer.write_at(0, &content[..60_000]).unwrap();
        writer.writable.disks[1].fail(DiskHealth::Failed, Error::resource("made to fail"));
        writer.write_at(60_000, &content[60_000..]).unwrap();
        writer.commit().unwrap();
        let reader = StripedReader::open(home.path(), "f").unwrap();
        let mut read = vec![0; content.len()];
        reader.read_at(0, &mut read).unwrap();
        assert!(read == content);
        assert!(reader.manifest().segments.iter().all(|segment| segment.disk != "d1"));
        assert!(verify_file(home.path(), "f").unwrap().damages.is_empty());
    }

    #[test]
    fn unused_segment_that_cannot_be_removed_abandons_the_commit() {
        let home = tempfile::tempdir().unwrap();
        let mut writer = begin(home.path(), 4);
        // One stripe, on three of the four disks. A folder cannot be removed as a file is.
        writer.write_at(0, &[7; 10_000]).unwrap();
        writer.flush_all().unwrap();
        let unused = writer.writable.disks.iter().find(|disk| disk.bytes == 0).unwrap();
        let held = unused.held.as_ref().unwrap();
        let disk = unused.disk.as_ref().unwrap();
        let path = segments_folder(&disk.folder().join(held.path())).join(SEGMENT_FILE);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = writer.commit().unwrap_err();
        assert!(error.to_string().contains(SEGMENT_FILE), "{error}");
        assert!(StripedReader::open(home.path(), "f").is_err());
        for disk in ["d0", "d1", "d2", "d3"] {
            let folder = home.path().join(disk);
            assert_eq!(fs::read_dir(folder.join(".staging")).unwrap().count(), 0, "{disk}");
            assert!(!folder.join("f").exists(), "nothing is published on {disk}");
        }
    }

    #[test]
    fn failure_without_a_spare_disk_is_a_resource_error_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let mut writer = begin(home.path(), 3);
        writer.write_at(0, &[7; 60_000]).unwrap();
        writer.writable.disks[1].fail(DiskHealth::Failed, Error::resource("made to fail"));
        let error = writer.commit().unwrap_err();
        assert_eq!(error.kind(), euphrates_flow::Kind::Resource);
        assert!(error.to_string().contains("d1: made to fail"), "{error}");
        assert!(StripedReader::open(home.path(), "f").is_err());
        for disk in ["d0", "d1", "d2"] {
            let staged = std::fs::read_dir(home.path().join(disk).join(".staging")).unwrap();
            assert_eq!(staged.count(), 0, "{disk}");
        }
    }
}
