//! Erasure codes: `m` parity blocks for `k` data blocks, any `k` of which restore all of them.
//!
//! The code is the systematic Reed-Solomon code over GF(2^8) whose generator is a Vandermonde
//! matrix times the inverse of its top. Other libraries build the same matrix, so their parity
//! blocks have the same bytes. The crate knows blocks of bytes only: it has no dependencies, and
//! does no I/O.
#![deny(unsafe_op_in_unsafe_fn)]

mod code;
mod combination;
mod field;
mod kernel;
mod matrix;

pub use code::{BLOCKS_MAX, CodeError, ErasureCode};
pub use kernel::Kernel;
