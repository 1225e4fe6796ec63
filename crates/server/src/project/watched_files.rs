//! Detects changes that other programs make to files that pages have open.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::folder::{FileStamp, ProjectFolder};

/// The largest number of watched files.
const WATCHED_MAX: usize = 64;

/// Files that pages have read or written, with the stamp that the last page has seen.
#[derive(Default)]
pub struct WatchedFiles(Mutex<BTreeMap<String, FileStamp>>);

impl WatchedFiles {
    /// Records that a page has seen a file in this state.
    pub fn record(&self, path: &str, stamp: FileStamp) {
        let mut seen = self.0.lock();
        if seen.len() < WATCHED_MAX || seen.contains_key(path) {
            seen.insert(path.into(), stamp);
        }
    }

    /// The files that another program has changed since; each change is reported once.
    pub fn changed(&self, folder: &ProjectFolder) -> Vec<String> {
        let mut seen = self.0.lock();
        let is_changed = |(path, stamp): (&String, &mut FileStamp)| {
            let now = folder.stamp(path);
            (now != std::mem::replace(stamp, now)).then(|| path.clone())
        };
        seen.iter_mut().filter_map(is_changed).collect()
    }
}
