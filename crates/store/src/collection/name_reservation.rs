//! The reserved name of a collection, while its next version is prepared.

use std::path::Path;

use euphrates_flow::{DecisionRef, Error, Result};

use super::new_version::NewVersion;
use crate::catalog::folders::remove_empty_versions;
use crate::catalog::{Catalog, Manifest};
use crate::commit::reservation::{ReservationMark, ReservedName};
use crate::commit::reserve::reserve;

/// The reserved name of a collection, held until the next version is published.
#[derive(Debug)]
pub struct NameReservation(Option<ReservedName>);

impl NameReservation {
    /// Reserves the name of a collection in a local catalog. An object store cannot show whether
    /// the owner of a reservation lives, so there the first writer that puts the version wins.
    pub fn take(
        catalog: &Catalog,
        name: &str,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<NameReservation> {
        let Some(path) = catalog.reservation(name) else { return Ok(NameReservation(None)) };
        let mark = ReservationMark {
            run_id: run_id.to_string(),
            staged: None,
            decision: decision.cloned(),
        };
        let taken = reserve(path, &format!("`{name}`"), &mark)?;
        Ok(NameReservation(Some(taken)))
    }

    /// Ends the reservation, unless the process that published the version has ended it.
    pub fn release(&self) {
        if let Some(reservation) = &self.0 {
            reservation.remove();
            reservation.path().parent().into_iter().for_each(remove_empty_versions);
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
    ) -> Result<(NewVersion, NameReservation)> {
        let named = NameReservation::take(catalog, &manifest.name, &manifest.run_id, decision)?;
        let newest =
            catalog.predecessor_of_next(&manifest.name).inspect_err(|_| named.release())?;
        if newest.map(|newest| newest.version) != before.map(|before| before.version) {
            named.release();
            return Err(lost_race_error(&manifest));
        }
        let reservation = named.0.as_ref().map(|taken| taken.path().to_path_buf());
        let home = std::path::absolute(home).map_err(|error| Error::os("find", home, &error))?;
        let catalog = catalog.address();
        Ok((NewVersion { home, catalog, manifest, reservation }, named))
    }
}

pub(super) fn lost_race_error(manifest: &Manifest) -> Error {
    Error::failed(format!("another writer has just written {}", manifest.title()))
        .remedy("look at what it wrote, then run again")
}
