//! A version of a striped file that is open: its map, its segments, and the disks they lie on.

pub(super) mod disk_marker;
pub(super) mod newest;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use euphrates_device::disk::{Disk, DiskFile, Disks, LOCAL};
use euphrates_device::folder::FolderFacts;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Kind, Result};
use euphrates_parity::{BLOCKS_MAX, ErasureCode};
use euphrates_policy::io_path::{IoPath, ReadPath};

use self::disk_marker::expect_disk;
use super::map::{StripeEntry, StripeMap};
use crate::catalog::{CopyEntry, FileEntry, Manifest, SegmentEntry};
use crate::segment::Damage;

/// Damages that a handle remembers, at most.
const DAMAGES_MAX: usize = 1000;
/// The longest block that a manifest may state.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// An open version. Its segments stay readable when a newer version replaces it.
#[derive(Debug)]
pub(super) struct StripedVersion {
    pub name: String,
    pub layout: FileEntry,
    pub map: StripeMap,
    pub disks: Vec<OpenStripeDisk>,
    pub segments: Vec<StripeSegment>,
    pub code: ErasureCode,
    pub damages: Mutex<Vec<Damage>>,
}

/// A disk of the file.
#[derive(Debug)]
pub(super) struct OpenStripeDisk {
    pub name: String,
    /// The worker that owns it.
    pub worker: String,
    /// `None` if the disk is missing, or is another worker's.
    pub disk: Option<Disk>,
    pub pace: Arc<DiskPace>,
}

/// How long reads of single blocks take at a disk.
#[derive(Debug, Default)]
pub(super) struct DiskPace {
    interval_ns: AtomicU64,
    in_flight: AtomicU32,
}

/// A segment: blocks on one disk, in no order.
#[derive(Debug)]
pub(super) struct StripeSegment {
    pub disk: usize,
    pub entry: SegmentEntry,
    /// `None` if the file is missing.
    pub file: Option<Arc<DiskFile>>,
    pub path: IoPath,
}

/// Stripes of a share, and the segments of their blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ShareStripes {
    pub map: StripeMap,
    pub segments: Vec<SegmentEntry>,
}

impl StripedVersion {
    /// Opens the segments of a version. A disk or segment that is missing is a damage.
    pub fn open(home: &Path, manifest: &Manifest) -> Result<StripedVersion> {
        let layout = manifest.file.clone().ok_or_else(|| Error::failed("it is a collection"))?;
        let mut version = StripedVersion::empty(home, &manifest.name, layout)?;
        let disks = Disks::of(home)?;
        let [map, segments @ ..] = manifest.segments.as_slice() else {
            return Err(Error::corrupt("its manifest lists no map"));
        };
        version.map = version.read_map(&disks, map, segments.len())?;
        for entry in segments {
            let disk = match version.disks.iter().position(|disk| disk.name == entry.disk) {
                Some(disk) => disk,
                None => {
                    version.disks.push(open_disk(home, &disks, &entry.disk)?);
                    version.disks.len() - 1
                }
            };
            let segment = version.open_segment(disk, entry);
            version.segments.push(segment);
        }
        expect_distinct_folders(&version.disks)?;
        version.expect_distinct_disks()?;
        Ok(version)
    }

    /// A file without stripes.
    pub fn empty(home: &Path, name: &str, layout: FileEntry) -> Result<StripedVersion> {
        let FileEntry { data, parity, block_bytes, .. } = layout;
        let is_sane = data >= 1 && data.saturating_add(parity) <= BLOCKS_MAX;
        if !is_sane || block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX {
            return Err(Error::corrupt("its manifest states a layout that no file has"));
        }
        let code = ErasureCode::new(data, parity);
        let code = code.map_err(|error| Error::failed(format!("no such code: {error:?}")))?;
        let all = Disks::of(home)?;
        let disks: Vec<OpenStripeDisk> =
            layout.disks.iter().map(|name| open_disk(home, &all, name)).collect::<Result<_>>()?;
        expect_distinct_folders(&disks)?;
        Ok(StripedVersion {
            name: name.to_string(),
            map: StripeMap { width: data + parity, bytes: 0, stripes: vec![] },
            disks,
            segments: vec![],
            code,
            damages: Mutex::default(),
            layout,
        })
    }

    /// Adds stripes that a writer of a session has left, and their segments. Returns the stripes
    /// that have blocks, of which the version may have had others.
    pub fn adopt(&mut self, share: &ShareStripes) -> Result<Vec<usize>> {
        let base = self.segments.len() as u32;
        for entry in &share.segments {
            let disk = self.disks.iter().position(|disk| disk.name == entry.disk);
            let disk = disk.ok_or_else(|| Error::corrupt("a share has a disk of its own"))?;
            let segment = self.open_segment(disk, entry);
            self.segments.push(segment);
        }
        let stripes = &mut self.map.stripes;
        let count = stripes.len().max(share.map.stripes.len());
        stripes.resize(count, StripeEntry::default());
        let mut adopted = vec![];
        for (number, entry) in share.map.stripes.iter().enumerate() {
            if !entry.blocks.is_empty() {
                stripes[number] = entry.clone();
                stripes[number].blocks.iter_mut().for_each(|block| block.segment += base);
                adopted.push(number);
            }
        }
        Ok(adopted)
    }

    /// As `adopt`, of a log: its segments are read through the page cache, where they are unless
    /// the kernel needed its memory.
    pub fn adopt_log(&mut self, log: &ShareStripes) -> Result<()> {
        let base = self.segments.len();
        self.adopt(log)?;
        self.segments[base..].iter_mut().for_each(|segment| segment.path = IoPath::Buffered);
        self.map.bytes = log.map.bytes;
        Ok(())
    }

    /// Adds a disk that has no block of the file.
    pub fn add_disk(&mut self, home: &Path, name: &str) -> Result<()> {
        let disks = Disks::of(home)?;
        disks.open(name)?;
        self.disks.push(open_disk(home, &disks, name)?);
        expect_distinct_folders(&self.disks)
    }

    /// Bytes of the file in a full stripe.
    pub fn stripe_bytes(&self) -> u64 {
        self.layout.stripe_bytes()
    }

    /// The disk of each block of a stripe, by number.
    pub fn disks_of(&self, stripe: &StripeEntry) -> Vec<usize> {
        let disk = |block: &super::map::BlockPlace| self.segments[block.segment as usize].disk;
        stripe.blocks.iter().map(disk).collect()
    }

    /// Records a damage, unless it is known.
    pub fn on_damage(&self, damage: Damage) {
        let mut damages = self.damages.lock();
        if damages.len() < DAMAGES_MAX && !damages.contains(&damage) {
            damages.push(damage);
        }
    }

    /// The error for a stripe of which fewer blocks than data blocks can be read.
    pub fn too_few_error(&self, stripe: usize) -> Error {
        let disks = self.disks_of(&self.map.stripes[stripe]);
        let names: Vec<&str> = disks.iter().map(|&disk| self.disks[disk].name.as_str()).collect();
        let found: Vec<String> =
            self.damages.lock().iter().take(4).map(|damage| damage.to_string()).collect();
        let (needed, names) = (self.layout.data, names.join(", "));
        let message = format!(
            "stripe {stripe} of striped file `{}` is lost: fewer than {needed} of its blocks, on \
             disks {names}, can be read: {}",
            self.name,
            found.join("; ")
        );
        Error::corrupt(message).remedy("bring back a missing disk (see disks.json)")
    }

    fn read_map(&self, disks: &Disks, entry: &SegmentEntry, segments: usize) -> Result<StripeMap> {
        for copy in entry.copies() {
            match self.read_map_copy(disks, entry, &copy, segments) {
                Ok(map) => return Ok(map),
                Err(error) => self.on_damage(map_damage(&copy, &error)),
            }
        }
        let told: Vec<String> = self.damages.lock().iter().map(Damage::to_string).collect();
        let error = format!("no copy of the map can be read: {}", told.join("; "));
        Err(Error::corrupt(error).remedy("bring back a missing disk (see disks.json)"))
    }

    /// Reads one copy of the map.
    pub fn read_map_copy(
        &self,
        disks: &Disks,
        entry: &SegmentEntry,
        copy: &CopyEntry,
        segments: usize,
    ) -> Result<StripeMap> {
        let (_, folder) = disks.folder(&copy.disk).ok_or_else(|| missing_disk(&copy.disk))?;
        let text = folder.read(Path::new(&copy.path));
        let path = folder.place().join(&copy.path);
        let text = text.map_err(|error| Error::os("read", &path, &error))?;
        if crc_fast::crc32_iscsi(&text) != entry.toc_crc {
            return Err(Error::corrupt("the map is not the one that was written"));
        }
        let map = StripeMap::decode(&text, segments, self.stripe_bytes())?;
        match map.width == self.map.width && Some(map.bytes) == Some(self.layout.bytes) {
            true => Ok(map),
            false => Err(Error::corrupt("the map is that of another file")),
        }
    }

    fn open_segment(&self, number: usize, entry: &SegmentEntry) -> StripeSegment {
        let OpenStripeDisk { name, disk, .. } = &self.disks[number];
        let opened = disk.as_ref().ok_or_else(|| missing_disk(name)).and_then(|disk| {
            let file = disk.open_within(Path::new(&entry.path))?;
            let path = ReadPath::new(disk.facts(&file, entry.bytes)).cold();
            Ok((file, path))
        });
        let (file, path) = match opened {
            Ok((file, path)) => (Some(file), path),
            Err(error) => {
                let (disk, path) = (name.clone(), entry.path.clone().into());
                let what = error.message().to_string();
                self.on_damage(Damage { disk, path, block: None, what });
                (None, IoPath::Buffered)
            }
        };
        StripeSegment { disk: number, entry: entry.clone(), file, path }
    }

    fn expect_distinct_disks(&self) -> Result<()> {
        for stripe in &self.map.stripes {
            let mut disks = self.disks_of(stripe);
            disks.sort_unstable();
            if disks.windows(2).any(|two| two[0] == two[1]) {
                return Err(Error::corrupt("the map has two blocks of a stripe on one disk"));
            }
        }
        Ok(())
    }
}

fn open_disk(home: &Path, disks: &Disks, name: &str) -> Result<OpenStripeDisk> {
    let named = disks.folder(name);
    named.map_or(Ok(()), |(_, folder)| expect_disk(home, name, &**folder))?;
    // Opening a disk makes its folder; a missing one must not look like an empty disk.
    let disk = match named.filter(|(_, folder)| folder.facts().is_ok()) {
        Some((named, _)) => match disks.open(&named.name) {
            Ok(disk) => Some(disk),
            Err(error) if error.kind() == Kind::Usage => return Err(error),
            Err(_) => None,
        },
        None => None,
    };
    let worker = named.map_or(LOCAL, |(named, _)| &named.worker).to_string();
    Ok(OpenStripeDisk { name: name.to_string(), worker, disk, pace: Arc::default() })
}

/// Fails if two disks have one folder: they would be one disk, with two blocks of a stripe.
fn expect_distinct_folders(disks: &[OpenStripeDisk]) -> Result<()> {
    let mut known: Vec<(FolderFacts, &str)> = vec![];
    for OpenStripeDisk { name, disk, .. } in disks {
        let Some(disk) = disk else { continue };
        let Ok(folder) = disk.files().facts() else { continue };
        if let Some((_, other)) = known.iter().find(|(known, _)| known.is_same_folder(&folder)) {
            let path = disk.folder().display();
            let error = format!("disks `{other}` and `{name}` have one folder, {path}");
            return Err(Error::usage(error).remedy("give each disk of disks.json its own folder"));
        }
        known.push((folder, name));
    }
    Ok(())
}

fn missing_disk(name: &str) -> Error {
    Error::corrupt(format!("disk `{name}` is missing"))
}

/// The damage of a copy of the map.
pub(super) fn map_damage(copy: &CopyEntry, error: &Error) -> Damage {
    let (disk, path) = (copy.disk.clone(), copy.path.clone().into());
    Damage { disk, path, block: None, what: error.message().to_string() }
}

impl DiskPace {
    pub fn begin(&self) -> Instant {
        self.in_flight.fetch_add(1, Relaxed);
        Instant::now()
    }

    pub fn end(&self, took: Duration) {
        self.in_flight.fetch_sub(1, Relaxed);
        let (old, new) = (self.interval_ns.load(Relaxed), took.as_nanos() as u64);
        self.interval_ns.store(if old == 0 { new } else { old / 2 + new / 2 }, Relaxed);
    }

    /// The expected time until a block more would be read, in nanoseconds.
    pub fn wait_ns(&self) -> u64 {
        let ahead = u64::from(self.in_flight.load(Relaxed));
        self.interval_ns.load(Relaxed).saturating_mul(ahead + 1)
    }
}
