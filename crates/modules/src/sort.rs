//! The sort's machinery: keys, runs, ranges, copying. The module itself is `modules/sort.rs`.

pub mod council;
pub mod gather;
pub mod keys;
pub mod layout;
pub mod ranges;
pub mod recovery;
pub mod rows;
pub mod runs;
pub mod spill;
pub mod values;
