//! The blocks of a file on its disks, as requests to them.

use std::sync::Arc;

use euphrates_device::disk::Disk;
use euphrates_flow::{Kind, Result};

use super::version::StripedVersion;
use crate::declustering::{BlockRefused, BlockRequest, BlockSource};
use crate::segment::Damage;

impl StripedVersion {
    /// The request for a block of a stripe, or the reason why there is none.
    pub fn request(&self, stripe: usize, place: usize) -> Result<BlockRequest, BlockRefused> {
        let entry = &self.map.stripes[stripe];
        let block = &entry.blocks[place];
        let segment = &self.segments[block.segment as usize];
        let Some(file) = segment.file.clone() else {
            let (path, disk) = (&segment.entry.path, &segment.entry.disk);
            let what = format!("{path} on disk {disk} is missing");
            return Err(BlockRefused { what, is_damaged: true });
        };
        Ok(BlockRequest {
            file,
            offset: block.offset,
            length: entry.block_bytes as usize,
            path: segment.path,
            crc: block.crc,
        })
    }

    /// The disk of a block, by number, and the disk itself.
    pub fn disk_at(&self, stripe: usize, place: usize) -> (usize, Option<&Disk>) {
        let block = &self.map.stripes[stripe].blocks[place];
        let number = self.segments[block.segment as usize].disk;
        (number, self.disks[number].disk.as_ref())
    }

    /// The damage of a block.
    pub fn block_damage(&self, stripe: usize, place: usize, what: String) -> Damage {
        let block = &self.map.stripes[stripe].blocks[place];
        let segment = &self.segments[block.segment as usize].entry;
        let (disk, path) = (segment.disk.clone(), segment.path.clone().into());
        let number = (block.offset / self.layout.block_bytes) as usize;
        Damage { disk, path, block: Some(number), what: format!("{what} (stripe {stripe})") }
    }
}

/// The stripes of a scan, in the order of their numbers there, as one disk serves them.
pub(super) struct StripesOnDisk {
    pub version: Arc<StripedVersion>,
    pub stripes: Arc<Vec<usize>>,
    pub disk: usize,
}

impl BlockSource for StripesOnDisk {
    fn request(&self, block: u32) -> Result<BlockRequest, BlockRefused> {
        let stripe = self.stripes[block as usize];
        let disks = self.version.disks_of(&self.version.map.stripes[stripe]);
        let place = disks.iter().position(|&disk| disk == self.disk);
        let place = place.expect("only blocks of this disk are claimed here");
        self.version.request(stripe, place)
    }
}

/// Why a read has failed.
pub(super) fn refused(error: &euphrates_flow::Error) -> BlockRefused {
    let is_damaged = error.kind() == Kind::Corrupt;
    BlockRefused { what: error.message().to_string(), is_damaged }
}
