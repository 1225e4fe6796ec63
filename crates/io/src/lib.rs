//! Bytes in and out of devices: disks, segments, collections, catalog, files of others.

pub mod append;
pub mod gensort;
pub mod scratch;
pub mod buffer;
pub mod disk;
pub mod segment;
