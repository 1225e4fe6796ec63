//! Sort keys: their layout in integers, and keys that outlive their batches.

mod columns_encoder;
pub(crate) mod key_bits;
pub(crate) mod key_decoder;
pub(crate) mod key_encoder;
pub(crate) mod key_layout;
mod key_survey;
mod key_values;
pub(crate) mod owned_keys;
mod text_decoder;

#[cfg(test)]
mod tests;
