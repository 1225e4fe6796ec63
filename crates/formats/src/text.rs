//! Reads and writes files of plain bytes (text formats and `records`): splits, records, character
//! encoding, compression of the whole file.

pub(crate) mod charset;
pub(crate) mod compressed_writer;
pub(crate) mod compression;
pub(crate) mod contents;
pub(crate) mod encoder;
pub(crate) mod limits;
pub mod rejects;
pub(crate) mod row_format;
pub(crate) mod rows;
pub(crate) mod salvage;
pub(crate) mod source;
pub(crate) mod splits;
