//! Prepares nested columns for Arrow's IPC encoder: removes values that no row refers to.
//!
//! The encoder slices the values of a list, and loses the offset of a union that is sliced in this
//! way. For list views it writes all values, even if few rows are left: a partition by a thousand
//! keys wrote a column a thousand times.

use std::sync::Arc;

use crate::batch::rebuilt;
use arrow::array::{
    Array, ArrayData, ArrayDataBuilder, ArrayRef, AsArray, GenericListArray, GenericListViewArray,
    OffsetSizeTrait, UInt64Array, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;

/// The same column with unreferenced values removed: in lists of unions or list views, those before
/// the first list and after the last one; in list views, all of them if rows use less than half.
pub fn cut_nested(column: &ArrayRef) -> ArrayRef {
    if !needs_cut(column.data_type()) {
        return column.clone();
    }
    let (data, nulls) = (column.to_data(), column.nulls().cloned());
    match column.data_type() {
        DataType::List(_) => list(column.as_list::<i32>()),
        DataType::LargeList(_) => list(column.as_list::<i64>()),
        DataType::ListView(_) => gathered(column.as_list_view::<i32>()),
        DataType::LargeListView(_) => gathered(column.as_list_view::<i64>()),
        DataType::FixedSizeList(..) | DataType::Struct(_) => {
            let cut = |of: &ArrayData| cut_nested(&make_array(of.clone())).to_data();
            let children = data.child_data().iter().map(cut).collect();
            // SAFETY: the children hold the same values.
            unsafe { rebuilt(data.into_builder().child_data(children)) }
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let (ends, first, length) = from_zero(map.value_offsets());
            let entries: ArrayRef = Arc::new(map.entries().slice(first, length));
            rebuild_list(column, ends, &entries, nulls)
        }
        _ => column.clone(),
    }
}

fn list<O: OffsetSizeTrait>(of: &GenericListArray<O>) -> ArrayRef {
    let (ends, first, length) = from_zero(of.value_offsets());
    rebuild_list(of, ends, &of.values().slice(first, length), of.nulls().cloned())
}

/// A list view with only the values that its rows use, in row order; unchanged if that is half of
/// them or more.
fn gathered<O: OffsetSizeTrait>(of: &GenericListViewArray<O>) -> ArrayRef {
    let used = |row: usize| match of.is_valid(row) {
        true => of.value_size(row).as_usize(),
        false => 0,
    };
    let sizes: Vec<usize> = (0..of.len()).map(used).collect();
    let total: usize = sizes.iter().sum();
    let rows = (0..of.len()).flat_map(|row| {
        let begin = of.value_offset(row).as_usize();
        (begin..begin + sizes[row]).map(|at| at as u64)
    });
    let is_full = total * 2 >= of.values().len();
    let taken = (!is_full).then(|| take(of.values(), &UInt64Array::from_iter_values(rows), None));
    let (Some(Ok(values)), DataType::ListView(item) | DataType::LargeListView(item)) =
        (taken, of.data_type())
    else {
        return Arc::new(of.clone());
    };
    let number = |n: usize| O::from_usize(n).unwrap_or_default();
    let offsets = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(number(*end - size))
    });
    let offsets: Vec<O> = offsets.collect();
    let sizes: Vec<O> = sizes.into_iter().map(number).collect();
    let (offsets, sizes) = (offsets.into(), sizes.into());
    let values = cut_nested(&values);
    Arc::new(GenericListViewArray::new(item.clone(), offsets, sizes, values, of.nulls().cloned()))
}

/// Builds a list or map of these values, after `cut_nested` on the values.
fn rebuild_list<O: OffsetSizeTrait>(
    of: &dyn Array,
    ends: OffsetBuffer<O>,
    values: &ArrayRef,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let data = ArrayDataBuilder::new(of.data_type().clone()).len(of.len()).nulls(nulls);
    let data = data.add_buffer(ends.into_inner().into_inner());
    // SAFETY: the offsets begin and end where the values do, of which none has changed.
    unsafe { rebuilt(data.add_child_data(cut_nested(values).to_data())) }
}

/// Offsets rebased to 0, and the start and length of the values they refer to.
fn from_zero<O: OffsetSizeTrait>(offsets: &[O]) -> (OffsetBuffer<O>, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let ends: Vec<O> = offsets.iter().map(|end| *end - first).collect();
    (OffsetBuffer::new(ends.into()), first.as_usize(), (last - first).as_usize())
}

/// Whether a type contains unions or list views, so that `cut_nested` applies.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field};
/// use euphrates_flow::nested::needs_cut;
///
/// let item = Arc::new(Field::new("item", DataType::Int64, true));
/// assert!(!needs_cut(&DataType::List(item.clone())));
/// assert!(needs_cut(&DataType::ListView(item)));
/// ```
pub fn needs_cut(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::ListView(_) | DataType::LargeListView(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => needs_cut(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| needs_cut(field.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray, StructArray, UnionArray};
    use arrow::datatypes::{Field, UnionFields, UnionMode};
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::StreamWriter;
    use arrow::record_batch::RecordBatch;

    fn unions(mode: UnionMode) -> ArrayRef {
        let numbers = Field::new("number", DataType::Int64, true);
        let texts = Field::new("text", DataType::Utf8, true);
        let fields = UnionFields::from_fields([numbers, texts]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..9)),
            Arc::new(StringArray::from_iter_values((0..9).map(|n| format!("text {n}")))),
        ];
        let codes = (0..9).map(|n| n % 2).collect();
        let places = (mode == UnionMode::Dense).then(|| (0..9).collect());
        Arc::new(UnionArray::try_new(fields, codes, places, columns).unwrap())
    }

    #[test]
    fn list_views_drop_unreferenced_values() {
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..900).map(|n| format!("text {n}"))));
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let (offsets, sizes) = (vec![600, 0, 3, 599].into(), vec![3, 900, 0, 2].into());
        let nulls = Some(NullBuffer::from(vec![true, false, true, true]));
        let views = GenericListViewArray::<i32>::new(item, offsets, sizes, texts, nulls);
        let views: ArrayRef = Arc::new(views);
        let within = Arc::new(Field::new("views", views.data_type().clone(), true));
        let structs: ArrayRef =
            Arc::new(StructArray::new(vec![within].into(), vec![views.clone()], None));
        let cut = cut_nested(&views);
        assert_eq!(cut.as_list_view::<i32>().values().len(), 5);
        let inner = cut_nested(&structs);
        assert_eq!(inner.as_struct().column(0).as_list_view::<i32>().values().len(), 5);
        for row in 0..4 {
            let (old, new) = (views.as_list_view::<i32>(), cut.as_list_view::<i32>());
            assert_eq!(old.is_valid(row), new.is_valid(row));
            assert!(old.is_null(row) || old.value(row) == new.value(row), "{row}");
        }
    }

    #[test]
    fn slices_of_lists_of_unions_keep_their_values_through_ipc() {
        for mode in [UnionMode::Sparse, UnionMode::Dense] {
            let item = unions(mode);
            let field = Arc::new(Field::new("item", item.data_type().clone(), false));
            let ends = OffsetBuffer::<i32>::from_lengths([3, 3, 0, 3]);
            let lists: ArrayRef = Arc::new(GenericListArray::new(field, ends, item, None));
            let within = Arc::new(Field::new("lists", lists.data_type().clone(), true));
            let structs = StructArray::new(vec![within].into(), vec![lists.clone()], None);
            for column in [lists, Arc::new(structs)] {
                let part = column.slice(1, 3);
                let batch = RecordBatch::try_from_iter([("c", cut_nested(&part))]).unwrap();
                let mut bytes = vec![];
                let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.finish().unwrap();
                let mut reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
                let read = reader.next().unwrap().unwrap();
                assert_eq!(read.column(0).to_data(), part.to_data(), "{mode:?}");
            }
        }
    }
}
