//! Aggregates of random records equal those of a map, whether states are merged at once, passed on
//! ungrouped, or spilled.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::{Cancel, MemoryAccount, Result};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::config::Config;
use super::exchange::state_merge::{MergeOutput, StateMerge};
use super::exchange::state_rows::{PairPartition, PairPartitioning, RowKind, StateRows};
use super::partial_aggregate::PartialAggregator;
use super::plan::AggregatePlan;
use super::tables::hashes_of;
use crate::partitioning::scatter::scatter;
use crate::testing::setup;

/// Whether rows bypass partial aggregation: those that a full table has no group for, or most.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Grouped,
    Frozen,
    Passed,
}

/// The share of an instance whose table is full after some groups.
const SMALL_SHARE_BYTES: usize = 16 << 10;

/// The output for these batches with `share_bytes` behind the exchange, and the bytes spilled.
fn aggregated(
    config: &Value,
    batches: &[RecordBatch],
    way: Way,
    share_bytes: usize,
) -> Result<(Vec<RecordBatch>, usize)> {
    aggregated_by(PairPartition::Spread, 0, config, batches, way, share_bytes)
}

/// Like `aggregated`; the states are merged in parts by these bits of their hashes.
fn aggregated_by(
    partition: PairPartition,
    bits: u32,
    config: &Value,
    batches: &[RecordBatch],
    way: Way,
    share_bytes: usize,
) -> Result<(Vec<RecordBatch>, usize)> {
    let config: Config = serde_json::from_value(config.clone()).unwrap();
    let (plan, source) = AggregatePlan::new(&config, &batches[0].schema())?;
    let (plan, source) = (Arc::new(plan), Arc::new(source));
    let share = match way {
        Way::Grouped => 1 << 30,
        Way::Frozen => SMALL_SHARE_BYTES,
        Way::Passed => 0,
    };
    let partitioning = PairPartitioning::new(Some(2), Arc::new(partition.into()));
    let memory = MemoryAccount::alone(share);
    let mut before = PartialAggregator::new(plan.clone(), source, partitioning, memory);
    let mut parts = vec![vec![]; 1 << bits];
    let put = &mut |StateRows { kind, rows }: StateRows| -> Result<()> {
        let scattered = scatter(&rows, &hashes_of(&rows), 0, bits)?;
        for (part, states) in parts.iter_mut().enumerate() {
            states.push(plan.widened(StateRows { kind, rows: scattered.part(part) })?);
        }
        Ok(())
    };
    batches.iter().try_for_each(|batch| before.add(batch, 0, put))?;
    before.finish(put)?;
    let behind = Arc::new(AggregatePlan::of_states(&config, &plan.states)?);
    let (scratch, cancel) = (Arc::new(Scratch::new(&setup())), Cancel::default());
    let spilled = Cell::new(0);
    let (values, counted) = (RefCell::new(vec![]), RefCell::new(vec![]));
    let merge = |states: Vec<RecordBatch>, is_last| {
        let merging = StateMerge {
            plan: &behind,
            scratch: &scratch,
            memory: &MemoryAccount::alone(share_bytes),
            cancel: &cancel,
            spilled: &|bytes| spilled.set(spilled.get() + bytes),
            is_last,
        };
        merging.merge(states.into_iter().map(Ok), bits, &mut |merged| {
            match merged {
                MergeOutput::Values(batch) => values.borrow_mut().push(batch),
                MergeOutput::States(rows) => {
                    let kind = RowKind::Group;
                    counted.borrow_mut().push(behind.widened(StateRows { kind, rows })?);
                }
            }
            Ok(())
        })
    };
    let is_one_group = behind.keys.is_empty();
    match behind.distinct.is_empty() {
        // Without keys, a part without states has a group as well.
        true if is_one_group => merge(parts.concat(), true)?,
        true => parts.into_iter().try_for_each(|states| merge(states, true))?,
        false => {
            parts.into_iter().try_for_each(|states| merge(states, false))?;
            let counted = counted.take();
            if is_one_group || !counted.is_empty() {
                merge(counted, true)?;
            }
        }
    }
    Ok((values.take(), spilled.get()))
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("t", DataType::Utf8, true),
        Field::new("x", DataType::Int64, true),
    ]))
}

type Row = (Option<i64>, Option<String>, Option<i64>);

fn batches(rows: &[Row]) -> Vec<RecordBatch> {
    let batch = |rows: &[Row]| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0))),
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.1.as_deref()))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2))),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    };
    match rows {
        [] => vec![batch(&[])],
        rows => rows.chunks(13).map(batch).collect(),
    }
}

/// The values of a group, in the order of `values`.
type Computed = (i64, i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>);

fn values() -> Value {
    json!({
        "rows": "count()", "n": "count(x)", "kinds": "count(distinct x)", "sum": "sum(x)",
        "low": "min(x)", "high": "max(x)", "mean": "avg(x)",
    })
}

type Key = (Option<i64>, Option<String>);

fn oracle(rows: &[Row], by: &[&str]) -> BTreeMap<Key, Computed> {
    let mut groups: BTreeMap<Key, (i64, Vec<i64>)> = BTreeMap::new();
    if by.is_empty() {
        groups.insert((None, None), (0, vec![]));
    }
    for (k, t, x) in rows {
        let key =
            (by.contains(&"k").then_some(*k).flatten(), t.clone().filter(|_| by.contains(&"t")));
        let group = groups.entry(key).or_default();
        group.0 += 1;
        group.1.extend(x);
    }
    let compute = |(rows, values): (i64, Vec<i64>)| {
        let sum = (!values.is_empty()).then(|| values.iter().sum::<i64>());
        let kinds = values.iter().collect::<BTreeSet<_>>().len() as i64;
        let mean = sum.map(|sum| (sum as f64 / values.len() as f64 * 1e6) as i64);
        let (low, high) = (values.iter().min().copied(), values.iter().max().copied());
        (rows, values.len() as i64, kinds, sum, low, high, mean)
    };
    groups.into_iter().map(|(key, group)| (key, compute(group))).collect()
}

fn found(batches: &[RecordBatch]) -> BTreeMap<Key, Computed> {
    let mut groups = BTreeMap::new();
    for batch in batches {
        let number = |name: &str, row: usize| {
            let column = batch.column_by_name(name)?;
            let column = column.as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let text = |row: usize| {
            let column = batch.column_by_name("t")?.as_string::<i32>();
            column.is_valid(row).then(|| column.value(row).to_string())
        };
        let means = batch.column_by_name("mean").unwrap().as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            let count = |name| number(name, row).unwrap();
            let mean = means.is_valid(row).then(|| (means.value(row) * 1e6) as i64);
            let value = (
                count("rows"),
                count("n"),
                count("kinds"),
                number("sum", row),
                number("low", row),
                number("high", row),
                mean,
            );
            assert_eq!(groups.insert((number("k", row), text(row)), value), None);
        }
    }
    groups
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![Just(None), (-20i64..20).prop_map(Some)];
    let text = prop_oneof![Just(None), "[ab]{0,9}".prop_map(Some)];
    let value = prop_oneof![1 => Just(None), 4 => (-50i64..50).prop_map(Some)];
    prop::collection::vec((key, text, value), 0..200)
}

proptest! {
    #[test]
    fn groups_equal_those_of_map(
        rows in rows(),
        by in prop::sample::select(vec![vec![], vec!["k"], vec!["t"], vec!["k", "t"]]),
        way in prop::sample::select(vec![Way::Grouped, Way::Frozen, Way::Passed]),
        share_bytes in prop::sample::select(vec![32 << 10, 1 << 30]),
        partition in prop::sample::select(vec![
            PairPartition::Spread, PairPartition::ByGroup, PairPartition::ByValue,
        ]),
    ) {
        let config = json!({"by": by, "values": values()});
        let partition = if by.is_empty() { PairPartition::Spread } else { partition };
        let batches = batches(&rows);
        let (out, spilled) =
            aggregated_by(partition, 1, &config, &batches, way, share_bytes).unwrap();
        prop_assert_eq!(found(&out), oracle(&rows, &by));
        prop_assert!((spilled > 0) <= (share_bytes < 1 << 30));
    }
}

#[test]
fn full_table_goes_on_with_its_groups_and_passes_other_rows() {
    let keys = (0..20_000_u64).map(|row| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 300);
    let rows: Vec<Row> = keys.map(|key| (Some(key as i64 * 1_000_003), None, Some(1))).collect();
    let config: Config =
        serde_json::from_value(json!({"by": ["k"], "values": {"n": "sum(x)"}})).unwrap();
    let (plan, source) = AggregatePlan::new(&config, &schema()).unwrap();
    let memory = MemoryAccount::alone(SMALL_SHARE_BYTES);
    let partitioning = PairPartitioning::new(None, Arc::default());
    let mut before = PartialAggregator::new(Arc::new(plan), Arc::new(source), partitioning, memory);
    let mut states = 0;
    let put = &mut |states_of: StateRows| -> Result<()> {
        states += states_of.rows.num_rows();
        Ok(())
    };
    batches(&rows).iter().try_for_each(|batch| before.add(batch, 0, put)).unwrap();
    before.finish(put).unwrap();
    let passed = before.passed_rows;
    assert!((1000..15_000).contains(&passed), "{passed} of {} rows", rows.len());
    assert!(states < passed + 300, "{states} states, of which {passed} are rows: one table or two");
}

/// Four values of a type: the greatest, null, the least, and one between.
fn column_of(data_type: &DataType) -> ArrayRef {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(1), Some(2)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("c"), None, Some("a"), Some("b")]));
    match data_type {
        DataType::Boolean => {
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(false)]))
        }
        DataType::FixedSizeBinary(1) => {
            let values = [Some(b"c"), None, Some(b"a"), Some(b"b")];
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 1)
                    .unwrap(),
            )
        }
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => {
            cast(&texts, data_type).unwrap()
        }
        DataType::Date32 | DataType::Time32(_) => {
            cast(&cast(&numbers, &DataType::Int32).unwrap(), data_type).unwrap()
        }
        other if other.is_primitive() => cast(&numbers, other).unwrap(),
        other => cast(&texts, other).unwrap(),
    }
}

fn types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Second, Some("UTC".into())),
        Duration(TimeUnit::Millisecond),
        Decimal32(9, 2),
        Decimal64(18, 1),
        Decimal128(38, 3),
        Decimal256(60, 4),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(1),
        Dictionary(Box::new(Int8), Box::new(Utf8)),
    ]
}

#[test]
fn min_max_and_keys_support_all_simple_types() {
    for data_type in types() {
        let column = column_of(&data_type);
        let batch = RecordBatch::try_from_iter([("x", column.clone())]).unwrap();
        let values = json!({"low": "min(x)", "high": "max(x)", "kinds": "count(distinct x)"});
        let config = json!({"by": [], "values": values});
        let twice = [batch.clone(), batch.clone()];
        let (out, _) = aggregated(&config, &twice, Way::Grouped, 1 << 20).unwrap();
        let plain = super::group_keys::plain(&column).unwrap();
        let column = |name: &str| out[0].column_by_name(name).unwrap().clone();
        assert_eq!(&column("low"), &plain.slice(2, 1), "{data_type}");
        assert_eq!(&column("high"), &plain.slice(0, 1), "{data_type}");
        let kinds = if data_type == DataType::Boolean { 2 } else { 3 };
        assert_eq!(column("kinds").as_primitive::<Int64Type>().value(0), kinds, "{data_type}");
        let config = json!({"by": ["x"], "values": {"n": "count()"}});
        let (out, _) = aggregated(&config, &twice, Way::Passed, 1 << 30).unwrap();
        assert_eq!(out[0].num_rows() as i64, kinds + 1, "{data_type}");
        assert_eq!(out[0].column(0).data_type(), plain.data_type());
    }
}

#[test]
fn sums_are_wide_and_never_wrap() {
    let sum = |column: ArrayRef| {
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let config = json!({"by": [], "values": {"total": "sum(x)", "mean": "avg(x)"}});
        aggregated(&config, &[batch.clone(), batch], Way::Grouped, 1 << 30)
    };
    // A partial sum overflows 64 bits, but the sum does not.
    let out = sum(Arc::new(Int64Array::from(vec![i64::MAX, 1, -i64::MAX]))).unwrap().0;
    assert_eq!(out[0].column(0).as_primitive::<Int64Type>().value(0), 2);
    let decimals = Decimal128Array::from(vec![125, 250]).with_precision_and_scale(9, 2).unwrap();
    let out = sum(Arc::new(decimals)).unwrap().0;
    assert_eq!(out[0].column(0).data_type(), &DataType::Decimal128(38, 2));
    assert_eq!(out[0].column(1).as_primitive::<Float64Type>().value(0), 1.875);
    let too_large: [(ArrayRef, &str); 3] = [
        (Arc::new(Int64Array::from(vec![i64::MAX])), "too large for Int64"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "too large for UInt64"),
        (
            Arc::new(Decimal128Array::from(vec![10i128.pow(38) - 1])),
            "too large for Decimal128(38, 10)",
        ),
    ];
    for (column, said) in too_large {
        let error = sum(column).unwrap_err().to_string();
        assert!(error.contains("`total`") && error.contains(said), "{error}");
        assert!(error.contains("cast what is summed"), "{error}");
    }
}

#[test]
fn zeros_are_one_group_and_so_are_nans() {
    let floats = vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, Some(1.5)];
    let column: ArrayRef = Arc::new(Float64Array::from(floats));
    for data_type in [DataType::Float64, DataType::Float32, DataType::Float16] {
        let column = cast(&column, &data_type).unwrap();
        let other: ArrayRef = Arc::new(StringArray::from(vec!["same"; 6]));
        let batch = RecordBatch::try_from_iter([("x", column), ("y", other)]).unwrap();
        for by in [vec!["x"], vec!["x", "y"]] {
            let values = json!({"n": "count()", "least": "min(x)", "greatest": "max(x)"});
            let config = json!({"by": by, "values": values});
            let (out, _) =
                aggregated(&config, std::slice::from_ref(&batch), Way::Grouped, 1 << 30).unwrap();
            let counts = out[0].column_by_name("n").unwrap().as_primitive::<Int64Type>();
            assert_eq!(counts.values(), &[2, 2, 1, 1], "{data_type} by {by:?}");
        }
        let config = json!({"by": [], "values": {"greatest": "max(x)", "least": "min(x)"}});
        let (out, _) = aggregated(&config, &[batch], Way::Grouped, 1 << 30).unwrap();
        let column = cast(out[0].column(0), &DataType::Float64).unwrap();
        assert!(column.as_primitive::<Float64Type>().value(0).is_nan());
    }
}

#[test]
fn impossible_aggregates_are_reported() {
    let list = DataType::new_list(DataType::Int8, true);
    let columns: [(&str, ArrayRef); 4] = [
        ("price", Arc::new(Int64Array::from(vec![1]))),
        ("name", Arc::new(StringArray::from(vec!["a"]))),
        ("list", new_null_array(&list, 1)),
        ("wide", new_null_array(&DataType::Decimal256(50, 2), 1)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (config, said) in [
        (json!({"by": ["prise"], "values": {}}), "did you mean `price`"),
        (json!({"by": ["list"]}), "rows cannot be grouped by `list`"),
        (json!({"by": ["name", "name"]}), "`name` is in `by` twice"),
        (json!({"by": []}), "`by` and `values` are empty"),
        (json!({"by": ["name"], "values": {"name": "count()"}}), "the name of the key `name`"),
        (json!({"by": [], "values": {"t": "sum(prise)"}}), "price"),
        (json!({"by": [], "values": {"t": "sum(name)"}}), "there is no sum of Utf8"),
        (json!({"by": [], "values": {"t": "avg(wide)"}}), "cast it to decimal(38, ...)"),
        (json!({"by": [], "values": {"t": "min(list)"}}), "`min(list)`: there is no min of List"),
        (json!({"by": [], "values": {"t": "sun(price)"}}), "did you mean `sum`"),
    ] {
        let error = aggregated(&config, std::slice::from_ref(&batch), Way::Grouped, 0)
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{config}: {error}");
    }
}

#[test]
fn distinct_values_of_one_group_spill() {
    let values = (0..100_000).map(|n| n % 50_000);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let config = json!({"by": [], "values": {"kinds": "count(distinct x)", "n": "count(x)"}});
    for way in [Way::Grouped, Way::Passed] {
        let (out, spilled) =
            aggregated(&config, std::slice::from_ref(&batch), way, 1 << 20).unwrap();
        let numbers = |at: usize| out[0].column(at).as_primitive::<Int64Type>().value(0);
        assert_eq!((numbers(0), numbers(1)), (50_000, 100_000));
        assert!(spilled > 0);
    }
}
