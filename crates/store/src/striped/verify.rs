//! Verification of a striped file: compares every block, and every copy of the map and the
//! manifest, with its checksum.

use std::collections::VecDeque;
use std::path::Path;

use euphrates_device::disk::{Disks, at_once};
use euphrates_flow::Result;
use euphrates_flow::sync::Mutex;
use serde::Serialize;

use super::version::newest::{NewestVersion, of_newest};
use super::version::{StripedVersion, map_damage};
use crate::catalog::{Catalog, FoundCollection, Manifest};
use crate::declustering::{BlockRefused, BlockRequest};
use crate::segment::{Damage, expect_crc};

/// Blocks that are read ahead from each disk.
const AHEAD: usize = 4;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifiedFile {
    /// Stripes that were checked.
    pub stripes: usize,
    /// Blocks whose checksum is right, parity included.
    pub blocks_good: usize,
    /// Bytes read.
    pub bytes: u64,
    /// The damages: all that differs from what was written.
    pub damages: Vec<Damage>,
    /// Stripes that cannot be restored.
    pub lost_stripes: usize,
}

/// A block that cannot be read as it was written.
#[derive(Clone, Debug)]
pub(super) struct BadBlock {
    pub stripe: usize,
    pub place: usize,
    pub damage: Damage,
}

/// What reading all blocks of a version has found.
#[derive(Debug, Default)]
pub(super) struct CheckedBlocks {
    pub good: usize,
    pub bytes: u64,
    /// In order of stripe and place.
    pub bad: Vec<BadBlock>,
}

/// Compares every byte of the newest version of a striped file with its checksums. Fails if there
/// is no such file, or no copy of its map can be read; any other damage is in the result.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedWriter, verify_file};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// let mut writer = StripedWriter::create(home.path(), "zeros", options)?;
/// writer.write_at(0, &[0; 100])?;
/// writer.commit()?;
/// let verified = verify_file(home.path(), "zeros")?;
/// assert_eq!((verified.blocks_good, verified.damages.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify_file(home: &Path, name: &str) -> Result<VerifiedFile> {
    let verify = |catalog: &Catalog, found: &FoundCollection| verify_found(home, catalog, found);
    of_newest(home, name, verify, |verified| verified.damages.is_empty())
}

fn verify_found(home: &Path, catalog: &Catalog, found: &FoundCollection) -> Result<VerifiedFile> {
    let mut damages = catalog.damages(found)?;
    let NewestVersion { manifest, version, .. } =
        NewestVersion::open_found(home, &found.name, found)?;
    damages.extend(map_damages(home, &manifest, &version)?);
    let checked = check_blocks(&version)?;
    let stripes = version.map.stripes.len();
    let lost_stripes = lost_stripes(&version, &checked.bad).len();
    damages.extend(checked.bad.into_iter().map(|bad| bad.damage));
    let (blocks_good, bytes) = (checked.good, checked.bytes);
    Ok(VerifiedFile { stripes, blocks_good, bytes, damages, lost_stripes })
}

/// The damages of the copies of the map.
pub(super) fn map_damages(
    home: &Path,
    manifest: &Manifest,
    version: &StripedVersion,
) -> Result<Vec<Damage>> {
    let (disks, segments) = (Disks::of(home)?, manifest.segments.len() - 1);
    let entry = &manifest.segments[0];
    let copies = entry.copies().into_iter();
    let damages = copies.filter_map(|copy| {
        let error = version.read_map_copy(&disks, entry, &copy, segments).err()?;
        Some(map_damage(&copy, &error))
    });
    Ok(damages.collect())
}

/// The stripes of which more blocks are bad than parity restores, in order.
pub(super) fn lost_stripes(version: &StripedVersion, bad: &[BadBlock]) -> Vec<usize> {
    let parts = bad.chunk_by(|one, other| one.stripe == other.stripe);
    let lost = parts.filter(|part| part.len() > version.layout.parity);
    lost.map(|part| part[0].stripe).collect()
}

/// Reads every block, from all disks at once.
pub(super) fn check_blocks(version: &StripedVersion) -> Result<CheckedBlocks> {
    let mut of_disks: Vec<Vec<(u32, u64, usize, usize)>> = vec![vec![]; version.disks.len()];
    for (stripe, entry) in version.map.stripes.iter().enumerate() {
        for (place, block) in entry.blocks.iter().enumerate() {
            let disk = version.segments[block.segment as usize].disk;
            of_disks[disk].push((block.segment, block.offset, stripe, place));
        }
    }
    let all = Mutex::new(CheckedBlocks::default());
    at_once(of_disks.into_iter().filter(|blocks| !blocks.is_empty()), |mut blocks| {
        blocks.sort_unstable();
        let mut checked = CheckedBlocks::default();
        let mut reads = VecDeque::new();
        for (_, _, stripe, place) in blocks {
            reads.push_back((stripe, place, begin(version, stripe, place)));
            if reads.len() > AHEAD {
                checked.on_read(version, reads.pop_front());
            }
        }
        while !reads.is_empty() {
            checked.on_read(version, reads.pop_front());
        }
        let mut all = all.lock();
        all.good += checked.good;
        all.bytes += checked.bytes;
        all.bad.append(&mut checked.bad);
        Ok(())
    })?;
    let mut all = all.into_inner();
    all.bad.sort_by_key(|bad| (bad.stripe, bad.place));
    Ok(all)
}

type BlockCheck = Box<dyn FnOnce() -> Result<u64, String>>;

/// Begins to read a block, and returns what waits for it and checks it.
fn begin(version: &StripedVersion, stripe: usize, place: usize) -> BlockCheck {
    let failed = |what: String| -> BlockCheck { Box::new(move || Err(what)) };
    let (_, disk) = version.disk_at(stripe, place);
    let (request, disk) = match (version.request(stripe, place), disk) {
        (Ok(request), Some(disk)) => (request, disk),
        (Err(BlockRefused { what, .. }), _) => return failed(what),
        (Ok(_), None) => return failed("its disk is missing".into()),
    };
    let BlockRequest { file, offset, length, path, crc } = request;
    match disk.read_at(&file, offset, length, path) {
        Ok(read) => Box::new(move || {
            let bytes = read.wait().and_then(|bytes| expect_crc(&bytes, crc).map(|()| bytes));
            bytes.map(|bytes| bytes.len() as u64).map_err(|error| error.message().to_string())
        }),
        Err(error) => failed(error.message().to_string()),
    }
}

impl CheckedBlocks {
    fn on_read(&mut self, version: &StripedVersion, read: Option<(usize, usize, BlockCheck)>) {
        let Some((stripe, place, wait)) = read else { return };
        match wait() {
            Ok(bytes) => {
                self.good += 1;
                self.bytes += bytes;
            }
            Err(what) => {
                let damage = version.block_damage(stripe, place, what);
                self.bad.push(BadBlock { stripe, place, damage });
            }
        }
    }
}
