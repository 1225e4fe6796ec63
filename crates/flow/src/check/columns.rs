//! Refuses column types that Arrow can describe but its kernels cannot process.

use arrow::datatypes::{DataType, Schema};

use crate::depth::{any_within, check_schema};
use crate::error::{Error, Result};

/// Fails if a column of this schema cannot be split and concatenated.
pub fn check(schema: &Schema) -> Result<()> {
    check_schema(schema)?;
    match schema.fields().iter().find(|field| has_empty_lists(field.data_type())) {
        None => Ok(()),
        Some(field) => {
            let message = format!("column `{}` has fixed-size lists of no values", field.name());
            Err(Error::usage(message).remedy("leave it out, or make it lists of any length"))
        }
    }
}

/// Arrow loses the row count of a list of size 0, since it has no values to count.
fn has_empty_lists(data_type: &DataType) -> bool {
    any_within(data_type, &|one| matches!(one, DataType::FixedSizeList(_, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn empty_fixed_size_lists_are_refused_at_any_depth() {
        let sized = |size| DataType::new_fixed_size_list(DataType::Int32, size, true);
        let schema = |data_type| Schema::new(vec![Field::new("c", data_type, true)]);
        assert!(check(&schema(sized(1))).is_ok());
        let within = DataType::new_list(sized(0), true);
        for data_type in [sized(0), within.clone(), DataType::new_fixed_size_list(within, 2, true)]
        {
            let error = check(&schema(data_type)).unwrap_err();
            assert!(error.to_string().contains("`c` has fixed-size lists of no values"), "{error}");
        }
    }
}
