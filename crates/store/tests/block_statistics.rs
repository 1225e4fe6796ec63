//! Statistics of blocks are the bounds of their values, for every type and any order of writing; a
//! table of contents without them is read as before.

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use euphrates_device::disk::{Disk, Mode};
use euphrates_flow::Kind;
use euphrates_store::collection::{Collection, repair, verify};
use euphrates_store::segment::{
    BlockBounds, BlockReadOptions, Segment, SegmentOptions, SharedSegment, Toc, toc_path,
};
use proptest::prelude::*;

/// A row: a number, a floating point number, and bytes that are text in half of the cases.
type Row = (Option<i64>, Option<f64>, Option<Vec<u8>>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let numbers = prop_oneof![
        4 => (-5..5i64).prop_map(Some),
        2 => any::<i64>().prop_map(Some),
        1 => Just(None),
    ];
    let floats = prop_oneof![
        4 => (-3.0..3.0f64).prop_map(Some),
        2 => prop::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1e300])
            .prop_map(Some),
        1 => prop::sample::select(vec![f64::NAN, -f64::NAN]).prop_map(Some),
        1 => Just(None),
    ];
    let long = |byte: u8| (60..70usize).prop_map(move |bytes| vec![byte; bytes]);
    let bytes = prop_oneof![
        3 => prop::collection::vec(0u8..4, 0..12).prop_map(Some),
        2 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Some),
        2 => "[a-cü€😀]{0,40}".prop_map(|text| Some(text.into_bytes())),
        1 => (long(0xff), any::<u8>()).prop_map(|(long, last)| Some([long, vec![last]].concat())),
        1 => long(b'a').prop_map(Some),
        1 => Just(None),
    ];
    let some = prop::collection::vec((numbers, floats, bytes), 0..40);
    // Blocks that are all null, or have one value, and empty ones.
    prop_oneof![6 => some, 1 => (0..20usize).prop_map(|rows| vec![(None, None, None); rows])]
}

/// One column for each type that is compared, and one that is not.
fn table(rows: &[Row]) -> RecordBatch {
    let whole = |row: &Row| row.0;
    let small = |row: &Row| row.0.map(|number| number.clamp(-99, 99) as i8);
    let float = |row: &Row| row.1;
    let bytes = |row: &Row| row.2.clone();
    let text = |row: &Row| row.2.as_ref().map(|it| String::from_utf8_lossy(it).into_owned());
    let fixed =
        |row: &Row| row.2.as_ref().map(|it| [it.as_slice(), &[0; 3]].concat()[..3].to_vec());
    let decimal = rows.iter().map(|row| row.0.map(|number| i128::from(number) * 1_000_000_007));
    let decimal = Decimal128Array::from_iter(decimal).with_precision_and_scale(38, 4).unwrap();
    let time = TimestampMicrosecondArray::from_iter(rows.iter().map(whole));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i64", Arc::new(Int64Array::from_iter(rows.iter().map(whole)))),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, Vec<Option<i32>>, _>(
                rows.iter().map(|_| None),
            )),
        ),
        ("i8", Arc::new(Int8Array::from_iter(rows.iter().map(small)))),
        ("u64", Arc::new(UInt64Array::from_iter(rows.iter().map(|row| row.0.map(|n| n as u64))))),
        ("bool", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.0.map(|n| n > 0))))),
        ("decimal", Arc::new(decimal)),
        ("time", Arc::new(time.with_timezone("Europe/Berlin"))),
        (
            "date",
            Arc::new(Date32Array::from_iter(rows.iter().map(|row| small(row).map(i32::from)))),
        ),
        ("f64", Arc::new(Float64Array::from_iter(rows.iter().map(float)))),
        ("f32", Arc::new(Float32Array::from_iter(rows.iter().map(|row| row.1.map(|x| x as f32))))),
        ("text", Arc::new(StringArray::from_iter(rows.iter().map(text)))),
        ("large", Arc::new(LargeStringArray::from_iter(rows.iter().map(text)))),
        ("view", Arc::new(StringViewArray::from_iter(rows.iter().map(text)))),
        ("bytes", Arc::new(BinaryArray::from_iter(rows.iter().map(bytes)))),
        ("large_bytes", Arc::new(LargeBinaryArray::from_iter(rows.iter().map(bytes)))),
        ("bytes_view", Arc::new(BinaryViewArray::from_iter(rows.iter().map(bytes)))),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows.iter().map(fixed), 3)
                    .unwrap(),
            ),
        ),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn disk(folder: &Path) -> Disk {
    Disk::new("test", folder, Mode::Auto).unwrap()
}

/// Writes a block for each table, the last one first.
fn written(folder: &Path, tables: &[RecordBatch], options: SegmentOptions) -> Segment {
    let path = folder.join("blocks.arrow");
    let _ = std::fs::remove_file(&path);
    let shared =
        SharedSegment::create(&disk(folder), &path, tables[0].schema_ref(), options).unwrap();
    let mut encoder = shared.encoder().unwrap();
    let encoded: Vec<_> = tables.iter().map(|table| encoder.encode(table).unwrap()).collect();
    let offsets: Vec<u64> =
        encoded.iter().map(|block| shared.reserve_range(block).unwrap()).collect();
    for (block, offset) in encoded.iter().zip(offsets).rev() {
        shared.write(offset, 0, block).unwrap();
    }
    shared.finish().unwrap()
}

/// Compares the bounds of one block with its values, which are not null, and not NaN.
fn assert_exact<V: PartialEq + PartialOrd + Copy + std::fmt::Debug>(
    name: &str,
    values: impl Iterator<Item = V>,
    least: Option<V>,
    greatest: Option<V>,
) {
    let values: Vec<V> = values.collect();
    let less = |one: V, other: V| if other < one { other } else { one };
    let more = |one: V, other: V| if other > one { other } else { one };
    assert_eq!(least, values.iter().copied().reduce(less), "{name}: {values:?}");
    assert_eq!(greatest, values.iter().copied().reduce(more), "{name}: {values:?}");
}

fn assert_bytes<'a>(
    name: &str,
    values: impl Iterator<Item = &'a [u8]>,
    least: Option<&[u8]>,
    greatest: Option<&[u8]>,
) {
    let values: Vec<&[u8]> = values.collect();
    let Some(first) = values.iter().min() else {
        return assert_eq!((least, greatest), (None, None), "{name}: no value");
    };
    assert_eq!(least, Some(&first[..first.len().min(64)]), "{name}");
    let last = values.iter().max().expect("there is one");
    match greatest {
        Some(greatest) if last.len() <= 64 => assert_eq!(greatest, *last, "{name}"),
        Some(greatest) => {
            assert!(greatest.len() <= 64 && greatest > *last, "{name}: {last:?}");
            // Nothing shorter than the cut value was given away.
            let common = greatest.len() - 1;
            assert!(greatest[..common] == last[..common], "{name}: {greatest:?}, {last:?}");
        }
        None => assert!(last.len() > 64 && last[..64] == [0xff; 64], "{name}: {last:?}"),
    }
}

fn check_column(name: &str, column: &ArrayRef, bounds: &BlockBounds, block: usize) {
    assert_eq!(bounds.nulls.value(block), column.null_count() as u64, "{name}");
    fn value<T: ArrowPrimitiveType>(of: &ArrayRef, at: usize) -> Option<T::Native> {
        let of = of.as_primitive::<T>();
        of.is_valid(at).then(|| of.value(at))
    }
    macro_rules! exact {
        ($arrow:ty) => {{
            let values = column.as_primitive::<$arrow>().iter().flatten();
            #[allow(clippy::eq_op, reason = "NaN differs from itself")]
            let values = values.filter(|value| value == value);
            let least = value::<$arrow>(&bounds.least, block);
            assert_exact(name, values, least, value::<$arrow>(&bounds.greatest, block))
        }};
    }
    macro_rules! bytes {
        ($array:expr) => {{
            let values = $array.iter().flatten().map(|value| AsRef::<[u8]>::as_ref(value));
            let bound = |of: &ArrayRef| {
                let of = of.as_binary::<i32>();
                of.is_valid(block).then(|| of.value(block).to_vec())
            };
            let (least, greatest) = (bound(&bounds.least), bound(&bounds.greatest));
            assert_bytes(name, values, least.as_deref(), greatest.as_deref())
        }};
    }
    match column.data_type() {
        DataType::Int64 => exact!(Int64Type),
        DataType::Int8 => exact!(Int8Type),
        DataType::UInt64 => exact!(UInt64Type),
        DataType::Decimal128(..) => exact!(Decimal128Type),
        DataType::Timestamp(..) => exact!(TimestampMicrosecondType),
        DataType::Date32 => exact!(Date32Type),
        DataType::Float64 => exact!(Float64Type),
        DataType::Float32 => exact!(Float32Type),
        DataType::Boolean => {
            let bound = |of: &ArrayRef| {
                let of = of.as_boolean();
                of.is_valid(block).then(|| of.value(block))
            };
            let values = column.as_boolean().iter().flatten();
            assert_exact(name, values, bound(&bounds.least), bound(&bounds.greatest));
        }
        DataType::Utf8 => bytes!(column.as_string::<i32>()),
        DataType::LargeUtf8 => bytes!(column.as_string::<i64>()),
        DataType::Utf8View => bytes!(column.as_string_view()),
        DataType::Binary => bytes!(column.as_binary::<i32>()),
        DataType::LargeBinary => bytes!(column.as_binary::<i64>()),
        DataType::BinaryView => bytes!(column.as_binary_view()),
        DataType::FixedSizeBinary(_) => bytes!(column.as_fixed_size_binary()),
        other => panic!("{other} has bounds"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bounds_are_those_of_the_values(
        blocks in prop::collection::vec((rows(), 0..5usize), 1..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        // Slices, whose bounds are not those of the whole.
        let sliced = |(rows, skip): &(Vec<Row>, usize)| {
            let skip = rows.len().min(*skip);
            table(rows).slice(skip, rows.len() - skip)
        };
        let tables: Vec<RecordBatch> = blocks.iter().map(sliced).collect();
        drop(written(folder.path(), &tables, SegmentOptions::default()));
        let path = folder.path().join("blocks.arrow");
        let segment = Segment::open(&disk(folder.path()), &path).unwrap();
        let statistics = segment.toc().statistics().unwrap().expect("it has statistics");
        for (at, field) in tables[0].schema().fields().iter().enumerate() {
            let bounds = statistics.bounds(at);
            if field.name() == "list" {
                prop_assert!(bounds.is_none());
                continue;
            }
            let bounds = bounds.expect("the type is compared");
            prop_assert_eq!(bounds.nulls.len(), tables.len());
            for (block, table) in tables.iter().enumerate() {
                check_column(field.name(), table.column(at), &bounds, block);
            }
        }
    }
}

#[test]
fn many_blocks_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let tables: Vec<RecordBatch> = (0..700).map(|n| table(&[(Some(n), None, None)])).collect();
    let segment = written(folder.path(), &tables, SegmentOptions::default());
    let bounds = segment.toc().statistics().unwrap().unwrap().bounds(0).unwrap();
    let least = bounds.least.as_primitive::<Int64Type>().values();
    assert!(least.iter().copied().eq(0..700));
}

#[test]
fn scratch_and_nested_columns_have_no_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let all = table(&[(Some(1), None, None)]);
    let scratch = SegmentOptions { scratch: true, ..SegmentOptions::default() };
    let segment = written(folder.path(), std::slice::from_ref(&all), scratch);
    assert!(segment.toc().statistics().unwrap().is_none());
    drop(segment);
    let nested = all.project(&[1]).unwrap();
    let segment = written(folder.path(), &[nested], SegmentOptions::default());
    assert!(segment.toc().statistics().unwrap().is_none());
}

#[test]
fn changed_statistics_are_decoded_or_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |from: i64| [(Some(from), Some(0.5), Some(b"ab".to_vec())), (None, None, None)];
    let tables = [table(&rows(0)), table(&rows(7))].map(|all| all.project(&[0, 8, 10]).unwrap());
    let segment = written(folder.path(), &tables, SegmentOptions::default());
    let whole = std::fs::read(toc_path(segment.path())).unwrap();
    let (mut decoded, mut refused) = (0, 0);
    // The last bytes are the statistics; the checksum is that of the changed bytes.
    for at in 48..whole.len() {
        for change in [0xff, 0x80, 0x01] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            let crc = crc_of(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
            let read =
                Toc::decode(&bytes).and_then(|toc| Ok(toc.statistics()?.map(|it| (toc, it))));
            match read {
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Corrupt, "byte {at}");
                    refused += 1;
                }
                Ok(read) => {
                    let (toc, statistics) = read.expect("version 2 has statistics");
                    let bounds = (0..3).filter_map(|column| statistics.bounds(column));
                    bounds.for_each(|bounds| assert_eq!(bounds.least.len(), toc.blocks.len()));
                    decoded += 1;
                }
            }
        }
    }
    assert!(decoded > 100 && refused > 100, "{decoded} {refused}");
}

/// CRC-32C, bit by bit.
fn crc_of(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A collection that the release before statistics has written: towns 0 to 39 in four blocks.
#[test]
fn collection_of_version_1_is_read_verified_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version_1"), home.path());
    let collection = Collection::open(home.path(), "towns").unwrap();
    let batches = collection.read(BlockReadOptions::default()).unwrap().map(Result::unwrap);
    let numbers = batches.flat_map(|batch| {
        let towns = batch.column(1).as_string::<i32>().clone();
        let numbers = batch.column(0).as_primitive::<Int64Type>().clone();
        (0..batch.num_rows()).map(move |row| (numbers.value(row), towns.value(row).to_string()))
    });
    let town = |n: i64| if n % 7 == 0 { String::new() } else { format!("town {n:03}") };
    assert!(numbers.eq((0..40).map(|n| (n, town(n)))));
    let toc = &collection.copies()[0].toc;
    assert!(toc.statistics().unwrap().is_none());
    let path = toc_path(collection.segments().unwrap()[0].path());
    // A repair writes the table again, which must have the checksum of the manifest.
    assert_eq!(toc.encode(), std::fs::read(path).unwrap());
    assert_eq!(verify(home.path(), "towns").unwrap().damages, vec![]);
    assert!(repair(home.path(), "towns", "run 2").unwrap().lost.is_empty());
}
