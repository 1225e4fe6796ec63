//! Keys of an adapted layout have the order of row encodings, and give back their values.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{SortOptions, cast, concat};
use arrow::datatypes::*;
use arrow::row::{RowConverter, SortField};
use proptest::prelude::*;

use super::key_encoder::KeyEncoder;
use super::key_layout::KeyColumn;
use crate::canonical_floats::canonical_floats;
use crate::sort::gather::Sources;

/// Values of a column: of the first batch, by which the layout is chosen, and of others.
#[derive(Clone, Debug)]
struct Values {
    first: ArrayRef,
    others: ArrayRef,
}

fn of<A: Array + 'static>(first: A, others: A) -> Values {
    Values { first: Arc::new(first), others: Arc::new(others) }
}

/// Rows of the first batch, and of all others.
const ROWS: (usize, usize) = (40, 60);

/// Nulls in no batch, in the others, or in all.
fn options<T: std::fmt::Debug + Clone>(
    first: impl Strategy<Value = T>,
    others: impl Strategy<Value = T>,
) -> impl Strategy<Value = (Vec<Option<T>>, Vec<Option<T>>)> {
    let values = (prop::collection::vec(first, ROWS.0), prop::collection::vec(others, ROWS.1));
    let nulls = prop::collection::vec(prop::bool::weighted(0.2), ROWS.0 + ROWS.1);
    (values, nulls, 0usize..3).prop_map(|((first, others), nulls, with)| {
        let (of_first, of_others) = nulls.split_at(ROWS.0);
        let with_nulls = |values: Vec<T>, nulls: &[bool], is: bool| {
            let value = |(value, null): (T, &bool)| (!(is && *null)).then_some(value);
            values.into_iter().zip(nulls).map(value).collect()
        };
        (with_nulls(first, of_first, with == 2), with_nulls(others, of_others, with > 0))
    })
}

fn integers() -> impl Strategy<Value = Values> {
    let small = -3i64..20;
    let other = prop_oneof![6 => -3i64..20, 1 => -9i64..40, 1 => any::<i64>(), 1 => Just(i64::MIN)];
    let narrow = options(small, other)
        .prop_map(|(first, others)| of(Int64Array::from(first), Int64Array::from(others)));
    let wide = options(any::<i64>(), any::<i64>())
        .prop_map(|(first, others)| of(Int64Array::from(first), Int64Array::from(others)));
    let far = || prop_oneof![Just(i64::MIN), Just(-1), Just(1 << 50)];
    let few = options(far(), prop_oneof![4 => far(), 1 => any::<i64>()])
        .prop_map(|(first, others)| of(Int64Array::from(first), Int64Array::from(others)));
    let bytes = options(any::<u8>(), any::<u8>())
        .prop_map(|(first, others)| of(UInt8Array::from(first), UInt8Array::from(others)));
    let decimals = options(0i128..1000, prop_oneof![4 => 0i128..1000, 1 => any::<i128>()])
        .prop_map(|(first, others)| {
            of(Decimal128Array::from(first), Decimal128Array::from(others))
        });
    let widest = options(any::<i128>(), any::<i128>()).prop_map(|(first, others)| {
        of(Decimal128Array::from(first), Decimal128Array::from(others))
    });
    let wide_decimals = options(
        1i128 << 126..i128::MAX,
        prop_oneof![
        2 => 1i128 << 126..i128::MAX, 1 => any::<i128>(), 1 => Just(i128::MIN)],
    )
    .prop_map(|(first, others)| of(Decimal128Array::from(first), Decimal128Array::from(others)));
    let fixed = options(any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(first, others)| {
        let array = |values: Vec<Option<[u8; 16]>>| {
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16).unwrap()
        };
        of(array(first), array(others))
    });
    let flags = options(any::<bool>(), any::<bool>())
        .prop_map(|(first, others)| of(BooleanArray::from(first), BooleanArray::from(others)));
    prop_oneof![
        3 => narrow, 1 => wide, 2 => few, 1 => bytes, 1 => decimals, 1 => widest, 1 => wide_decimals,
        1 => fixed, 1 => flags
    ]
}

fn floats() -> impl Strategy<Value = Values> {
    let special = prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::INFINITY)];
    let near = 0u32..9;
    let near = near.prop_map(|quarters| f64::from(quarters) / 4.0);
    options(near.clone(), prop_oneof![2 => near, 1 => special, 1 => any::<f64>()])
        .prop_map(|(first, others)| of(Float64Array::from(first), Float64Array::from(others)))
}

/// Texts with a common prefix, words, and any: also with zero bytes, which pad short ones.
fn texts() -> impl Strategy<Value = Values> {
    let behind = prop_oneof!["[ab\\x00]{0,3}", "[ab\\x00]{9,14}"];
    let with_prefix = behind.prop_map(|text| format!("http://{text}"));
    let short = "[ab\\x00]{0,4}";
    let any = prop_oneof!["[ghi]{0,2}", "http:/[.0]?[a]{0,12}", "[a-z]{0,30}"];
    let words = prop_oneof![Just("a long word of Ur"), Just("another word"), Just("z")];
    let words = words.prop_map(String::from);
    let prefixed = options(with_prefix.clone(), prop_oneof![3 => with_prefix, 1 => any.clone()]);
    let shorts = options(short, prop_oneof![3 => short, 1 => any.clone()]);
    // Their strategies of first values differ, so that each kind is its own.
    let worded = options(words.clone(), prop_oneof![3 => words, 1 => any]);
    prop_oneof![prefixed, shorts, worded].prop_flat_map(|(first, others)| {
        let (first, others) = (StringArray::from(first), StringArray::from(others));
        (0usize..4).prop_map(move |kind| {
            let of_type = |data_type: &DataType| Values {
                first: cast(&first, data_type).unwrap(),
                others: cast(&others, data_type).unwrap(),
            };
            let key = Box::new(DataType::Int32);
            match kind {
                0 => of_type(&DataType::Utf8),
                1 => of_type(&DataType::LargeBinary),
                2 => of_type(&DataType::Utf8View),
                _ => of_type(&DataType::Dictionary(key, Box::new(DataType::Utf8))),
            }
        })
    })
}

fn columns() -> impl Strategy<Value = Vec<(Values, KeyColumn)>> {
    let values = prop_oneof![2 => integers(), 1 => floats(), 3 => texts()];
    let column = (values, any::<bool>(), any::<bool>());
    prop::collection::vec(column, 1..5).prop_map(|columns| {
        let numbered = columns.into_iter().enumerate();
        let column = |(column, (values, descending, nulls_first))| {
            (values, KeyColumn { column, descending, nulls_first })
        };
        numbered.map(column).collect()
    })
}

fn key_of(column: usize, nulls_first: bool) -> KeyColumn {
    KeyColumn { column, descending: false, nulls_first }
}

fn batch(columns: &[(Values, KeyColumn)], of: fn(&Values) -> &ArrayRef) -> RecordBatch {
    let fields = columns.iter().enumerate().map(|(at, (values, _))| {
        Field::new(format!("c{at}"), values.first.data_type().clone(), true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(values, _)| of(values).clone()).collect();
    RecordBatch::try_new(schema, arrays).unwrap()
}

/// Repeats the first batch's rows, so that few distinct values are words.
fn repeated(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| {
        let parts = vec![column.as_ref(); 16];
        concat(&parts).unwrap()
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn adapted_keys_have_the_order_of_row_encodings(
        columns in columns(),
        repeats in any::<bool>(),
    ) {
        let (first, others) = (batch(&columns, |v| &v.first), batch(&columns, |v| &v.others));
        let keys: Vec<KeyColumn> = columns.iter().map(|(_, key)| key.clone()).collect();
        let encoder = KeyEncoder::adaptive(&first.schema(), keys.clone()).unwrap();
        if encoder.is_open() {
            let sample = if repeats { repeated(&first) } else { first.clone() };
            encoder.settle(&encoder.propose(&sample).unwrap()).unwrap();
        }
        let fields = keys.iter().map(|key| SortField::new_with_options(
            first.schema().field(key.column).data_type().clone(),
            SortOptions { descending: key.descending, nulls_first: key.nulls_first },
        ));
        let wanted = RowConverter::new(fields.collect()).unwrap();
        let batches = [first, others];
        let encoded: Vec<_> = batches.iter().enumerate()
            .map(|(number, batch)| encoder.encode(batch, number).unwrap()).collect();
        let rows: Vec<_> = batches.iter().map(|batch| {
            let columns: Vec<ArrayRef> = batch.columns().iter().map(canonical_floats).collect();
            wanted.convert_columns(&columns).unwrap()
        }).collect();

        let all: Vec<(u128, arrow::row::Row)> = encoded.iter().zip(&rows)
            .flat_map(|(keys, rows)| keys.packed.iter().copied().zip(rows.iter())).collect();
        let whole = |number: usize| encoded[number].rows.as_ref();
        for (a, row_a) in &all {
            for (b, row_b) in &all {
                let order = encoder.compare((*a, *b), whole);
                prop_assert_eq!(order, row_a.cmp(row_b));
                if encoder.bits(*a) != encoder.bits(*b) {
                    prop_assert_ne!(order, Ordering::Equal);
                }
            }
        }

        // Values decoded from keys are those of the rows.
        let is_exact = encoded.iter().all(|keys| keys.rows.is_none());
        let schema = batches[0].schema();
        let sources = Sources::new(
            &Arc::new(encoder), schema.clone(), batches.iter(), is_exact);
        let keys: Vec<u128> = all.iter().map(|(key, _)| *key).collect();
        let gathered = sources.gather(&keys).unwrap();
        for (at, column) in gathered.columns().iter().enumerate() {
            let parts = batches.each_ref().map(|batch| batch.column(at).as_ref());
            let parts = concat(&parts).unwrap();
            let text = |array: &ArrayRef| cast(array, &DataType::Utf8).unwrap();
            if matches!(column.data_type(), DataType::LargeBinary | DataType::Dictionary(..)
                | DataType::FixedSizeBinary(_) | DataType::Decimal128(..)) {
                prop_assert_eq!(column.len(), parts.len());
                continue;
            }
            prop_assert_eq!(&text(column), &text(&parts), "column {}", at);
        }
    }
}

#[test]
fn column_of_few_values_and_a_number_are_exact() {
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..4096).map(|row| ["a word of more than eleven bytes", "another of them"][row % 2]),
    ));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..4096).map(|n| n * n)));
    let batch = RecordBatch::try_from_iter([("word", words), ("n", numbers)]).unwrap();
    let keys = vec![key_of(0, false), key_of(1, false)];
    let encoder = KeyEncoder::adaptive(&batch.schema(), keys).unwrap();
    encoder.settle(&encoder.propose(&batch).unwrap()).unwrap();
    assert!(encoder.encode(&batch, 0).unwrap().rows.is_none());
    assert!(encoder.decoder(&batch.schema(), 0).is_some());
    assert!(encoder.decoder(&batch.schema(), 1).is_some());
}

#[test]
fn few_numbers_far_apart_have_short_codes() {
    let far = (0..4096).map(|row| [i64::MIN, -1, i64::MAX][row % 3]);
    let dates = (0..4096).map(|row| [0i128, 10i128.pow(30)][row % 2]);
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(far)),
        Arc::new(Decimal128Array::from_iter_values(dates)),
        Arc::new(Int64Array::from_iter_values((0..4096).map(|n| n * 7919))),
    ];
    let batch = RecordBatch::try_from_iter(["a", "b", "c"].into_iter().zip(columns)).unwrap();
    let keys = (0..3).map(|column| key_of(column, false)).collect();
    let encoder = KeyEncoder::adaptive(&batch.schema(), keys).unwrap();
    encoder.settle(&encoder.propose(&batch).unwrap()).unwrap();
    assert!(encoder.encode(&batch, 0).unwrap().rows.is_none());
    assert!((0..3).all(|column| encoder.decoder(&batch.schema(), column).is_some()));
}

#[test]
fn keys_that_begin_with_a_list_are_row_encodings() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(2)]), None]);
    let batch = RecordBatch::try_from_iter([("list", Arc::new(lists) as ArrayRef)]).unwrap();
    let encoder = KeyEncoder::adaptive(&batch.schema(), vec![key_of(0, true)]).unwrap();
    assert!(encoder.propose(&batch).unwrap().is_empty());
    let other = KeyEncoder::adaptive(&batch.schema(), vec![key_of(0, true)]).unwrap();
    assert!(other.settle(b"no layout").is_err());
    encoder.settle(&[]).unwrap();
    let keys = encoder.encode(&batch, 0).unwrap();
    let whole = |_| keys.rows.as_ref();
    assert!(encoder.compare((keys.packed[1], keys.packed[0]), whole).is_lt());
}

#[test]
fn widest_keys_by_types_need_no_layout() {
    let (lefts, rights) = (Int64Array::from(vec![2, 1]), Int32Array::from(vec![1, 2]));
    let columns: [ArrayRef; 2] = [Arc::new(lefts), Arc::new(rights)];
    let fields = [DataType::Int64, DataType::Int32].map(|of| Field::new(of.to_string(), of, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = RecordBatch::try_new(schema.clone(), columns.to_vec()).unwrap();
    let keys = vec![key_of(0, false), key_of(1, true)];
    let encoder = KeyEncoder::adaptive(&schema, keys.clone()).unwrap();
    assert!(!encoder.is_open() && encoder.is_exact() && encoder.settled().is_empty());
    let other = encoder.with_columns(&schema, keys).unwrap();
    other.settle(&encoder.settled()).unwrap();
    let packed = other.encode(&batch, 0).unwrap().packed;
    assert!(packed[1] < packed[0]);
}

#[test]
fn null_values_of_a_dictionary_are_nulls_in_a_column_that_has_none() {
    let codes = Int32Array::from(vec![0, 1, 2]);
    let values = Arc::new(Int8Array::from(vec![Some(5), None, Some(-128)]));
    let column: ArrayRef = Arc::new(DictionaryArray::new(codes, values));
    let field = Field::new("k", column.data_type().clone(), false);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
    for (nulls_first, wanted) in [(false, [2, 0, 1]), (true, [1, 2, 0])] {
        let encoder = KeyEncoder::adaptive(&schema, vec![key_of(0, nulls_first)]).unwrap();
        encoder.settle(&encoder.propose(&batch).unwrap()).unwrap();
        let mut keys = encoder.encode(&batch, 0).unwrap().packed;
        keys.sort_unstable();
        assert_eq!(keys.iter().map(|key| encoder.id(*key)).collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn layout_of_long_texts_is_short() {
    let long = |end: &str| "x".repeat(1 << 20) + end;
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(["b", "a"].map(long)));
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let encoder = KeyEncoder::adaptive(&batch.schema(), vec![key_of(0, false)]).unwrap();
    let layout = encoder.propose(&batch).unwrap();
    assert!(layout.len() < 2000, "{}", layout.len());
    encoder.settle(&layout).unwrap();
    let keys = encoder.encode(&batch, 0).unwrap();
    let whole = |_| keys.rows.as_ref();
    assert!(encoder.compare((keys.packed[1], keys.packed[0]), whole).is_lt());
}
