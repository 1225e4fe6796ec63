//! Reads bytes of chunks: a block from its disk, or from others of the chunk with parity.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

use super::segments::VolumeDisks;
use crate::log::{BlockHeader, ChunkPlace, FoundBlock, HEADER_BYTES, crc, find_blocks, restore};

/// Blocks in memory.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// Open files, at most; a reader of a checkpoint opens all that it needs.
const FILES_MAX: usize = 512;

/// Reads segments.
#[derive(Debug)]
pub struct ChunkReader {
    volume: u64,
    disks: VolumeDisks,
    files: Mutex<HashMap<(u32, u64), Arc<File>>>,
    /// Whether files must stay open.
    holds: AtomicBool,
    cache: Mutex<ChunkBlocks>,
}

#[derive(Debug, Default)]
struct ChunkBlocks {
    blocks: HashMap<(u64, usize), Arc<Vec<u8>>>,
    /// In the order in which they were read.
    order: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl ChunkReader {
    pub fn new(volume: u64, disks: VolumeDisks) -> ChunkReader {
        let (files, cache) = (Mutex::default(), Mutex::default());
        ChunkReader { volume, disks, files, holds: AtomicBool::new(false), cache }
    }

    /// Reads bytes of a chunk's payload from an offset on.
    pub fn read(&self, chunk: u64, place: &ChunkPlace, at: usize, to: &mut [u8]) -> Result<()> {
        let block_bytes = place.block_bytes();
        let (mut at, mut to) = (at, to);
        while !to.is_empty() {
            let (index, within) = (at / block_bytes, at % block_bytes);
            let block = self.block(chunk, place, index)?;
            let (now, rest) = to.split_at_mut((block_bytes - within).min(to.len()));
            now.copy_from_slice(&block[within..within + now.len()]);
            at += now.len();
            to = rest;
        }
        Ok(())
    }

    fn block(&self, chunk: u64, place: &ChunkPlace, index: usize) -> Result<Arc<Vec<u8>>> {
        if let Some(block) = self.cache.lock().blocks.get(&(chunk, index)) {
            return Ok(block.clone());
        }
        let (data, count) = (usize::from(place.data), place.blocks.len());
        // The block itself if it is whole, else any others that suffice; all blocks of a chunk
        // that is copied are equal.
        let mut found = vec![];
        for other in std::iter::once(index).chain((0..count).filter(|other| *other != index)) {
            if let Some(body) = self.stored(chunk, place, other) {
                found.push((other, body));
                if other == index || found.len() == data {
                    break;
                }
            }
        }
        let body = restore(index, data, count - data, &found).ok_or_else(|| {
            let disks = place.blocks.iter().map(|(disk, _)| self.disk_name(*disk));
            let (disks, segment) = (disks.collect::<Vec<_>>().join(", "), place.segment);
            let left = found.len();
            let error =
                format!("chunk {chunk} of the log is damaged: {left} of its blocks are left");
            let error = Error::corrupt(format!("{error}, and it needs {data}"));
            error.at(format!("segment {segment} on disks {disks}")).remedy("mount missing disks")
        })?;
        let body = Arc::new(body);
        self.cache.lock().add((chunk, index), body.clone());
        Ok(body)
    }

    fn disk_name(&self, disk: u32) -> &str {
        self.disks.0.get(disk as usize).map_or("missing", |disk| disk.name.as_str())
    }

    /// A block as it is stored, if it is whole.
    fn stored(&self, chunk: u64, place: &ChunkPlace, index: usize) -> Option<Vec<u8>> {
        let (disk, offset) = place.blocks[index];
        let file = self.file(disk, place.segment)?;
        let mut bytes = vec![0; HEADER_BYTES + place.block_bytes()];
        file.read_exact_at(&mut bytes, offset).ok()?;
        let header = BlockHeader::decode(&bytes)?;
        let is_it = (header.volume, header.chunk) == (self.volume, chunk)
            && usize::from(header.index) == index;
        let body = bytes.split_off(HEADER_BYTES);
        (is_it && crc(&body) == header.block_crc).then_some(body)
    }

    fn file(&self, disk: u32, segment: u64) -> Option<Arc<File>> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(&(disk, segment)) {
            return Some(file.clone());
        }
        let file = Arc::new(self.disks.open(disk, segment).ok()?);
        if files.len() >= FILES_MAX && !self.holds.load(Relaxed) {
            files.clear();
        }
        files.insert((disk, segment), file.clone());
        Some(file)
    }

    /// Opens all files of segments, so that they can be read after they are removed. Returns
    /// whether each block of the places has a file.
    pub fn hold<'a>(&self, places: impl Iterator<Item = &'a ChunkPlace>) -> bool {
        self.holds.store(true, Relaxed);
        let mut is_whole = true;
        let mut files = self.files.lock();
        for place in places {
            for (disk, _) in &place.blocks {
                let key = (*disk, place.segment);
                if let Entry::Vacant(missing) = files.entry(key) {
                    match self.disks.open(key.0, key.1) {
                        Ok(file) => {
                            missing.insert(Arc::new(file));
                        }
                        Err(_) => is_whole = false,
                    }
                }
            }
        }
        is_whole
    }

    /// Closes the files of a segment that has been removed.
    pub fn forget(&self, segment: u64) {
        self.files.lock().retain(|(_, open), _| *open != segment);
    }

    /// All whole blocks of a segment.
    pub fn scan(&self, segment: u64) -> Result<Vec<FoundBlock>> {
        let mut found = vec![];
        for disk in 0..self.disks.0.len() as u32 {
            let Some(path) = self.disks.path(disk, segment).filter(|path| path.exists()) else {
                continue;
            };
            // A disk that cannot be read is as one that is lost.
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let blocks = find_blocks(&bytes).into_iter();
            let blocks = blocks.filter(|(header, _)| header.volume == self.volume);
            found.extend(blocks.map(|(header, at)| {
                let start = at + HEADER_BYTES;
                let body = bytes[start..start + header.block_bytes as usize].to_vec();
                FoundBlock { header, disk, offset: at as u64, body }
            }));
        }
        Ok(found)
    }
}

impl ChunkBlocks {
    fn add(&mut self, key: (u64, usize), block: Arc<Vec<u8>>) {
        self.bytes += block.len();
        if let Some(known) = self.blocks.insert(key, block) {
            self.bytes -= known.len();
        } else {
            self.order.push_back(key);
        }
        while self.bytes > CACHE_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(block) = self.blocks.remove(&oldest) {
                self.bytes -= block.len();
            }
        }
    }
}
