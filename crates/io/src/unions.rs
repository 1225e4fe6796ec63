//! Lists of unions as Arrow's IPC encoder writes them rightly: it cuts the values of a list out of
//! their raw data, and forgets where a union that is cut so begins.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayDataBuilder, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait,
    make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use euphrates_flow::batch::rebuilt;

/// The same column, with no values before the first or behind the last of a list of unions.
pub fn cut_lists_of_unions(column: &ArrayRef) -> ArrayRef {
    if !has_union(column.data_type()) {
        return column.clone();
    }
    let (data, nulls) = (column.to_data(), column.nulls().cloned());
    match column.data_type() {
        DataType::List(_) => list(column.as_list::<i32>()),
        DataType::LargeList(_) => list(column.as_list::<i64>()),
        DataType::FixedSizeList(..) | DataType::Struct(_) => {
            let cut = |of: &ArrayData| cut_lists_of_unions(&make_array(of.clone())).to_data();
            let children = data.child_data().iter().map(cut).collect();
            // SAFETY: the children hold the same values.
            unsafe { rebuilt(data.into_builder().child_data(children)) }
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let (ends, first, length) = from_zero(map.value_offsets());
            let entries: ArrayRef = Arc::new(map.entries().slice(first, length));
            of_cut(column, ends, &entries, nulls)
        }
        _ => column.clone(),
    }
}

fn list<O: OffsetSizeTrait>(of: &GenericListArray<O>) -> ArrayRef {
    let (ends, first, length) = from_zero(of.value_offsets());
    of_cut(of, ends, &of.values().slice(first, length), of.nulls().cloned())
}

/// A list or map of these values, cut within.
fn of_cut<O: OffsetSizeTrait>(
    of: &dyn Array,
    ends: OffsetBuffer<O>,
    values: &ArrayRef,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let data = ArrayDataBuilder::new(of.data_type().clone()).len(of.len()).nulls(nulls);
    let data = data.add_buffer(ends.into_inner().into_inner());
    // SAFETY: the offsets begin and end where the values do, of which none has changed.
    unsafe { rebuilt(data.add_child_data(cut_lists_of_unions(values).to_data())) }
}

/// Offsets that begin with 0, and the part of the values they are about.
fn from_zero<O: OffsetSizeTrait>(offsets: &[O]) -> (OffsetBuffer<O>, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let ends: Vec<O> = offsets.iter().map(|end| *end - first).collect();
    (OffsetBuffer::new(ends.into()), first.as_usize(), (last - first).as_usize())
}

/// Whether there are unions in it, where they can be cut wrongly.
pub fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_union(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
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
                let batch =
                    RecordBatch::try_from_iter([("c", cut_lists_of_unions(&part))]).unwrap();
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
