//! The join's machinery: what to do, keys, rows, the table, probing, partitions on disk. The module
//! itself is `modules/join.rs`.

pub mod keys;
pub mod parts;
pub mod plan;
pub mod probe;
pub mod request;
pub mod rows;
pub mod table;
pub mod together;

#[cfg(test)]
mod tests;
