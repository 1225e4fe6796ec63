//! Finds the newest version of a name. Readers may use the copies of manifests that are on disks;
//! writers need the catalog itself.

use std::collections::BTreeSet;

use euphrates_device::disk::Disks;
use euphrates_flow::Result;
use euphrates_flow::error::unknown;

use super::{Catalog, FoundCollection, Manifest, check_name};

impl Catalog {
    /// The state of a collection; `None` if no version of this name ever existed. A damaged newest
    /// manifest is replaced by a copy; without a good copy, by the last earlier version whose
    /// segments still exist. If a worker that serves the catalog is out of reach, the newest
    /// version is the newest of which there is a copy: enough to read, and no reason to remove
    /// anything.
    ///
    /// ```
    /// use euphrates_store::catalog::Catalog;
    ///
    /// let home = tempfile::tempdir()?;
    /// let catalog = Catalog::of(home.path())?;
    /// assert!(catalog.find("orders")?.is_none(), "it never existed");
    /// assert!(catalog.find("../orders").is_err(), "that is not a name");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(&self, name: &str) -> Result<Option<FoundCollection>> {
        self.look_up(name, |listed, copies| self.store.with_copies(listed, copies))
    }

    /// As `find`, and fails if the catalog is out of reach.
    pub(super) fn find_listed(&self, name: &str) -> Result<Option<FoundCollection>> {
        self.look_up(name, |listed, mut copies| {
            copies.extend(listed?);
            Ok(copies)
        })
    }

    /// The state of a collection whose versions are told by the numbers that the catalog lists, and
    /// those of which there are copies.
    fn look_up(
        &self,
        name: &str,
        versions: impl FnOnce(Result<BTreeSet<u64>>, BTreeSet<u64>) -> Result<BTreeSet<u64>>,
    ) -> Result<Option<FoundCollection>> {
        check_name(name)?;
        let mirrors = self.mirrors()?;
        let versions = versions(self.store.versions(name), mirrors.versions(name))?;
        let Some(&newest) = versions.last() else { return Ok(None) };
        let mut found = FoundCollection::new(name, newest, self.store.path(name, newest));
        let (manifest, copy, damages) = self.read(name, newest, &mirrors)?;
        (found.manifest, found.copy, found.damages) = (manifest, copy, damages);
        if found.manifest.is_none() {
            let disks = self.home.as_deref().map(Disks::of).transpose()?;
            for &version in versions.iter().rev().skip(1) {
                let (older, _, _) = self.read(name, version, &mirrors)?;
                if let Some(older) = older.filter(|older| older.has_segments(disks.as_ref())) {
                    found.manifest = Some(older);
                    break;
                }
            }
        }
        Ok(Some(found))
    }

    /// The newest version of a collection, which may record its removal; `None` if no version of
    /// this name ever existed. Fails if it is damaged and has no good copy, or if the catalog is
    /// out of reach.
    pub fn newest(&self, name: &str) -> Result<Option<Manifest>> {
        self.find_listed(name)?.map(FoundCollection::newest).transpose()
    }

    /// The version that a new one follows: the newest. A damaged newest version keeps its number,
    /// and the files that the new one replaces are those of its substitute. Fails if the catalog is
    /// out of reach.
    pub fn predecessor_of_next(&self, name: &str) -> Result<Option<Manifest>> {
        Ok(self.find_listed(name)?.map(FoundCollection::before))
    }

    /// The newest version of a collection that can be read.
    pub fn newest_readable(&self, name: &str) -> Result<Manifest> {
        self.find_existing(name)?.current()
    }

    /// The state of a collection, which exists or is damaged. Fails if there is none of this name.
    pub fn find_existing(&self, name: &str) -> Result<FoundCollection> {
        if let Some(found) = self.find(name)?.filter(FoundCollection::exists) {
            found.manifest.as_ref().map_or(Ok(()), Manifest::expect_collection)?;
            return Ok(found);
        }
        let names: Vec<String> =
            self.list().unwrap_or_default().into_iter().map(|found| found.name).collect();
        Err(unknown("collection", name, names.iter().map(String::as_str)))
    }
}
