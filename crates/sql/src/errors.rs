//! The planner's errors as errors of flows.

use std::collections::BTreeSet;

use datafusion_common::{DataFusionError, SchemaError};
use euphrates_flow::Error;
use euphrates_flow::error::unknown;

/// The planner's error, in its words but for unknown columns.
pub(crate) fn failed(error: DataFusionError) -> Error {
    if let DataFusionError::SchemaError(error, _) = error.find_root()
        && let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref()
    {
        // The column is there, in another table.
        if let Some(table) = &field.relation
            && valid_fields.iter().any(|one| one.name == field.name)
        {
            let tables = valid_fields.iter().filter_map(|one| one.relation.as_ref());
            let tables: BTreeSet<String> = tables.map(|one| one.table().to_string()).collect();
            return unknown("table", table.table(), tables.iter().map(String::as_str));
        }
        return unknown("column", &field.name, valid_fields.iter().map(|one| one.name.as_str()));
    }
    let text = error.find_root().strip_backtrace();
    if let Some((_, rest)) = text.split_once("Invalid function '")
        && let Some((name, rest)) = rest.split_once('\'')
    {
        let error = Error::usage(format!("no function named `{name}`"));
        return match rest.split('\'').nth(1) {
            Some(near) => error.remedy(format!("did you mean `{near}`?")),
            None => error,
        };
    }
    if let Some((_, rest)) = text.split_once("argument types '")
        && let Some((call, _)) = rest.split_once('\'')
    {
        let error = Error::usage(format!("no function takes the arguments of `{call}`"));
        return error.remedy("convert them with CAST(… AS …)");
    }
    let known = ["Error during planning: ", "Schema error: ", "SQL error: "];
    let text = known.iter().fold(text.as_str(), |text, prefix| text.trim_start_matches(prefix));
    Error::usage(text)
}
