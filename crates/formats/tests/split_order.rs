//! Splits are read in the order of their best values of a column.

mod support;

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::ValueOrder;
use euphrates_formats::{Dataset, ReadLimits, ReadOptions};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;
use support::*;

/// A Parquet file with these values, of which each inner list is a row group.
fn write(path: &Path, groups: &[Vec<Option<f64>>], statistics: EnabledStatistics) {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Float64, true)]));
    let properties = WriterProperties::builder().set_statistics_enabled(statistics).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    for group in groups {
        let column: ArrayRef = Arc::new(Float64Array::from(group.clone()));
        writer.write(&RecordBatch::try_new(schema.clone(), vec![column]).unwrap()).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// The values of each split, in the order of the splits.
fn splits(dataset: &Dataset) -> Vec<Vec<Option<f64>>> {
    let of_split = |split| {
        let batches = dataset.read(split, &ReadLimits::default()).unwrap();
        let values = |batch: RecordBatch| {
            batch.column(0).as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
        };
        batches.flat_map(|batch| values(batch.unwrap())).collect()
    };
    (0..dataset.splits()).map(of_split).collect()
}

fn ordered(path: &Path, order: ValueOrder) -> Vec<Vec<Option<f64>>> {
    splits(&open(path, &ReadOptions::default()).unwrap().in_order_of(0, order))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn best_values_come_first(
        groups in prop::collection::vec(
            prop::collection::vec(prop::option::of(-9.0..9.0f64), 1..5), 1..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.parquet");
        write(&path, &groups, EnabledStatistics::Chunk);
        for (order, sign) in [(ValueOrder::Ascending, 1.0), (ValueOrder::Descending, -1.0)] {
            // A row group of nulls alone has no bounds, and comes last.
            let best = |group: &Vec<Option<f64>>| {
                let values = group.iter().flatten().map(|value| sign * value);
                values.fold(f64::INFINITY, f64::min)
            };
            let mut expected = groups.clone();
            expected.sort_by(|one, other| best(one).total_cmp(&best(other)));
            prop_assert_eq!(ordered(&path, order), expected);
        }
    }
}

#[test]
fn files_without_statistics_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.parquet");
    let groups = [vec![Some(3.0)], vec![Some(1.0)], vec![Some(2.0)]];
    write(&path, &groups, EnabledStatistics::None);
    assert_eq!(ordered(&path, ValueOrder::Ascending), groups);
}

#[test]
fn files_that_tell_come_before_those_that_do_not() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.parquet"), &[vec![Some(0.0)]], EnabledStatistics::None);
    let groups = [vec![Some(5.0)], vec![Some(4.0)]];
    write(&folder.path().join("b.parquet"), &groups, EnabledStatistics::Chunk);
    let pattern = folder.path().join("*.parquet");
    let expected = [vec![Some(4.0)], vec![Some(5.0)], vec![Some(0.0)]];
    assert_eq!(ordered(&pattern, ValueOrder::Ascending), expected);
}
