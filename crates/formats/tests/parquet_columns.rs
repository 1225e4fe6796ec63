//! Compares columns encoded here with the crate: both readers decode them, and their statistics
//! equal those that the crate computes.

mod support;

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_formats::{Compression, ReadOptions, WriteOptions};
use parquet::basic::{Encoding, PageType};
use proptest::prelude::*;
use support::parquet_crate::*;
use support::*;

/// Every type that is encoded here, and one that is not.
fn kinds() -> Vec<DataType> {
    use DataType::*;
    let utc = || Some("UTC".into());
    vec![
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Date32,
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Millisecond, None),
        Timestamp(TimeUnit::Microsecond, utc()),
        Timestamp(TimeUnit::Nanosecond, utc()),
        Decimal128(7, 2),
        Decimal128(18, 3),
        Decimal128(30, 3),
        Utf8,
        LargeUtf8,
        Binary,
        LargeBinary,
        FixedSizeBinary(5),
        Boolean,
    ]
}

/// The rows of one batch: their number, the most distinct values, the period of nulls, and the
/// number of rows sliced off in front.
#[derive(Clone, Debug)]
struct Shape {
    rows: usize,
    distinct: u64,
    null_every: Option<u64>,
    offset: usize,
    seed: u64,
}

fn mixed(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

fn text(value: u64) -> String {
    match value % 7 {
        0 => String::new(),
        1 => format!("{value}"),
        2 => format!("a longer text with the number {value}"),
        3 => "é".repeat(20 + (value % 20) as usize) + &value.to_string(),
        4 => "\u{10ffff}".repeat(17),
        5 => format!("sixteen bytes {:02}", value % 100),
        _ => "\u{7f}".repeat(70),
    }
}

fn column(kind: &DataType, shape: &Shape) -> ArrayRef {
    let rows = shape.rows + shape.offset;
    let values = (0..rows as u64).map(|row| {
        let draw = mixed(shape.seed.wrapping_add(row));
        let is_null = shape.null_every.is_some_and(|every| (draw >> 40).is_multiple_of(every));
        (!is_null).then(|| mixed(draw % shape.distinct + 1))
    });
    let odd = [f64::NAN, 0.0, -0.0, f64::INFINITY, -1.5, f64::MIN_POSITIVE, 1e300, -1e-300];
    let float = |value: u64| match value % 3 {
        0 => odd[value as usize / 3 % odd.len()],
        _ => value as i64 as f64 / 1e3,
    };
    let bytes = |value: u64| match value % 5 {
        0 => vec![255; 66],
        _ => text(value).into_bytes().into_iter().map(|byte| byte ^ value as u8).collect(),
    };
    let array: ArrayRef = match kind {
        DataType::Float32 => {
            Arc::new(values.map(|v| v.map(|v| float(v) as f32)).collect::<Float32Array>())
        }
        DataType::Float64 => Arc::new(values.map(|v| v.map(float)).collect::<Float64Array>()),
        DataType::Utf8 | DataType::LargeUtf8 => {
            let texts: StringArray = values.map(|v| v.map(text)).collect();
            cast(&texts, kind).unwrap()
        }
        DataType::Binary | DataType::LargeBinary => {
            let strings: BinaryArray = values.map(|v| v.map(bytes)).collect();
            cast(&strings, kind).unwrap()
        }
        DataType::FixedSizeBinary(width) => {
            let strings = values.map(|v| v.map(|v| v.to_be_bytes()[..*width as usize].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(strings, *width).unwrap())
        }
        DataType::Boolean => {
            Arc::new(values.map(|v| v.map(|v| v & 1 > 0)).collect::<BooleanArray>())
        }
        DataType::Decimal128(precision, scale) => {
            let most = 10i128.pow(u32::from(*precision).min(18));
            let values = values.map(|v| v.map(|v| i128::from(v as i64) % most));
            let values: Decimal128Array = values.collect();
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        kind => {
            // Numbers with these low bits.
            let width = kind.primitive_width().unwrap();
            let nulls: NullBufferBuilder =
                values.clone().fold(NullBufferBuilder::new(rows), |mut nulls, value| {
                    nulls.append(value.is_some());
                    nulls
                });
            let mut nulls = nulls;
            let raw = values.flat_map(|v| v.unwrap_or(7).to_le_bytes().into_iter().take(width));
            let raw = arrow::buffer::Buffer::from_slice_ref(raw.collect::<Vec<u8>>());
            let data = ArrayData::builder(kind.clone()).len(rows).nulls(nulls.finish());
            make_array(data.add_buffer(raw).build().unwrap())
        }
    };
    array.slice(shape.offset, shape.rows)
}

fn batches(kinds: &[DataType], nullable: bool, shapes: &[Shape]) -> Vec<RecordBatch> {
    let fields = kinds.iter().enumerate();
    let fields = fields.map(|(at, kind)| Field::new(format!("c{at}"), kind.clone(), nullable));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |shape: &Shape| {
        let null_every = shape.null_every.filter(|_| nullable);
        let shape = Shape { null_every, ..shape.clone() };
        let columns = kinds.iter().map(|kind| column(kind, &shape)).collect();
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    shapes.iter().map(batch).collect()
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let rows = prop_oneof![Just(0usize), Just(1), 2usize..100, 1000usize..9000];
    let distinct = prop_oneof![Just(1u64), 2u64..20, 100u64..5000, Just(u64::MAX)];
    let null_every = prop_oneof![Just(None), Just(Some(1)), (2u64..30).prop_map(Some)];
    let shape = (rows, distinct, null_every, 0usize..20, any::<u64>());
    let shape = shape.prop_map(|(rows, distinct, null_every, offset, seed)| Shape {
        rows,
        distinct,
        null_every,
        offset,
        seed,
    });
    let some = |shapes: &Vec<Shape>| shapes.iter().any(|shape| shape.rows > 0);
    prop::collection::vec(shape, 1..6).prop_filter("a row", some).prop_map(|mut shapes| {
        // The helper makes no row group of empty batches alone; nor does `save`.
        shapes.sort_by_key(|shape| shape.rows == 0);
        shapes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn columns_round_trip_with_the_statistics_of_the_crate(
        shapes in shapes(),
        nullable: bool,
    ) {
        check(&batches(&kinds(), nullable, &shapes));
    }
}

/// The encodings of the first column's data pages, in the order of the footer.
fn page_encodings(batches: &[RecordBatch]) -> Vec<Encoding> {
    let file = encoded("a.parquet", batches, batches.len(), &WriteOptions::default()).unwrap();
    let (found, metadata) = read_by_crate(&file);
    let expected = concat_batches(batches[0].schema_ref(), batches).unwrap();
    assert_eq!(found.columns(), expected.columns());
    let column = metadata.row_group(0).column(0);
    let pages = column.page_encoding_stats().unwrap().iter();
    let data = pages.filter(|page| page.page_type == PageType::DATA_PAGE);
    let encodings: Vec<Encoding> = data.map(|page| page.encoding).collect();
    let has_dictionary = encodings.contains(&Encoding::RLE_DICTIONARY);
    assert_eq!(column.dictionary_page_offset().is_some(), has_dictionary);
    encodings
}

#[test]
fn dictionary_is_used_while_it_pays() {
    use Encoding::{PLAIN, RLE_DICTIONARY};
    const FEW: u64 = 1000;
    const ALL: u64 = u64::MAX;
    let shape = |distinct, null_every| {
        move |seed: u64| Shape { rows: 20_000, distinct, null_every, offset: 3, seed: seed << 20 }
    };
    for null_every in [None, Some(3)] {
        let (few, all) = (shape(FEW, null_every), shape(ALL, null_every));
        let cases = [
            ((0..8).map(few).collect(), vec![RLE_DICTIONARY]),
            ((0..8).map(all).collect(), vec![PLAIN]),
            // The dictionary becomes full.
            ((0..4).map(few).chain((4..16).map(all)).collect(), vec![RLE_DICTIONARY, PLAIN]),
            // The sample gave no sign of the repetition that follows.
            ((0..4).map(all).chain((4..8).map(few)).collect::<Vec<_>>(), vec![PLAIN]),
            (vec![Shape { rows: 100_000, ..few(0) }], vec![RLE_DICTIONARY]),
            (vec![Shape { rows: 100_000, ..all(0) }], vec![PLAIN]),
            (vec![Shape { null_every: Some(1), ..few(0) }], vec![PLAIN]),
            (vec![Shape { rows: 1, null_every: None, ..few(0) }], vec![PLAIN]),
        ];
        for (case, (shapes, expected)) in cases.into_iter().enumerate() {
            for kind in [DataType::Int64, DataType::Timestamp(TimeUnit::Millisecond, None)] {
                let batches = batches(&[kind], true, &shapes);
                assert_eq!(page_encodings(&batches), expected, "case {case} {null_every:?}");
            }
        }
    }
}

#[test]
fn truth_values_are_runs_where_these_are_shorter() {
    let shape = |distinct| Shape { rows: 9000, distinct, null_every: Some(3), offset: 3, seed: 1 };
    for (distinct, expected) in [(1, Encoding::RLE), (u64::MAX, Encoding::PLAIN)] {
        let batches = batches(&[DataType::Boolean], true, &[shape(distinct)]);
        assert_eq!(page_encodings(&batches), [expected]);
    }
}

#[test]
fn long_strings_are_split_into_pages() {
    let long = |row: usize| format!("{row:05}").repeat(20_000 + row);
    let texts: ArrayRef = Arc::new((0..60).map(|row| Some(long(row / 2))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
    check(std::slice::from_ref(&batch));
    let file = encoded("a.parquet", &[batch], 1, &WriteOptions::default()).unwrap();
    let (_, metadata) = read_by_crate(&file);
    let pages = metadata.row_group(0).column(0).page_encoding_stats().unwrap().clone();
    let plain = pages.iter().find(|page| page.encoding == Encoding::PLAIN && page.count > 1);
    assert!(plain.is_some(), "{pages:?}");
}

#[test]
fn long_dictionary_strings_do_not_make_long_batches() {
    let texts = ["a", "b", "c"].map(|letter| letter.repeat(20_000));
    let column = (0..3000).map(|row| Some(texts[row % 3].as_str())).collect::<StringArray>();
    let batch = RecordBatch::try_from_iter([("t", Arc::new(column) as ArrayRef)]).unwrap();
    let options = WriteOptions { compression: Some(Compression::None), ..WriteOptions::default() };
    let ours = encoded("a.parquet", std::slice::from_ref(&batch), 1, &options).unwrap();
    // Other writers record the bytes of strings; ours has the dictionary alone.
    let theirs = written_by_crate(std::slice::from_ref(&batch));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for file in [ours, theirs] {
        assert!(file.len() < 200_000, "it is a dictionary");
        std::fs::write(&path, file).unwrap();
        let batches = read_all(&open(&path, &ReadOptions::default()).unwrap()).unwrap();
        let held = batches.iter().map(|batch| batch.column(0).get_buffer_memory_size());
        assert!(held.max().unwrap() < 4 << 20, "of 60 MB");
        assert_eq!(concat_batches(&batch.schema(), &batches).unwrap(), batch);
    }
}

#[test]
fn equal_rows_encode_to_equal_bytes() {
    let shape = Shape { rows: 30_000, distinct: 500, null_every: Some(9), offset: 0, seed: 5 };
    let batches = batches(&kinds(), true, &[shape.clone(), shape]);
    let file = || encoded("a.parquet", &batches, 2, &WriteOptions::default()).unwrap();
    assert!(file() == file());
}
