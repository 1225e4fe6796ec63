//! The disk side: root documents in the catalog, segments on disks, and the lease.

mod appender;
mod chunk_reader;
mod lease;
mod log_writer;
mod root;
mod segments;

pub use chunk_reader::ChunkReader;
pub use lease::VolumeLease;
pub use log_writer::LogWriter;
pub use root::{Roots, VolumeRoot, WriterName};
pub use segments::{DiskSpace, VolumeDisks};
