//! Bytes in and out of devices: disks, segments, collections, catalog, files of others.

pub mod append;
pub mod buffer;
pub mod disk;
pub mod gensort;
pub mod scratch;
pub mod segment;
pub mod valsort;
