//! Hash partitioning of rows: hashes, scattering by their bits, and stores that spill.

pub(crate) mod hashing;
pub(crate) mod load_factor;
pub(crate) mod scatter;
pub(crate) mod spill_store;
