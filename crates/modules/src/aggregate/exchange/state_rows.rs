//! Rows of states by their kind: the states of a group, or a distinct value of it. Each kind is
//! held and spilled with its own columns; all have the same columns where they are sent.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, AsArray, UInt16Array, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cmp::eq;
use arrow::datatypes::{FieldRef, UInt16Type};
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_policy::aggregate::{groups_are_few, parts_balance};

use crate::aggregate::plan::AggregatePlan;
use crate::partitioning::hashing::part_of;

/// Rows of one kind.
pub(crate) struct StateRows {
    pub(crate) kind: RowKind,
    /// With the columns of this kind.
    pub(crate) rows: RecordBatch,
}

/// What a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// The states of a group.
    Group,
    /// A distinct value of a group, for the `number`-th `count(distinct)`.
    Pair { number: usize, partition: PairPartition },
}

/// By which hash the distinct values of groups are partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairPartition {
    /// That of group and value, so that the values of one group spread over all parts. The counts
    /// of a part are partitioned again, by group.
    Spread,
    /// That of the group, in whose part the counts are complete.
    ByGroup,
    /// That of the value, for few groups: a part has few values, whose numbers make a small table.
    /// The counts are partitioned again, as with `Spread`.
    ByValue,
}

/// The codes of partitions, in the high bits of a kind.
const PARTITION_CODES: [(PairPartition, u16); 3] = [
    (PairPartition::Spread, 0),
    (PairPartition::ByGroup, 1 << 15),
    (PairPartition::ByValue, 1 << 14),
];
const PARTITION_MASK: u16 = 3 << 14;
/// Bits of the hashes of a sample by which groups and values are divided to see whether they
/// balance.
const SAMPLE_BITS: u32 = 6;
/// Bits of the hashes of groups by which their number is estimated.
const GROUP_BITS: u32 = 10;

impl RowKind {
    /// 0 for a group, *n* for a distinct value of the *n*-th `count(distinct)`, from 1, with the
    /// code of its partition.
    fn code(self) -> u16 {
        match self {
            RowKind::Group => 0,
            RowKind::Pair { number, partition } => {
                let of = PARTITION_CODES.iter().find(|(one, _)| *one == partition);
                of.expect("each has a code").1 | (number as u16 + 1)
            }
        }
    }

    fn of_code(code: u16) -> RowKind {
        let of = PARTITION_CODES.iter().find(|(_, one)| *one == code & PARTITION_MASK);
        let partition = of.map_or(PairPartition::Spread, |(partition, _)| *partition);
        match code & !PARTITION_MASK {
            0 => RowKind::Group,
            number => RowKind::Pair { number: number as usize - 1, partition },
        }
    }
}

impl AggregatePlan {
    /// Rows with the columns of all kinds, as they are sent.
    pub(crate) fn widened(&self, StateRows { kind, rows }: StateRows) -> Result<RecordBatch> {
        if self.distinct.is_empty() {
            return Ok(rows);
        }
        let count = rows.num_rows();
        let mut own = rows.columns().iter().cloned();
        let mut columns: Vec<ArrayRef> = own.by_ref().take(1 + self.keys.len()).collect();
        let fields = self.states.fields();
        let nothing = |field: &FieldRef| new_null_array(field.data_type(), count);
        for field in &fields[columns.len()..self.group_states.fields().len()] {
            let own = if kind == RowKind::Group { own.next() } else { None };
            columns.push(own.unwrap_or_else(|| nothing(field)));
        }
        columns.push(Arc::new(UInt16Array::from(vec![kind.code(); count])));
        for (at, field) in fields[columns.len()..].iter().enumerate() {
            let own = match kind {
                RowKind::Pair { number, .. } if number == at => own.next(),
                _ => None,
            };
            columns.push(own.unwrap_or_else(|| nothing(field)));
        }
        Ok(RecordBatch::try_new(self.states.clone(), columns)?)
    }

    /// The rows of each kind in a batch with the columns of all kinds.
    pub(crate) fn by_kind(&self, batch: RecordBatch) -> Result<Vec<StateRows>> {
        if self.distinct.is_empty() {
            return Ok(vec![StateRows { kind: RowKind::Group, rows: batch }]);
        }
        let column = batch.column(self.group_states.fields().len()).clone();
        let codes = column.as_primitive::<UInt16Type>();
        let mut known: Vec<u16> = vec![];
        let mut last = None;
        for code in codes.values() {
            if last != Some(code) && !known.contains(code) {
                known.push(*code);
            }
            last = Some(code);
        }
        let rows_of = |code: u16| {
            let kind = RowKind::of_code(code);
            let own = batch.project(&self.columns_of(kind))?;
            let rows = match known.len() {
                1 => own,
                _ => filter_record_batch(&own, &eq(codes, &UInt16Array::new_scalar(code))?)?,
            };
            Ok(StateRows { kind, rows })
        };
        known.iter().map(|code| rows_of(*code)).collect()
    }

    /// The columns of `states` that rows of a kind have.
    fn columns_of(&self, kind: RowKind) -> Vec<usize> {
        let of_groups = self.group_states.fields().len();
        match kind {
            RowKind::Group => (0..of_groups).collect(),
            RowKind::Pair { number, .. } => {
                (0..=self.keys.len()).chain([of_groups + 1 + number]).collect()
            }
        }
    }
}

/// The choice of the instances of one process, which is made with the first pairs that any of them
/// emits.
pub(crate) struct PairPartitioning {
    /// The instances, if all are in this process; otherwise others may see other pairs.
    instances: Option<usize>,
    chosen: Arc<OnceLock<PairPartition>>,
}

impl PairPartitioning {
    pub(crate) fn new(
        instances: Option<usize>,
        chosen: Arc<OnceLock<PairPartition>>,
    ) -> PairPartitioning {
        PairPartitioning { instances, chosen }
    }

    /// The partition of pairs whose groups and values have these hashes.
    pub(crate) fn of(
        &self,
        hashes: impl FnOnce() -> Result<(Vec<u64>, Vec<u64>)>,
    ) -> Result<PairPartition> {
        let (Some(instances), None) = (self.instances, self.chosen.get()) else {
            return Ok(self.chosen.get().copied().unwrap_or(PairPartition::Spread));
        };
        let (groups, values) = hashes()?;
        let used = parts_of(&groups, GROUP_BITS).iter().filter(|rows| **rows > 0).count();
        let (by_group, by_value) = (parts_of(&groups, SAMPLE_BITS), parts_of(&values, SAMPLE_BITS));
        let choice = if groups_are_few(used, 1 << GROUP_BITS, groups.len())
            && parts_balance(&by_value, instances)
        {
            PairPartition::ByValue
        } else if parts_balance(&by_group, instances) {
            PairPartition::ByGroup
        } else {
            PairPartition::Spread
        };
        Ok(*self.chosen.get_or_init(|| choice))
    }
}

/// The number of hashes in each part.
fn parts_of(hashes: &[u64], bits: u32) -> Vec<usize> {
    let mut parts = vec![0; 1 << bits];
    hashes.iter().for_each(|hash| parts[part_of(*hash, 0, bits)] += 1);
    parts
}
