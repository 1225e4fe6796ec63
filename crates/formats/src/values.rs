//! Values as text: types inferred from a sample, values parsed and printed.

pub(crate) mod inference;
pub(crate) mod iso8601;
pub(crate) mod parsing;
pub(crate) mod printing;
