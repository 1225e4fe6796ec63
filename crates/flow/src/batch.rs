//! Measures, splits and concatenates Arrow record batches; their target size is 1 MiB.

use arrow::array::{
    Array, ArrayDataBuilder, ArrayRef, AsArray, GenericListArray, ListArray, OffsetSizeTrait,
    make_array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use crate::error::Result;

/// Target size of a batch: large enough that a queue costs nothing, small enough that a few of them
/// fit a cache.
pub const BATCH_BYTES_TARGET: usize = 1 << 20;

/// Maximum rows of a batch made here: a row's number within it fits 16 bits (see `sort`).
pub const BATCH_ROWS_MAX: usize = 1 << 16;

/// Rebuilds a nested column with other children of the same types and lengths. Its nulls are not
/// validated: a field that is not nullable may have nulls in values that no row has (of a
/// dictionary, or between list views), which arrow's constructors refuse.
///
/// # Safety
///
/// Buffers and children must be those of a valid column of the type: offsets within the children,
/// lengths as the type says.
pub unsafe fn rebuilt(data: ArrayDataBuilder) -> ArrayRef {
    // SAFETY: the caller's promise.
    make_array(unsafe { data.build_unchecked() })
}

/// The bytes of a batch that count against a queue's bound: those of its slice, not of the buffers
/// it shares.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::batch_bytes;
///
/// let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// assert_eq!(batch_bytes(&batch.slice(100, 10)), 80);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column)).sum()
}

/// The bytes of a row that has more than `row_bytes_max`, if there is one.
pub(crate) fn oversized_row_bytes(batch: &RecordBatch, row_bytes_max: usize) -> Option<usize> {
    let (bytes, rows) = (batch_bytes(batch), batch.num_rows());
    match rows {
        _ if bytes <= row_bytes_max => None,
        0 | 1 => Some(bytes),
        _ => {
            let half = rows / 2;
            let halves = [batch.slice(0, half), batch.slice(half, rows - half)];
            halves.iter().find_map(|half| oversized_row_bytes(half, row_bytes_max))
        }
    }
}

/// Whether a batch uses most of its buffers. A small slice would keep large buffers in memory.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::is_whole;
///
/// let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// assert!(is_whole(&batch));
/// assert!(!is_whole(&batch.slice(0, 10)), "ten rows that hold a thousand");
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn is_whole(batch: &RecordBatch) -> bool {
    batch.get_array_memory_size() / 2 <= batch_bytes(batch)
}

/// The bytes of a column's slice. Arrow's own count omits the buffers of views, and counts shared
/// values (of lists, and of a dictionary) in full for each slice.
///
/// ```
/// use arrow::array::{Array, Int64Array, StringViewArray};
/// use euphrates_flow::array_bytes;
///
/// let numbers = Int64Array::from_iter_values(0..1000);
/// assert_eq!(array_bytes(&numbers.slice(0, 10)), 80);
/// let texts = StringViewArray::from(vec!["a text longer than twelve bytes"]);
/// assert_eq!(array_bytes(&texts), 16 + 31, "the view, and the text behind it");
/// ```
pub fn array_bytes(array: &dyn Array) -> usize {
    let nulls = array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    let views = array.len() * size_of::<u128>();
    match array.data_type() {
        DataType::Utf8View => nulls + views + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => nulls + views + array.as_binary_view().total_buffer_bytes_used(),
        DataType::List(_) => nulls + list_bytes(array.as_list::<i32>()),
        DataType::LargeList(_) => nulls + list_bytes(array.as_list::<i64>()),
        DataType::Map(..) => nulls + list_bytes(&ListArray::from(array.as_map().clone())),
        DataType::FixedSizeList(..) => nulls + array_bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            nulls + columns.iter().map(|column| array_bytes(column)).sum::<usize>()
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            // A row refers to at most one value.
            let used = array.len().min(values.len());
            array_bytes(dictionary.keys()) + array_bytes(values) / values.len().max(1) * used
        }
        _ => {
            let whole = || array.get_array_memory_size();
            array.to_data().get_slice_memory_size().unwrap_or_else(|_| whole())
        }
    }
}

fn list_bytes<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> usize {
    let offsets = list.value_offsets();
    let (from, to) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    size_of_val(offsets) + array_bytes(&list.values().slice(from, to - from))
}

/// A batch of these columns and this many rows; one without columns has rows, too.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::Schema;
/// use euphrates_flow::new_batch;
///
/// let batch = new_batch(Arc::new(Schema::empty()), vec![], 7)?;
/// assert_eq!((batch.num_columns(), batch.num_rows()), (0, 7));
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn new_batch(
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// The number of rows of this size that make a batch.
///
/// ```
/// use euphrates_flow::{BATCH_ROWS_MAX, batch_rows};
///
/// assert_eq!(batch_rows(1024), 1024, "one MiB");
/// assert_eq!([batch_rows(0), batch_rows(1)], [BATCH_ROWS_MAX; 2]);
/// assert_eq!(batch_rows(1 << 30), 1, "a batch has at least one row");
/// ```
pub fn batch_rows(bytes_per_row: usize) -> usize {
    (BATCH_BYTES_TARGET / bytes_per_row.max(1)).clamp(1, BATCH_ROWS_MAX)
}

/// Concatenates batches; `None` if there are none.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::batch::concatenated;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// assert_eq!(concatenated(&[batch.clone(), batch])?.expect("two batches").num_rows(), 4);
/// assert!(concatenated(&[])?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn concatenated(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    match batches {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => Ok(Some(concat_batches(first.schema_ref(), batches)?)),
    }
}

/// Cuts a batch that is much larger than the target into slices near it, without copying.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_flow::{BATCH_BYTES_TARGET, split_batch};
///
/// let rows = BATCH_BYTES_TARGET as i64; // eight bytes each
/// let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let parts: Vec<RecordBatch> = split_batch(batch).collect();
/// assert!(parts.len() > 1);
/// assert_eq!(parts.iter().map(RecordBatch::num_rows).sum::<usize>(), rows as usize);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
pub fn split_batch(batch: RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let bytes = batch_bytes(&batch);
    let whole = bytes <= BATCH_BYTES_TARGET * 2 && rows <= BATCH_ROWS_MAX;
    let step = if whole { rows.max(1) } else { batch_rows(bytes.div_ceil(rows.max(1))) };
    let starts = (0..rows.max(1)).step_by(step);
    starts.map(move |start| batch.slice(start, step.min(rows - start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, Int64Array, LargeListArray,
        MapArray, StringArray, StringViewArray, StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Fields};

    fn integers(rows: usize) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn a_slice_counts_its_own_bytes_only() {
        let batch = integers(1000);
        assert_eq!(batch_bytes(&batch.slice(10, 5)), 40);
    }

    /// Nested columns of a hundred rows with ten integers each.
    fn nested() -> Vec<ArrayRef> {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let field = Arc::new(Field::new("v", DataType::Int64, false));
        let ends = || OffsetBuffer::from_repeated_length(10, 100);
        let lists = ListArray::new(field.clone(), ends(), values.clone(), None);
        let wide = OffsetBuffer::from_repeated_length(10, 100);
        let large = LargeListArray::new(field.clone(), wide, values.clone(), None);
        let fixed = FixedSizeListArray::new(field.clone(), 10, values.clone(), None);
        let of_lists = Field::new("l", lists.data_type().clone(), false);
        let inside = StructArray::new(vec![of_lists].into(), vec![Arc::new(lists.clone())], None);
        let key = Arc::new(Field::new("k", DataType::Int64, false));
        let entry = Fields::from(vec![key, field]);
        let entries = StructArray::new(entry.clone(), vec![values.clone(), values], None);
        let entry = Arc::new(Field::new("entries", DataType::Struct(entry), false));
        let map = MapArray::new(entry, ends(), entries, None, false);
        vec![Arc::new(lists), Arc::new(large), Arc::new(fixed), Arc::new(inside), Arc::new(map)]
    }

    #[test]
    fn a_slice_counts_its_own_values_only() {
        for column in nested() {
            let (whole, part) = (array_bytes(&column), array_bytes(&column.slice(40, 10)));
            let own = whole / 10;
            assert!((own..own + 10).contains(&part), "{}: {part} of {whole}", column.data_type());
        }
    }

    #[test]
    fn view_buffers_count() {
        let texts = (0..100).map(|number| format!("{number:0>1000}"));
        let plain: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        for view in [DataType::Utf8View, DataType::BinaryView] {
            let views = cast(&plain, &view).unwrap();
            assert_eq!(array_bytes(&views), 100 * 1016);
            assert_eq!(array_bytes(&views.slice(3, 7)), 7 * 1016);
        }
        let short = StringViewArray::from_iter_values(["a", "b"]);
        assert_eq!(array_bytes(&short), 2 * 16);
    }

    #[test]
    fn dictionary_counts_values_rows_can_use() {
        let texts = (0..100).map(|number| format!("{number:0>1000}"));
        let values = Arc::new(StringArray::from_iter_values(texts));
        let codes = Int32Array::from_iter_values((0..1000).map(|row| row % 100));
        let column = DictionaryArray::new(codes, values);
        assert_eq!(array_bytes(&column), 4000 + 100 * 1004);
        assert_eq!(array_bytes(&column.slice(500, 2)), 8 + 2 * 1004);
        assert_eq!(array_bytes(&column.slice(0, 0)), 0);
    }

    #[test]
    fn list_batches_split_by_own_values() {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3_000_000));
        let field = Arc::new(Field::new("v", DataType::Int64, false));
        let ends = OffsetBuffer::from_repeated_length(30, 100_000);
        let lists: ArrayRef = Arc::new(ListArray::new(field, ends, values, None));
        let batch = RecordBatch::try_from_iter([("l", lists)]).unwrap();
        let parts: Vec<_> = split_batch(batch).collect();
        assert!((20..30).contains(&parts.len()), "{}", parts.len());
        // Slices are not cut again.
        assert!(parts.into_iter().all(|part| split_batch(part).count() == 1));
    }

    #[test]
    fn split_batches_lose_no_rows() {
        let parts: Vec<_> = split_batch(integers(500_000)).collect();
        assert!(parts.len() > 3);
        assert!(parts.iter().all(|part| part.num_rows() <= BATCH_ROWS_MAX));
        assert_eq!(parts.iter().map(RecordBatch::num_rows).sum::<usize>(), 500_000);
        assert_eq!(split_batch(integers(0)).count(), 1);
    }
}
