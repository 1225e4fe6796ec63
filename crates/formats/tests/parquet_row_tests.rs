//! Rows are tested by several columns one after the other.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::*;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_formats::{ReadOptions, RowFilter, RowTest};
use parquet::arrow::ArrowWriter;
use support::*;

const ROWS: i64 = 200_000;

/// Whether a row with these values passes a test.
type Matches = fn(&[i64]) -> bool;

/// Three columns of integers: the number of each row, and others computed of it.
fn write(path: &std::path::Path) {
    let column = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..ROWS).map(of)));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", column(|row| row)),
        ("seven", column(|row| row % 7)),
        ("square", column(|row| row * row)),
    ];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), None).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
}

/// A test by some columns that counts the rows that it sees.
fn counting(columns: Vec<usize>, matches: Matches, cost_bytes: u32) -> (RowTest, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let test = move |batch: &RecordBatch| {
        count.fetch_add(batch.num_rows(), Relaxed);
        let columns: Vec<ArrayRef> =
            batch.columns().iter().map(|it| cast(it, &DataType::Int64).unwrap()).collect();
        let row = |row: usize| -> Vec<i64> {
            columns.iter().map(|it| it.as_primitive::<Int64Type>().value(row)).collect()
        };
        Ok((0..batch.num_rows()).map(|at| Some(matches(&row(at)))).collect())
    };
    let test = RowTest { columns, matches: Box::new(test), rate: Arc::default(), cost_bytes };
    (test, seen)
}

/// The numbers of the rows that pass tests.
fn found(path: &std::path::Path, tests: Vec<RowTest>) -> Vec<i64> {
    let dataset = open(path, &ReadOptions::default()).unwrap();
    let dataset = dataset.filtered(RowFilter { tests, predicate: None, tightens: false });
    let batches = read_all(&dataset).unwrap();
    let rows = concat_batches(dataset.schema(), &batches).unwrap();
    let ids = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    let squares: Vec<i64> = ids.iter().map(|id| id * id).collect();
    assert_eq!(rows.column(2).as_primitive::<Int64Type>().values(), &squares[..]);
    ids
}

#[test]
fn later_tests_see_only_rows_that_passed_selective_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path);
    let (dear, seen_by_dear) = counting(vec![1, 2], |row| row[0] == 3 && row[1] % 2 == 0, 1000);
    let (cheap, seen_by_cheap) = counting(vec![0], |row| row[0] % 100 == 4, 0);
    let expected: Vec<i64> =
        (0..ROWS).filter(|id| id % 100 == 4 && id % 7 == 3 && id % 2 == 0).collect();
    assert_eq!(found(&path, vec![dear, cheap]), expected);
    assert_eq!(seen_by_cheap.load(Relaxed) as i64, ROWS, "the cheap test is made first");
    assert_eq!(seen_by_dear.load(Relaxed) as i64, ROWS / 100);
}

#[test]
fn tests_share_columns_and_may_pass_many_rows_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path);
    let pairs: [(Matches, Matches); 4] = [
        (|row| row[0] % 10 < 9, |row| row[0] % 7 == row[1]),
        (|row| row[0] % 10 < 4, |row| row[0] % 3 == 1 && row[1] > 2),
        (|row| row[0] > 150_000, |row| row[0] < 100_000),
        (|row| row[0] > 199_990, |row| row[1] != 0),
    ];
    for (of_one, of_two) in pairs {
        let expected: Vec<i64> =
            (0..ROWS).filter(|id| of_one(&[*id]) && of_two(&[*id, id % 7])).collect();
        let tests = [counting(vec![0], of_one, 0).0, counting(vec![0, 1], of_two, 3).0];
        let rows = found(&path, tests.into());
        let kept: Vec<i64> =
            rows.into_iter().filter(|id| of_one(&[*id]) && of_two(&[*id, id % 7])).collect();
        // Where most rows match, the others are left to the filter behind.
        assert_eq!(kept, expected);
    }
}

#[test]
fn test_that_tightens_is_made_to_the_end_and_begins_with_few_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path);
    // More rows than the trial of other tests, which would end it.
    let of_first: Matches = |row| row[0] < 120_000 || row[0] % 1000 == 0;
    let (test, seen) = counting(vec![0], of_first, 0);
    let dataset = open(&path, &ReadOptions::default()).unwrap();
    let dataset =
        dataset.filtered(RowFilter { tests: vec![test], predicate: None, tightens: true });
    let batches = read_all(&dataset).unwrap();
    assert!(batches[0].num_rows() <= 4096, "{} rows before it can tighten", batches[0].num_rows());
    let rows = concat_batches(dataset.schema(), &batches).unwrap();
    let expected: Vec<i64> = (0..ROWS).filter(|id| of_first(&[*id])).collect();
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &expected[..]);
    assert_eq!(seen.load(Relaxed) as i64, ROWS);
}
