//! Access to devices: disks, files, objects, pipes, scratch, buffers, child programs.

pub mod blob;
pub mod buffer;
pub mod disk;
pub mod durable;
pub mod folder;
pub mod lent_memory;
pub mod location;
pub mod memory_level;
pub mod pipe;
pub mod private;
pub mod process;
pub mod read_cache;
pub mod regular;
pub mod remote;
pub mod scratch;
pub mod served;
pub mod storage_options;
pub mod striped;
mod web_files;
