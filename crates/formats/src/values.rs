//! Converts values from and to text: type inference from a sample, parsing and printing.

pub(crate) mod decimal_digits;
pub(crate) mod digits;
pub(crate) mod inference;
pub(crate) mod iso8601;
pub(crate) mod parsing;
pub(crate) mod printing;
pub(crate) mod text_forms;
