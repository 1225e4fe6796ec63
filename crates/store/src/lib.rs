//! Storage of flows: segments, collections and their catalog, mirrors, striped files, and the
//! commit of outputs.

pub mod append;
pub mod catalog;
pub mod collection;
pub mod commit;
pub mod dataset;
pub mod declustering;
pub mod mirroring;
pub mod output;
pub mod segment;
pub mod striped;
