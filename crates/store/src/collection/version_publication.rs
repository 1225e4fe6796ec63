//! Publication of a prepared version of a collection, and its withdrawal.

use std::collections::BTreeSet;

use euphrates_device::durable::Durability;
use euphrates_flow::Result;
use euphrates_policy::commit::OutputState;

use super::new_version::NewVersion;
use super::superseded::{Depth, remove_files, sweep};
use crate::catalog::folders::remove_empty_versions;
use crate::catalog::{Catalog, Manifest, SERVED};
use crate::commit::reservation;

impl NewVersion {
    fn catalog(&self) -> Result<Catalog> {
        match self.catalog.as_str() {
            SERVED => Catalog::of(&self.home),
            address => Ok(Catalog::open(address)?.with_home(&self.home)),
        }
    }

    /// Its state in the two-phase commit.
    pub fn state(&self) -> OutputState {
        let Manifest { name, version, .. } = &self.manifest;
        let Ok(catalog) = self.catalog() else { return OutputState::OutOfReach };
        let newest = match catalog.newest(name) {
            Ok(Some(newest)) if newest.version >= *version => newest,
            Ok(_) => return OutputState::Ready,
            Err(_) => return OutputState::OutOfReach,
        };
        let there = match newest.version > *version {
            true => catalog.version(name, *version).ok(),
            false => Some(newest),
        };
        match there {
            Some(there) if there.run_id != self.manifest.run_id => OutputState::Refused,
            _ => OutputState::Published,
        }
    }

    /// Whether it is the version that readers see.
    pub fn is_newest(&self) -> bool {
        let newest = self.catalog().and_then(|catalog| catalog.newest(&self.manifest.name));
        newest.ok().flatten().is_some_and(|newest| newest == self.manifest)
    }

    /// Puts the manifest into the catalog.
    pub fn publish(&self) -> Result<Durability> {
        let catalog = self.catalog()?;
        let shown = match self.state() {
            OutputState::Published => catalog.sync(&self.manifest.name),
            _ => commit_checked(&catalog, &self.manifest)?,
        };
        self.release();
        Ok(shown)
    }

    /// Removes the segments of a version that is not published.
    pub fn withdraw(&self) {
        remove_files(&self.home, &self.manifest, &BTreeSet::new());
        self.release();
    }

    /// Removes the files of the version before.
    pub fn clean(&self) {
        if let Ok(catalog) = self.catalog() {
            sweep(&self.home, &catalog, &self.manifest, Depth::UntilNothingRemoved);
        }
    }

    fn release(&self) {
        if let Some(path) = &self.reservation {
            reservation::release(path, &self.manifest.run_id);
            path.parent().into_iter().for_each(remove_empty_versions);
        }
    }
}

/// Commits a manifest. A store or a worker may put the manifest and report a failure, and a store
/// that retries by itself then finds the number taken: so the catalog is read again after that. If
/// a worker does not answer then either, nobody knows.
pub(super) fn commit_checked(catalog: &Catalog, manifest: &Manifest) -> Result<Durability> {
    let error = match catalog.commit(manifest) {
        Ok(durability) => return Ok(durability),
        Err(error) => error,
    };
    match catalog.newest(&manifest.name) {
        Ok(Some(newest)) if newest == *manifest => match catalog.folder() {
            Some(_) => Ok(Durability::Unknown(error)),
            None => Ok(catalog.sync(&manifest.name)),
        },
        Err(_) if catalog.is_served() => Ok(Durability::Unanswered(error)),
        _ => Err(error),
    }
}
