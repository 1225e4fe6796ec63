//! What the text formats share: splits of a file, its records, its encoding and compression.

pub(crate) mod charset;
pub(crate) mod compressed_writer;
pub(crate) mod compression;
pub(crate) mod limits;
pub(crate) mod rows;
pub(crate) mod source;
pub(crate) mod splits;
