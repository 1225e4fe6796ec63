//! Striped files and volumes as file systems of the kernel: `euphrates mount`.
//!
//! The kernel passes the requests of programs to this process over `/dev/fuse` (`filesystem.rs`);
//! they are answered from the home by the readers and writers of `euphrates_store::striped`
//! (`operations.rs`, `changes.rs`). Reading opens a version; writing fills a session, which is
//! published when the file is closed (`live.rs`). Requests that take too long are refused
//! (`deadlines.rs`). A volume is a file system of its own (`volume.rs`).

mod changes;
mod deadlines;
mod filesystem;
mod home;
mod live;
mod operations;
mod serving;
mod session;
mod tree;
mod volume;

pub use session::{MountOptions, mount};
