//! Orders the splits of a table by the bounds of a column, so that a reader who wants the first
//! rows by this column finds them early.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use euphrates_flow::module::ValueOrder;

use super::{Dataset, Split};
use crate::format::OpenedFile;
use crate::predicate::{ComparedValue, StoredBounds, bound_values};

impl Dataset {
    /// The same table with the splits in the order of their best values of a column: the least for
    /// ascending order, the greatest for descending order. Splits whose files do not tell follow.
    pub fn in_order_of(self, column: usize, order: ValueOrder) -> Dataset {
        let field = self.schema.field(column);
        let best = |(_, opened): &(_, Arc<dyn OpenedFile>)| {
            best_values(opened.as_ref(), field.name(), field.data_type(), order)
        };
        let best: Vec<Vec<Option<ComparedValue>>> = self.files.iter().map(best).collect();
        let value = |split: &Split| best[split.file].get(split.part.split).and_then(Option::as_ref);
        let mut splits = self.splits.clone();
        splits.sort_by(|one, other| match (value(one), value(other)) {
            (Some(one), Some(other)) => {
                let ascending = one.partial_cmp(other).unwrap_or(Ordering::Equal);
                match order {
                    ValueOrder::Ascending => ascending,
                    ValueOrder::Descending => ascending.reverse(),
                }
            }
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        Dataset { splits, before: OnceLock::new(), ..self }
    }
}

/// For each split of a file, the bound of a column on the side that comes first; none if the file
/// tells nothing about it.
fn best_values(
    opened: &dyn OpenedFile,
    column: &str,
    data_type: &DataType,
    order: ValueOrder,
) -> Vec<Option<ComparedValue>> {
    let known = opened.statistics().and_then(|known| known.bounds(0..opened.splits(), column));
    let Some(StoredBounds { least, greatest, .. }) = known else { return vec![] };
    match order {
        ValueOrder::Ascending => bound_values(&least, data_type),
        ValueOrder::Descending => bound_values(&greatest, data_type),
    }
}
