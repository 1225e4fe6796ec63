//! Folder names in catalogs and on disks.

use std::path::{Path, PathBuf};

use euphrates_device::served::ServedHome;

/// The folder of versions below a collection's name. No slug begins with a dot.
pub const VERSIONS: &str = ".v";

/// The folder of a disk in which collections are staged.
pub const STAGING: &str = ".staging";

/// A home has several spellings: with a slash at its end, with `..`, through a link; and clients of
/// served disks have folders of their own for it. Files on disks are marked with this one.
pub fn canonical_home(home: &Path) -> PathBuf {
    if let Ok(Some(served)) = ServedHome::of(home) {
        return served.home;
    }
    home.canonicalize().unwrap_or_else(|_| home.to_path_buf())
}

/// Removes a folder of versions, and its collection's folder, as far as they are empty.
pub fn remove_empty_versions(versions: &Path) {
    if versions.file_name().is_some_and(|name| name == VERSIONS) {
        let both = versions.ancestors().take(2).map(std::fs::remove_dir);
        let _ = both.take_while(|removed| removed.is_ok()).count();
    }
}
