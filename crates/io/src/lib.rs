//! Bytes in and out of devices: disks, segments, collections, catalog, files of others.

pub mod alike;
pub mod append;
pub mod blob;
pub mod buffer;
pub mod catalog;
pub mod collection;
pub mod commit;
pub mod declustering;
pub mod disk;
pub mod durable;
pub mod foreign;
pub mod gensort;
pub mod location;
pub mod mirroring;
pub mod nested;
pub mod output;
pub mod pipe;
pub mod private;
pub mod process;
pub mod regular;
pub mod remote;
pub mod scratch;
pub mod segment;
pub mod valsort;
