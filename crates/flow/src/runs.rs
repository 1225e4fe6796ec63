//! Run-end encoded columns are decoded where they come in, a batch's worth at a time.
//!
//! In a flow rows are taken apart and put together again, so runs do not last; and a row number
//! that is the end of a run has as few as 16 bits, which a batch may outgrow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Int16Type, Int32Type, Int64Type, Schema, SchemaRef,
};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use crate::batch::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, array_bytes};
use crate::error::Result;

/// The schema with the values of runs in place of the runs; the same one if it has none.
pub fn without_runs(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| has_runs(field.data_type())) {
        return schema.clone();
    }
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch under such a schema of its own, in several parts where its values need the room.
pub fn decoded(
    batch: RecordBatch,
    plain: &SchemaRef,
) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
    let rows = batch.num_rows();
    let encoded = batch.schema().fields().iter().any(|field| has_runs(field.data_type()));
    let step = if encoded { rows_at_once(&batch) } else { rows.max(1) };
    let plain = plain.clone();
    (0..rows.max(1)).step_by(step).map(move |start| {
        if !encoded {
            return Ok(batch.clone());
        }
        let part = batch.slice(start, step.min(rows - start));
        let columns = part.columns().iter().map(values).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(part.num_rows()));
        Ok(RecordBatch::try_new_with_options(plain.clone(), columns, &options)?)
    })
}

fn values(column: &ArrayRef) -> Result<ArrayRef> {
    match has_runs(column.data_type()) {
        true => Ok(cast(column, &plain_type(column.data_type()))?),
        false => Ok(column.clone()),
    }
}

/// As many rows as make a batch, if all of them have the longest of the values.
fn rows_at_once(batch: &RecordBatch) -> usize {
    let longest: usize = batch.columns().iter().map(longest_value).sum();
    (2 * BATCH_BYTES_TARGET / longest.max(1)).clamp(1, BATCH_ROWS_MAX)
}

fn longest_value(column: &ArrayRef) -> usize {
    let DataType::RunEndEncoded(ends, _) = column.data_type() else { return 0 };
    let values = match ends.data_type() {
        DataType::Int16 => column.as_run::<Int16Type>().values(),
        DataType::Int32 => column.as_run::<Int32Type>().values(),
        _ => column.as_run::<Int64Type>().values(),
    };
    match values.data_type().primitive_width() {
        Some(width) => width,
        None => (0..values.len()).map(|at| array_bytes(&values.slice(at, 1))).max().unwrap_or(0),
    }
}

fn has_runs(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        RunEndEncoded(..) => true,
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => {
            has_runs(field.data_type())
        }
        FixedSizeList(field, _) | Map(field, _) => has_runs(field.data_type()),
        Struct(fields) => fields.iter().any(|field| has_runs(field.data_type())),
        _ => false,
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let nullable = match field.data_type() {
        DataType::RunEndEncoded(_, values) => field.is_nullable() || values.is_nullable(),
        _ => field.is_nullable(),
    };
    let plain = Field::clone(field).with_data_type(plain_type(field.data_type()));
    Arc::new(plain.with_nullable(nullable))
}

fn plain_type(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        RunEndEncoded(_, values) => plain_type(values.data_type()),
        List(field) => List(plain_field(field)),
        LargeList(field) => LargeList(plain_field(field)),
        ListView(field) => ListView(plain_field(field)),
        LargeListView(field) => LargeListView(plain_field(field)),
        FixedSizeList(field, size) => FixedSizeList(plain_field(field), *size),
        Map(field, sorted) => Map(plain_field(field), *sorted),
        Struct(fields) => Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, ListArray, RunArray, StringArray, StructArray};
    use arrow::buffer::OffsetBuffer;

    fn runs() -> ArrayRef {
        let ends = Int32Array::from(vec![2, 5, 6]);
        let values = StringArray::from(vec![Some("a"), None, Some("b")]);
        Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap())
    }

    fn plain(columns: Vec<(&str, ArrayRef)>) -> Vec<RecordBatch> {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let schema = without_runs(&batch.schema());
        decoded(batch, &schema).collect::<Result<_>>().unwrap()
    }

    #[test]
    fn runs_become_their_values_also_within_lists_and_structs() {
        let text = StringArray::from(vec![Some("a"), Some("a"), None, None, None, Some("b")]);
        let text: ArrayRef = Arc::new(text);
        let within = |values: &ArrayRef| -> Vec<(&str, ArrayRef)> {
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            let ends = OffsetBuffer::from_lengths([1; 6]);
            let list = ListArray::new(field.clone(), ends, values.clone(), None);
            let both = StructArray::new(vec![field].into(), vec![values.clone()], None);
            vec![("column", values.clone()), ("list", Arc::new(list)), ("struct", Arc::new(both))]
        };
        for (encoded, wanted) in within(&runs()).into_iter().zip(within(&text)) {
            let batches = plain(vec![(encoded.0, encoded.1)]);
            assert_eq!(batches[0].column(0), &wanted.1, "{}", encoded.0);
        }
        let part = plain(vec![("column", runs().slice(1, 3))]);
        assert_eq!(part[0].column(0), &text.slice(1, 3));
    }

    #[test]
    fn a_short_run_of_long_values_is_decoded_in_parts() {
        let long = "x".repeat(BATCH_BYTES_TARGET);
        let (ends, values) = (Int32Array::from(vec![1000]), StringArray::from(vec![long]));
        let runs = RunArray::<Int32Type>::try_new(&ends, &values).unwrap();
        let batch = RecordBatch::try_from_iter([("c", Arc::new(runs) as ArrayRef)]).unwrap();
        let schema = without_runs(&batch.schema());
        let mut parts = decoded(batch, &schema);
        let first = parts.next().unwrap().unwrap();
        assert!(first.num_rows() <= 2, "{}", first.num_rows());
        assert_eq!(
            first.num_rows() + parts.map(|part| part.unwrap().num_rows()).sum::<usize>(),
            1000
        );
    }
}
