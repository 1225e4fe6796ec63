//! Writes the files of a dataset: how they are named, and when one is full.

pub(crate) mod file_names;
pub(crate) mod file_writer;
pub(crate) mod partition_folders;
