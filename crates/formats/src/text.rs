//! Shared by text formats: splits of a file, records, encoding and compression.

pub(crate) mod charset;
pub(crate) mod compressed_writer;
pub(crate) mod compression;
pub(crate) mod encoder;
pub(crate) mod limits;
pub(crate) mod rows;
pub(crate) mod source;
pub(crate) mod splits;
