//! File formats: CSV, JSON, text lines, fixed-size records, Arrow IPC and Parquet.
//!
//! Each format is a module that implements [`Format`] and has a line in [`FORMATS`]: `csv`, `json`,
//! `lines`, `records`, `arrow_ipc`, `parquet`. The first four share `text`.

pub mod dataset;
pub mod options;
pub mod predicate;
pub mod type_unification;

mod arrow_ipc;
mod columns_by_name;
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
pub use dataset::opening::files_of;
pub use dataset::row_filter::{PassRate, RowFilter, RowTest};
pub use format::{ChunkMetadata, EncodedChunk, Encoder, Format, FormatInfo, OpenedFile, Writer};
pub use options::{Compression, ReadOptions, SortedColumn, WriteOptions, parse_read_compression};
pub use pipes::PipeWriter;
pub use records::{gensort, valsort};
pub use registry::{FORMATS, format_named, format_of, writer_of};
pub use stream::{BatchStream, ByteInput, SplitBatches};
pub use text::contents::format_of_bytes;
pub use text::limits::ReadLimits;
pub use text::rejects;
