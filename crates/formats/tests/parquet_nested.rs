//! Compares nested columns encoded here with the crate: both readers decode them, and levels and
//! statistics equal those that the crate computes.

mod support;

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_formats::WriteOptions;
use parquet::basic::Encoding;
use proptest::prelude::*;
use support::encoded;
use support::parquet_crate::*;

/// Pseudo-random numbers, so that a failure replays.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % most as u64) as usize
    }

    fn one_in(&mut self, most: usize) -> bool {
        self.below(most) == 0
    }
}

fn field(name: &str, random: &mut Random, depth: usize) -> Field {
    let is_nullable = !random.one_in(3);
    Field::new(name, data_type(random, depth), is_nullable)
}

fn data_type(random: &mut Random, depth: usize) -> DataType {
    let inner = |random: &mut Random| Arc::new(field("item", random, depth - 1));
    match random.below(if depth == 0 { 7 } else { 14 }) {
        0 => DataType::Int64,
        1 => DataType::Utf8,
        2 => DataType::Boolean,
        3 => DataType::Float64,
        4 => DataType::FixedSizeBinary(3),
        5 => DataType::LargeBinary,
        6 => DataType::Int16,
        7 | 8 => DataType::List(inner(random)),
        9 => DataType::LargeList(inner(random)),
        10 => {
            let size = 1 + random.below(3) as i32;
            DataType::FixedSizeList(inner(random), size)
        }
        11 => {
            let key = Field::new("key", DataType::Utf8, false);
            let entries = vec![key, field("value", random, depth - 1)];
            let entries = Field::new("entries", DataType::Struct(entries.into()), false);
            DataType::Map(Arc::new(entries), false)
        }
        _ => {
            let count = 1 + random.below(3);
            let fields = (0..count).map(|at| field(&format!("f{at}"), random, depth - 1));
            DataType::Struct(fields.collect())
        }
    }
}

/// Which of `rows` are null. Those in `masked` are null now and then even if the field has no
/// nulls, as they are within a null.
fn nulls(
    rows: usize,
    is_nullable: bool,
    masked: Option<&NullBuffer>,
    random: &mut Random,
) -> Option<NullBuffer> {
    let every = [1, 2, 5, 1 << 20][random.below(4)] + 1;
    let valid = |row: usize| {
        let may_be = is_nullable || masked.is_some_and(|masked| masked.is_null(row));
        !(may_be && random.one_in(every))
    };
    let valid: Vec<bool> = (0..rows).map(valid).collect();
    (!valid.iter().all(|valid| *valid)).then(|| valid.into())
}

fn lengths(rows: usize, random: &mut Random) -> Vec<usize> {
    let most = [1, 2, 9][random.below(3)];
    (0..rows).map(|_| random.below(most + 1)).collect()
}

/// An array of this field; nulls of lists and structs have elements and columns like all others.
fn array(field: &Field, rows: usize, masked: Option<&NullBuffer>, random: &mut Random) -> ArrayRef {
    let nulls = nulls(rows, field.is_nullable(), masked, random);
    match field.data_type() {
        DataType::List(inner) => {
            let offsets = OffsetBuffer::from_lengths(lengths(rows, random));
            let values = array(inner, *offsets.last().unwrap() as usize, None, random);
            Arc::new(ListArray::new(inner.clone(), offsets, values, nulls))
        }
        DataType::LargeList(inner) => {
            let offsets = OffsetBuffer::<i64>::from_lengths(lengths(rows, random));
            let values = array(inner, *offsets.last().unwrap() as usize, None, random);
            Arc::new(LargeListArray::new(inner.clone(), offsets, values, nulls))
        }
        DataType::FixedSizeList(inner, size) => {
            let values = array(inner, rows * *size as usize, None, random);
            Arc::new(FixedSizeListArray::new(inner.clone(), *size, values, nulls))
        }
        DataType::Map(entries, _) => {
            let offsets = OffsetBuffer::from_lengths(lengths(rows, random));
            let inside = array(entries, *offsets.last().unwrap() as usize, None, random);
            let inside = inside.as_struct().clone();
            Arc::new(MapArray::new(entries.clone(), offsets, inside, nulls, false))
        }
        DataType::Struct(fields) => {
            let column = |field: &FieldRef| array(field, rows, nulls.as_ref(), random);
            let columns = fields.iter().map(column).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls))
        }
        kind => leaf(kind, rows, nulls, random),
    }
}

fn leaf(kind: &DataType, rows: usize, nulls: Option<NullBuffer>, random: &mut Random) -> ArrayRef {
    let distinct = [3, 400, 1 << 40][random.below(3)];
    let numbers: Vec<i64> = (0..rows).map(|_| random.below(distinct) as i64 - 200).collect();
    let array: ArrayRef = match kind {
        DataType::Utf8 | DataType::LargeBinary => {
            let texts: StringArray =
                numbers.iter().map(|number| Some(format!("{number} in words"))).collect();
            cast(&texts, kind).unwrap()
        }
        DataType::FixedSizeBinary(width) => {
            let bytes = numbers.iter().map(|number| number.to_be_bytes()[5..].to_vec());
            let bytes = bytes.map(Some);
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, *width).unwrap())
        }
        DataType::Boolean => {
            Arc::new(numbers.iter().map(|number| Some(number & 1 > 0)).collect::<BooleanArray>())
        }
        DataType::Int16 => {
            Arc::new(Int16Array::from_iter_values(numbers.iter().map(|number| *number as i16)))
        }
        kind => cast(&Int64Array::from(numbers), kind).unwrap(),
    };
    make_array(array.to_data().into_builder().nulls(nulls).build().unwrap())
}

fn batches(seed: u64, rows: &[(usize, usize)]) -> Vec<RecordBatch> {
    let mut random = Random(seed);
    let fields = (0..2).map(|at| field(&format!("c{at}"), &mut random, 4));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |&(rows, offset): &(usize, usize)| {
        let columns = schema
            .fields()
            .iter()
            .map(|field| array(field, rows + offset, None, &mut random).slice(offset, rows));
        RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
    };
    rows.iter().map(batch).collect()
}

fn check_levels(batches: &[RecordBatch]) {
    check(batches);
    let ours = encoded("a.parquet", batches, 2, &WriteOptions::default()).unwrap();
    let theirs = written_by_crate(batches);
    for (at, (ours, theirs)) in levels(&ours).into_iter().zip(levels(&theirs)).enumerate() {
        assert_eq!(ours, theirs, "column chunk {at} of {:?}", batches[0].schema());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nested_columns_round_trip_with_the_levels_of_the_crate(
        seed: u64,
        rows in prop::collection::vec((1usize..60, 0usize..9), 1..5),
    ) {
        check_levels(&batches(seed, &rows));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn nested_columns_of_many_pages_round_trip(seed: u64) {
        check_levels(&batches(seed, &[(9000, 3), (9000, 0)]));
    }
}

/// Lists of these lengths, with values that count up to `distinct` again and again.
fn counting_lists(lengths: &[usize], distinct: i64) -> RecordBatch {
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
    let count = *offsets.last().unwrap() as i64;
    let values = Int64Array::from_iter_values((0..count).map(|at| at % distinct));
    let element = Arc::new(Field::new("item", DataType::Int64, true));
    let lists = ListArray::new(element, offsets, Arc::new(values), None);
    RecordBatch::try_from_iter([("list", Arc::new(lists) as ArrayRef)]).unwrap()
}

#[test]
fn full_dictionary_ends_before_the_record_that_does_not_fit() {
    let few = counting_lists(&[7; 9000], 1000);
    let many = counting_lists(&[7; 40_000], i64::MAX);
    let batches = [few, many];
    check_levels(&batches);
    let file = encoded("a.parquet", &batches, 2, &WriteOptions::default()).unwrap();
    let (_, metadata) = batches_by_crate(&file);
    let pages = metadata.row_group(0).column(0).page_encoding_stats().unwrap();
    let encodings = pages.iter().map(|page| page.encoding);
    assert!(encodings.eq([Encoding::PLAIN, Encoding::RLE_DICTIONARY, Encoding::PLAIN]));
}

#[test]
fn record_with_more_entries_than_a_page_is_one_page() {
    for distinct in [10, i64::MAX] {
        check_levels(&[counting_lists(&[3, 700_000, 0, 2, 70_000, 300_000, 1], distinct)]);
    }
}
