//! Predicate pushdown: whether any row of a group may pass, judged by bounds of its columns
//! (zone maps).
//!
//! A group of rows is skipped if no row can pass the filter (small materialized aggregates:
//! Moerkotte, 1998). A predicate is evaluated to the set of truth values that it may have in
//! three-valued logic. The set is a superset: it may include a truth value that no row has, never
//! omit one.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// How a column compares with a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// SQL's `=`: the column's value is the literal.
    Equal,
    /// SQL's `<>`: the column's value is another than the literal.
    NotEqual,
    /// SQL's `<`: the column's value is below the literal.
    Less,
    /// SQL's `<=`: the column's value is at most the literal.
    LessOrEqual,
    /// SQL's `>`: the column's value is above the literal.
    Greater,
    /// SQL's `>=`: the column's value is at least the literal.
    GreaterOrEqual,
}

/// A condition on the columns `C` of a row, whose values are of type `V`.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate<C, V> {
    /// Null if the column is null.
    Compare(C, Comparison, V),
    /// Whether the column is null; the result is never null.
    IsNull(C),
    /// Null if the predicate is null.
    Not(Box<Predicate<C, V>>),
    /// True where the predicate is null.
    IsNotFalse(Box<Predicate<C, V>>),
    /// `AND`; true if there are no terms.
    All(Vec<Predicate<C, V>>),
    /// `OR`; false if there are no terms.
    Any(Vec<Predicate<C, V>>),
    /// A condition about which nothing is known.
    Unknown,
}

/// What is known of a column's values in several rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds<V> {
    /// No value is less.
    pub least: Option<V>,
    /// No value is greater, apart from NaN.
    pub greatest: Option<V>,
    /// Whether a value may be NaN, which is greater than all literals.
    pub may_be_nan: bool,
    /// The number of nulls.
    pub nulls: Option<u64>,
    /// The number of rows, with those that are null.
    pub rows: u64,
}

/// The truth values that a predicate may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// It may be true for a row.
    pub yes: bool,
    /// It may be false for a row.
    pub no: bool,
    /// It may be null for a row.
    pub null: bool,
}

/// What is known of several rows.
pub trait Facts<C, V> {
    /// The bounds of a column, if they are known.
    fn bounds(&self, column: &C) -> Option<&Bounds<V>>;

    /// Whether the column has this value in no row.
    fn lacks(&self, column: &C, value: &V) -> bool {
        let _ = (column, value);
        false
    }
}

impl Comparison {
    /// The comparison with its sides exchanged.
    pub fn flipped(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl<C: PartialEq, V: PartialOrd> Predicate<C, V> {
    /// The truth values that it may have for the rows that the facts describe.
    ///
    /// ```
    /// use euphrates_policy::predicate::{Bounds, Comparison, Facts, Predicate};
    ///
    /// struct Prices(Bounds<i64>);
    /// impl Facts<&str, i64> for Prices {
    ///     fn bounds(&self, column: &&str) -> Option<&Bounds<i64>> {
    ///         (*column == "price").then_some(&self.0)
    ///     }
    /// }
    ///
    /// let (least, greatest) = (Some(10), Some(20));
    /// let prices = Prices(Bounds { least, greatest, may_be_nan: false, nulls: Some(0), rows: 5 });
    /// let above = |column, value| Predicate::Compare(column, Comparison::Greater, value);
    /// assert!(above("price", 19).outcomes(&prices).yes);
    /// assert!(!above("price", 20).outcomes(&prices).yes);
    /// assert!(above("weight", 20).outcomes(&prices).yes);
    /// ```
    pub fn outcomes(&self, facts: &impl Facts<C, V>) -> Outcomes {
        match self {
            Predicate::Compare(column, comparison, value) => {
                let is_absent = || facts.lacks(column, value);
                compared(facts.bounds(column), *comparison, value, true, is_absent)
            }
            Predicate::IsNull(column) => {
                let bounds = facts.bounds(column);
                let yes = bounds.is_none_or(Bounds::may_be_null);
                Outcomes { yes, no: bounds.is_none_or(Bounds::may_have_value), null: false }
            }
            Predicate::Not(inner) => {
                let inner = inner.outcomes(facts);
                Outcomes { yes: inner.no, no: inner.yes, null: inner.null }
            }
            Predicate::IsNotFalse(inner) => {
                let inner = inner.outcomes(facts);
                Outcomes { yes: inner.yes || inner.null, no: inner.no, null: false }
            }
            Predicate::All(terms) => {
                let all =
                    terms.iter().fold(Outcomes::YES, |all, term| all.and(term.outcomes(facts)));
                let may_be_true = |term| may_be_true_of_a_number(term, terms, facts);
                Outcomes { yes: all.yes && terms.iter().all(may_be_true), ..all }
            }
            Predicate::Any(terms) => {
                let none = Outcomes { yes: false, no: true, null: false };
                terms.iter().fold(none, |any, term| any.or(term.outcomes(facts)))
            }
            Predicate::Unknown => Outcomes { yes: true, no: true, null: true },
        }
    }
}

impl Outcomes {
    const YES: Outcomes = Outcomes { yes: true, no: false, null: false };

    fn is_any(self) -> bool {
        self.yes || self.no || self.null
    }

    fn and(self, other: Outcomes) -> Outcomes {
        Outcomes {
            yes: self.yes && other.yes,
            no: self.no && other.is_any() || other.no && self.is_any(),
            null: self.null && (other.null || other.yes) || other.null && self.yes,
        }
    }

    fn or(self, other: Outcomes) -> Outcomes {
        Outcomes {
            yes: self.yes && other.is_any() || other.yes && self.is_any(),
            no: self.no && other.no,
            null: self.null && (other.null || other.no) || other.null && self.no,
        }
    }
}

impl<V> Bounds<V> {
    fn may_be_null(&self) -> bool {
        self.rows > 0 && self.nulls != Some(0)
    }

    fn may_have_value(&self) -> bool {
        self.nulls.is_none_or(|nulls| nulls < self.rows)
    }
}

/// Whether a term can be true together with all terms. If another term excludes NaN in the same
/// column, only numbers count.
fn may_be_true_of_a_number<C: PartialEq, V: PartialOrd>(
    term: &Predicate<C, V>,
    terms: &[Predicate<C, V>],
    facts: &impl Facts<C, V>,
) -> bool {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let Predicate::Compare(column, comparison @ (Greater | GreaterOrEqual), value) = term else {
        return true;
    };
    let Some(bounds) = facts.bounds(column).filter(|bounds| bounds.may_be_nan) else { return true };
    let excludes_nan = |other: &Predicate<C, V>| match other {
        Predicate::Compare(same, Less | LessOrEqual | Equal, _) => same == column,
        _ => false,
    };
    !terms.iter().any(excludes_nan)
        || compared(Some(bounds), *comparison, value, false, || false).yes
}

fn compared<V: PartialOrd>(
    bounds: Option<&Bounds<V>>,
    comparison: Comparison,
    value: &V,
    with_nan: bool,
    is_absent: impl FnOnce() -> bool,
) -> Outcomes {
    let null = bounds.is_none_or(Bounds::may_be_null);
    if !bounds.is_none_or(Bounds::may_have_value) {
        return Outcomes { yes: false, no: false, null };
    }
    let least = bounds.and_then(|bounds| bounds.least.as_ref());
    let greatest = bounds.and_then(|bounds| bounds.greatest.as_ref());
    // Bounds in the wrong order were made by another order of values than that of `V`.
    let is_crossed =
        |(least, greatest): (&V, &V)| least.partial_cmp(greatest).is_none_or(Ordering::is_gt);
    let crossed = least.zip(greatest).is_some_and(is_crossed);
    let known = |bound: Option<&V>| {
        let ordering = bound.filter(|_| !crossed).map(|bound| bound.partial_cmp(value));
        ordering.flatten()
    };
    let (least, greatest) = (known(least), known(greatest));
    let less = least.is_none_or(Ordering::is_lt);
    let greater = greatest.is_none_or(Ordering::is_gt)
        || with_nan && bounds.is_none_or(|bounds| bounds.may_be_nan);
    let equal = least.is_none_or(Ordering::is_le) && greatest.is_none_or(Ordering::is_ge);
    let equal = equal && !(comparison == Comparison::Equal && is_absent());
    let orderings =
        [(less, Ordering::Less), (equal, Ordering::Equal), (greater, Ordering::Greater)];
    let mut outcomes = Outcomes { yes: false, no: false, null };
    for (_, ordering) in orderings.into_iter().filter(|(is_possible, _)| *is_possible) {
        match comparison.holds(ordering) {
            true => outcomes.yes = true,
            false => outcomes.no = true,
        }
    }
    outcomes
}

#[cfg(test)]
mod tests;
