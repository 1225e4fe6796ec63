//! A volume that is open: operations, checkpoints, and the cleaner.

mod checkpoint_codec;
mod cleaning;
mod core;
mod handle;
mod loading;
mod maintenance;
mod operations;

#[cfg(test)]
pub(crate) use checkpoint_codec::apply_records;
pub use handle::Volume;
pub use loading::VolumeOptions;
pub use operations::{Attributes, NamedInode, NewInode};
