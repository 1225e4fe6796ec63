//! Verification of a collection: compares every byte of every copy with its checksums.

use std::path::Path;
use std::sync::Arc;

use euphrates_flow::Result;
use serde::Serialize;

use super::copies::{damage, open_copy, read_toc};
use crate::catalog::{Catalog, CopyEntry, SegmentEntry};
use crate::segment::{Damage, Segment, Toc};
use euphrates_device::disk::Disks;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The number of segments that were checked.
    pub segments: usize,
    /// The number of copies of segments that were checked.
    pub copies: usize,
    /// Blocks whose checksum is right, over all copies.
    pub blocks_good: usize,
    /// Bytes read, over all copies.
    pub bytes: u64,
    /// The damages: all that differs from what was written.
    pub damages: Vec<Damage>,
}

/// A copy of a segment that has been checked.
pub(super) struct CheckedCopy {
    pub entry: CopyEntry,
    /// The copy, if its file exists.
    pub copy: Option<Arc<Segment>>,
    /// Whether the bytes outside all blocks are as written.
    pub has_rest: bool,
    pub damages: Vec<Damage>,
}

impl CheckedCopy {
    /// Whether this block is as written.
    pub fn has(&self, block: usize) -> bool {
        self.copy.is_some() && !self.damages.iter().any(|damage| damage.block == Some(block))
    }

    fn look(&mut self, disks: &Disks, toc: &Arc<Toc>) {
        let opened = open_copy(disks, toc, &self.entry);
        match opened.and_then(|(segment, _)| Ok((segment.verify()?, segment))) {
            Ok((damages, segment)) => {
                self.has_rest = damages.iter().all(|damage| damage.block.is_some());
                self.damages.extend(damages);
                self.copy = Some(segment);
            }
            Err(error) => self.damages = vec![damage(&self.entry, &error)],
        }
    }
}

/// Compares every byte of every copy of the newest version of a collection with its checksums:
/// manifests, tables of contents, blocks, footers. Fails if there is no such collection, or none of
/// its manifests can be read; any other damage is in the result.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_store::collection::{CreateOptions, NewCollection, verify};
///
/// let home = tempfile::tempdir()?;
/// let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
/// let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
/// NewCollection::create(home.path(), "empty", &schema, options)?.commit(None)?;
/// assert!(verify(home.path(), "empty")?.damages.is_empty());
/// assert!(verify(home.path(), "none").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(home: &Path, name: &str) -> Result<Verified> {
    let catalog = Catalog::of(home)?;
    let found = catalog.find_existing(name)?;
    let damages = catalog.damages(&found)?;
    let manifest = found.current()?;
    let disks = Disks::of(home)?;
    let segments = manifest.segments.len();
    let mut verified = Verified { segments, damages, ..Verified::default() };
    for entry in &manifest.segments {
        for checked in check(&disks, entry).1 {
            verified.copies += 1;
            if let Some(copy) = &checked.copy {
                let good = (0..copy.blocks().len()).filter(|&block| checked.has(block)).count();
                verified.blocks_good += good;
                verified.bytes += copy.bytes();
            }
            verified.damages.extend(checked.damages);
        }
    }
    Ok(verified)
}

/// Checks every copy of a segment. A copy that cannot be read counts as damaged.
pub(super) fn check(disks: &Disks, entry: &SegmentEntry) -> (Option<Arc<Toc>>, Vec<CheckedCopy>) {
    let copies = entry.copies();
    let tocs: Vec<Result<Toc>> = copies.iter().map(|copy| read_toc(disks, entry, copy)).collect();
    let toc = tocs.iter().flatten().next().cloned().map(Arc::new);
    let checked = copies.into_iter().zip(tocs).map(|(entry, own)| {
        let damages = own.err().map(|error| damage(&entry, &error)).into_iter().collect();
        let mut checked = CheckedCopy { entry, copy: None, has_rest: false, damages };
        if let Some(toc) = &toc {
            checked.look(disks, toc);
        }
        checked
    });
    let checked = checked.collect();
    (toc, checked)
}
