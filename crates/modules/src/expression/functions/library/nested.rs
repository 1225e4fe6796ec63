//! Functions of lists, structs and maps whose results have types of their own.

pub(super) mod bins;
pub(super) mod equal_bins;
pub(super) mod items;
pub(super) mod keys;
pub(super) mod maps;
pub(super) mod structs;
