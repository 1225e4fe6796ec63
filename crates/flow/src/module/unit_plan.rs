//! The units of its input that one attempt at a flow computes.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The units that earlier attempts have not completed, and what these have left. It is part of the
/// configuration of the source and of the sink, so all processes know it.
///
/// ```
/// use euphrates_flow::module::UnitPlan;
///
/// let plan = UnitPlan { left: vec![2..4, 7..8], ..UnitPlan::new("4f1d", 8) };
/// assert_eq!(plan.count(), 3);
/// assert_eq!((plan.unit_of_run(1), plan.unit_of_run(2), plan.unit_of_run(3)), (3, 7, 8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPlan {
    /// Identifies the flow and its input.
    pub key: String,
    /// The number of units of the input.
    pub units: u64,
    /// The units to compute, as ascending ranges.
    pub left: Vec<Range<u64>>,
    /// By unit: its rows that are durable already, if there are any.
    pub durable_rows: BTreeMap<u64, u64>,
    /// Folders with files of earlier attempts, which are part of the output.
    pub folders: Vec<PathBuf>,
    /// The number of the first new file.
    pub first_file: u64,
}

impl UnitPlan {
    /// The shared counter of a source by which its instances claim units.
    pub const COUNTER: &str = "parts";

    /// All units, with nothing of earlier attempts.
    pub fn new(key: &str, units: u64) -> UnitPlan {
        UnitPlan {
            key: key.into(),
            units,
            left: iter::once(0..units).collect(),
            durable_rows: BTreeMap::new(),
            folders: vec![],
            first_file: 0,
        }
    }

    /// The number of units to compute.
    pub fn count(&self) -> u64 {
        self.left.iter().map(|range| range.end - range.start).sum()
    }

    /// The unit that is computed as this run; the number of units if there are fewer runs.
    pub fn unit_of_run(&self, run: u64) -> u64 {
        let mut before = 0;
        for range in &self.left {
            let count = range.end - range.start;
            if run < before + count {
                return range.start + (run - before);
            }
            before += count;
        }
        self.units
    }
}
