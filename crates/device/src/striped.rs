//! Striped files as inputs of flows: what this crate has to know of them.
//!
//! They are read by the crate `store`, which uses this one. Whoever opens paths therefore gives the
//! striped files of a home along with the storage options.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use euphrates_flow::Result;
use euphrates_flow::sync::Mutex;

/// What the address of a striped file begins with.
pub const SCHEME: &str = "euphrates://";

/// Options of such an address, beside those of no other scheme.
pub(crate) const OPTIONS: [&str; 4] = ["home", "data", "parity", "disks"];

/// Striped files that are kept open between reads, at most; others are opened for each read.
const OPEN_FILES_MAX: usize = 64;

static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

/// The path behind `euphrates://`; `None` for any other address.
///
/// ```
/// use euphrates_device::striped::path_of_address;
///
/// assert_eq!(path_of_address("euphrates://runs/1.csv"), Some("runs/1.csv"));
/// assert_eq!(path_of_address("s3://bucket/1.csv"), None);
/// ```
pub fn path_of_address(address: &str) -> Option<&str> {
    address.strip_prefix(SCHEME)
}

/// A version of a striped file that existed when it was looked up.
#[derive(Clone, Debug)]
pub struct StripedEntry {
    /// The path behind `euphrates://`.
    pub path: String,
    /// The length in bytes.
    pub bytes: u64,
    /// Distinguishes this version from any other of this path.
    pub version: String,
}

/// The striped files of a home.
pub trait StripedFiles: Send + Sync {
    /// The home folder.
    fn home(&self) -> &Path;
    /// The newest version of the file of a path; `None` if there is none.
    fn find(&self, path: &str) -> Result<Option<StripedEntry>>;
    /// The newest versions of all files, sorted by path.
    fn list(&self) -> Result<Vec<StripedEntry>>;
    /// Opens a version. Fails if another one has replaced it.
    fn open(&self, entry: &StripedEntry) -> Result<Arc<dyn StripedBytes>>;
}

/// An open striped file.
pub trait StripedBytes: Send + Sync {
    /// Fills `to` from an offset on; several threads may call it. Returns the number of bytes,
    /// which is less than asked for only at the end of the file.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize>;
}

/// A striped file that was looked up. It is opened at the first read.
pub(crate) struct StripedInput {
    pub entry: StripedEntry,
    files: Arc<dyn StripedFiles>,
    kept: Mutex<Option<Arc<dyn StripedBytes>>>,
}

impl StripedInput {
    pub fn new(entry: StripedEntry, files: &Arc<dyn StripedFiles>) -> StripedInput {
        StripedInput { entry, files: files.clone(), kept: Mutex::default() }
    }

    pub fn open(&self) -> Result<Arc<dyn StripedBytes>> {
        let mut kept = self.kept.lock();
        if let Some(open) = &*kept {
            return Ok(open.clone());
        }
        let opened = self.files.open(&self.entry)?;
        let one_more = |open| (open < OPEN_FILES_MAX).then_some(open + 1);
        if OPEN_FILES.fetch_update(Relaxed, Relaxed, one_more).is_ok() {
            *kept = Some(opened.clone());
        }
        Ok(opened)
    }
}

impl Drop for StripedInput {
    fn drop(&mut self) {
        if self.kept.get_mut().is_some() {
            OPEN_FILES.fetch_sub(1, Relaxed);
        }
    }
}
