//! Collections: named sets of records on disks, read unordered or as a stream.
//!
//! A collection is written in a staging folder and appears by its manifest alone (`staged.rs`);
//! what a dead process has staged is reclaimed by the next start (`reclaim.rs`).

mod plain;
mod reclaim;
mod staged;

use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Error, Kind, Result};
use serde::Serialize;

use crate::catalog::{Catalog, Manifest, SegmentEntry};
use crate::disk::{DiskFile, named_disk};
use crate::segment::{Claim, Damage, ReadOptions, Reader, Segment, toc_path};
pub use plain::{plain_batch, plain_schema};
pub use reclaim::reclaim;
pub use staged::{CreateOptions, NewCollection, NewSegment};

/// What one claim takes of a collection that is read unordered.
const CLAIM_BYTES: u64 = 4 << 20;
/// Blocks of a run when a collection is read as a stream.
const RUN_BLOCKS: usize = 8;

/// A version of a collection, open. Its files stay readable when a newer version replaces it.
#[derive(Debug)]
pub struct Collection {
    manifest: Manifest,
    schema: SchemaRef,
    segments: Vec<Arc<Segment>>,
    _files: Vec<Arc<DiskFile>>,
}

impl Collection {
    /// Opens the newest version. Fails with `Corrupt` if its manifest, or a table of contents, is
    /// not what was written.
    pub fn open(home: &Path, name: &str) -> Result<Collection> {
        let manifest = Catalog::of(home)?.describe(name)?;
        let place = |error: Error| error.at(format!("collection {name}"));
        Collection::open_version(home, manifest).map_err(place)
    }

    fn open_version(home: &Path, manifest: Manifest) -> Result<Collection> {
        let schema = manifest.arrow_schema()?;
        let segments = manifest.segments.iter().map(|entry| open_segment(home, entry));
        let segments = segments.collect::<Result<Vec<_>>>()?;
        if let Some(other) = segments.iter().find(|segment| segment.schema() != &schema) {
            return Err(Error::corrupt("a segment has another schema").at(other.path().display()));
        }
        let files = segments.iter().map(|segment| segment.file()).collect::<Result<_>>()?;
        Ok(Collection { manifest, schema, segments, _files: files })
    }

    /// Everything the catalog knows of it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The whole collection, to be claimed piece by piece by any number of readers; as numbered
    /// runs in the order written if `as_stream`.
    pub fn claims(&self, as_stream: bool) -> Arc<Claims> {
        Arc::new(Claims { segments: self.segments.clone(), as_stream, next: Mutex::default() })
    }

    /// Reads all of it on one thread, in the order written.
    pub fn read(&self, options: ReadOptions) -> Reader {
        self.claims(true).reader(options)
    }
}

/// What of a collection nobody has begun to read. Whoever is free claims the next piece.
#[derive(Debug)]
pub struct Claims {
    segments: Vec<Arc<Segment>>,
    as_stream: bool,
    next: Mutex<Next>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Next {
    segment: usize,
    block: usize,
    run: u64,
}

impl Claims {
    /// The next piece; `None` when all have been claimed.
    pub fn claim(&self) -> Option<Claim> {
        let mut next = self.next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while self.segments.get(next.segment)?.blocks().len() == next.block {
            (next.segment, next.block) = (next.segment + 1, 0);
        }
        let segment = &self.segments[next.segment];
        let rest = &segment.blocks()[next.block..];
        let blocks = if self.as_stream {
            rest.len().min(RUN_BLOCKS)
        } else {
            let fits = rest.iter().take_while(|block| block.end() - rest[0].offset <= CLAIM_BYTES);
            fits.count().max(1)
        };
        let blocks = next.block..next.block + blocks;
        let claim = Claim { segment: segment.clone(), blocks: blocks.clone(), run: next.run };
        (next.block, next.run) = (blocks.end, next.run + 1);
        Some(claim)
    }

    /// A reader that claims piece by piece; its blocks say which run they are of.
    pub fn reader(self: &Arc<Self>, options: ReadOptions) -> Reader {
        let claims = self.clone();
        Reader::new(move || claims.claim(), options)
    }
}

fn open_segment(home: &Path, entry: &SegmentEntry) -> Result<Arc<Segment>> {
    let disk = named_disk(home, Some(&entry.disk))?;
    let path = disk.folder().join(&entry.path);
    let beside = toc_path(&path);
    let failed = |path: &Path, error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(format!("{} is missing", path.display()))
            .remedy(format!("is disk `{}` in its place? See disks.json", entry.disk)),
        _ => Error::os("read", path, error),
    };
    let toc = std::fs::read(&beside).map_err(|error| failed(&beside, &error))?;
    std::fs::metadata(&path).map_err(|error| failed(&path, &error))?;
    if crc_fast::crc32_iscsi(&toc) != entry.toc_crc {
        return Err(Error::corrupt("the table of contents is not the one that was written")
            .remedy("run `euphrates verify`")
            .at(beside.display()));
    }
    Segment::open_with(&disk, &path, &toc).map(Arc::new)
}

/// What a check of a collection found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Segments looked at.
    pub segments: usize,
    /// Blocks whose checksum is right.
    pub blocks_good: usize,
    /// Bytes read.
    pub bytes: u64,
    /// What is not as it was written.
    pub damages: Vec<Damage>,
}

/// Compares every byte of the newest version of a collection with its checksums: manifest, tables
/// of contents, blocks, footers. Fails if there is no such collection or its manifest is damaged;
/// any other damage is in the result.
pub fn verify(home: &Path, name: &str) -> Result<Verified> {
    let manifest = Catalog::of(home)?.describe(name)?;
    let mut verified = Verified { segments: manifest.segments.len(), ..Verified::default() };
    for entry in &manifest.segments {
        let found = open_segment(home, entry).and_then(|segment| {
            let damages = segment.verify()?;
            let bad = damages.iter().filter(|damage| damage.block.is_some()).count();
            verified.blocks_good += segment.blocks().len() - bad;
            verified.bytes += segment.bytes();
            Ok(damages)
        });
        match found {
            Ok(damages) => verified.damages.extend(damages),
            Err(error) if error.kind() == Kind::Corrupt => verified.damages.push(Damage {
                path: entry.path.clone().into(),
                block: None,
                what: error.message().to_string(),
            }),
            Err(error) => return Err(error.at(format!("collection {name}"))),
        }
    }
    Ok(verified)
}

/// Removes a collection: first from the catalog, so that it is gone at once, then its files.
pub fn remove(home: &Path, name: &str, run_id: &str) -> Result<()> {
    let catalog = Catalog::of(home)?;
    let manifest = catalog.describe(name)?;
    catalog.commit(&staged::tombstone(&manifest, run_id))?;
    staged::remove_files(home, &manifest);
    Ok(())
}
