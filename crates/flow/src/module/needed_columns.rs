//! Projection pushdown: the input columns that a module reads, derived from its configuration.

use std::collections::BTreeSet;

use arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};

/// Which columns of its inputs a module reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Needs {
    /// All that there are.
    #[default]
    All,
    /// These alone, whatever the consumers of its outputs read.
    These(ColumnNames),
    /// These, and those that the consumers of its outputs read.
    PassedOn(ColumnNames),
    /// These, and those that the consumers of its outputs read. Each is a column of some input; in
    /// outputs, the suffix may stand behind its name.
    Joined(ColumnNames, String),
}

/// Names of columns in texts that are not yet bound to a schema. Capitals do not matter, as in SQL.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_flow::module::ColumnNames;
///
/// let field = |name| Field::new(name, DataType::Int64, false);
/// let schema = Schema::new(["day", "Price", "note"].map(field).to_vec());
/// let mut names = ColumnNames::default();
/// names.add("price");
/// assert_eq!(names.columns_of(&schema), Some(vec![1]));
/// names.add("sum");
/// assert_eq!(names.columns_of(&schema), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnNames {
    names: BTreeSet<String>,
    possible: BTreeSet<String>,
    encoded: BTreeSet<String>,
    possible_encoded: BTreeSet<String>,
    only_text: BTreeSet<String>,
}

impl ColumnNames {
    /// Adds the name of a column.
    pub fn add(&mut self, name: &str) {
        self.names.insert(name.to_lowercase());
    }

    /// Adds a word that may be the name of a column, or something else.
    pub fn add_possible(&mut self, word: &str) {
        self.possible.insert(word.to_lowercase());
    }

    /// Adds the name of a column that may come with a dictionary, although its type has none.
    ///
    /// ```
    /// use euphrates_flow::module::ColumnNames;
    ///
    /// let mut names = ColumnNames::default();
    /// names.add_encoded("city");
    /// assert!(names.may_be_encoded("City", false));
    /// // A reader that takes dictionaries of text alone.
    /// names.encode_only_text("city");
    /// assert!(!names.may_be_encoded("City", false) && names.may_be_encoded("City", true));
    /// // A reader that needs the values themselves.
    /// names.add("city");
    /// assert!(!names.may_be_encoded("City", true));
    /// ```
    pub fn add_encoded(&mut self, name: &str) {
        self.encoded.insert(name.to_lowercase());
    }

    /// Adds a word that may be the name of a column, which may then come with a dictionary.
    pub fn add_possible_encoded(&mut self, word: &str) {
        self.possible_encoded.insert(word.to_lowercase());
    }

    /// Restricts a column that may come with a dictionary to a dictionary of text.
    pub fn encode_only_text(&mut self, name: &str) {
        self.only_text.insert(name.to_lowercase());
    }

    /// Whether a column, of text or not, is read by readers that all take it with a dictionary.
    pub fn may_be_encoded(&self, name: &str, is_text: bool) -> bool {
        let name = &name.to_lowercase();
        (self.encoded.contains(name) || self.possible_encoded.contains(name))
            && (is_text || !self.only_text.contains(name))
            && !self.names.contains(name)
            && !self.possible.contains(name)
    }

    /// Adds all names of `other`.
    pub fn merge(&mut self, other: &ColumnNames) {
        self.names.extend(other.names.iter().cloned());
        self.possible.extend(other.possible.iter().cloned());
        self.encoded.extend(other.encoded.iter().cloned());
        self.possible_encoded.extend(other.possible_encoded.iter().cloned());
        self.only_text.extend(other.only_text.iter().cloned());
    }

    /// Adds all names of `other`, each of which may be a column or not.
    ///
    /// ```
    /// use euphrates_flow::module::ColumnNames;
    ///
    /// let mut behind_a_join = ColumnNames::default();
    /// behind_a_join.add_encoded("region");
    /// behind_a_join.add("price");
    /// let mut names = ColumnNames::default();
    /// names.merge_possible(&behind_a_join);
    /// assert!(names.may_be_encoded("region", true) && !names.may_be_encoded("price", true));
    /// ```
    pub fn merge_possible(&mut self, other: &ColumnNames) {
        self.possible.extend(other.names.union(&other.possible).cloned());
        let encoded = other.encoded.union(&other.possible_encoded);
        self.possible_encoded.extend(encoded.cloned());
        self.only_text.extend(other.only_text.iter().cloned());
    }

    /// Adds, for every name that ends with this suffix, the name without it.
    pub fn add_without(&mut self, suffix: &str) {
        let suffix = suffix.to_lowercase();
        let stripped = |name: &String| match suffix.is_empty() {
            true => None,
            false => name.strip_suffix(&suffix).map(str::to_string),
        };
        let sets = self.sets();
        let mut left: Vec<String> = sets.into_iter().flatten().filter_map(stripped).collect();
        while let Some(name) = left.pop() {
            left.extend(stripped(&name));
            self.possible.insert(name);
        }
    }

    /// The positions of the columns with these names, at least one if there are any columns. `None`
    /// if a name is no column: then all are read, so that the error of the module that reads it
    /// shows all.
    pub fn columns_of(&self, schema: &Schema) -> Option<Vec<usize>> {
        let lower: Vec<String> =
            schema.fields().iter().map(|field| field.name().to_lowercase()).collect();
        let known: BTreeSet<&String> = lower.iter().collect();
        if !self.names.union(&self.encoded).all(|name| known.contains(name)) {
            return None;
        }
        let sets = self.sets();
        let is_read = |name: &String| sets.iter().any(|set| set.contains(name));
        let read: Vec<usize> = (0..lower.len()).filter(|at| is_read(&lower[*at])).collect();
        match read.is_empty() {
            false => Some(read),
            // A batch without columns would have no rows to count.
            true => Some(cheapest(schema).into_iter().collect()),
        }
    }

    fn sets(&self) -> [&BTreeSet<String>; 4] {
        [&self.names, &self.possible, &self.encoded, &self.possible_encoded]
    }
}

/// The column with the narrowest values of fixed width, or the first.
fn cheapest(schema: &Schema) -> Option<usize> {
    let width = |at: &usize| schema.field(*at).data_type().primitive_width().unwrap_or(usize::MAX);
    (0..schema.fields().len()).min_by_key(width)
}
