//! Converts columns that enter a flow to layouts that can be split and concatenated.
//!
//! Run-end encoded columns are decoded: a flow splits and concatenates rows, which breaks up the
//! encoded runs, and run ends of 16 bits cannot count the rows of a large batch.
//!
//! List views become lists. All rows of a list view share one array of values, so a single row
//! taken out of a batch keeps all of them in memory, and concatenated batches of such rows exceed
//! 32-bit offsets.
//!
//! Dictionaries and unions inside of lists and structs become nullable: they may contain a null
//! that no row refers to, and Arrow's kernels refuse to concatenate non-nullable items with such a
//! null.
//!
//! Dictionary codes of 8 or 16 bits become signed codes of 32 bits: concatenating batches
//! concatenates their dictionaries, which may then exceed 8 or 16 bits.

use std::slice;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, GenericListViewArray, OffsetSizeTrait, make_array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Int16Type, Int32Type, Int64Type, Schema, SchemaRef,
};
use arrow::record_batch::RecordBatch;

use crate::batch::new_batch;
use crate::batch::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, array_bytes};
use crate::error::Result;

/// The schema that a flow uses for columns of this schema; the same schema if nothing changes.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::converted_schema;
///
/// let item = Arc::new(Field::new("item", DataType::Int64, true));
/// let views = Field::new("views", DataType::ListView(item.clone()), true);
/// let schema = Arc::new(Schema::new(vec![views]));
/// assert_eq!(converted_schema(&schema).field(0).data_type(), &DataType::List(item));
/// ```
pub fn converted_schema(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| is_converted(field.data_type())) {
        return schema.clone();
    }
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch under its plain schema `plain`, in several parts if decoding makes it too large.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RunArray};
/// use arrow::datatypes::Int32Type;
/// use euphrates_flow::{converted_batches, converted_schema};
///
/// // Three rows of 7, two rows of 9.
/// let (ends, values) = (Int32Array::from(vec![3, 5]), Int64Array::from(vec![7, 9]));
/// let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, &values)?);
/// let batch = RecordBatch::try_from_iter([("n", runs)])?;
/// let plain = converted_schema(&batch.schema());
/// let converted = converted_batches(batch, &plain).collect::<Result<Vec<_>, _>>()?;
/// let expected: ArrayRef = Arc::new(Int64Array::from(vec![7, 7, 7, 9, 9]));
/// assert_eq!(converted[0].column(0), &expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn converted_batches(
    batch: RecordBatch,
    plain: &SchemaRef,
) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
    let rows = batch.num_rows();
    let changed = batch.schema().fields().iter().any(|field| is_converted(field.data_type()));
    let step = rows_at_once(&batch);
    let plain = plain.clone();
    (0..rows.max(1)).step_by(step).map(move |start| {
        if !changed {
            return Ok(batch.clone());
        }
        let part = batch.slice(start, step.min(rows - start));
        let columns = part.columns().iter().map(converted_column).collect::<Result<Vec<_>>>()?;
        Ok(new_batch(plain.clone(), columns, part.num_rows())?)
    })
}

fn converted_column(column: &ArrayRef) -> Result<ArrayRef> {
    let plain = plain_type(column.data_type());
    Ok(match has_run_ends(column.data_type()) {
        true => cast(column, &plain)?,
        false => make_array(retyped(column.to_data(), &plain)?),
    })
}

/// Changes the type of a column's data to one that differs in nullability, in the widths of codes,
/// and in lists in place of list views.
fn retyped(data: ArrayData, to: &DataType) -> Result<ArrayData> {
    let views = match (data.data_type(), to) {
        (from, _) if from == to => return Ok(data),
        (DataType::ListView(_), DataType::List(item)) => DataType::ListView(item.clone()),
        (DataType::LargeListView(_), DataType::LargeList(item)) => {
            DataType::LargeListView(item.clone())
        }
        (_, DataType::Dictionary(..)) => return Ok(cast(&make_array(data), to)?.to_data()),
        _ => to.clone(),
    };
    if views != *to {
        return Ok(cast(&make_array(retyped(data, &views)?), to)?.to_data());
    }
    let children = data.child_data().iter().zip(items(to));
    let children = children.map(|(child, field)| retyped(child.clone(), field.data_type()));
    let children = children.collect::<Result<Vec<_>>>()?;
    let data = data.into_builder().data_type(to.clone()).child_data(children);
    // SAFETY: valid data stays valid under a nullable type, and children keep their number of
    // values under other codes.
    Ok(unsafe { data.build_unchecked() })
}

/// The number of rows to convert at once, so that the result stays near the batch size even if
/// each row holds the longest shared value; all rows if no values are shared.
fn rows_at_once(batch: &RecordBatch) -> usize {
    match batch.columns().iter().map(longest_shared_value).sum() {
        0 => batch.num_rows().max(1),
        longest => (2 * BATCH_BYTES_TARGET / longest).clamp(1, BATCH_ROWS_MAX),
    }
}

/// A bound on the bytes of a value of a column whose layout lets rows share values; 0 for any other
/// layout.
fn longest_shared_value(column: &ArrayRef) -> usize {
    let (values, lengths) = match column.data_type() {
        DataType::RunEndEncoded(ends, _) => {
            let values = match ends.data_type() {
                DataType::Int16 => column.as_run::<Int16Type>().values(),
                DataType::Int32 => column.as_run::<Int32Type>().values(),
                _ => column.as_run::<Int64Type>().values(),
            };
            (values, 1)
        }
        DataType::ListView(_) => shared_lists(column.as_list_view::<i32>()),
        DataType::LargeListView(_) => shared_lists(column.as_list_view::<i64>()),
        _ => return 0,
    };
    let longest = match values.data_type().primitive_width() {
        Some(width) => width,
        None => (0..values.len()).map(|at| array_bytes(&values.slice(at, 1))).max().unwrap_or(0),
    };
    longest * lengths
}

/// The items of a list view, and the length of its longest list; length 0 if the total length does
/// not prove that lists overlap.
fn shared_lists<O: OffsetSizeTrait>(lists: &GenericListViewArray<O>) -> (&ArrayRef, usize) {
    let sizes = || lists.sizes().iter().map(|size| size.as_usize());
    let overlap = sizes().sum::<usize>() > lists.values().len();
    (lists.values(), if overlap { sizes().max().unwrap_or(0) } else { 0 })
}

fn has_run_ends(data_type: &DataType) -> bool {
    let within = || items(data_type).iter().any(|field| has_run_ends(field.data_type()));
    matches!(data_type, DataType::RunEndEncoded(..)) || within()
}

/// Whether decoding changes a column of this type.
fn is_converted(data_type: &DataType) -> bool {
    let is_strict = |field: &FieldRef| has_values_apart(field.data_type()) && !field.is_nullable();
    let item_changes = |field: &FieldRef| is_strict(field) || is_converted(field.data_type());
    match data_type {
        DataType::RunEndEncoded(..) | DataType::ListView(_) | DataType::LargeListView(_) => true,
        DataType::Dictionary(codes, _) => is_short(codes),
        DataType::Map(entries, _) => match items(entries.data_type()) {
            [key, value] => is_converted(key.data_type()) || item_changes(value),
            _ => false,
        },
        other => items(other).iter().any(item_changes),
    }
}

/// The child fields of a nested type.
fn items(data_type: &DataType) -> &[FieldRef] {
    use DataType::*;
    match data_type {
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => {
            slice::from_ref(field)
        }
        FixedSizeList(field, _) | Map(field, _) => slice::from_ref(field),
        Struct(fields) => fields,
        _ => &[],
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let nullable = match field.data_type() {
        DataType::RunEndEncoded(_, values) => field.is_nullable() || values.is_nullable(),
        _ => field.is_nullable(),
    };
    let plain = Field::clone(field).with_data_type(plain_type(field.data_type()));
    Arc::new(plain.with_nullable(nullable))
}

/// The plain field of a nested child.
fn plain_item(field: &FieldRef) -> FieldRef {
    let field = plain_field(field);
    match has_values_apart(field.data_type()) {
        true => Arc::new(Field::clone(&field).with_nullable(true)),
        false => field,
    }
}

/// Whether columns of the type refer to values that are stored apart from the rows.
fn has_values_apart(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..) | DataType::Union(..))
}

/// Whether codes of a dictionary have fewer than 32 bits.
fn is_short(codes: &DataType) -> bool {
    use DataType::{Int8, Int16, UInt8, UInt16};
    matches!(codes, Int8 | Int16 | UInt8 | UInt16)
}

/// The plain field of a map's entries. Entries and keys are never null, so they stay non-nullable.
fn plain_entries(entries: &FieldRef) -> FieldRef {
    let fields = match items(entries.data_type()) {
        [key, value] => vec![plain_field(key), plain_item(value)],
        others => others.to_vec(),
    };
    let plain = DataType::Struct(fields.into());
    Arc::new(Field::clone(entries).with_data_type(plain))
}

fn plain_type(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        RunEndEncoded(_, values) => plain_type(values.data_type()),
        List(field) => List(plain_item(field)),
        LargeList(field) => LargeList(plain_item(field)),
        ListView(field) => List(plain_item(field)),
        LargeListView(field) => LargeList(plain_item(field)),
        Dictionary(codes, values) if is_short(codes) => Dictionary(Box::new(Int32), values.clone()),
        FixedSizeList(field, size) => FixedSizeList(plain_item(field), *size),
        Map(entries, sorted) => Map(plain_entries(entries), *sorted),
        Struct(fields) => Struct(fields.iter().map(plain_item).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DictionaryArray, Int8Array, Int32Array, ListArray, ListViewArray, RunArray, StringArray,
        StructArray,
    };
    use arrow::buffer::{Buffer, OffsetBuffer};
    use arrow::compute::{concat_batches, interleave};
    use arrow::util::display::{ArrayFormatter, FormatOptions};

    fn runs() -> ArrayRef {
        let ends = Int32Array::from(vec![2, 5, 6]);
        let values = StringArray::from(vec![Some("a"), None, Some("b")]);
        Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap())
    }

    fn plain(columns: Vec<(&str, ArrayRef)>) -> Vec<RecordBatch> {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let schema = converted_schema(&batch.schema());
        converted_batches(batch, &schema).collect::<Result<_>>().unwrap()
    }

    #[test]
    fn lists_of_short_codes_concatenate_beyond_code_range() {
        let list = |first: i32| -> ArrayRef {
            let texts = StringArray::from_iter_values((0..100).map(|at| (first + at).to_string()));
            let codes = Int8Array::from_iter_values(0..100);
            let coded: ArrayRef = Arc::new(DictionaryArray::new(codes, Arc::new(texts)));
            let item = Arc::new(Field::new_list_field(coded.data_type().clone(), true));
            Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([60, 40]), coded, None))
        };
        let found: Vec<_> =
            [0, 100, 200].iter().flat_map(|first| plain(vec![("l", list(*first))])).collect();
        let whole = concat_batches(found[0].schema_ref(), &found).unwrap();
        let lists = whole.column(0).as_list::<i32>();
        let texts = cast(&lists.value(5), &DataType::Utf8).unwrap();
        assert_eq!(texts.as_string::<i32>().value(39), "299");
    }

    #[test]
    fn nested_dictionaries_may_have_unused_nulls() {
        let values = StringArray::from(vec![Some("a"), None]);
        let codes = Int32Array::from(vec![0, 0]);
        let coded: ArrayRef = Arc::new(DictionaryArray::new(codes, Arc::new(values)));
        let item = Arc::new(Field::new("item", coded.data_type().clone(), false));
        let views = DataType::ListView(item.clone());
        let data = ArrayData::builder(views).len(2).add_child_data(coded.to_data());
        let ends = |ends: [i32; 2]| Buffer::from(ends.to_vec());
        // SAFETY: each of the two lists has one of the two values.
        let list =
            unsafe { data.add_buffer(ends([0, 1])).add_buffer(ends([1, 1])).build_unchecked() };
        let both = DataType::Struct(vec![item].into());
        let data = ArrayData::builder(both).len(2).add_child_data(coded.to_data());
        // SAFETY: there are as many values as rows.
        let both = make_array(unsafe { data.build_unchecked() });
        let found = plain(vec![("list", make_array(list)), ("both", both), ("top", coded)]);
        for column in found[0].columns() {
            let taken = interleave(&[column.as_ref()], &[(0, 1), (0, 0)]).unwrap();
            assert_eq!(taken.len(), 2);
        }
        let schema = found[0].schema();
        let nullable = |at: usize| items(schema.field(at).data_type())[0].is_nullable();
        assert!(nullable(0) && nullable(1));
        assert!(!is_converted(&DataType::List(Arc::new(Field::new(
            "item",
            DataType::Int8,
            false
        )))));
    }

    fn views(values: &ArrayRef, ranges: &[(i32, i32)]) -> ArrayRef {
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let (starts, sizes): (Vec<i32>, Vec<i32>) = ranges.iter().copied().unzip();
        Arc::new(ListViewArray::new(item, starts.into(), sizes.into(), values.clone(), None))
    }

    #[test]
    fn list_views_become_lists_of_what_they_show() {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..1000));
        let shown = views(&numbers, &[(7, 2), (0, 0), (6, 3)]);
        let nested = views(&shown, &[(2, 1), (0, 2)]);
        let coded = views(&runs(), &[(4, 2)]);
        for (column, wanted) in [
            (shown, "[7, 8], [], [6, 7, 8]"),
            (nested, "[[6, 7, 8]], [[7, 8], []]"),
            (coded, "[, b]"),
        ] {
            let found = plain(vec![("l", column)]);
            let lists = found[0].column(0).as_list::<i32>();
            assert!(lists.values().len() <= 5);
            let format = FormatOptions::default();
            let texts = ArrayFormatter::try_new(lists, &format).unwrap();
            let texts: Vec<_> = (0..lists.len()).map(|row| texts.value(row).to_string()).collect();
            assert_eq!(texts.join(", "), wanted);
        }
    }

    #[test]
    fn list_views_of_the_same_long_range_become_several_batches() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1; BATCH_BYTES_TARGET / 4]));
        let all = numbers.len() as i32;
        let found = plain(vec![("l", views(&numbers, &[(0, all); 7]))]);
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2, 2, 1]);
    }

    #[test]
    fn short_codes_concatenate_beyond_code_range() {
        let coded = |first: i32| -> ArrayRef {
            let texts = StringArray::from_iter_values((0..100).map(|at| (first + at).to_string()));
            Arc::new(DictionaryArray::new(Int8Array::from_iter_values(0..100), Arc::new(texts)))
        };
        let found: Vec<_> =
            [0, 100, 200].iter().flat_map(|first| plain(vec![("d", coded(*first))])).collect();
        let columns: Vec<_> = found.iter().map(|batch| batch.column(0).as_ref()).collect();
        let taken = interleave(&columns, &[(0, 5), (2, 99)]).unwrap();
        let texts = cast(&taken, &DataType::Utf8).unwrap();
        assert_eq!(texts.as_string::<i32>().value(1), "299");
    }

    #[test]
    fn nested_runs_are_decoded() {
        let text = StringArray::from(vec![Some("a"), Some("a"), None, None, None, Some("b")]);
        let text: ArrayRef = Arc::new(text);
        let within = |values: &ArrayRef| -> Vec<(&str, ArrayRef)> {
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            let ends = OffsetBuffer::from_lengths([1; 6]);
            let list = ListArray::new(field.clone(), ends, values.clone(), None);
            let both = StructArray::new(vec![field].into(), vec![values.clone()], None);
            vec![("column", values.clone()), ("list", Arc::new(list)), ("struct", Arc::new(both))]
        };
        for (encoded, wanted) in within(&runs()).into_iter().zip(within(&text)) {
            let batches = plain(vec![(encoded.0, encoded.1)]);
            assert_eq!(batches[0].column(0), &wanted.1, "{}", encoded.0);
        }
        let part = plain(vec![("column", runs().slice(1, 3))]);
        assert_eq!(part[0].column(0), &text.slice(1, 3));
    }

    #[test]
    fn a_short_run_of_long_values_is_decoded_in_parts() {
        let long = "x".repeat(BATCH_BYTES_TARGET);
        let (ends, values) = (Int32Array::from(vec![1000]), StringArray::from(vec![long]));
        let runs = RunArray::<Int32Type>::try_new(&ends, &values).unwrap();
        let batch = RecordBatch::try_from_iter([("c", Arc::new(runs) as ArrayRef)]).unwrap();
        let schema = converted_schema(&batch.schema());
        let mut parts = converted_batches(batch, &schema);
        let first = parts.next().unwrap().unwrap();
        assert!(first.num_rows() <= 2, "{}", first.num_rows());
        assert_eq!(
            first.num_rows() + parts.map(|part| part.unwrap().num_rows()).sum::<usize>(),
            1000
        );
    }
}
