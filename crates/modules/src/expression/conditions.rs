//! Conditions: the part that a source can decide, and the evaluation of terms one after the other.

pub(super) mod conjunction;
pub(super) mod empty_text;
pub(super) mod predicate_pushdown;
