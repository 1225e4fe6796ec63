//! Reads files that the crate wrote, all rows or those that match a filter, and compares with the
//! rows that were written: versions and sizes of pages, codecs, dictionaries, types, nulls.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_formats::predicate::{ComparedColumn, ComparedValue};
use euphrates_formats::{Dataset, ReadLimits, ReadOptions, RowFilter, WriteOptions};
use euphrates_policy::predicate::{Comparison, Predicate};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use support::*;

/// How a file is written, and which of its rows match.
#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    /// Number of different values in the columns that the case varies.
    distinct: usize,
    /// One in how many rows is null; 0 for none.
    null_every: usize,
    version_2: bool,
    /// Whether version 2 has its own encodings of numbers and strings, which the crate decodes.
    has_deltas: bool,
    codec: Compression,
    dictionary_bytes: usize,
    page_rows: usize,
    group_rows: usize,
    /// Rows come in runs of this length, of which one in `match_every` matches.
    run: usize,
    match_every: usize,
    has_nested: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let codecs =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(Default::default())];
    let sizes = (1usize..6000, 1usize..3000, 0usize..5);
    let pages = (
        prop::sample::select(codecs.to_vec()),
        prop::sample::select(vec![0usize, 300, 1 << 20]),
        prop::sample::select(vec![7usize, 100, 100_000]),
        prop::sample::select(vec![500usize, 100_000]),
    );
    let rows = (1usize..700, prop::sample::select(vec![1usize, 2, 9, 100]));
    let others = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.3));
    (sizes, pages, rows, others).prop_map(|(sizes, pages, matching, others)| Case {
        rows: sizes.0,
        distinct: sizes.1,
        null_every: sizes.2,
        version_2: others.0,
        has_deltas: others.1,
        codec: pages.0,
        dictionary_bytes: pages.1,
        page_rows: pages.2,
        group_rows: pages.3,
        run: matching.0,
        match_every: matching.1,
        has_nested: others.2,
    })
}

/// A column `id` that numbers the rows, and columns of many types.
fn table(case: &Case) -> RecordBatch {
    let value = |row: usize| {
        let is_null = case.null_every > 0 && (row * 7919 % 101).is_multiple_of(case.null_every);
        (!is_null).then_some((row * 31 + row / 5) % case.distinct)
    };
    let numbers: Int64Array =
        (0..case.rows).map(|row| value(row).map(|value| value as i64)).collect();
    let text =
        |row: usize| value(row).map(|value| "é".repeat(value % 4) + &format!("word {value}"));
    let texts: ArrayRef = Arc::new((0..case.rows).map(text).collect::<StringArray>());
    let mut columns: Vec<(String, ArrayRef)> = vec![(
        "id".into(),
        Arc::new(Int64Array::from_iter_values(0..case.rows as i64)) as ArrayRef,
    )];
    let utc = || Some("UTC".into());
    let of_numbers = [
        DataType::UInt16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, utc()),
        DataType::Decimal128(8, 2),
        DataType::Decimal128(17, 1),
        DataType::Decimal128(30, 3),
    ];
    for data_type in of_numbers {
        let whole = match &data_type {
            DataType::Date32 => cast(&numbers, &DataType::Int32).unwrap(),
            _ => Arc::new(numbers.clone()) as ArrayRef,
        };
        columns.push((data_type.to_string(), cast(&whole, &data_type).unwrap()));
    }
    for data_type in [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::BinaryView,
    ] {
        columns.push((data_type.to_string(), cast(&texts, &data_type).unwrap()));
    }
    let bits = numbers.iter().map(|value| value.map(|value| value % 3 == 0));
    columns.push(("bits".into(), Arc::new(bits.collect::<BooleanArray>())));
    let fixed = numbers.iter().map(|value| value.map(|value| value.to_be_bytes()[1..].to_vec()));
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 7).unwrap();
    columns.push(("fixed".into(), Arc::new(fixed)));
    if case.has_nested {
        let field = Arc::new(Field::new("item", DataType::Utf8, true));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, case.rows));
        columns.push(("list".into(), Arc::new(ListArray::new(field, offsets, texts, None))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn write(case: &Case, table: &RecordBatch, path: &std::path::Path) {
    let version =
        if case.version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(case.codec)
        .set_dictionary_enabled(case.dictionary_bytes > 0)
        .set_dictionary_page_size_limit(case.dictionary_bytes.max(1))
        .set_data_page_row_count_limit(case.page_rows)
        .set_write_batch_size(case.page_rows.min(1024))
        .set_max_row_group_row_count(Some(case.group_rows));
    let properties = match case.has_deltas {
        true => properties.build(),
        false => properties.set_encoding(Encoding::PLAIN).build(),
    };
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
}

/// The rows of a batch that match, by its column `id`.
fn matching(case: &Case, batch: &RecordBatch) -> BooleanArray {
    // A matcher may see codes of a dictionary.
    let ids = cast(batch.column_by_name("id").unwrap(), &DataType::Int64).unwrap();
    let ids = ids.as_primitive::<Int64Type>();
    let matches = |id: i64| (id as usize / case.run).is_multiple_of(case.match_every);
    ids.values().iter().map(|id| Some(matches(*id))).collect()
}

fn read_and_compare(case: Case) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let table = table(&case);
    write(&case, &table, &path);
    let all = decoded(&path, &ReadOptions::default()).unwrap();
    assert_eq!(all.columns(), table.columns(), "all rows");
    let expected = filter_record_batch(&table, &matching(&case, &table)).unwrap();
    let is_flat = !(case.has_nested || case.version_2 && case.has_deltas);
    let by = case.clone();
    let filter = RowFilter::of(vec![0], move |batch| Ok(matching(&by, batch)));
    let dataset = open(&path, &ReadOptions::default()).unwrap().filtered(filter);
    let batches = read_all(&dataset).unwrap();
    let found = concat_batches(dataset.schema(), &batches).unwrap();
    let kept = filter_record_batch(&found, &matching(&case, &found)).unwrap();
    assert_eq!(kept.columns(), expected.columns(), "matching rows");
    assert!(!is_flat || found.num_rows() == expected.num_rows(), "and no others");
    read_ranges_and_compare(&case, &path, [&table, &expected]);
}

/// Reads ranges of rows, of one page or of several, and compares with all rows and those that
/// match.
fn read_ranges_and_compare(
    case: &Case,
    path: &std::path::Path,
    [all, expected]: [&RecordBatch; 2],
) {
    for rows in [case.page_rows.max(37), case.rows.div_ceil(3)] {
        let open = || open(path, &ReadOptions::default()).unwrap();
        let dataset = open().divided_every(rows);
        let is_divided = !case.has_nested && case.rows.min(case.group_rows) > rows;
        assert_eq!(dataset.splits() > open().splits(), is_divided, "{} rows", case.rows);
        let batches = read_all(&dataset).unwrap();
        let found = concat_batches(dataset.schema(), &batches).unwrap();
        assert_eq!(found.columns(), all.columns(), "all rows in ranges of {rows}");
        let by = case.clone();
        let filter = RowFilter::of(vec![0], move |batch| Ok(matching(&by, batch)));
        let batches = read_all(&open().divided_every(rows).filtered(filter)).unwrap();
        let found = concat_batches(dataset.schema(), &batches).unwrap();
        let kept = filter_record_batch(&found, &matching(case, &found)).unwrap();
        assert_eq!(kept.columns(), expected.columns(), "matching rows in ranges of {rows}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_equal_those_that_the_crate_wrote(case in cases()) {
        read_and_compare(case);
    }
}

/// Reads a dataset whose matcher fails.
fn read_with_failing_matcher(dataset: Dataset) -> usize {
    let fail = |_: &RecordBatch| Err(euphrates_flow::Error::usage("no such thing"));
    let dataset = dataset.filtered(RowFilter::of(vec![0], fail));
    let read = dataset.read(0, &ReadLimits::default()).unwrap();
    read.map(|batch| batch.unwrap().num_rows()).sum()
}

#[test]
fn failing_matcher_leaves_out_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for has_nested in [false, true] {
        let case = Case {
            rows: 40_000,
            distinct: 10,
            null_every: 0,
            version_2: true,
            has_deltas: false,
            codec: Compression::SNAPPY,
            dictionary_bytes: 1 << 20,
            page_rows: 1000,
            group_rows: 100_000,
            run: 1,
            match_every: 1,
            has_nested,
        };
        write(&case, &table(&case), &path);
        let dataset = open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(read_with_failing_matcher(dataset), case.rows);
    }
}

/// The rows that reach the matcher when a file with a page index is filtered by `id >= from`, and
/// the rows that it finds.
fn tested_and_found(path: &std::path::Path, from: i64) -> (usize, usize) {
    let dataset = open(path, &ReadOptions::default()).unwrap();
    let column = ComparedColumn { name: "id".into(), data_type: DataType::Int64 };
    let value = ComparedValue::Whole(from.into());
    let predicate = Predicate::Compare(column, Comparison::GreaterOrEqual, value);
    let tested = Arc::new(AtomicUsize::new(0));
    let count = tested.clone();
    let matches = move |batch: &RecordBatch| {
        count.fetch_add(batch.num_rows(), Relaxed);
        let ids = batch.column(0).as_primitive::<Int64Type>();
        Ok(ids.values().iter().map(|id| Some(*id >= from)).collect())
    };
    let filter = RowFilter::of(vec![0], matches);
    let dataset = dataset.skipping(predicate).filtered(filter);
    let found = read_all(&dataset).unwrap().iter().map(RecordBatch::num_rows).sum();
    (tested.load(Relaxed), found)
}

#[test]
fn pages_that_cannot_match_are_not_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let case = Case {
        rows: 50_000,
        distinct: 100,
        null_every: 3,
        version_2: false,
        has_deltas: false,
        codec: Compression::SNAPPY,
        dictionary_bytes: 0,
        page_rows: 1000,
        group_rows: 100_000,
        run: 1,
        match_every: 1,
        has_nested: false,
    };
    // The crate writes a page index.
    let table = table(&case);
    write(&case, &table, &path);
    assert_eq!(tested_and_found(&path, 48_500), (2000, 1500));
    assert_eq!(tested_and_found(&path, 0), (50_000, 50_000));
    assert_eq!(tested_and_found(&path, 50_000), (0, 0), "the statistics of the row group");
    // So do we: these are three pages.
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300_000));
    let table = RecordBatch::try_from_iter([("id", ids.clone()), ("other", ids)]).unwrap();
    let batches: Vec<RecordBatch> = (0..300).map(|at| table.slice(at * 1000, 1000)).collect();
    std::fs::write(&path, encoded("a.parquet", &batches, 300, &WriteOptions::default()).unwrap())
        .unwrap();
    let (tested, found) = tested_and_found(&path, 298_500);
    assert_eq!(found, 1500);
    assert!(tested < 150_000, "{tested}");
}

#[test]
fn damaged_page_index_leaves_out_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let case = Case {
        rows: 5000,
        distinct: 100,
        null_every: 0,
        version_2: false,
        has_deltas: false,
        codec: Compression::UNCOMPRESSED,
        dictionary_bytes: 0,
        page_rows: 100,
        group_rows: 100_000,
        run: 1,
        match_every: 1,
        has_nested: false,
    };
    write(&case, &table(&case), &path);
    let whole = std::fs::read(&path).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(whole.clone())).unwrap();
    let chunk = reader.metadata().row_group(0).column(0);
    for (begin, length) in [
        (chunk.column_index_offset().unwrap(), chunk.column_index_length().unwrap()),
        (chunk.offset_index_offset().unwrap(), chunk.offset_index_length().unwrap()),
    ] {
        for at in (0..length as usize).step_by(7) {
            let mut bytes = whole.clone();
            bytes[begin as usize + at] ^= 0xff;
            std::fs::write(&path, bytes).unwrap();
            let (_, found) = tested_and_found(&path, 4990);
            // A bound that is wrong is believed, as that of a row group; but nothing else happens.
            assert!(found <= 10);
        }
    }
}

#[test]
fn nulls_of_a_page_are_not_those_of_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    // The first half of a page has values, as many as it has nulls; the other column cuts it there.
    let a: Int64Array = (0..2000).map(|row| (row < 1000).then_some(7)).collect();
    let b = StringArray::from_iter_values((0..2000).map(|row| format!("{row:01100}")));
    let id = Int64Array::from_iter_values(0..2000);
    let columns: [(&str, ArrayRef); 3] =
        [("a", Arc::new(a)), ("b", Arc::new(b)), ("id", Arc::new(id))];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 20)
        .set_write_batch_size(1000)
        .build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    let column = |name: &str, data_type| ComparedColumn { name: name.into(), data_type };
    let terms = vec![
        Predicate::Compare(
            column("a", DataType::Int64),
            Comparison::Equal,
            ComparedValue::Whole(7),
        ),
        Predicate::Compare(
            column("b", DataType::Utf8),
            Comparison::GreaterOrEqual,
            ComparedValue::Bytes(vec![]),
        ),
    ];
    let matches = |batch: &RecordBatch| {
        let a = batch.column(0).as_primitive::<Int64Type>();
        Ok(a.iter().map(|value| Some(value == Some(7))).collect())
    };
    let dataset = open(&path, &ReadOptions::default()).unwrap().skipping(Predicate::All(terms));
    let filter = RowFilter::of(vec![0, 1], matches);
    let found = read_all(&dataset.filtered(filter)).unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
}

/// The rows of a file whose column `id` is at least `from`, in batches.
fn from_id(path: &std::path::Path, from: i64) -> Vec<RecordBatch> {
    let matches = move |batch: &RecordBatch| {
        let ids = cast(batch.column(0), &DataType::Int64)?;
        let ids = ids.as_primitive::<Int64Type>();
        Ok(ids.values().iter().map(|id| Some(*id >= from)).collect())
    };
    let filter = RowFilter::of(vec![0], matches);
    read_all(&open(path, &ReadOptions::default()).unwrap().filtered(filter)).unwrap()
}

/// Writes `id`, which numbers the rows, and columns of strings and integers with dictionaries.
fn write_with_dictionaries(strings: ArrayRef, group_rows: usize, path: &std::path::Path) {
    let ids = Int64Array::from_iter_values(0..strings.len() as i64);
    let tens = Int64Array::from_iter_values((0..strings.len() as i64).map(|row| row / 10));
    let columns: [(&str, ArrayRef); 3] =
        [("id", Arc::new(ids)), ("string", strings), ("ten", Arc::new(tens))];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_page_size_limit(64 << 20)
        .set_max_row_group_row_count(Some(group_rows));
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties.build())).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
}

#[test]
fn other_columns_are_read_only_where_a_row_matches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let strings = StringArray::from_iter_values((0..4000).map(|row| format!("text {}", row / 3)));
    write_with_dictionaries(Arc::new(strings), 1000, &path);
    let mut bytes = std::fs::read(&path).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
    for group in reader.metadata().row_groups().iter().take(3) {
        for column in &group.columns()[1..] {
            let (begin, length) = column.byte_range();
            bytes[begin as usize..(begin + length) as usize].fill(0xff);
        }
    }
    std::fs::write(&path, bytes).unwrap();
    let found: usize = from_id(&path, 3990).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(found, 10);
    let all = open(&path, &ReadOptions::default()).unwrap();
    assert!(read_all(&all).is_err(), "the damage is real");
}

#[test]
fn batches_of_matching_rows_hold_few_long_strings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let long = "long".repeat(1 << 20);
    let strings =
        StringArray::from_iter_values((0..60).map(|row| if row % 7 == 0 { "" } else { &long }));
    write_with_dictionaries(Arc::new(strings.clone()), 1000, &path);
    let batches = from_id(&path, 5);
    let row_max = batches.iter().map(RecordBatch::num_rows).max().unwrap();
    assert!(row_max * long.len() <= 16 * euphrates_flow::BATCH_BYTES_TARGET, "{row_max}");
    let found = concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(found.column(1).as_string::<i32>(), &strings.slice(5, 55));
    let tens: Vec<i64> = (5..60).map(|row| row / 10).collect();
    assert_eq!(found.column(2).as_primitive::<Int64Type>().values(), &tens[..]);
}
