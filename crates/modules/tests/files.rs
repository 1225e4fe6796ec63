//! Flows over files: in parallel, in order, all or nothing.

use std::path::{Path, PathBuf};

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use euphrates_engine::{Options, Report, go, start};
use euphrates_flow::{Document, Kind, Result};
use euphrates_formats::{Dataset, ReadLimits, ReadOptions};
use euphrates_modules::registry;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use serde_json::{Value, json};

fn document(steps: &[(&str, Value)]) -> Document {
    let mut document = Document::new("test");
    let ids: Vec<String> =
        steps.iter().map(|(module, config)| document.place(module, config.clone(), None)).collect();
    for pair in ids.windows(2) {
        document.attach(&pair[0], &pair[1]);
    }
    document
}

fn options(folder: &Path) -> Options {
    Options {
        memory_bytes: Some(256 << 20),
        cores: Some(3),
        home: Some(folder.into()),
        ..Options::default()
    }
}

fn run(folder: &Path, steps: &[(&str, Value)]) -> Result<Report> {
    go(&document(steps), &registry(), &options(folder))
}

/// The file, read without a flow.
fn read(path: &str) -> RecordBatch {
    let dataset = Dataset::open(&[path.to_string()], &ReadOptions::default()).unwrap();
    let read = |split| dataset.read(split, &ReadLimits::default()).unwrap();
    let batches = (0..dataset.splits()).flat_map(read).collect::<Result<Vec<_>>>().unwrap();
    concat_batches(dataset.schema(), &batches).unwrap()
}

/// Lines of CSV: the number of the line, and text that sometimes spans lines.
fn csv(folder: &Path, name: &str, rows: usize) -> String {
    let mut text = String::from("n,text\n");
    for row in 0..rows {
        let break_ = if row % 5 == 0 { "\n" } else { " " };
        text.push_str(&format!("{row},\"record{break_}number {row}\"\n"));
    }
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn is_dense(column: &ArrayRef) -> bool {
    let values = column.as_primitive::<Int64Type>().values();
    values.iter().enumerate().all(|(at, value)| at as i64 == *value)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

#[test]
fn a_stream_stays_in_order_through_any_format() {
    let folder = tempfile::tempdir().unwrap();
    let source = csv(folder.path(), "in.csv", 1_000_000);
    for name in ["out.parquet", "out.arrow", "out.csv", "out.jsonl"] {
        let target = folder.path().join(name).display().to_string();
        let scan = ("scan", json!({"path": source, "order": true}));
        // Small chunks, so that every run is written in several.
        let save = ("save", json!({"path": target, "row_group_bytes": 100_000}));
        let report = run(folder.path(), &[scan, save]).unwrap();
        assert!(report.modules[1].remark.is_some());
        let found = read(&target);
        assert_eq!(found.num_rows(), 1_000_000, "{name}");
        assert!(is_dense(&found["n"]), "{name}");
    }
}

#[test]
fn sorted_records_are_written_in_order_by_several_instances() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["out.parquet", "out.records", "out.arrow"] {
        let target = folder.path().join(name).display().to_string();
        run(
            folder.path(),
            &[
                ("generate", json!({"what": "records", "rows": 400_000})),
                ("sort", json!({"by": ["key"]})),
                ("save", json!({"path": target})),
            ],
        )
        .unwrap();
        let found = read(&target);
        let keys = found["key"].as_fixed_size_binary();
        assert_eq!(keys.len(), 400_000, "{name}");
        assert!((1..keys.len()).all(|at| keys.value(at - 1) <= keys.value(at)), "{name}");
    }
}

#[test]
fn every_record_is_read_once_without_an_order() {
    let folder = tempfile::tempdir().unwrap();
    for part in 0..3 {
        csv(folder.path(), &format!("{part}.csv"), 200_000);
    }
    let pattern = folder.path().join("*.csv").display().to_string();
    let target = folder.path().join("all.parquet").display().to_string();
    let scan = ("scan", json!({"path": [pattern], "columns": ["n"]}));
    run(folder.path(), &[scan, ("save", json!({"path": target, "compression": "zstd"}))]).unwrap();
    let found = read(&target);
    let mut numbers: Vec<i64> = found["n"].as_primitive::<Int64Type>().values().to_vec();
    numbers.sort_unstable();
    assert!(
        numbers.len() == 600_000 && numbers.iter().enumerate().all(|(at, n)| at as i64 / 3 == *n)
    );
}

#[test]
fn an_existing_file_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = csv(folder.path(), "a.csv", 10);
    let before = std::fs::read(&path).unwrap();
    let steps = [("scan", json!({"path": path})), ("save", json!({"path": path}))];
    let error = run(folder.path(), &steps).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.advice().unwrap().contains("overwrite"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn the_input_may_be_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = csv(folder.path(), "a.csv", 100_000);
    let before = std::fs::read(&path).unwrap();
    let scan = ("scan", json!({"path": path, "order": true}));
    run(folder.path(), &[scan, ("save", json!({"path": path, "overwrite": true}))]).unwrap();
    let found = read(&path);
    assert!(found.num_rows() == 100_000 && is_dense(&found["n"]));
    assert_ne!(std::fs::read(&path).unwrap(), before, "quotes are written only where needed");
}

#[test]
fn failed_flow_leaves_only_previous_file() {
    let folder = tempfile::tempdir().unwrap();
    let source = csv(folder.path(), "in.csv", 600_000);
    let mut text = std::fs::read_to_string(&source).unwrap();
    text.push_str("not a number,x\n");
    std::fs::write(&source, text).unwrap();
    let target = folder.path().join("old.parquet").display().to_string();
    std::fs::write(&target, "old").unwrap();
    let before = files(folder.path());
    let save = ("save", json!({"path": target, "overwrite": true, "row_group_bytes": 100_000}));
    let error = run(folder.path(), &[("scan", json!({"path": source})), save]).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("in.csv: line 720002: "), "{error}");
    assert_eq!(files(folder.path()), before);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
}

#[test]
fn a_flow_that_is_cancelled_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.parquet").display().to_string();
    let steps = [
        ("generate", json!({"what": "records", "rows": 1_000_000_000u64})),
        ("save", json!({"path": target})),
    ];
    let running = start(&document(&steps), &registry(), &options(folder.path())).unwrap();
    while files(folder.path()).is_empty() {
        std::thread::yield_now();
    }
    running.cancel();
    assert_eq!(running.wait().unwrap_err().kind(), Kind::Interrupted);
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn empty_input_writes_file_without_records() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["out.parquet", "out.arrow", "out.csv"] {
        let source = csv(folder.path(), "in.csv", 0);
        let target = folder.path().join(name).display().to_string();
        run(folder.path(), &[("scan", json!({"path": source})), ("save", json!({"path": target}))])
            .unwrap();
        let found = read(&target);
        assert_eq!((found.num_rows(), found.num_columns()), (0, 2), "{name}");
    }
}

/// The recorded order of each row group: leaf, whether it is descending, whether nulls come first.
fn recorded_order(path: &str) -> Vec<Option<Vec<(i32, bool, bool)>>> {
    let file = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let groups = file.metadata().row_groups().iter();
    let order = groups.map(|group| {
        let columns = group.sorting_columns()?.iter();
        Some(columns.map(|key| (key.column_idx, key.descending, key.nulls_first)).collect())
    });
    order.collect()
}

#[test]
fn row_groups_record_the_order_of_a_sorted_stream() {
    let folder = tempfile::tempdir().unwrap();
    let input = csv(folder.path(), "a.csv", 300_000);
    let path = folder.path().join("a.parquet").display().to_string();
    let scan = ("scan", json!({"path": input}));
    let save = ("save", json!({"path": path, "overwrite": true, "row_group_bytes": 20_000}));
    let sort = |by: Value| ("sort", json!({"by": by}));
    let few = ("filter", json!({"where": "n % 2 = 0"}));
    let double = ("project", json!({"columns": ["-n as n", "text"]}));
    let keys = json!(["text desc nulls first", {"column": "n"}]);
    let of_keys = vec![(1, true, true), (0, false, false)];
    for (steps, expected) in [
        (vec![scan.clone(), sort(keys.clone()), save.clone()], Some(of_keys.clone())),
        (vec![scan.clone(), sort(keys), few, save.clone()], Some(of_keys)),
        (vec![scan.clone(), sort(json!(["n"])), double, save.clone()], None),
        (vec![scan, save], None),
    ] {
        run(folder.path(), &steps).unwrap();
        let found = recorded_order(&path);
        assert!(found.len() > 1, "row groups");
        assert!(found.iter().all(|order| *order == expected), "{found:?} of {steps:?}");
    }
}
