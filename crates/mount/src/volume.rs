//! A volume as a file system of the kernel: `euphrates mount --volume`.
//!
//! Only this mount changes the volume, so the kernel caches names, attributes and pages; memory
//! maps, `O_APPEND` and locks are those of its page cache.

mod attributes;
mod filesystem;
mod names;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use euphrates_volume::{NamedInode, Volume};
use fuser::Errno;
use parking_lot::Mutex;

use super::deadlines::Deadlines;
use super::serving::MountUse;

/// How long the kernel may use names and attributes again: nobody else changes them.
const FOREVER: Duration = Duration::from_secs(1 << 20);

/// The mounted volume as a file system of `fuser`.
pub struct VolumeFilesystem {
    pub mounted: Arc<MountedVolume>,
    pub deadlines: Arc<Deadlines>,
}

/// A volume, and what programs have open.
pub struct MountedVolume {
    pub volume: Volume,
    /// Open files; `writing` are those that may be written.
    open: AtomicU64,
    writing: AtomicU64,
    folders: Mutex<HashMap<u64, Vec<NamedInode>>>,
    next: AtomicU64,
}

impl MountedVolume {
    pub fn new(volume: Volume) -> MountedVolume {
        let (open, writing, next) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(1));
        MountedVolume { volume, open, writing, folders: Mutex::default(), next }
    }

    fn open_file(&self, flags: i32) {
        self.open.fetch_add(1, Relaxed);
        self.writing.fetch_add(u64::from(is_writing(flags)), Relaxed);
    }

    fn close_file(&self, flags: i32) {
        self.open.fetch_sub(1, Relaxed);
        self.writing.fetch_sub(u64::from(is_writing(flags)), Relaxed);
    }
}

impl MountUse for MountedVolume {
    fn is_in_use(&self) -> bool {
        self.open.load(Relaxed) > 0
    }

    fn writing_count(&self) -> usize {
        self.writing.load(Relaxed) as usize
    }
}

fn is_writing(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// The same number for `fuser`.
fn errno(error: euphrates_volume::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}
