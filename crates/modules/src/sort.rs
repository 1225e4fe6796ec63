//! The machinery of `partition` and `sort`: keys, runs, ranges, copying.

pub mod council;
pub mod gather;
pub mod intake;
pub mod keys;
pub mod layout;
pub mod owned;
pub mod ranges;
pub mod recovery;
pub mod rows;
pub mod runs;
pub mod spill;
pub mod store;
pub mod values;
pub mod whole;
