//! The order of rows as the footer records it, so that readers need not sort again.

use arrow::datatypes::{DataType, Schema};
use parquet::file::metadata::SortingColumn;
use parquet::schema::types::SchemaDescriptor;

use crate::options::SortedColumn;

/// The sort keys in Parquet's terms, up to the first that readers may compare otherwise; `None` if
/// there is none.
pub fn sorting_columns(
    keys: &[SortedColumn],
    schema: &Schema,
    descr: &SchemaDescriptor,
) -> Option<Vec<SortingColumn>> {
    let columns = keys.iter().map_while(|key| {
        let root = schema.index_of(&key.name).ok()?;
        is_compared_alike(schema.field(root).data_type()).then_some(())?;
        let leaf =
            (0..descr.num_columns()).find(|leaf| descr.get_column_root_idx(*leaf) == root)?;
        Some(SortingColumn {
            column_idx: leaf as i32,
            descending: key.descending,
            nulls_first: key.nulls_first,
        })
    });
    let columns: Vec<SortingColumn> = columns.collect();
    (!columns.is_empty()).then_some(columns)
}

/// Whether all readers order values of this type in the same way: not floats, because of NaN and
/// zeros of either sign, nor intervals and nested values.
fn is_compared_alike(kind: &DataType) -> bool {
    use DataType::*;
    match kind {
        Dictionary(_, values) => is_compared_alike(values),
        Boolean | Date32 | Time32(_) | Time64(_) | Timestamp(..) => true,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
            true
        }
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => true,
        kind => kind.is_integer(),
    }
}
