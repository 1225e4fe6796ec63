//! Round trips through the row format.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use euphrates_flow::Kind;
use proptest::prelude::*;

use super::SortRowFormat;

/// A column of every type that rows support; `None` is null.
fn columns(values: &[Option<(i64, String)>]) -> Vec<(DataType, ArrayRef)> {
    let numbers = || values.iter().map(|value| value.as_ref().map(|(number, _)| *number));
    let texts = || values.iter().map(|value| value.as_ref().map(|(_, text)| text.as_str()));
    let bytes = || texts().map(|text| text.map(str::as_bytes));
    let triples = numbers().map(|n| n.map(|n| n.to_be_bytes()[5..].to_vec()));
    let triples = FixedSizeBinaryArray::try_from_sparse_iter_with_size(triples, 3).unwrap();
    let decimals = numbers().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
    let shorts = numbers().map(|n| n.map(|n| i128::from(n) / 16)).collect::<Decimal128Array>();
    let time = numbers().collect::<TimestampMicrosecondArray>().with_timezone("UTC");
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(numbers().map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
        Arc::new(numbers().map(|n| n.map(|n| n as u16)).collect::<UInt16Array>()),
        Arc::new(texts().collect::<StringArray>()),
        Arc::new(numbers().map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
        Arc::new(numbers().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        Arc::new(bytes().collect::<LargeBinaryArray>()),
        Arc::new(numbers().map(|n| n.map(|n| n as f64)).collect::<Float64Array>()),
        Arc::new(texts().collect::<StringViewArray>()),
        Arc::new(decimals.with_precision_and_scale(38, 2).unwrap()),
        Arc::new(shorts.with_precision_and_scale(18, 2).unwrap()),
        Arc::new(triples),
        Arc::new(bytes().collect::<BinaryViewArray>()),
        Arc::new(time),
        Arc::new(texts().collect::<LargeStringArray>()),
        Arc::new(bytes().collect::<BinaryArray>()),
    ];
    arrays.into_iter().map(|array| (array.data_type().clone(), array)).collect()
}

fn batch(values: &[Option<(i64, String)>], nullable: bool) -> RecordBatch {
    let columns = columns(values);
    let field = |(at, (kind, _)): (usize, &(DataType, _))| {
        Field::new(format!("c{at}"), kind.clone(), nullable)
    };
    let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

fn check(batch: &RecordBatch) {
    let all: Vec<usize> = (0..batch.num_columns()).rev().collect();
    let format = SortRowFormat::new(&batch.schema(), &all);
    let rows = format.pack(batch).unwrap();
    assert_eq!(rows.len(), batch.num_rows());
    let columns = format.unpack(&rows).unwrap();
    for (index, column) in all.iter().zip(columns) {
        column.to_data().validate_full().unwrap();
        assert_eq!(&column, batch.column(*index), "column {index}");
    }
    // Any slice of the rows unpacks in place.
    let part = rows.slice(rows.len() / 3, rows.len() / 2);
    let columns = format.unpack(&part).unwrap();
    let wanted = batch.slice(rows.len() / 3, rows.len() / 2);
    assert_eq!(&columns[0], wanted.column(all[0]));
}

proptest! {
    #[test]
    fn rows_roundtrip(
        values in prop::collection::vec((any::<i64>(), "[a-zäß]{0,90}|[a-z]{250,260}"), 0..300),
        skip in 0usize..4,
    ) {
        let values: Vec<_> = values.into_iter().map(Some).collect();
        let whole = batch(&values, false);
        let skip = skip.min(whole.num_rows());
        check(&whole.slice(skip, whole.num_rows() - skip));
    }

    #[test]
    fn nulls_stay_nulls(
        values in prop::collection::vec(prop::option::of((any::<i64>(), "[a-z]{0,20}")), 0..300),
        skip in 0usize..4,
    ) {
        let whole = batch(&values, true);
        let skip = skip.min(whole.num_rows());
        check(&whole.slice(skip, whole.num_rows() - skip));
    }
}

#[test]
fn decimals_beyond_their_type_are_corrupt() {
    let pack = |values: Vec<Option<i128>>, nulls: Option<NullBuffer>| {
        let values: Vec<i128> = values.into_iter().map(Option::unwrap_or_default).collect();
        let values = Decimal128Array::new(values.into(), nulls);
        let values: ArrayRef = Arc::new(values.with_precision_and_scale(15, 2).unwrap());
        let batch = RecordBatch::try_from_iter_with_nullable([("d", values, true)]).unwrap();
        SortRowFormat::new(&batch.schema(), &[0]).pack(&batch)
    };
    let error = pack(vec![Some(1), Some(1 << 80)], None).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("Decimal128(15, 2)"), "{error}");
    // A value beneath a null is ignored.
    pack(vec![Some(1), Some(1 << 80)], Some(NullBuffer::from(vec![true, false]))).unwrap();
}

#[test]
fn unsupported_types_stay_columns() {
    assert!(!SortRowFormat::supports(&DataType::Null));
    assert!(!SortRowFormat::supports(&DataType::FixedSizeBinary(0)));
    assert!(!SortRowFormat::supports(&DataType::new_list(DataType::Int8, true)));
    assert!(SortRowFormat::supports(&DataType::Timestamp(TimeUnit::Second, None)));
}
