//! The common schema of several inputs with one output.

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};
use euphrates_formats::type_unification;

/// The columns of all inputs, in types that hold the values of each
/// (`euphrates_formats::type_unification`), nullable if one of them is.
pub(crate) fn common_schema(inputs: &[SchemaRef]) -> Result<Schema> {
    let (first, others) = inputs.split_first().ok_or_else(|| Error::usage("no input"))?;
    let mut fields: Vec<_> = first.fields().iter().map(|field| field.as_ref().clone()).collect();
    for (number, other) in others.iter().enumerate() {
        if let Some(difference) = difference(&fields, first, other) {
            return Err(Error::usage(format!("inputs 0 and {} differ: {difference}", number + 1))
                .remedy("place a `project` before one of them"));
        }
        for (field, other) in fields.iter_mut().zip(other.fields()) {
            if let Some(both) = type_unification::agreed(field, other) {
                *field = both;
            }
        }
    }
    Ok(Schema::new(fields))
}

/// Converts a batch of one input to the common schema.
pub(crate) fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    type_unification::conform(&batch, schema)
}

/// The differences between the columns of two schemas, in words.
fn difference(agreed: &[Field], one: &Schema, other: &Schema) -> Option<String> {
    let all = one.fields().len().max(other.fields().len());
    let pairs = (0..all).map(|at| (at, one.fields().get(at), other.fields().get(at)));
    let differences = pairs.filter_map(|(at, one, other)| match (one, other) {
        (Some(one), Some(other)) if one.name() != other.name() => {
            Some(format!("`{}` is `{}`", one.name(), other.name()))
        }
        (Some(one), Some(other)) if type_unification::agreed(&agreed[at], other).is_none() => {
            Some(format!("`{}` is {}, and {}", one.name(), one.data_type(), other.data_type()))
        }
        (Some(_), Some(_)) | (None, None) => None,
        (Some(one), None) => Some(format!("`{}` is missing in the second", one.name())),
        (None, Some(other)) => Some(format!("`{}` is missing in the first", other.name())),
    });
    let differences: Vec<_> = differences.collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}
