//! File formats: CSV, JSON, text lines, fixed-size records, Arrow IPC and Parquet.
//!
//! Each format is one file here, which implements [`Format`], and one line in [`FORMATS`].

pub mod dataset;
pub mod options;
pub mod type_unification;

mod arrow_ipc;
mod column_index;
mod csv;
mod format;
mod json;
mod lines;
mod option_check;
mod parquet;
mod pipes;
mod records;
mod registry;
mod schema_unification;
mod stream;
mod text;
mod values;

pub use dataset::Dataset;
pub use format::{About, Chunk, Encoder, Format, Note, Opened, Writer};
pub use options::{
    Compression, ReadOptions, WriteOptions, is_uncompressed, usual_delimiter, usual_delimiter_of,
};
pub use pipes::Sink;
pub use records::{gensort, valsort};
pub use registry::{FORMATS, format_named, format_of, writer_of};
pub use stream::{Batches, Input, Stream};
pub use text::limits::ReadLimits;
