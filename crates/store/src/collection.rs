//! Collections: named sets of records on disks, read unordered or as a stream.
//!
//! A collection is written to staging folders, and publishing its manifest makes it visible
//! (`staged.rs`); the next start reclaims what dead processes have staged (`reclaim.rs`). A
//! parallel collection lies on several disks, a mirrored one has copies of each segment (River
//! 2.2.3): `plan.rs` places them, `segments.rs` spreads blocks over them, `copies.rs` finds them
//! again.

mod copies;
mod create_options;
mod name_reservation;
mod new_version;
mod plain;
mod plan;
mod read_options;
mod reading;
mod reclaim;
mod repair;
mod segments;
mod staged;
mod superseded;
mod verify;
mod version;
mod version_publication;
mod work_units;

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Error, Result};

use crate::catalog::{Catalog, Manifest};
use crate::segment::Segment;
pub use copies::SegmentCopies;
pub use create_options::CreateOptions;
use euphrates_device::disk::Disks;
use euphrates_device::durable::Durability;
pub(crate) use name_reservation::NameReservation;
pub use new_version::NewVersion;
pub use plain::{plain_batch, plain_schema};
pub use plan::SegmentPlan;
pub use read_options::CollectionReadOptions;
pub use reading::{CollectionReader, CollectionScan};
pub(crate) use reclaim::{CommitIntent, SESSIONS, is_session_open, reclaim_disk, remove_segments};
pub use reclaim::{reclaim, reclaim_at_start, reclaim_names, reclaim_superseded};
pub use repair::{Repaired, repair};
pub use segments::NewSegments;
pub use staged::NewCollection;
pub(crate) use staged::{attempt, final_folder_of, segments_folder};
use superseded::Depth;
pub use verify::{Verified, verify};
pub use version::{HeldVersion, StagedSegments, prepare_version};
pub(crate) use version::{expect_durable, now};
pub(crate) use work_units::RUN_BLOCKS;
pub use work_units::{ClaimCounter, CollectionUnits};

/// An open version of a collection. Its files stay readable when a newer version replaces it.
#[derive(Debug)]
pub struct Collection {
    manifest: Manifest,
    schema: SchemaRef,
    copies: Vec<SegmentCopies>,
    warning: Option<String>,
}

impl Collection {
    /// Opens the newest version. If its manifest is damaged and has no good copy, opens the last
    /// earlier version whose segments exist, and sets `warning`. Fails with `Corrupt` if a
    /// manifest, or a table of contents, is damaged and has no good mirror.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use euphrates_flow::Cancel;
    /// use euphrates_store::collection::{Collection, CreateOptions, NewCollection};
    /// use euphrates_store::segment::BlockReadOptions;
    ///
    /// let home = tempfile::tempdir()?;
    /// let column: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
    /// let batch = RecordBatch::try_from_iter([("n", column)])?;
    ///
    /// let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
    /// let new = NewCollection::create(home.path(), "numbers", &batch.schema(), options)?;
    /// let segment = new.begin_segment()?;
    /// segment.append(None, &segment.encoder()?.encode(&batch)?, &Cancel::default())?;
    /// new.add(segment)?;
    /// new.commit(None)?;
    ///
    /// let collection = Collection::open(home.path(), "numbers")?;
    /// assert_eq!(collection.manifest().rows, 3);
    /// let batches: Vec<RecordBatch> =
    ///     collection.read(BlockReadOptions::default())?.collect::<Result<_, _>>()?;
    /// assert_eq!(batches, [batch]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(home: &Path, name: &str) -> Result<Collection> {
        let found = Catalog::of(home)?.find_existing(name)?;
        let warning = found.warning();
        let place = |error: Error| error.at(format!("collection {name}"));
        Collection::open_version(home, found.current()?, warning).map_err(place)
    }

    fn open_version(
        home: &Path,
        manifest: Manifest,
        warning: Option<String>,
    ) -> Result<Collection> {
        let schema = manifest.arrow_schema()?;
        let disks = Disks::of(home)?;
        let owners = disks.owners();
        let copies =
            manifest.segments.iter().map(|entry| SegmentCopies::open(&disks, &owners, entry));
        let copies = copies.collect::<Result<Vec<_>>>()?;
        if let Some(other) = copies.iter().find(|copies| copies.toc.schema != schema) {
            return Err(Error::corrupt("a segment has another schema").at(other.path()));
        }
        Ok(Collection { manifest, schema, copies, warning })
    }

    /// A warning for readers if the manifest is damaged, which names what is read instead.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The description of this version in the catalog.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The segments in order, each as its first copy that exists. Fails if this process does not
    /// see a segment because another worker has it.
    pub fn segments(&self) -> Result<Vec<Arc<Segment>>> {
        self.copies.iter().map(|copies| copies.first().cloned()).collect()
    }

    /// The same version, of which only some blocks are read: for each segment, a flag for each of
    /// its blocks. Processes that share the reading must keep the same blocks.
    pub fn keeping(self, is_kept: &[Vec<bool>]) -> Collection {
        let copies = self.copies.into_iter().zip(is_kept);
        let copies = copies.map(|(copies, is_kept)| copies.keeping(is_kept)).collect();
        Collection { copies, ..self }
    }

    /// The number of blocks in all segments, without those that are left out.
    pub fn blocks(&self) -> usize {
        self.copies.iter().map(|copies| copies.toc.blocks.len()).sum()
    }

    /// The number of blocks in all segments.
    pub fn blocks_all(&self) -> usize {
        self.copies.iter().map(|copies| copies.toc.blocks_in_segment()).sum()
    }

    /// The segments with all their copies.
    pub fn copies(&self) -> &[SegmentCopies] {
        &self.copies
    }

    /// Whether readers claim it in pieces: it lies on one disk, and for a stream its segments are
    /// consecutive.
    pub fn has_work_units(&self, as_stream: bool) -> bool {
        self.manifest.disks().len() <= 1 && !(as_stream && self.manifest.interleaved)
    }

    /// Claims of the whole collection in pieces, for any number of readers; with `as_stream`, as
    /// numbered runs in the order of writing. Only for collections on one disk: the caller must
    /// check [`Collection::has_work_units`], otherwise the order is wrong.
    pub fn claims(&self, as_stream: bool) -> Result<Arc<CollectionUnits>> {
        Ok(CollectionUnits::new(&self.segments()?, as_stream))
    }
}

/// Removes a collection, which may be damaged: first from the catalog, so that it is gone at once,
/// then its files.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_store::collection::{Collection, CreateOptions, NewCollection, remove};
///
/// let home = tempfile::tempdir()?;
/// let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
/// let options = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
/// NewCollection::create(home.path(), "empty", &schema, options)?.commit(None)?;
/// remove(home.path(), "empty", "run 2")?;
/// assert!(Collection::open(home.path(), "empty").is_err());
/// assert!(remove(home.path(), "empty", "run 3").is_err(), "it is gone");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remove(home: &Path, name: &str, run_id: &str) -> Result<()> {
    let catalog = Catalog::of(home)?;
    catalog.find_existing(name)?;
    remove_found(home, &catalog, name, run_id)
}

/// Removes a collection or a striped file that exists.
pub(crate) fn remove_found(home: &Path, catalog: &Catalog, name: &str, run_id: &str) -> Result<()> {
    let named = NameReservation::take(catalog, name, run_id, None)?;
    remove_named(home, catalog, name, run_id, &named)
}

/// As `remove_found`, where the caller has reserved the name. Ends the reservation.
pub(crate) fn remove_named(
    home: &Path,
    catalog: &Catalog,
    name: &str,
    run_id: &str,
    named: &NameReservation,
) -> Result<()> {
    let removed = publish_tombstone(catalog, name, run_id);
    named.release();
    let Some((tombstone, durability)) = removed? else { return Ok(()) };
    version::expect_durable(durability, &format!("the removal of {}", tombstone.title()))?;
    superseded::sweep(home, catalog, &tombstone, Depth::All);
    Ok(())
}

/// Publishes the version that records a collection's removal.
fn publish_tombstone(
    catalog: &Catalog,
    name: &str,
    run_id: &str,
) -> Result<Option<(Manifest, Durability)>> {
    let Some(before) = catalog.predecessor_of_next(name)? else { return Ok(None) };
    let tombstone = version::tombstone(&before, run_id);
    let durability = version_publication::commit_checked(catalog, &tombstone)?;
    Ok(Some((tombstone, durability)))
}
