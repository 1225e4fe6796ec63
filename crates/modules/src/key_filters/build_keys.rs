//! The keys of a join's build side as a filter for the source of its probe side: which there are,
//! and their ranges.
//!
//! Keys are compared and hashed by the join's own encoder, so what the join finds equal has one
//! hash here, whatever the types of both sides are.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::KeyFilter;
use euphrates_flow::{MemoryReservation, Result};

use super::bloom_filter::BloomFilter;
use super::key_bitmap::KeyBitmap;
use crate::join::join_keys::JoinKeyEncoder;

/// The keys of all rows of a build side.
pub(crate) struct BuildKeys {
    /// The encoder of the probe side, for its key columns alone.
    pub(crate) encoder: JoinKeyEncoder,
    pub(crate) keys: KeySet,
    /// By key column.
    pub(crate) ranges: Vec<Option<ArrayRef>>,
    /// Whether there are no keys.
    pub(crate) is_empty: bool,
    /// What the set takes of the memory of the join.
    #[expect(dead_code, reason = "dropped with the filter")]
    pub(crate) reservation: MemoryReservation,
}

/// A set that has all keys, and maybe some others.
pub(crate) enum KeySet {
    Hashed(BloomFilter),
    /// Of a single column of integers; without others.
    Integers(Arc<KeyBitmap>),
}

impl KeySet {
    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            KeySet::Hashed(hashes) => hashes.bytes(),
            KeySet::Integers(keys) => keys.bytes(),
        }
    }
}

impl BuildKeys {
    /// Whether the set may have each row of these key columns, as they are compared.
    fn may_have(&self, columns: &[ArrayRef]) -> Result<BooleanBuffer> {
        match &self.keys {
            KeySet::Integers(keys) => keys.has(&columns[0]),
            KeySet::Hashed(hashes) => Ok(hashes.may_have(&self.encoder.hashes(columns)?)),
        }
    }
}

impl KeyFilter for BuildKeys {
    fn matches(&self, keys: &[ArrayRef]) -> Result<BooleanArray> {
        let nulls = keys.iter().fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let field = |(at, column): (usize, &ArrayRef)| {
            Field::new(at.to_string(), column.data_type().clone(), true)
        };
        let schema = Schema::new(keys.iter().enumerate().map(field).collect::<Vec<_>>());
        let batch = RecordBatch::try_new(Arc::new(schema), keys.to_vec())?;
        let found = match self.encoder.dictionary(&batch) {
            Some((values, codes)) if values.len() <= codes.len() => {
                let found = self.may_have(&self.encoder.columns_of_values(values)?)?;
                // Behind a null may stand any code.
                let is_found =
                    |code: &i32| (*code as usize) < found.len() && found.value(*code as usize);
                codes.iter().map(is_found).collect()
            }
            _ => self.may_have(&self.encoder.columns(&batch)?)?,
        };
        Ok(BooleanArray::new(nulls.map_or(found.clone(), |nulls| &found & nulls.inner()), None))
    }

    fn ranges(&self) -> Vec<Option<ArrayRef>> {
        self.ranges.clone()
    }

    fn is_empty(&self) -> bool {
        self.is_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int32Array, Int64Array, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::DataType;
    use euphrates_flow::MemoryAccount;
    use proptest::prelude::*;

    use crate::join::plan::{How, JoinPlan, JoinSide, JoinSpec, On};
    use crate::key_filters::bloom_filter::BloomPart;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let names = ["k", "m"].into_iter();
        RecordBatch::try_from_iter_with_nullable(
            names.zip(columns).map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    }

    /// The rows of `probe` whose keys a filter of those of `build` may have.
    fn found(build: Vec<ArrayRef>, probe: Vec<ArrayRef>) -> Vec<bool> {
        let on: Vec<On> =
            ["k", "m"][..build.len()].iter().map(|it| On::Name((*it).into())).collect();
        let (build, keys) = (batch(build), probe.clone());
        let spec = JoinSpec {
            on: &on,
            how: How::Inner,
            build: JoinSide::Right,
            condition: None,
            suffix: "_right",
            needed: None,
        };
        let plan = JoinPlan::new(&spec, &[batch(probe).schema(), build.schema()]).unwrap();
        let encoder = JoinKeyEncoder::new(plan.build_side()).unwrap();
        let (_, valid) = encoder.split_nulls(build).unwrap();
        let mut part = BloomPart::new(1 << 10, 0);
        encoder.encode(&valid).unwrap().hashes.iter().for_each(|hash| part.add(*hash));
        let filter = BuildKeys {
            encoder: JoinKeyEncoder::new(plan.probe_side()).unwrap().of_keys_alone(),
            keys: KeySet::Hashed(BloomFilter::new(vec![part])),
            ranges: vec![],
            is_empty: false,
            reservation: MemoryAccount::alone(1 << 20).reservation(),
        };
        filter.matches(&keys).unwrap().values().iter().collect()
    }

    proptest! {
        #[test]
        fn keys_that_the_join_finds_equal_are_found_in_any_type(
            values in prop::collection::vec(0_i32..5000, 1..60),
            others in prop::collection::vec(0_i32..5000, 1..60),
        ) {
            let column = |values: &[i32], of: &DataType| {
                let values: ArrayRef = Arc::new(Int32Array::from(values.to_vec()));
                cast(&cast(&values, &DataType::Utf8).unwrap(), of).unwrap()
            };
            use DataType::*;
            let coded = Dictionary(Box::new(Int32), Box::new(Utf8));
            for (one, other) in [
                (Int64, Int16), (UInt64, Int32), (Decimal128(9, 2), Decimal128(38, 2)),
                (Utf8, LargeUtf8), (coded, Utf8View), (Float64, Float64), (Binary, LargeBinary),
            ] {
                for both in [false, true] {
                    let columns = |values: &[i32], of: &DataType| match both {
                        true => vec![column(values, of), column(values, &Int32)],
                        false => vec![column(values, of)],
                    };
                    let found = found(columns(&values, &one), columns(&others, &other));
                    for (row, found) in others.iter().zip(&found) {
                        prop_assert!(*found || !values.contains(row), "{row} of {one} in {other}");
                    }
                    let wrong = others.iter().zip(found).filter(|(row, found)| {
                        *found && !values.contains(row)
                    });
                    prop_assert!(wrong.count() < 3, "{one} in {other}");
                }
            }
        }
    }

    #[test]
    fn signed_zeros_and_nan_are_equal_and_nulls_match_nothing() {
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.0), Some(f64::NAN), None]));
        let rows = vec![Some(-0.0), Some(-f64::NAN), None, Some(3.0)];
        let rows: ArrayRef = Arc::new(Float64Array::from(rows));
        assert_eq!(found(vec![keys.clone()], vec![rows.clone()]), [true, true, false, false]);
        let narrow = |column: &ArrayRef| cast(column, &DataType::Float32).unwrap();
        assert!(narrow(&keys).as_any().is::<Float32Array>());
        let found_narrow = found(vec![narrow(&keys)], vec![narrow(&rows)]);
        assert_eq!(found_narrow, [true, true, false, false]);
    }

    #[test]
    fn row_with_a_null_in_one_of_several_keys_matches_nothing() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
        let columns = vec![numbers, texts];
        assert_eq!(found(columns.clone(), columns), [true, false, false]);
    }
}
