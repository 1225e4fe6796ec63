//! Checks column names: unique, and representable in Arrow's C interface.

use std::collections::HashSet;

use arrow::datatypes::{DataType, FieldRef, Fields, Schema};

use crate::error::{Error, Result};

/// Fails if two columns have one name: files of them are unreadable for most programs, and no
/// module can name the second.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::check::names::unique;
///
/// let schema = |names: [&str; 2]| {
///     Schema::new(names.map(|name| Field::new(name, DataType::Int64, true)).to_vec())
/// };
/// assert!(unique(&schema(["day", "Day"])).is_ok(), "capitals matter");
/// let error = unique(&schema(["day", "day"])).unwrap_err();
/// assert_eq!(error.message(), "two columns are named `day`");
/// ```
pub fn unique(schema: &Schema) -> Result<()> {
    let mut seen = HashSet::new();
    match schema.fields().iter().find(|field| !seen.insert(field.name())) {
        None => Ok(()),
        Some(twice) => Err(Error::usage(format!("two columns are named `{}`", twice.name()))
            .remedy("rename one of them")),
    }
}

/// Fails if a name cannot be handed to another library in this process: Arrow's C interface ends
/// names at their first NUL.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::check::names::exportable;
///
/// let schema = |name| Schema::new(vec![Field::new(name, DataType::Int64, true)]);
/// assert!(exportable(&schema("día")).is_ok());
/// assert!(exportable(&schema("a\0b")).is_err());
/// ```
pub fn exportable(schema: &Schema) -> Result<()> {
    match schema.fields().iter().find(|field| has_nul(field)) {
        None => Ok(()),
        Some(field) => {
            let message = format!("the name of column {:?} has a NUL in it", field.name());
            let remedy = "rename it in a `project`, or leave it out";
            Err(Error::usage(message).remedy(remedy))
        }
    }
}

fn has_nul(field: &FieldRef) -> bool {
    let any = |fields: &Fields| fields.iter().any(has_nul);
    field.name().contains('\0')
        || match field.data_type() {
            DataType::Struct(fields) => any(fields),
            DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_nul(field)),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _)
            | DataType::RunEndEncoded(_, field) => has_nul(field),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn schema(names: &[&str]) -> Schema {
        let field = |name: &&str| Field::new(*name, DataType::Int64, true);
        Schema::new(names.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn duplicate_column_names_are_refused() {
        assert!(unique(&schema(&["a", "A", ""])).is_ok());
        let error = unique(&schema(&["a", "b", "a"])).unwrap_err().to_string();
        assert!(error.contains("two columns are named `a`"), "{error}");
    }

    #[test]
    fn nul_in_column_name_is_refused_at_any_depth() {
        assert!(exportable(&schema(&["a"])).is_ok());
        assert!(exportable(&schema(&["a\0b"])).is_err());
        let within = DataType::Struct(schema(&["x\0"]).fields().clone());
        let list = DataType::List(Arc::new(Field::new_list_field(within, true)));
        let error = exportable(&Schema::new(vec![Field::new("l", list, true)])).unwrap_err();
        assert!(error.to_string().contains("column \"l\" has a NUL"), "{error}");
    }
}
