//! The placement of a new collection: its disks, and which of them hold a copy of each segment.

use std::collections::BTreeSet;
use std::path::Path;

use euphrates_flow::{Error, Result};
use euphrates_policy::placement::{self, DiskPlacement, chained, spread};

use super::create_options::CreateOptions;
use crate::catalog::CopyLayout;
use euphrates_device::disk::{Disk, Disks, HOME};

/// The placement of the segments of a new collection.
///
/// ```
/// use euphrates_store::collection::{CreateOptions, SegmentPlan};
///
/// let home = tempfile::tempdir()?;
/// let plan = SegmentPlan::new(home.path(), &CreateOptions::default())?;
/// assert_eq!((plan.disks[0].name(), plan.segments), ("home", vec![vec![0]]));
/// let two = CreateOptions { copies: 2, ..CreateOptions::default() };
/// assert!(SegmentPlan::new(home.path(), &two).is_err(), "there is one disk");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SegmentPlan {
    /// The disks, all different.
    pub disks: Vec<Disk>,
    /// For each segment the disks of its copies, the primary first.
    pub segments: Vec<Vec<usize>>,
    /// The placement of mirrors on the disks.
    pub layout: CopyLayout,
    /// The number of segments that have two copies on one worker.
    pub on_one_worker: usize,
}

impl SegmentPlan {
    /// The plan for these options. An unknown disk, one that is named twice, and more copies than
    /// disks are usage errors.
    pub fn new(home: &Path, options: &CreateOptions) -> Result<SegmentPlan> {
        let CreateOptions { disks: names, copies, layout, .. } = options;
        let all = Disks::of(home)?;
        let disks: Vec<Disk> = match names.as_slice() {
            [] => vec![all.open(HOME)?],
            names => names.iter().map(|name| all.open(name)).collect::<Result<_>>()?,
        };
        expect_different(&disks)?;
        let workers = workers(&all, &disks);
        let (layout, placed) = match (copies, layout) {
            (0, _) => return Err(Error::usage("a collection has at least one copy")),
            (1, None | Some(CopyLayout::Plain)) => (CopyLayout::Plain, chained(&workers, 1, 1)),
            (1, Some(layout)) => {
                let error =
                    format!("layout `{}` places mirrors, and there are none", layout.word());
                return Err(Error::usage(error).remedy("ask for `copies` = 2, or leave it out"));
            }
            (_, Some(CopyLayout::Plain)) => {
                return Err(Error::usage(format!("layout `plain` has one copy, not {copies}"))
                    .remedy("choose `chained` or `spread`"));
            }
            (_, Some(CopyLayout::Spread)) => {
                // For each of its primary segments a disk holds `copies` copies, each shared with
                // `copies - 1` others; these pairs must reach all other disks.
                let pairs = copies * (copies - 1);
                let each = (disks.len() - 1).div_ceil(pairs).max(1);
                (CopyLayout::Spread, spread(&workers, each, *copies))
            }
            (_, None | Some(CopyLayout::Chained)) => {
                (CopyLayout::Chained, chained(&workers, 1, *copies))
            }
        };
        let DiskPlacement { segments, on_one_worker } = placed.map_err(refused)?;
        Ok(SegmentPlan { disks, segments, layout, on_one_worker: on_one_worker.len() })
    }
}

fn refused(error: placement::PlacementError) -> Error {
    match error {
        placement::PlacementError::Nothing => Error::usage("there is no disk to write to"),
        placement::PlacementError::TooFewDisks { copies, disks } => {
            let named = if disks == 1 { "1 is" } else { &format!("{disks} are") };
            Error::usage(format!("{copies} copies need {copies} disks, and {named} named"))
                .remedy("name more `disks` of disks.json, or ask for fewer copies")
        }
    }
}

fn expect_different(disks: &[Disk]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for disk in disks {
        let folder = disk.folder().canonicalize();
        let folder = folder.map_err(|error| Error::os("look at", disk.folder(), &error))?;
        if !seen.insert(folder) {
            return Err(Error::usage(format!("disk `{}` is there twice", disk.name()))
                .remedy("name disks with folders of their own"));
        }
    }
    Ok(())
}

/// The worker of each disk, as a number.
fn workers(all: &Disks, disks: &[Disk]) -> Vec<u32> {
    let worker = |disk: &Disk| {
        let found = all.named().iter().find(|named| named.name == disk.name());
        found.map_or("", |named| named.worker.as_str())
    };
    let names: BTreeSet<&str> = disks.iter().map(worker).collect();
    let number = |disk: &Disk| names.range(..worker(disk)).count() as u32;
    disks.iter().map(number).collect()
}
