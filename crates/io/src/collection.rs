//! Collections: named sets of records on disks, read unordered or as a stream.
//!
//! A collection is written in staging folders and appears by its manifest alone (`staged.rs`);
//! what a dead process has staged is reclaimed by the next start (`reclaim.rs`). A parallel
//! collection lies on several disks, a mirrored one has copies of each segment (River 2.2.3):
//! `plan.rs` says where, `segments.rs` deals blocks to them, `copies.rs` finds them again.

mod claims;
mod copies;
mod plain;
mod plan;
mod reading;
mod reclaim;
mod repair;
mod segments;
mod staged;
mod verify;

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Cancel, Error, Result};

use crate::catalog::{Catalog, Manifest};
use crate::segment::{Damage, ReadOptions, Segment};
pub use claims::Claims;
pub(crate) use claims::RUN_BLOCKS;
pub use copies::Copies;
pub use plain::{plain_batch, plain_schema};
pub use plan::Plan;
pub use reading::{CollectionReader, ReadAs, Reading};
pub use reclaim::reclaim;
pub use repair::{Repaired, repair};
pub use segments::NewSegments;
pub use staged::{CreateOptions, NewCollection};
pub use verify::{Verified, verify};

/// A version of a collection, open. Its files stay readable when a newer version replaces it.
#[derive(Debug)]
pub struct Collection {
    manifest: Manifest,
    schema: SchemaRef,
    segments: Vec<Arc<Segment>>,
    copies: Vec<Copies>,
}

impl Collection {
    /// Opens the newest version. Fails with `Corrupt` if its manifest, or a table of contents, is
    /// not what was written, and there is no mirror of it.
    pub fn open(home: &Path, name: &str) -> Result<Collection> {
        let manifest = Catalog::of(home)?.describe(name)?;
        let place = |error: Error| error.at(format!("collection {name}"));
        Collection::open_version(home, manifest).map_err(place)
    }

    fn open_version(home: &Path, manifest: Manifest) -> Result<Collection> {
        let schema = manifest.arrow_schema()?;
        let copies = manifest.segments.iter().map(|entry| Copies::open(home, entry));
        let copies = copies.collect::<Result<Vec<_>>>()?;
        let segments: Vec<_> = copies.iter().map(|copies| copies.first().clone()).collect();
        if let Some(other) = segments.iter().find(|segment| segment.schema() != &schema) {
            return Err(Error::corrupt("a segment has another schema").at(other.path().display()));
        }
        Ok(Collection { manifest, schema, segments, copies })
    }

    /// Everything the catalog knows of it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The segments, in order: of each the first copy that is there.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The segments with all their copies.
    pub fn copies(&self) -> &[Copies] {
        &self.copies
    }

    /// What was found wrong with copies when they were opened.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.copies.iter().flat_map(Copies::damages)
    }

    /// The whole collection, to be claimed piece by piece by any number of readers; as numbered
    /// runs in the order written if `as_stream`. For collections on one disk.
    pub fn claims(&self, as_stream: bool) -> Arc<Claims> {
        Claims::new(self.segments.clone(), as_stream)
    }

    /// Reads all of it on one thread, in the order written.
    pub fn read(&self, options: ReadOptions) -> Result<CollectionReader> {
        let how = ReadAs { is_stream: true, options, ..ReadAs::default() };
        Ok(self.reading(how)?.reader(&Arc::new(Cancel::default())))
    }

    /// All of it, to be shared by any number of readers.
    pub fn reading(&self, how: ReadAs) -> Result<Arc<Reading>> {
        Reading::new(self, how).map(Arc::new)
    }
}

/// Removes a collection: first from the catalog, so that it is gone at once, then its files.
pub fn remove(home: &Path, name: &str, run_id: &str) -> Result<()> {
    let catalog = Catalog::of(home)?;
    let manifest = catalog.describe(name)?;
    catalog.commit(&staged::tombstone(&manifest, run_id))?;
    staged::remove_files(home, &manifest, &Default::default());
    Ok(())
}
