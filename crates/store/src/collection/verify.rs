//! Checking a collection: every byte of every copy.

use std::path::Path;
use std::sync::Arc;

use euphrates_flow::Result;
use serde::Serialize;

use super::copies::{damage, open_copy, read_toc};
use crate::catalog::{Catalog, CopyEntry, SegmentEntry};
use crate::segment::{Damage, Segment, Toc};
use euphrates_device::disk::Disks;

/// What a check of a collection found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Segments looked at.
    pub segments: usize,
    /// Copies of segments looked at.
    pub copies: usize,
    /// Blocks whose checksum is right, in all copies.
    pub blocks_good: usize,
    /// Bytes read.
    pub bytes: u64,
    /// What is not as it was written.
    pub damages: Vec<Damage>,
}

/// One copy of a segment, looked at.
pub(super) struct Checked {
    pub entry: CopyEntry,
    /// If there is a file.
    pub copy: Option<Arc<Segment>>,
    /// Whether what is in no block is as it was written.
    pub has_rest: bool,
    pub damages: Vec<Damage>,
}

impl Checked {
    /// Whether this block is as it was written.
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
/// manifests, tables of contents, blocks, footers. Fails if there is no such collection, or no
/// manifest of it that can be read; any other damage is in the result.
pub fn verify(home: &Path, name: &str) -> Result<Verified> {
    let catalog = Catalog::of(home)?;
    let found = catalog.lookup(name)?;
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

/// Looks at every copy of a segment. One that cannot be read is as good as damaged.
pub(super) fn check(disks: &Disks, entry: &SegmentEntry) -> (Option<Arc<Toc>>, Vec<Checked>) {
    let copies = entry.copies();
    let tocs: Vec<Result<Toc>> = copies.iter().map(|copy| read_toc(disks, entry, copy)).collect();
    let toc = tocs.iter().flatten().next().cloned().map(Arc::new);
    let checked = copies.into_iter().zip(tocs).map(|(entry, own)| {
        let damages = own.err().map(|error| damage(&entry, &error)).into_iter().collect();
        let mut checked = Checked { entry, copy: None, has_rest: false, damages };
        if let Some(toc) = &toc {
            checked.look(disks, toc);
        }
        checked
    });
    let checked = checked.collect();
    (toc, checked)
}
