//! Striped files in the catalog: they share the names of collections.

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use super::{Catalog, FoundCollection, Manifest};

impl Catalog {
    /// The state of a striped file, which exists or is damaged. Fails if there is none of this
    /// name, or if it is the name of a collection.
    ///
    /// ```
    /// use euphrates_store::catalog::Catalog;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let catalog = Catalog::local(folder.path())?;
    /// let error = catalog.find_file("model").err().expect("there is none");
    /// assert_eq!(error.message(), "no striped file named `model`");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_file(&self, name: &str) -> Result<FoundCollection> {
        if let Some(found) = self.find(name)?.filter(FoundCollection::exists) {
            found.manifest.as_ref().map_or(Ok(()), Manifest::expect_file).map_err(|error| {
                Error::usage(error.message()).remedy("read it with `scan`, or `euphrates copy-out`")
            })?;
            return Ok(found);
        }
        let names: Vec<String> =
            self.list_files().unwrap_or_default().into_iter().map(|found| found.name).collect();
        Err(unknown("striped file", name, names.iter().map(String::as_str)))
    }

    /// The states of all striped files, sorted by name. A name without a manifest that can be read
    /// is listed among the collections.
    pub fn list_files(&self) -> Result<Vec<FoundCollection>> {
        Ok(self.all()?.into_iter().filter(FoundCollection::is_file).collect())
    }

    /// The names of all collections and striped files that ever existed, with the numbers of their
    /// newest versions. Reads no manifest.
    pub fn newest_versions(&self) -> Result<Vec<(String, u64)>> {
        let mirrors = self.mirrors()?;
        let newest = self.names()?.into_iter().map(|name| {
            let mut versions = self.store.versions(&name)?;
            versions.extend(mirrors.versions(&name));
            Ok(versions.last().map(|newest| (name, *newest)))
        });
        Ok(newest.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// The states of all collections and striped files, sorted by name.
    pub(super) fn all(&self) -> Result<Vec<FoundCollection>> {
        let found = self.names()?.into_iter().map(|name| self.find(&name));
        let found = found.collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().flatten().filter(FoundCollection::exists).collect())
    }
}
