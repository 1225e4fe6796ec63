//! Joins of random rows equal those of two nested loops, in memory and spilled.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, Int64Array, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::{Cancel, Result};
use proptest::prelude::*;

use super::dictionary_keys::DictionaryKeys;
use super::hash_table::{HashTable, PartitionedSlots, TablePart};
use super::packed_rows::NONE;
use super::part_join::{PartInputs, PartJoin, PreparedJoin};
use super::plan::{How, JoinPlan, JoinSide, JoinSpec, On};
use super::probe::{Prober, emitted_rows, of_table};
use super::side_layout::SideLayout;
use crate::partitioning::spill_store::{PartBits, SpillStore};
use crate::testing::setup;

/// Keys are less than this.
const KEYS: i64 = 12;

const HOWS: [How; 6] = [How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti];

#[derive(Clone, Copy, Debug, PartialEq)]
enum KeyKind {
    Integer,
    Text,
    /// Text with a dictionary that several batches share, where each value is twice, and a null.
    Dictionary,
}

const KINDS: [KeyKind; 3] = [KeyKind::Integer, KeyKind::Text, KeyKind::Dictionary];

fn schema(name: &str, kind: KeyKind) -> SchemaRef {
    let key = match kind {
        KeyKind::Integer => DataType::Int64,
        KeyKind::Text => DataType::Utf8,
        KeyKind::Dictionary => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
    };
    let row = Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![Field::new("k", key, true), row]))
}

/// Numbered rows with these keys, in small batches.
fn batches(name: &str, keys: &[i64], kind: KeyKind) -> Vec<RecordBatch> {
    let rows: Vec<i64> = (0..keys.len() as i64).collect();
    let text = |key: i64| format!("k{key}");
    let dictionary = |reversed: bool| -> ArrayRef {
        let values = (0..KEYS).chain(0..KEYS).map(|key| Some(text(key))).chain([None]);
        let mut values: Vec<Option<String>> = values.collect();
        if reversed {
            values.reverse();
        }
        Arc::new(StringArray::from(values))
    };
    let dictionaries = [dictionary(false), dictionary(true)];
    let batch = |(keys, rows): (&[i64], &[i64])| {
        let column: ArrayRef = match kind {
            KeyKind::Integer => Arc::new(Int64Array::from(keys.to_vec())),
            KeyKind::Text => {
                Arc::new(StringArray::from_iter_values(keys.iter().map(|key| text(*key))))
            }
            KeyKind::Dictionary => {
                let is_second = rows[0] >= 30;
                let copy = |row: i64| if row % 2 == 0 { 0 } else { KEYS };
                let code = |key: i64, row| {
                    if is_second { 2 * KEYS - key - copy(row) } else { key + copy(row) }
                };
                let codes = keys.iter().zip(rows).map(|(key, row)| code(*key, *row) as i32);
                let codes = Int32Array::from_iter_values(codes);
                Arc::new(DictionaryArray::new(codes, dictionaries[usize::from(is_second)].clone()))
            }
        };
        let rows = Arc::new(Int64Array::from(rows.to_vec()));
        RecordBatch::try_new(schema(name, kind), vec![column, rows]).unwrap()
    };
    keys.chunks(15).zip(rows.chunks(15)).map(batch).collect()
}

fn ready(how: How, build: JoinSide, kind: KeyKind, columns_bytes_max: usize) -> PreparedJoin {
    let on = [On::Name("k".into())];
    let spec = JoinSpec { on: &on, how, build, condition: None, suffix: "_right", needed: None };
    let plan = JoinPlan::new(&spec, &[schema("a", kind), schema("b", kind)]).unwrap();
    let build = Arc::new(SideLayout::new(plan.build_side()).unwrap());
    let probe = Arc::new(SideLayout::new(plan.probe_side()).unwrap());
    PreparedJoin { plan, build_layout: build, probe_layout: probe, columns_bytes_max }
}

fn packed(rows: &SideLayout, batches: &[RecordBatch]) -> Vec<RecordBatch> {
    batches.iter().map(|batch| rows.pack(batch).unwrap()).collect()
}

/// The row numbers of left and right in each output row, and their count.
type Bag = BTreeMap<(Option<i64>, Option<i64>), usize>;

fn add(bag: &mut Bag, batch: &RecordBatch) {
    let number = |name: &str, row: usize| {
        let column = batch.column_by_name(name)?.as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    for row in 0..batch.num_rows() {
        *bag.entry((number("a", row), number("b", row))).or_default() += 1;
    }
}

/// The result of two nested loops.
fn looped(how: How, left: &[i64], right: &[i64]) -> Bag {
    let mut bag = Bag::new();
    for (a, key) in left.iter().enumerate() {
        let partners: Vec<usize> = (0..right.len()).filter(|b| right[*b] == *key).collect();
        let a = Some(a as i64);
        match how {
            How::Semi | How::Anti if partners.is_empty() == (how == How::Anti) => {
                bag.insert((a, None), 1);
            }
            How::Semi | How::Anti => {}
            How::Left | How::Full if partners.is_empty() => {
                bag.insert((a, None), 1);
            }
            _ => bag.extend(partners.into_iter().map(|b| ((a, Some(b as i64)), 1))),
        }
    }
    if matches!(how, How::Right | How::Full) {
        let alone = (0..right.len()).filter(|b| !left.contains(&right[*b]));
        bag.extend(alone.map(|b| ((None, Some(b as i64)), 1)));
    }
    bag
}

/// Joins with one table that two instances have built.
fn in_memory(ready: &PreparedJoin, build: &[RecordBatch], probe: &[RecordBatch], bits: u32) -> Bag {
    let held = packed(&ready.build_layout, build);
    let (one, other) = held.split_at(held.len() / 2);
    let partitioned =
        [PartitionedSlots::new(one, 0, bits), PartitionedSlots::new(other, one.len(), bits)];
    let parts = (0..1 << bits).map(|part| TablePart::new(&partitioned, part)).collect();
    let table = ready.table_of(held.clone(), parts).unwrap();
    let mut bag = Bag::new();
    let budget = crate::expression::Budget::within(1 << 30);
    let mut prober = Prober::new(&ready.plan, &table, budget);
    let mut dictionary = DictionaryKeys::default();
    let put = &mut |batch: RecordBatch| -> Result<()> {
        add(&mut bag, &batch);
        Ok(())
    };
    for batch in probe {
        let rows = ready.probe_layout.take_encoded(batch, &mut dictionary).unwrap();
        if let Some(matched) = prober.pairs(&rows, put).unwrap() {
            let side = ready.plan.build.other();
            let out = emitted_rows(&ready.plan, side, &rows.columns, &matched).unwrap();
            out.into_iter().for_each(|out| put(out).unwrap());
        }
    }
    for batch in 0..table.batches() {
        of_table(&ready.plan, &table, batch, put).unwrap();
    }
    bag
}

/// Joins spilled parts, with so little memory that they are partitioned again and read in pieces.
fn by_parts(
    ready: &PreparedJoin,
    build: &[RecordBatch],
    probe: &[RecordBatch],
    share: usize,
) -> Bag {
    let scratch = Arc::new(Scratch::new(&setup()));
    let bits = PartBits { used: 0, bits: 2 };
    let store = |rows: &SideLayout, batches: &[RecordBatch]| {
        let mut store = SpillStore::new(rows.held().clone(), bits, scratch.clone());
        for (number, batch) in packed(rows, batches).into_iter().enumerate() {
            store.push(batch).unwrap();
            if number % 2 == 1 {
                store.spill().unwrap();
            }
        }
        store.finish().unwrap()
    };
    let (build, probe) = (store(&ready.build_layout, build), store(&ready.probe_layout, probe));
    let cancel = Cancel::default();
    let parts = PartJoin {
        ready,
        scratch: &scratch,
        share_bytes: share,
        cancel: &cancel,
        spilled: &|_| {},
    };
    let mut bag = Bag::new();
    for number in 0..bits.parts() {
        let part = PartInputs {
            build: &|| Ok(build.read(number)),
            probe: &|| Ok(probe.read(number)),
            build_bytes: build.bytes(number),
        };
        let put = &mut |batch: RecordBatch| {
            add(&mut bag, &batch);
            Ok(())
        };
        parts.join(&part, 0, bits, put).unwrap();
    }
    bag
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn joins_equal_nested_loops(
        left in prop::collection::vec(0..KEYS, 0..60),
        right in prop::collection::vec(0..KEYS, 0..60),
        how in 0usize..6,
        bits in 0u32..4,
        (kind, build) in (0usize..3, 0u64..2),
        columns_bytes_max in prop_oneof![Just(0), Just(1 << 20)],
    ) {
        let (how, build, kind) = (HOWS[how], JoinSide::of(build), KINDS[kind]);
        let ready = ready(how, build, kind, columns_bytes_max);
        let sides = [batches("a", &left, kind), batches("b", &right, kind)];
        let (held, other) = (&sides[build as usize], &sides[build.other() as usize]);
        let wanted = looped(how, &left, &right);
        prop_assert_eq!(&in_memory(&ready, held, other, bits), &wanted);
        for share in [1200, 1 << 20] {
            prop_assert_eq!(&by_parts(&ready, held, other, share), &wanted);
        }
    }
}

#[test]
fn long_rows_are_found_whole() {
    let texts = ["short".to_string(), "x".repeat(70_000), "y".repeat(300)];
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("k", keys), ("text", texts.clone())]).unwrap();
    let on = [On::Name("k".into())];
    let spec = JoinSpec {
        on: &on,
        how: How::Inner,
        build: JoinSide::Right,
        condition: None,
        suffix: "",
        needed: None,
    };
    let plan = JoinPlan::new(&spec, &[schema("a", KeyKind::Integer), batch.schema()]).unwrap();
    let rows = Arc::new(SideLayout::new(plan.build_side()).unwrap());
    for columns_bytes_max in [0, 1 << 20] {
        let held = packed(&rows, std::slice::from_ref(&batch));
        let table = HashTable::of(rows.clone(), held, (false, columns_bytes_max)).unwrap();
        let mut found = vec![];
        table.find(&rows.take(&batch).unwrap().keys.hashes, &mut found);
        assert_eq!(&table.gather(&found).unwrap()[0], &texts);
        table.find(&[12345], &mut found);
        assert_eq!(found, [NONE]);
    }
}

#[test]
fn values_of_a_dictionary_are_encoded_once() {
    let ready = ready(How::Inner, JoinSide::Right, KeyKind::Dictionary, 0);
    let keys: Vec<i64> = (0..90).map(|row| row % KEYS).collect();
    let mut dictionary = DictionaryKeys::default();
    let rows: Vec<_> = batches("a", &keys, KeyKind::Dictionary)
        .iter()
        .map(|batch| ready.probe_layout.take_encoded(batch, &mut dictionary).unwrap())
        .collect();
    // 25 values are too many for the first 15 rows, and the second dictionary's for the first 45.
    let is_encoded: Vec<bool> = rows.iter().map(|rows| rows.codes.is_some()).collect();
    assert_eq!(is_encoded, [false, true, false, true, true, true]);
    let shared = |one: usize, other: usize| {
        let [one, other] = [one, other].map(|at| rows[at].keys.hashes.inner());
        one.ptr_eq(other)
    };
    assert!(shared(3, 4) && shared(4, 5) && !shared(1, 3));
    for (rows, keys) in rows.iter().zip(keys.chunks(15)) {
        let checks = |row| rows.check(row).unwrap().to_vec();
        let wanted = keys.iter().map(|key| format!("k{key}").into_bytes());
        assert!((0..rows.count()).map(checks).eq(wanted));
    }
}

#[test]
fn small_dictionary_is_shared_by_the_output_and_a_large_one_is_not() {
    let build = |values: i64, width: usize| {
        let texts = (0..values).map(|value| format!("{value:0width$}"));
        let texts = Arc::new(StringArray::from_iter_values(texts));
        let codes = Int32Array::from_iter_values((0..60).map(|row| row % values as i32));
        let texts: ArrayRef = Arc::new(DictionaryArray::new(codes, texts));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60));
        let batch = RecordBatch::try_from_iter([("k", keys), ("text", texts.clone())]).unwrap();
        let on = [On::Name("k".into())];
        let (how, build) = (How::Inner, JoinSide::Right);
        let spec = JoinSpec { on: &on, how, build, condition: None, suffix: "", needed: None };
        let inputs = [schema("a", KeyKind::Integer), batch.schema()];
        let plan = JoinPlan::new(&spec, &inputs).unwrap();
        let layout = Arc::new(SideLayout::new(plan.build_side()).unwrap());
        let held = vec![
            layout.pack(&batch.slice(0, 30)).unwrap(),
            layout.pack(&batch.slice(30, 30)).unwrap(),
        ];
        let table = HashTable::of(layout.clone(), held, (false, 1 << 20)).unwrap();
        let mut found = vec![];
        table.find(&layout.take(&batch).unwrap().keys.hashes, &mut found);
        let column = |rows: &[u64]| table.gather(rows).unwrap()[0].clone();
        let text = |column: &ArrayRef| cast(column, &DataType::Utf8).unwrap();
        assert_eq!(&text(&column(&found)), &text(&texts));
        [column(&found[..2]), column(&found[7..9])]
    };
    let values = |column: &ArrayRef| column.as_any_dictionary().values().clone();
    let [one, other] = build(3, 1000);
    assert!(values(&one).to_data().ptr_eq(&values(&other).to_data()));
    assert_eq!(values(&one).len(), 3);
    let [one, other] = build(60, 2000);
    assert_eq!([values(&one).len(), values(&other).len()], [2, 2]);
}
