//! Opening the newest version of a striped file while writers replace it.
//!
//! A writer that publishes a version removes the segments that this one does not share. A reader
//! that has read the manifest before, and opens the segments after, finds them missing: nothing is
//! damaged, but there is a newer manifest.

use std::path::Path;

use euphrates_flow::Result;

use super::StripedVersion;
use crate::catalog::{Catalog, FoundCollection, Manifest};

/// Versions that are tried, at most, while writers replace them.
const ATTEMPTS_MAX: usize = 100;

/// The newest version of a file, and its state in the catalog.
pub(in crate::striped) struct NewestVersion {
    /// A damaged newest version has the manifest of an earlier one.
    pub found: FoundCollection,
    pub manifest: Manifest,
    pub version: StripedVersion,
}

impl NewestVersion {
    /// Opens the newest version.
    pub fn open(home: &Path, name: &str) -> Result<NewestVersion> {
        let is_whole = |newest: &NewestVersion| newest.version.damages.lock().is_empty();
        of_newest(home, name, |_, found| NewestVersion::open_found(home, name, found), is_whole)
    }

    /// Opens the version that was found.
    pub fn open_found(home: &Path, name: &str, found: &FoundCollection) -> Result<NewestVersion> {
        let manifest = found.clone().current()?;
        let version = StripedVersion::open(home, &manifest)
            .map_err(|error| error.at(format!("striped file {name}")))?;
        Ok(NewestVersion { found: found.clone(), manifest, version })
    }
}

/// Acts on the newest version of a file, and again on a newer one as long as the result is not
/// whole and the version has been replaced since it was found.
pub(in crate::striped) fn of_newest<T>(
    home: &Path,
    name: &str,
    act: impl Fn(&Catalog, &FoundCollection) -> Result<T>,
    is_whole: impl Fn(&T) -> bool,
) -> Result<T> {
    let catalog = Catalog::of(home)?;
    let mut found = catalog.find_file(name)?;
    for _ in 1..ATTEMPTS_MAX {
        let done = act(&catalog, &found);
        if done.as_ref().is_ok_and(&is_whole) {
            return done;
        }
        let newest = catalog.find_file(name)?;
        if newest.version == found.version {
            return done;
        }
        found = newest;
    }
    act(&catalog, &found)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::striped::{StripedOptions, StripedWriter};

    fn put(home: &Path, content: &[u8]) {
        let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
        let mut writer = StripedWriter::create(home, "f", options).unwrap();
        writer.write_at(0, content).unwrap();
        writer.commit().unwrap();
    }

    #[test]
    fn version_that_is_replaced_while_it_is_opened_gives_way_to_the_newer_one() {
        let home = tempfile::tempdir().unwrap();
        put(home.path(), b"old");
        let is_replaced = Cell::new(false);
        let open = |_: &Catalog, found: &FoundCollection| {
            if !is_replaced.replace(true) {
                put(home.path(), b"new");
                let stale = NewestVersion::open_found(home.path(), "f", found);
                assert!(stale.is_err(), "its map has been removed");
            }
            NewestVersion::open_found(home.path(), "f", found)
        };
        let newest = of_newest(home.path(), "f", open, |_| true).unwrap();
        assert_eq!(newest.manifest.version, 2);
    }
}
