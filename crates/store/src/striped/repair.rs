//! Repair of a striped file: restores damaged or lost blocks from the others of their stripes.
//!
//! No file is changed: restored blocks go to new segments, which one new version of the manifest
//! publishes. So an interrupted repair has no effect.

use std::path::Path;

use euphrates_flow::Result;
use serde::Serialize;

use super::single::SingleBlocks;
use super::verify::{BadBlock, check_blocks, lost_stripes, map_damages};
use super::writer::StripedWriter;
use crate::catalog::{Catalog, FoundCollection};
use crate::collection::{NameReservation, now};
use crate::segment::Damage;

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepairedFile {
    /// Blocks that were checked.
    pub blocks: usize,
    /// The damages that the repair has removed.
    pub repaired_damages: Vec<Damage>,
    /// Blocks that were restored.
    pub restored: usize,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// The damages in stripes that cannot be restored.
    pub lost: Vec<Damage>,
}

/// Restores the damaged or lost blocks of the newest version of a striped file, and the copies of
/// its map and manifest. Restored blocks go to the disks of the file, or to `more` disks where too
/// few are left. Fails, and changes nothing, if no disk can take a block or another writer was
/// faster.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedWriter, repair_file};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// StripedWriter::create(home.path(), "empty", options)?.commit()?;
/// let repaired = repair_file(home.path(), "empty", &[], "run 2")?;
/// assert!(repaired.restored == 0 && repaired.lost.is_empty(), "nothing is damaged");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair_file(home: &Path, name: &str, more: &[String], run_id: &str) -> Result<RepairedFile> {
    let catalog = Catalog::of(home)?;
    let found = catalog.find_file(name)?;
    let mut repaired =
        RepairedFile { repaired_damages: catalog.damages(&found)?, ..RepairedFile::default() };
    repair_manifests(&catalog, &found, run_id)?;
    let mut writer = StripedWriter::update_on(home, name, run_id, more)?;
    let manifest = writer.before.clone().expect("it is an update");
    let maps = map_damages(home, &manifest, &writer.version)?;
    let checked = check_blocks(&writer.version)?;
    let lost = lost_stripes(&writer.version, &checked.bad);
    repaired.blocks = checked.good + checked.bad.len();
    let (lost, bad): (Vec<BadBlock>, Vec<BadBlock>) =
        checked.bad.into_iter().partition(|bad| lost.binary_search(&bad.stripe).is_ok());
    repaired.lost = lost.into_iter().map(|bad| bad.damage).collect();
    let is_map_damaged = !maps.is_empty();
    repaired.repaired_damages.extend(maps);
    let singles = SingleBlocks::default();
    for stripe in bad.chunk_by(|one, other| one.stripe == other.stripe) {
        let places: Vec<usize> = stripe.iter().map(|bad| bad.place).collect();
        writer.restore(&singles, stripe[0].stripe, &places)?;
        let block_bytes = writer.version.map.stripes[stripe[0].stripe].block_bytes;
        repaired.bytes += u64::from(block_bytes) * places.len() as u64;
        repaired.restored += places.len();
    }
    repaired.repaired_damages.extend(bad.into_iter().map(|bad| bad.damage));
    if repaired.restored > 0 || is_map_damaged {
        writer.commit()?;
    }
    // A replacement of a lost disk may lack its copy of the manifest.
    catalog.recover(name)?;
    Ok(repaired)
}

/// Repairs the manifests first, which list what to check.
fn repair_manifests(catalog: &Catalog, found: &FoundCollection, run_id: &str) -> Result<()> {
    let named = NameReservation::take(catalog, &found.name, run_id, None)?;
    let done = catalog.repair_manifests(found, run_id, now());
    named.release();
    done
}
