//! Looks up columns by name through a hash index: a linear search of a schema for each of a hundred
//! thousand names takes minutes.

use std::collections::HashMap;

use arrow::datatypes::{FieldRef, Fields, Schema};
use euphrates_flow::Result;
use euphrates_flow::error::unknown;

/// An index of the columns of a schema by name.
pub struct ColumnsByName<'a> {
    fields: &'a Fields,
    positions: HashMap<&'a str, usize>,
}

impl<'a> ColumnsByName<'a> {
    /// Indexes a schema; of columns with the same name, the first.
    pub fn new(schema: &'a Schema) -> ColumnsByName<'a> {
        ColumnsByName::of(schema.fields())
    }

    /// Indexes a list of fields; of fields with the same name, the first.
    pub fn of(fields: &'a Fields) -> ColumnsByName<'a> {
        let mut positions = HashMap::with_capacity(fields.len());
        for (position, field) in fields.iter().enumerate() {
            positions.entry(field.name().as_str()).or_insert(position);
        }
        ColumnsByName { fields, positions }
    }

    /// The position of a column; `None` if no column has this name.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The field of a column; `None` if no column has this name.
    pub fn field(&self, name: &str) -> Option<&'a FieldRef> {
        self.get(name).map(|position| &self.fields[position])
    }

    /// The positions of the columns of `wanted`, in its order; an error if one is missing.
    pub fn of_all(&self, wanted: &Schema) -> Result<Vec<usize>> {
        wanted.fields().iter().map(|field| self.find(field.name())).collect()
    }

    /// The position of a column, or an error that suggests a similar name.
    pub fn find(&self, name: &str) -> Result<usize> {
        let known = || self.fields.iter().map(|field| field.name().as_str());
        self.get(name).ok_or_else(|| unknown("column", name, known()))
    }
}
