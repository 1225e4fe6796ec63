//! A prepared version of a collection: its segments are in place, its manifest is made, and its
//! name is reserved.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalog::{Manifest, SegmentEntry};

/// A version that is ready to be published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewVersion {
    pub(super) home: PathBuf,
    /// A folder, or the URL of an object store.
    pub(super) catalog: String,
    /// The manifest to put into the catalog.
    pub manifest: Manifest,
    pub(super) reservation: Option<PathBuf>,
}

impl NewVersion {
    /// Whether files below this folder, relative to their disk's folder, are its segments.
    pub fn has(&self, folder: &str) -> bool {
        let mut copies = self.manifest.segments.iter().flat_map(SegmentEntry::copies);
        copies.any(|copy| Path::new(&copy.path).starts_with(folder))
    }
}
