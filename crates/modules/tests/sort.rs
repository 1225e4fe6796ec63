//! The sort against an oracle: arrow's own lexicographic sort of the whole input.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::*;
use arrow::compute::{SortColumn, SortOptions, concat_batches, lexsort_to_indices, take};

use arrow::record_batch::RecordBatch;
use euphrates_engine::{Options, Report, go};
use euphrates_flow::{Document, Result};
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
        variables: BTreeMap::new(),
        home: Some(folder.into()),
        scratch: vec![],
    }
}

/// Sorts by arrow, nulls last, all keys of the columns ascending.
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
        // Keys may repeat when skewed, so the payload settles ties in the comparison.
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
fn nothing_sorts_to_nothing_and_one_to_one() {
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
    assert!(error.contains("module sort_1") && error.contains("`n`"), "{error}");
}
