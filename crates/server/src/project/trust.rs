//! The projects whose code this user has agreed to run, so that the page does not ask again.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

/// Trusted projects; the oldest is dropped first.
const PROJECTS_MAX: usize = 1000;

/// The list of trusted projects, in a private file of the user.
pub struct TrustedProjects {
    path: PathBuf,
    writing: Mutex<()>,
}

impl TrustedProjects {
    /// The list in this home folder.
    pub fn at(home: &Path) -> TrustedProjects {
        TrustedProjects {
            path: home.join("studio").join("trusted.json"),
            writing: Mutex::default(),
        }
    }

    /// Whether a project is trusted.
    pub fn contains(&self, root: &Path) -> bool {
        self.read().iter().any(|known| Path::new(known) == root)
    }

    /// Adds a project and writes the list.
    pub fn add(&self, root: &Path) -> Result<()> {
        let _writing = self.writing.lock();
        let mut known = self.read();
        let Some(name) = root.to_str().filter(|_| !self.contains(root)) else { return Ok(()) };
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
