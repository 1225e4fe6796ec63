//! Where columns stand, by their names. Searching a schema for each of its names takes minutes
//! where there are a hundred thousand.

use std::collections::HashMap;

use arrow::datatypes::{FieldRef, Fields, Schema};
use euphrates_flow::Result;
use euphrates_flow::error::unknown;

/// The columns of a schema, to be found by name.
pub struct Places<'a> {
    fields: &'a Fields,
    places: HashMap<&'a str, usize>,
}

impl<'a> Places<'a> {
    /// Of a schema; of columns with one name, the first.
    pub fn new(schema: &'a Schema) -> Places<'a> {
        Places::of(schema.fields())
    }

    /// Of some fields.
    pub fn of(fields: &'a Fields) -> Places<'a> {
        let mut places = HashMap::with_capacity(fields.len());
        for (place, field) in fields.iter().enumerate() {
            places.entry(field.name().as_str()).or_insert(place);
        }
        Places { fields, places }
    }

    /// The place of a column, if there is one of this name.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The column of this name, if there is one.
    pub fn field(&self, name: &str) -> Option<&'a FieldRef> {
        self.get(name).map(|place| &self.fields[place])
    }

    /// The places of the columns that another schema has, in its order.
    pub fn of_all(&self, wanted: &Schema) -> Result<Vec<usize>> {
        wanted.fields().iter().map(|field| self.find(field.name())).collect()
    }

    /// The place of a column, or an error that names a similar one.
    pub fn find(&self, name: &str) -> Result<usize> {
        let known = || self.fields.iter().map(|field| field.name().as_str());
        self.get(name).ok_or_else(|| unknown("column", name, known()))
    }
}
