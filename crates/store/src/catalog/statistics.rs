//! Column statistics: least and greatest values of the column types for which they are cheap to
//! compute.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::segment::{BoundValue, ColumnBounds, EncodedBlock, bounds_of};

/// Statistics of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnStatistics {
    /// The least value as a number; for dates and times, in their unit since 1970.
    pub min: Value,
    /// The greatest value, as `min`.
    pub max: Value,
    /// Rows without a value.
    pub nulls: u64,
}

/// Accumulates statistics of batches.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_store::catalog::Statistics;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(3)]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let mut statistics = Statistics::default();
/// statistics.add(&batch);
/// let of_n = &statistics.finish(&batch.schema())["n"];
/// assert_eq!((&of_n.min, &of_n.max, of_n.nulls), (&3.into(), &7.into(), 1));
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// By column; `None` if statistics of its type are not computed.
    columns: Vec<Option<Extremes>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Extremes {
    range: Option<(Scalar, Scalar)>,
    nulls: u64,
}

/// Every compared number fits one of these.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
enum Scalar {
    Int(i128),
    Float(#[serde(with = "bits")] f64),
}

/// Serialises floating-point numbers by their bits, because JSON lacks some of them.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(float: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(float.to_bits())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

impl Statistics {
    /// Adds the values of a batch.
    pub fn add(&mut self, batch: &RecordBatch) {
        self.add_columns(batch.columns().iter().map(extremes));
    }

    /// Adds the values of a batch that has been encoded as this block, by the bounds that the
    /// encoder has computed.
    pub fn add_block(&mut self, batch: &RecordBatch, encoded: &EncodedBlock) {
        let columns = batch.columns().iter().enumerate();
        self.add_columns(columns.map(|(at, column)| match encoded.bounds(at) {
            Some(bounds) if is_recorded(column.data_type()) => Some(Extremes::of(bounds)),
            _ => extremes(column),
        }));
    }

    fn add_columns(&mut self, columns: impl Iterator<Item = Option<Extremes>>) {
        let first = self.columns.is_empty();
        for (index, found) in columns.enumerate() {
            match self.columns.get_mut(index) {
                Some(known) => *known = known.zip(found).map(|(known, new)| known.with(new)),
                None if first => self.columns.push(found),
                None => {}
            }
        }
    }

    /// Adds all values of other statistics.
    pub fn merge(&mut self, other: &Statistics) {
        if self.columns.is_empty() {
            self.columns.clone_from(&other.columns);
            return;
        }
        for (known, new) in self.columns.iter_mut().zip(&other.columns) {
            *known = known.zip(*new).map(|(known, new)| known.with(new));
        }
    }

    /// The statistics by column name.
    pub fn finish(&self, schema: &Schema) -> BTreeMap<String, ColumnStatistics> {
        let named = schema.fields().iter().zip(&self.columns);
        let known = named.filter_map(|(field, extremes)| {
            let Extremes { range, nulls } = (*extremes)?;
            let (min, max) = range?;
            let (min, max) = (min.to_json()?, max.to_json()?);
            Some((field.name().clone(), ColumnStatistics { min, max, nulls }))
        });
        known.collect()
    }
}

impl Extremes {
    fn of(bounds: &ColumnBounds) -> Extremes {
        let scalar = |value: &Option<BoundValue>| match value {
            Some(BoundValue::Whole(whole)) => Some(Scalar::Int(*whole)),
            Some(BoundValue::Float(float)) => Some(Scalar::Float(*float)),
            Some(BoundValue::Bytes(_)) | None => None,
        };
        let range = scalar(&bounds.least).zip(scalar(&bounds.greatest));
        Extremes { range, nulls: bounds.nulls }
    }

    fn with(self, other: Extremes) -> Extremes {
        let range = match (self.range, other.range) {
            (Some((low, high)), Some((less, more))) => {
                Some((if less < low { less } else { low }, if more > high { more } else { high }))
            }
            (one, two) => one.or(two),
        };
        Extremes { range, nulls: self.nulls + other.nulls }
    }
}

impl Scalar {
    fn to_json(self) -> Option<Value> {
        match self {
            Scalar::Int(int) => i64::try_from(int)
                .map(Value::from)
                .or_else(|_| u64::try_from(int).map(Value::from))
                .ok(),
            Scalar::Float(float) => Number::from_f64(float).map(Value::Number),
        }
    }
}

/// One pass over a column of numbers, dates or times; other types are skipped. NaN is left out.
fn extremes(column: &ArrayRef) -> Option<Extremes> {
    is_recorded(column.data_type()).then(|| Extremes::of(&bounds_of(column)))
}

/// Whether the catalog has statistics of such columns.
fn is_recorded(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Float32, Float64, Timestamp};
    data_type.is_integer()
        || matches!(data_type, Float32 | Float64 | Date32 | Date64 | Timestamp(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray, UInt64Array};
    use serde_json::json;
    use std::sync::Arc;

    fn batch(ints: Vec<Option<i32>>, floats: Vec<f64>, large: u64) -> RecordBatch {
        let rows = ints.len();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("int", Arc::new(Int32Array::from(ints))),
            ("float", Arc::new(Float64Array::from(floats))),
            ("large", Arc::new(UInt64Array::from(vec![large; rows]))),
            ("text", Arc::new(StringArray::from(vec!["t"; rows]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn statistics_of_batches_and_parts_add_up() {
        let batches = [
            batch(vec![Some(3), None], vec![0.5, 1.5], 7),
            batch(vec![None, None], vec![-0.5, 0.0], u64::MAX),
            batch(vec![Some(-3)], vec![f64::INFINITY], 0),
        ];
        let schema = batches[0].schema();
        let (mut one, mut other) = (Statistics::default(), Statistics::default());
        one.add(&batches[0]);
        one.add(&batches[1]);
        other.add(&batches[2]);
        let mut all = Statistics::default();
        let travelled = |part: &Statistics| {
            serde_json::from_str::<Statistics>(&serde_json::to_string(part).unwrap()).unwrap()
        };
        all.merge(&travelled(&one));
        all.merge(&travelled(&other));
        let known = all.finish(&schema);
        let int = ColumnStatistics { min: json!(-3), max: json!(3), nulls: 3 };
        assert_eq!(known["int"], int);
        assert_eq!(known["large"].max, json!(u64::MAX));
        assert!(!known.contains_key("text"));
        assert!(!known.contains_key("float"), "infinity is no JSON number");
        assert!(Statistics::default().finish(&schema).is_empty());
    }
}
