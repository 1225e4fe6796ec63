//! `regexp_extract(text, pattern, group)`: the part of a text that matches a pattern, or a group of
//! it; an empty text if nothing matches, as in DuckDB.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::DataFusionError;
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use regex::Regex;

type Computed<T> = Result<T, DataFusionError>;

/// The function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    let text = DataType::Utf8;
    let exact = vec![
        TypeSignature::Exact(vec![text.clone(), text.clone()]),
        TypeSignature::Exact(vec![text.clone(), text, DataType::Int64]),
    ];
    let signature = Signature::one_of(exact, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(RegexpExtract { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RegexpExtract {
    signature: Signature,
}

impl ScalarUDFImpl for RegexpExtract {
    fn name(&self) -> &str {
        "regexp_extract"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Computed<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Computed<ColumnarValue> {
        let rows = args.number_rows;
        let column = |at: usize, to: &DataType| -> Computed<ArrayRef> {
            Ok(cast(&args.args[at].to_array(rows)?, to)?)
        };
        let (texts, patterns) = (column(0, &DataType::Utf8)?, column(1, &DataType::Utf8)?);
        let groups = match args.args.len() {
            3 => Some(column(2, &DataType::Int64)?),
            _ => None,
        };
        let mut compiled: Option<(String, Regex)> = None;
        let mut extract = |row: usize| -> Computed<Option<String>> {
            let inputs = [Some(&texts), Some(&patterns), groups.as_ref()];
            if inputs.into_iter().flatten().any(|column| column.is_null(row)) {
                return Ok(None);
            }
            let pattern = patterns.as_string::<i32>().value(row);
            if compiled.as_ref().is_none_or(|(known, _)| known != pattern) {
                compiled = Some((pattern.to_string(), regex_of(pattern)?));
            }
            let (_, regex) = compiled.as_ref().expect("it has been compiled");
            let group = groups.as_ref().map_or(0, |it| it.as_primitive::<Int64Type>().value(row));
            let group = usize::try_from(group).ok().filter(|group| *group < regex.captures_len());
            let group = group.ok_or_else(|| {
                let message = format!("the pattern `{pattern}` has no such group");
                DataFusionError::Execution(message)
            })?;
            let found = regex.captures(texts.as_string::<i32>().value(row));
            let found = found.and_then(|found| Some(found.get(group)?.as_str().to_string()));
            Ok(Some(found.unwrap_or_default()))
        };
        let found: Computed<StringArray> = (0..rows).map(&mut extract).collect();
        Ok(ColumnarValue::Array(Arc::new(found?)))
    }
}

fn regex_of(pattern: &str) -> Computed<Regex> {
    Regex::new(pattern)
        .map_err(|_| DataFusionError::Execution(format!("`{pattern}` is no regular expression")))
}
