//! Groups of rows, judged by stored bounds of their columns: row groups of files, blocks of
//! collections.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use euphrates_policy::predicate::{Bounds, Facts, Predicate};

use super::{ComparedColumn, ComparedValue, RowPredicate, compared_values, may_pass, values_in};

/// The bounds of a column as they are stored, one for each group of rows.
pub struct StoredBounds {
    /// No value is less, apart from NaN; null where it is unknown. In the column's type, or
    /// `Binary` for texts and bytes, whose bounds need not be texts.
    pub least: ArrayRef,
    /// No value is greater, apart from NaN; else as `least`.
    pub greatest: ArrayRef,
    /// The number of nulls; null where it is unknown, and ignored if there are fewer rows.
    pub nulls: UInt64Array,
    /// Whether a value may be NaN.
    pub may_be_nan: bool,
}

/// For each group with these numbers of rows, whether any row may pass a filter with this
/// predicate. `stored` returns the bounds of a column, by its name.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Int64Array, UInt64Array};
/// use arrow::datatypes::DataType;
/// use euphrates_formats::predicate::{ComparedColumn, ComparedValue, StoredBounds, may_pass_each};
/// use euphrates_policy::predicate::{Comparison, Predicate};
///
/// let column = ComparedColumn { name: "n".into(), data_type: DataType::Int64 };
/// let above = Predicate::Compare(column, Comparison::Greater, ComparedValue::Whole(20));
/// let stored = |name: &str| {
///     assert_eq!(name, "n");
///     Some(StoredBounds {
///         least: Arc::new(Int64Array::from(vec![1, 11])),
///         greatest: Arc::new(Int64Array::from(vec![20, 30])),
///         nulls: UInt64Array::from(vec![0, 0]),
///         may_be_nan: false,
///     })
/// };
/// assert_eq!(may_pass_each(&above, &[100, 100], stored), [false, true]);
/// ```
pub fn may_pass_each(
    predicate: &RowPredicate,
    rows: &[u64],
    stored: impl Fn(&str) -> Option<StoredBounds>,
) -> Vec<bool> {
    let columns = compared_columns(predicate);
    let bounds = |column: &'_ ComparedColumn| bounds_in(&stored(&column.name)?, rows, column);
    let known = columns.into_iter().filter_map(|column| Some((column, bounds(column)?)));
    let known: Vec<_> = known.collect();
    let facts = |group| GroupFacts { group, known: &known };
    (0..rows.len()).map(|group| may_pass(predicate, &facts(group))).collect()
}

struct GroupFacts<'a> {
    group: usize,
    /// The bounds of columns, by group.
    known: &'a [(&'a ComparedColumn, Vec<Bounds<ComparedValue>>)],
}

impl Facts<ComparedColumn, ComparedValue> for GroupFacts<'_> {
    fn bounds(&self, column: &ComparedColumn) -> Option<&Bounds<ComparedValue>> {
        let known = self.known.iter().find(|(known, _)| *known == column);
        known.map(|(_, groups)| &groups[self.group])
    }
}

/// The columns of a predicate, each once in a type.
pub(crate) fn compared_columns(predicate: &RowPredicate) -> Vec<&ComparedColumn> {
    let mut columns = vec![];
    collect(predicate, &mut columns);
    columns
}

fn collect<'a>(predicate: &'a RowPredicate, columns: &mut Vec<&'a ComparedColumn>) {
    match predicate {
        Predicate::Compare(column, ..) | Predicate::IsNull(column) => {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Predicate::Not(inner) | Predicate::IsNotFalse(inner) => collect(inner, columns),
        Predicate::All(terms) | Predicate::Any(terms) => {
            terms.iter().for_each(|term| collect(term, columns));
        }
        Predicate::Unknown => {}
    }
}

/// The bounds of a column in each group, in the type in which it is compared; `None` if there are
/// not as many as groups.
fn bounds_in(
    stored: &StoredBounds,
    rows: &[u64],
    column: &ComparedColumn,
) -> Option<Vec<Bounds<ComparedValue>>> {
    let least = bound_values(&stored.least, &column.data_type);
    let greatest = bound_values(&stored.greatest, &column.data_type);
    let lengths = [least.len(), greatest.len(), stored.nulls.len()];
    if lengths != [rows.len(); 3] {
        return None;
    }
    let groups = rows.iter().zip(stored.nulls.iter()).zip(least.into_iter().zip(greatest));
    let bounds = groups.map(|((&rows, nulls), (least, greatest))| {
        let nulls = nulls.filter(|nulls| *nulls <= rows);
        Bounds { least, greatest, may_be_nan: stored.may_be_nan, nulls, rows }
    });
    Some(bounds.collect())
}

/// The values of stored bounds in the type in which a column is compared.
pub(crate) fn bound_values(bounds: &ArrayRef, data_type: &DataType) -> Vec<Option<ComparedValue>> {
    let is_bytes = |of: &DataType| of.is_binary() || of.is_string();
    match bounds.data_type() {
        // Texts are compared by their bytes, and a cast would drop what is not text.
        DataType::Binary if is_bytes(data_type) => compared_values(bounds),
        _ => values_in(bounds, data_type),
    }
}
