//! Striped files: bytes across many disks, with parity.
//!
//! A file is a sequence of stripes of `k` data blocks and `m` parity blocks, any `k` of which
//! restore the stripe. The blocks of a stripe lie on `k + m` disks, chosen when it is written
//! (`placement.rs`), so nothing computes where a block is: the map lists every block with its
//! segment, offset and checksum (`map.rs`). Segments are never changed. Each version of a file has
//! a map and a manifest of its own, and shares the segments that it has not replaced with the
//! version before, so commit, removal and reclaim are those of collections.
//!
//! A reader scans (`scan.rs`) with `euphrates_policy::striping`, or reads single blocks
//! (`single.rs`). A writer keeps a few stripes in memory, and writes each as a whole: a change of a
//! stripe is a new stripe elsewhere (`writer.rs`). In a session several writers fill one version
//! (`session.rs`). Flows read and write files by their addresses (`input.rs`).

mod begin;
mod blocks;
mod commit;
mod dirty;
mod input;
mod map;
mod names;
mod options;
mod placement;
mod reader;
mod rename;
mod repair;
mod scan;
mod session;
mod single;
mod source;
mod verify;
mod version;
mod view;
mod writer;

use std::path::Path;

use euphrates_flow::Result;

use crate::catalog::Catalog;
use crate::collection::remove_found;
pub(crate) use input::options_of;
pub use input::with_files_of;
pub use names::{name_of_path, path_of_name};
pub use options::{BLOCK_BYTES, StripedOptions, disks_for};
pub use reader::StripedReader;
pub use rename::rename_file;
pub use repair::{RepairedFile, repair_file};
pub use session::{ShareWriter, StripedSession};
pub use verify::{VerifiedFile, verify_file};
pub use view::StridedView;
pub use writer::StripedWriter;

/// Removes a striped file, which may be damaged: first from the catalog, then its segments.
///
/// ```
/// use euphrates_store::striped::{StripedOptions, StripedWriter, remove_file};
///
/// let home = tempfile::tempdir()?;
/// let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
/// StripedWriter::create(home.path(), "empty", options)?.commit()?;
/// remove_file(home.path(), "empty", "run")?;
/// assert!(remove_file(home.path(), "empty", "run").is_err(), "it is gone");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remove_file(home: &Path, name: &str, run_id: &str) -> Result<()> {
    let catalog = Catalog::of(home)?;
    catalog.find_file(name)?;
    remove_found(home, &catalog, name, run_id)
}
