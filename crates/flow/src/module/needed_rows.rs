//! Predicate pushdown: the input rows that affect a module's output, derived from its
//! configuration.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which rows of its inputs matter to a module: without the others, its outputs are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NeededRows {
    /// All that there are.
    #[default]
    All,
    /// Those that matter to the consumers of its outputs. It passes on every row, unchanged, and
    /// does the same with one row whatever the others are.
    PassedOn,
    /// Those for which a condition in SQL is true, as far as they matter to the consumers of its
    /// outputs. It passes on these rows, unchanged.
    Where(String),
    /// For each input, by the names of its key columns, those whose keys are equal to those of a
    /// row of the other input; all rows of an input without names. It reads one input to its end
    /// before it takes anything of the other, and may leave a filter for that (`KeyFilterSlot`).
    Matching(Vec<Vec<String>>),
    /// As soon as some have come, those that come before the last of these by columns of these
    /// names, the first of them in this order. It may leave a filter for that (`KeyFilterSlot`),
    /// which tightens.
    First(Vec<String>, ValueOrder),
}

/// The order of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueOrder {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

/// A condition on the rows of a source: the others reach no module that they matter to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowCondition {
    /// A condition in SQL.
    Sql(String),
    /// Conditions of which each is evaluated where those before are true; true if there are none.
    All(Vec<RowCondition>),
    /// Conditions that are evaluated independently of each other.
    Any(Vec<RowCondition>),
}

impl fmt::Display for RowCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (conditions, word) = match self {
            RowCondition::Sql(text) => return write!(f, "{text}"),
            RowCondition::All(conditions) => (conditions, " and "),
            RowCondition::Any(conditions) => (conditions, " or "),
        };
        let one = |condition: &RowCondition| match conditions.len() {
            1 => condition.to_string(),
            _ => format!("({condition})"),
        };
        write!(f, "{}", conditions.iter().map(one).collect::<Vec<_>>().join(word))
    }
}

impl RowCondition {
    /// The condition that is true for all rows.
    pub const TRUE: RowCondition = RowCondition::All(vec![]);

    /// The rows for which this is true, and for which `next` is true as well.
    pub(crate) fn then(self, next: RowCondition) -> RowCondition {
        match next {
            RowCondition::All(next) => RowCondition::All([self].into_iter().chain(next).collect()),
            next => RowCondition::All(vec![self, next]),
        }
    }

    /// The rows for which any of these is true; all if there are none.
    pub(crate) fn any(conditions: Vec<RowCondition>) -> RowCondition {
        let all = conditions.is_empty() || conditions.contains(&RowCondition::TRUE);
        match <[RowCondition; 1]>::try_from(conditions) {
            Ok([one]) => one,
            Err(_) if all => RowCondition::TRUE,
            Err(several) => RowCondition::Any(several),
        }
    }
}
