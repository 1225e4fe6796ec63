//! The marker of a disk: a file in its folder with the name that the home has for it.
//!
//! The segments of a file have the same path on all its disks. If the folders of two disks are
//! exchanged in `disks.json`, or mounted in each other's place, every block there looks damaged.
//! The marker tells this from damage. A disk gets it when a striped file is first written to it. It
//! has the tag of the home in its name, since a folder may be a disk of several homes.

use std::path::{Path, PathBuf};

use euphrates_device::folder::DiskFolder;
use euphrates_flow::{Error, Result};

use crate::catalog::tag;

/// Marks a folder as that of a disk. Fails if it is marked as that of another one.
pub(in crate::striped) fn mark_disk(
    home: &Path,
    name: &str,
    folder: &dyn DiskFolder,
) -> Result<()> {
    if marked_name(home, folder).is_none() {
        // A loss of power, or a disk that is full, may leave it without a marker.
        let _ = folder.write(&marker_file(home), marker(name).as_bytes(), false);
    }
    expect_disk(home, name, folder)
}

/// Fails if a folder is marked as that of another disk.
pub(in crate::striped) fn expect_disk(
    home: &Path,
    name: &str,
    folder: &dyn DiskFolder,
) -> Result<()> {
    let Some(found) = marked_name(home, folder).filter(|found| found != name) else {
        return Ok(());
    };
    let (path, marker) = (folder.place().display(), marker_file(home));
    let marker = marker.display();
    let error = format!("the folder of disk `{name}`, {path}, is that of disk `{found}`");
    Err(Error::usage(error).remedy(format!(
        "put the folders in disks.json right; if the disk has been renamed, remove {marker} there",
    )))
}

/// The name in the marker, if there is a whole one.
fn marked_name(home: &Path, folder: &dyn DiskFolder) -> Option<String> {
    let text = String::from_utf8(folder.read(&marker_file(home)).ok()?).ok()?;
    let (name, _) = text.rsplit_once(' ')?;
    (marker(name) == text).then(|| name.to_string())
}

/// A name and its checksum: a damaged marker must not keep anybody from the files.
fn marker(name: &str) -> String {
    format!("{name} {:08x}\n", crc_fast::crc32_iscsi(name.as_bytes()))
}

fn marker_file(home: &Path) -> PathBuf {
    format!(".disk.{}", tag(home)).into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use euphrates_device::folder::LocalFolder;

    use super::*;

    #[test]
    fn folder_that_is_marked_for_another_disk_is_a_usage_error_with_both_names() {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (home, folder) = (home.path(), &LocalFolder::new(folder.path()));
        expect_disk(home, "d1", folder).unwrap();
        mark_disk(home, "d1", folder).unwrap();
        mark_disk(home, "d1", folder).unwrap();
        for error in [expect_disk(home, "d2", folder), mark_disk(home, "d2", folder)] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), euphrates_flow::Kind::Usage);
            assert!(
                error.message().contains("`d1`") && error.message().contains("`d2`"),
                "{error}"
            );
        }
        let other = tempfile::tempdir().unwrap();
        mark_disk(other.path(), "d2", folder).unwrap();
    }

    #[test]
    fn damaged_marker_is_none_and_replaced() {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join(marker_file(home.path()));
        let disk = LocalFolder::new(folder.path());
        let good = marker("d1");
        for damaged in ["", "d1", &good[..good.len() - 1], &good.replace("d1", "d3")] {
            fs::write(&path, damaged).unwrap();
            expect_disk(home.path(), "d2", &disk).unwrap();
            mark_disk(home.path(), "d1", &disk).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), good);
        }
    }
}
