//! The manifest of a new version: makes it from the staged segments, and reserves the collection's
//! name.
//!
//! The files of the version before are removed after that.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::datatypes::SchemaRef;
use euphrates_flow::Result;
use serde::{Deserialize, Serialize};

use super::create_options::CreateOptions;
use super::name_reservation::NameReservation;
use super::new_version::NewVersion;
use super::plan::SegmentPlan;
use crate::catalog::{Catalog, CopyLayout, Existence, Manifest, SegmentEntry, Statistics};
use euphrates_device::durable::Durability;
use euphrates_device::scratch::share;

/// The complete segments of one process and their statistics: its share of a new collection, for
/// the process that commits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StagedSegments {
    pub(super) segments: Vec<(usize, SegmentEntry)>,
    pub(super) is_interleaved: bool,
    pub(super) statistics: Statistics,
    /// The locks to hold until they are committed.
    pub(super) locks: Vec<PathBuf>,
}

/// The fields of a new version other than its segments.
pub(super) struct VersionHead<'a> {
    pub name: &'a str,
    /// The version that it follows.
    pub before: Option<&'a Manifest>,
    pub schema: &'a SchemaRef,
    pub layout: CopyLayout,
    pub run_id: &'a str,
}

impl VersionHead<'_> {
    pub fn manifest(
        &self,
        mut parts: StagedSegments,
        order: Option<Vec<String>>,
    ) -> Result<Manifest> {
        parts.segments.sort_by_key(|(number, _)| *number);
        let segments: Vec<SegmentEntry> =
            parts.segments.into_iter().map(|(_, entry)| entry).collect();
        let mut manifest = Manifest {
            name: self.name.to_string(),
            version: self.before.map_or(0, |before| before.version) + 1,
            life: Existence::Live,
            run_id: self.run_id.to_string(),
            created: now(),
            columns: vec![],
            schema: String::new(),
            layout: self.layout,
            ordered: order.is_some(),
            interleaved: order.is_some() && parts.is_interleaved,
            sort_keys: order.unwrap_or_default(),
            rows: segments.iter().map(|segment| segment.rows).sum(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments,
            statistics: parts.statistics.finish(self.schema),
            file: None,
        };
        manifest.set_schema(self.schema)?;
        Ok(manifest)
    }
}

/// The locks of a version that several processes have staged, held until it is published: no
/// process reclaims its segments then, even if their writers die.
#[derive(Debug)]
pub struct HeldVersion {
    named: NameReservation,
    _locks: Vec<Option<File>>,
}

impl HeldVersion {
    /// Ends the reservation, if it has not ended.
    pub fn release(self) {
        self.named.release();
    }
}

/// Prepares the next version of a collection, whose segments one or several processes have staged.
/// `before` is the version that it follows; fails if another writer was faster.
pub fn prepare_version(
    home: &Path,
    name: &str,
    before: Option<&Manifest>,
    schema: &SchemaRef,
    (options, order): (&CreateOptions, Option<Vec<String>>),
    staged: Vec<StagedSegments>,
) -> Result<(NewVersion, HeldVersion)> {
    let catalog = Catalog::of(home)?;
    let locks = staged.iter().flat_map(|parts| &parts.locks);
    let locks: Vec<Option<File>> = locks.map(|path| share(path)).collect();
    let mut all = StagedSegments::default();
    for parts in staged {
        let begun = all.segments.len();
        let mut segments = parts.segments;
        segments.sort_by_key(|(number, _)| *number);
        let segments = segments.into_iter().enumerate();
        all.segments.extend(segments.map(|(at, (_, entry))| (begun + at, entry)));
        all.is_interleaved |= parts.is_interleaved;
        all.statistics.merge(&parts.statistics);
    }
    let plan = SegmentPlan::new(home, options)?;
    let head = VersionHead { name, before, schema, layout: plan.layout, run_id: &options.run_id };
    let manifest = head.manifest(all, order)?;
    let decision = options.decision.as_ref();
    let (version, named) = NewVersion::reserve(home, &catalog, manifest, before, decision)?;
    Ok((version, HeldVersion { named, _locks: locks }))
}

/// An error, with this name in its message, if a change may not survive a loss of power.
pub(crate) fn expect_durable(durability: Durability, what: &str) -> Result<()> {
    let remedy = match durability {
        Durability::Unanswered(_) => "look at its newest version when the worker is back",
        _ => "check the disk; `euphrates gc` syncs it once more",
    };
    durability.durable(what).map_err(|error| error.remedy(remedy))
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The version that records a collection's removal.
pub(super) fn tombstone(last: &Manifest, run_id: &str) -> Manifest {
    Manifest {
        version: last.version + 1,
        life: Existence::Removed,
        run_id: run_id.to_string(),
        created: now(),
        rows: 0,
        bytes: 0,
        segments: vec![],
        statistics: Default::default(),
        ..last.clone()
    }
}
