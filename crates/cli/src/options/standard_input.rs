//! Standard input as a file. A query may read a table several times, first for its columns, and
//! standard input can be read once: it is copied to a scratch folder.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use euphrates_device::scratch::{self, LockedFolder};
use euphrates_engine::machine;
use euphrates_flow::{Error, Result};

use super::files::is_standard;

/// Standard input as a table of a query, copied when its path is first asked for. The copy is
/// removed when this is dropped; that of a killed process, when another flow starts.
#[derive(Default)]
pub struct StandardInput {
    copied: OnceCell<CopiedInput>,
}

struct CopiedInput {
    folder: Option<LockedFolder>,
    path: PathBuf,
}

impl StandardInput {
    /// Whether a table with this name is standard input.
    pub fn is_named(table: &str) -> bool {
        is_standard(table) || table == "stdin"
    }

    /// The path of the copy, in a new folder of `scratch`.
    pub fn path(&self, scratch: &Path) -> Result<&Path> {
        if self.copied.get().is_none() {
            let _ = self.copied.set(CopiedInput::new(scratch)?);
        }
        Ok(&self.copied.get().expect("it was just set").path)
    }
}

impl CopiedInput {
    fn new(scratch: &Path) -> Result<CopiedInput> {
        let folder = scratch::hold(scratch, &format!("{}-stdin", machine::run_id()))?;
        let path = folder.folder.join("stdin");
        // Owned before the copy, so that a full disk leaves nothing behind.
        let copied = CopiedInput { folder: Some(folder), path };
        let failed = |error| Error::os("copy standard input to", &copied.path, &error);
        let mut file = File::create(&copied.path).map_err(failed)?;
        io::copy(&mut io::stdin().lock(), &mut file).map_err(failed)?;
        Ok(copied)
    }
}

impl Drop for CopiedInput {
    fn drop(&mut self) {
        self.folder.take().into_iter().for_each(LockedFolder::remove);
    }
}
