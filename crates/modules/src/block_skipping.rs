//! Leaves out the blocks of a collection of which no row can pass a condition, by their statistics.

use arrow::datatypes::Schema;
use euphrates_flow::Result;
use euphrates_flow::module::RowCondition;
use euphrates_formats::predicate::{RowPredicate, StoredBounds, may_pass_each};
use euphrates_store::collection::{Collection, SegmentCopies};

use crate::expression::PushedCondition;

/// The collection without the blocks of which no row can pass a condition on the rows that are
/// read, which have this schema. Depends on the collection and the condition alone, so it is the
/// same in all processes.
pub(crate) fn without_failing_blocks(
    collection: Collection,
    condition: &RowCondition,
    schema: &Schema,
) -> Result<Collection> {
    if *condition == RowCondition::TRUE {
        return Ok(collection);
    }
    let predicate = PushedCondition::new(condition, schema).predicate;
    let may_pass = |copies: &SegmentCopies| {
        may_pass(copies, &predicate).map_err(|error| error.at(copies.path()))
    };
    let is_kept = collection.copies().iter().map(may_pass).collect::<Result<Vec<_>>>()?;
    Ok(collection.keeping(&is_kept))
}

/// For each block of a segment, whether any of its rows may pass; true where nothing is known.
fn may_pass(copies: &SegmentCopies, predicate: &RowPredicate) -> Result<Vec<bool>> {
    let toc = &copies.toc;
    let Some(statistics) = toc.statistics()? else { return Ok(vec![true; toc.blocks.len()]) };
    let rows: Vec<u64> = toc.blocks.iter().map(|block| block.rows).collect();
    let stored = |name: &str| {
        let (position, field) = toc.schema.column_with_name(name)?;
        let bounds = statistics.bounds(position)?;
        Some(StoredBounds {
            least: bounds.least,
            greatest: bounds.greatest,
            nulls: bounds.nulls,
            may_be_nan: field.data_type().is_floating(),
        })
    };
    Ok(may_pass_each(predicate, &rows, stored))
}
