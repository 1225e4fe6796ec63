//! Compares the sort with an oracle: arrow's lexicographic sort of the whole input.

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{SortColumn, SortOptions, cast, concat_batches, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use euphrates_engine::{Options, Report, go};
use euphrates_flow::{Document, Result, batch_bytes};
use euphrates_modules::registry;
use serde_json::{Value, json};

fn run(steps: &[(&str, Value)], options: &Options) -> Result<Report> {
    let mut document = Document::new("test");
    let ids: Vec<String> =
        steps.iter().map(|(module, config)| document.place(module, config.clone(), None)).collect();
    for pair in ids.windows(2) {
        document.attach(&pair[0], &pair[1]);
    }
    go(&document, &registry(), options)
}

fn rows(report: &Report) -> RecordBatch {
    let collected = report.collected.values().next().expect("a collect");
    concat_batches(&collected.schema, &collected.batches).unwrap()
}

fn options(folder: &Path, memory: usize) -> Options {
    Options {
        memory_bytes: Some(memory),
        cores: Some(3),
        home: Some(folder.into()),
        ..Options::default()
    }
}

/// Sorts with arrow, nulls last, by these columns, each ascending or descending.
fn oracle(batch: &RecordBatch, by: &[(&str, bool)]) -> RecordBatch {
    let columns: Vec<SortColumn> = by
        .iter()
        .map(|(name, descending)| SortColumn {
            values: batch.column_by_name(name).unwrap().clone(),
            options: Some(SortOptions { descending: *descending, nulls_first: false }),
        })
        .collect();
    let indices = lexsort_to_indices(&columns, None).unwrap();
    let columns = batch.columns().iter().map(|column| take(column, &indices, None).unwrap());
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
}

#[test]
fn records_come_out_in_order_in_one_pass_and_in_two() {
    let folder = tempfile::tempdir().unwrap();
    for (skewed, memory) in [(false, 1 << 30), (true, 1 << 30), (false, 96 << 20), (true, 96 << 20)]
    {
        let config = json!({"what": "records", "rows": 600_000, "skewed": skewed});
        let source = ("generate", config);
        let options = options(folder.path(), memory);
        let sorted = run(
            &[source.clone(), ("sort", json!({"by": ["key"]})), ("collect", json!({}))],
            &options,
        )
        .unwrap();
        let unsorted = run(&[source, ("collect", json!({}))], &options).unwrap();
        let remark = sorted.modules[1].remark.clone().unwrap();
        assert_eq!(remark.starts_with("two passes"), memory < 1 << 30, "{remark}");
        // Skewed keys may repeat, so the payload breaks ties in the comparison.
        let whole = [("key", false), ("payload", false)];
        let sorted = rows(&sorted);
        let keys = |batch: &RecordBatch| batch.column(0).clone();
        assert_eq!(&keys(&sorted), &keys(&oracle(&sorted, &[("key", false)])));
        assert_eq!(oracle(&sorted, &whole), oracle(&rows(&unsorted), &whole));
        let left = std::fs::read_dir(folder.path().join("scratch")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "scratch is empty after the run");
    }
}

#[test]
fn a_table_is_sorted_by_any_columns_in_any_direction() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), 64 << 20);
    let source = ("generate", json!({"what": "lineitem", "scale": 0.02}));
    let unsorted = rows(&run(&[source.clone(), ("collect", json!({}))], &options).unwrap());
    let unique = [("l_orderkey", false), ("l_linenumber", false)];
    for by in [
        vec![("l_shipdate", false), ("l_orderkey", false), ("l_linenumber", false)],
        vec![("l_comment", true), ("l_orderkey", false), ("l_linenumber", true)],
        vec![("l_extendedprice", true), ("l_orderkey", true), ("l_linenumber", false)],
        vec![("l_shipmode", false), ("l_returnflag", true), unique[0], unique[1]],
    ] {
        let keys: Vec<String> = by
            .iter()
            .map(|(name, descending)| format!("{name} {}", if *descending { "desc" } else { "" }))
            .collect();
        let keys: Vec<&str> = keys.iter().map(|key| key.trim()).collect();
        let steps = [source.clone(), ("sort", json!({"by": keys})), ("collect", json!({}))];
        let sorted = rows(&run(&steps, &options).unwrap());
        assert_eq!(sorted, oracle(&unsorted, &by), "{keys:?}");
    }
}

/// Writes batches to an Arrow file.
fn keep(path: &Path, batches: impl IntoIterator<Item = RecordBatch>) {
    let mut batches = batches.into_iter().peekable();
    let schema = batches.peek().expect("a batch").schema();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = FileWriter::try_new(file, &schema).unwrap();
    batches.for_each(|batch| writer.write(&batch).unwrap());
    writer.finish().unwrap();
}

/// Writes a table with columns of many types with nulls to an Arrow file of a few batches.
fn table(path: &Path, rows: usize) {
    let scattered = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let present = |row: usize, every: u64| scattered(row) % every != 0;
    let number = |row: usize| present(row, 11).then(|| (scattered(row) % 5000) as i64 - 2500);
    let text = |row: usize| present(row, 7).then(|| "é".repeat((scattered(row) % 40) as usize));
    let list = |row: usize| present(row, 5).then(|| vec![Some(row as i32); row % 3]);
    let batch = |from: usize| {
        let rows = || from..(from + 4096).min(rows);
        let lists =
            ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(rows().map(list));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("number", Arc::new(rows().map(number).collect::<Int64Array>())),
            ("text", Arc::new(rows().map(text).collect::<StringArray>())),
            ("views", Arc::new(rows().map(text).collect::<StringViewArray>())),
            ("row", Arc::new(rows().map(|row| row as u32).collect::<UInt32Array>())),
            ("flag", Arc::new(rows().map(|row| Some(present(row, 2))).collect::<BooleanArray>())),
            ("lists", Arc::new(lists)),
            ("float", Arc::new(rows().map(|row| Some(row as f32)).collect::<Float32Array>())),
            ("nothing", Arc::new(NullArray::new(rows().len()))),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )
        .unwrap()
    };
    keep(path, (0..rows).step_by(4096).map(batch));
}

#[test]
fn columns_of_every_type_and_their_nulls_are_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.arrow");
    table(&path, 120_000);
    let source = ("scan", json!({"path": path}));
    for memory in [1 << 30, 24 << 20] {
        let options = options(folder.path(), memory);
        let unsorted = rows(&run(&[source.clone(), ("collect", json!({}))], &options).unwrap());
        for by in [
            vec![("number", false), ("row", true)],
            vec![("number", true), ("row", false)],
            vec![("views", false), ("flag", true), ("row", false)],
            vec![("float", true), ("text", false)],
        ] {
            let keys = by.iter().map(|(name, descending)| {
                json!({"column": name, "descending": descending, "nulls_first": false})
            });
            let keys: Vec<Value> = keys.collect();
            let steps = [source.clone(), ("sort", json!({"by": keys})), ("collect", json!({}))];
            let report = run(&steps, &options).unwrap();
            let remark = report.modules[1].remark.clone().unwrap();
            assert_eq!(remark.starts_with("two passes"), memory < 1 << 30, "{remark}");
            assert_eq!(rows(&report), oracle(&unsorted, &by), "{by:?}");
        }
        // Every key occurs many times; `row` numbers the input rows.
        let source = ("scan", json!({"path": path, "order": true}));
        let sort = ("sort", json!({"by": ["flag"], "stable": true}));
        let sorted = rows(&run(&[source, sort, ("collect", json!({}))], &options).unwrap());
        assert_eq!(sorted, oracle(&unsorted, &[("flag", false), ("row", false)]));
    }
}

#[test]
fn a_batch_stays_near_its_size_where_records_are_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.arrow");
    let long = |row: i64| if row < 100 { 300_000 } else { 10 };
    let text = |row: i64| (row != 50_000).then(|| "x".repeat(long(row)));
    let whole: ArrayRef = Arc::new(
        (0..60_000).map(|row| Some(text(row).unwrap_or_default())).collect::<StringArray>(),
    );
    let with_null: ArrayRef = Arc::new((0..60_000).map(text).collect::<StringArray>());
    let as_type = |data_type| cast(&with_null, &data_type).unwrap();
    let (large, views) = (as_type(DataType::LargeUtf8), as_type(DataType::BinaryView));
    let list = |row: i64| Some((0..long(row) as i64 / 8).map(Some));
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..60_000).map(list)));
    for texts in [whole, with_null, large, views, lists] {
        let of = texts.data_type().clone();
        let numbers: Int64Array = (0..60_000).map(Some).collect();
        let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("text", texts)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        keep(&path, [batch.clone()]);
        let steps = [
            ("scan", json!({"path": path})),
            ("sort", json!({"by": ["n"]})),
            ("collect", json!({})),
        ];
        let report = run(&steps, &options(folder.path(), 1 << 30)).unwrap();
        let collected = report.collected.values().next().unwrap();
        let largest = collected.batches.iter().map(batch_bytes).max().unwrap();
        assert!(largest < 5 << 20, "{of}: {largest}");
        assert_eq!(rows(&report).column(1), batch.column(1), "{of}");
    }
}

#[test]
fn lists_count_only_their_own_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.arrow");
    let count = 200_000;
    let list = |row: i64| Some((0..20).map(move |at| Some(row + at)));
    let lists: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..count).map(list)));
    let numbers: ArrayRef =
        Arc::new((0..count).map(|row| Some(row * 7 % count)).collect::<Int64Array>());
    let batch = RecordBatch::try_from_iter([("n", numbers), ("l", lists)]).unwrap();
    keep(&path, [batch.clone()]);
    let steps =
        [("scan", json!({"path": path})), ("sort", json!({"by": ["n"]})), ("collect", json!({}))];
    for (memory, passes) in [(1 << 30, "one pass"), (48 << 20, "two passes")] {
        let report = run(&steps, &options(folder.path(), memory)).unwrap();
        let remark = report.modules[1].remark.clone().unwrap();
        assert!(remark.starts_with(passes), "{remark}");
        assert_eq!(rows(&report), oracle(&batch, &[("n", false)]));
    }
}

#[test]
fn partitions_can_be_polled() {
    let folder = tempfile::tempdir().unwrap();
    let steps = [
        ("generate", json!({"what": "integers", "rows": 100_000})),
        ("partition", json!({"by": ["n"]})),
        ("union", json!({})),
        ("collect", json!({})),
    ];
    let report = run(&steps, &options(folder.path(), 1 << 30)).unwrap();
    assert_eq!(rows(&report).num_rows(), 100_000);
}

#[test]
fn equal_keys_keep_their_order_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    for memory in [1 << 30, 48 << 20] {
        let source = json!({"what": "records", "rows": 400_000, "skewed": true, "order": true});
        let steps = |sort: bool| {
            let mut steps = vec![("generate", source.clone())];
            if sort {
                steps.push(("sort", json!({"by": ["key"], "stable": true})));
            }
            steps.push(("collect", json!({})));
            steps
        };
        let options = options(folder.path(), memory);
        let unsorted = rows(&run(&steps(false), &options).unwrap());
        let sorted = rows(&run(&steps(true), &options).unwrap());
        let keys: &FixedSizeBinaryArray = unsorted.column(0).as_fixed_size_binary();
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by_key(|row| keys.value(*row as usize));
        let order = UInt32Array::from(order);
        assert_eq!(sorted.column(1), &take(unsorted.column(1), &order, None).unwrap());
    }
    let steps = [
        ("generate", json!({"what": "integers", "rows": 10})),
        ("sort", json!({"by": ["n"], "stable": true})),
        ("collect", json!({})),
    ];
    let error = run(&steps, &options(folder.path(), 1 << 30)).err().unwrap().to_string();
    assert!(error.contains("no order to keep"), "{error}");
}

#[test]
fn empty_and_single_row_inputs_sort() {
    let folder = tempfile::tempdir().unwrap();
    for rows_in in [0, 1] {
        let steps = [
            ("generate", json!({"what": "integers", "rows": rows_in})),
            ("sort", json!({"by": ["n desc"]})),
            ("collect", json!({})),
        ];
        let report = run(&steps, &options(folder.path(), 1 << 30)).unwrap();
        assert_eq!(rows(&report).num_rows(), rows_in);
    }
}

#[test]
fn unknown_columns_are_named_with_their_module() {
    let folder = tempfile::tempdir().unwrap();
    let steps = [
        ("generate", json!({"what": "integers", "rows": 3})),
        ("sort", json!({"by": ["m"]})),
        ("collect", json!({})),
    ];
    let error = run(&steps, &options(folder.path(), 1 << 30)).err().unwrap().to_string();
    assert!(error.contains("module sort_1") && error.contains("known: n"), "{error}");
}

#[test]
fn equal_numbers_are_equal_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.arrow");
    let floats: Float64Array =
        [0.0, -0.0, -f64::NAN, 0.0, f64::NAN, -1.0, -0.0].into_iter().map(Some).collect();
    let texts: StringArray = ["d", "a", "y", "b", "x", "z", "c"].into_iter().map(Some).collect();
    let numbers: Int8Array = [4, 1, 7, 2, 6, 0, 3].into_iter().map(Some).collect();
    let halves = cast(&floats, &DataType::Float16).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("f", Arc::new(floats)),
        ("text", Arc::new(texts)),
        ("n", Arc::new(numbers)),
        ("h", halves),
    ];
    keep(&path, [RecordBatch::try_from_iter(columns).unwrap()]);
    // Followed by a number, a float is part of an exact key; followed by a text, of a row encoding.
    for by in [json!(["f", "n"]), json!(["f", "text"]), json!(["h", "n"]), json!(["h", "text"])] {
        let steps =
            [("scan", json!({"path": path})), ("sort", json!({"by": by})), ("collect", json!({}))];
        let sorted = rows(&run(&steps, &options(folder.path(), 1 << 30)).unwrap());
        let texts: Vec<_> = sorted.column(1).as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["z", "a", "b", "c", "d", "x", "y"]);
        let zeros = sorted.column(0).as_primitive::<Float64Type>();
        assert!(zeros.value(1).is_sign_negative() && zeros.value(2).is_sign_positive());
    }
}
