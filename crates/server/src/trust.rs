//! Which projects' programs this user has run from the studio before, and so need not be asked for.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use euphrates_flow::{Error, Result};

use crate::lock;

/// Projects that are remembered; the oldest are forgotten first.
const PROJECTS_MAX: usize = 1000;

/// The list, in a file of the user's own.
pub struct Trust {
    path: PathBuf,
    writing: Mutex<()>,
}

impl Trust {
    /// The list beneath this folder.
    pub fn at(home: &Path) -> Trust {
        Trust { path: home.join("studio").join("trusted.json"), writing: Mutex::default() }
    }

    /// Whether a project is on it.
    pub fn has(&self, root: &Path) -> bool {
        self.read().iter().any(|known| Path::new(known) == root)
    }

    /// Puts a project on it.
    pub fn give(&self, root: &Path) -> Result<()> {
        let _writing = lock(&self.writing);
        let mut known = self.read();
        let Some(name) = root.to_str().filter(|_| !self.has(root)) else { return Ok(()) };
        known.push(name.to_string());
        let known = known.split_off(known.len().saturating_sub(PROJECTS_MAX));
        let staged = self.path.with_extension("new");
        let write = || {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            fs::write(&staged, serde_json::to_vec(&known)?)?;
            fs::rename(&staged, &self.path)
        };
        write().map_err(|error| Error::os("write", &self.path, &error))
    }

    fn read(&self) -> Vec<String> {
        let text = fs::read(&self.path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}
