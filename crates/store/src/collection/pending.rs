//! A prepared version of a collection: its segments are in place, its manifest is made, and its
//! name is reserved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use euphrates_flow::{DecisionRef, Error, Result};
use euphrates_policy::commit::State;
use serde::{Deserialize, Serialize};

use super::superseded::{Depth, remove_files, sweep};
use super::version::show;
use crate::catalog::folders::remove_if_empty;
use crate::catalog::{Catalog, Manifest, SegmentEntry};
use crate::commit::Durability;
use crate::commit::reservation::{self, Mark, Reservation};

/// A version that is ready to be published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewVersion {
    home: PathBuf,
    /// A folder, or the URL of an object store.
    catalog: String,
    /// The manifest to put into the catalog.
    pub manifest: Manifest,
    reservation: Option<PathBuf>,
}

/// The reserved name of a collection, held until the next version is published.
#[derive(Debug)]
pub struct Named(Option<Reservation>);

impl Named {
    /// Reserves the name of a collection in a local catalog. An object store cannot show whether
    /// the owner of a reservation lives, so there the first writer that puts the version wins.
    pub fn take(
        catalog: &Catalog,
        name: &str,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Named> {
        let Some(path) = catalog.reservation(name) else { return Ok(Named(None)) };
        let mark = Mark { run_id: run_id.to_string(), staged: None, decision: decision.cloned() };
        let taken = Reservation::take(path, &format!("collection `{name}`"), &mark)?;
        Ok(Named(Some(taken)))
    }

    /// Ends the reservation, unless the process that published the version has ended it.
    pub fn release(&self) {
        if let Some(reservation) = &self.0 {
            reservation.remove();
            reservation.path().parent().into_iter().for_each(remove_if_empty);
        }
    }
}

impl NewVersion {
    /// Reserves the collection's name for this version. Fails if another writer was faster.
    pub fn reserve(
        home: &Path,
        catalog: &Catalog,
        manifest: Manifest,
        before: Option<&Manifest>,
        decision: Option<&DecisionRef>,
    ) -> Result<(NewVersion, Named)> {
        let named = Named::take(catalog, &manifest.name, &manifest.run_id, decision)?;
        let newest = catalog.before(&manifest.name).inspect_err(|_| named.release())?;
        if newest.map(|newest| newest.version) != before.map(|before| before.version) {
            named.release();
            return Err(faster(&manifest.name));
        }
        let reservation = named.0.as_ref().map(|taken| taken.path().to_path_buf());
        let home = std::path::absolute(home).map_err(|error| Error::os("find", home, &error))?;
        let catalog = catalog.place();
        Ok((NewVersion { home, catalog, manifest, reservation }, named))
    }

    fn catalog(&self) -> Result<Catalog> {
        Ok(Catalog::open(&self.catalog)?.with_home(&self.home))
    }

    /// Its state in the two-phase commit.
    pub fn state(&self) -> State {
        let Manifest { name, version, .. } = &self.manifest;
        let Ok(catalog) = self.catalog() else { return State::OutOfReach };
        let newest = match catalog.newest(name) {
            Ok(Some(newest)) if newest.version >= *version => newest,
            Ok(_) => return State::Ready,
            Err(_) => return State::OutOfReach,
        };
        let there = match newest.version > *version {
            true => catalog.version(name, *version).ok(),
            false => Some(newest),
        };
        match there {
            Some(there) if there.run_id != self.manifest.run_id => State::Refused,
            _ => State::Published,
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
            State::Published => catalog.sync(&self.manifest.name),
            _ => show(&catalog, &self.manifest)?,
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
            sweep(&self.home, &catalog, &self.manifest, Depth::LastVersions);
        }
    }

    /// Whether files at this place, relative to their disk's folder, are its segments.
    pub fn has(&self, place: &str) -> bool {
        let mut copies = self.manifest.segments.iter().flat_map(SegmentEntry::copies);
        copies.any(|copy| Path::new(&copy.path).starts_with(place))
    }

    fn release(&self) {
        if let Some(path) = &self.reservation {
            reservation::release(path, &self.manifest.run_id);
            path.parent().into_iter().for_each(remove_if_empty);
        }
    }
}

pub(super) fn faster(name: &str) -> Error {
    Error::failed(format!("another writer has just written collection `{name}`"))
        .remedy("look at what it wrote, then run again")
}
