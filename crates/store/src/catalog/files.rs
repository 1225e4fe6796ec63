//! Striped files in the catalog: they share the names of collections.

use std::collections::BTreeSet;

use euphrates_flow::error::{did_you_mean, unknown};
use euphrates_flow::{Error, Result};

use super::{Catalog, FoundCollection, Manifest};

/// Names that an error lists, at most.
const LISTED_MAX: usize = 20;

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
        Err(self.no_file(name))
    }

    /// The error for a file that does not exist. Reads few manifests: there may be thousands.
    fn no_file(&self, name: &str) -> Error {
        let is_file = |name: &&String| {
            self.find(name).is_ok_and(|found| found.is_some_and(|it| it.exists() && it.is_file()))
        };
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = self.store.children(folder).unwrap_or_default();
        let near = did_you_mean(name, beside.iter().map(String::as_str)).map(str::to_string);
        let known = match near.filter(|near| is_file(&near)) {
            Some(near) => vec![near],
            None if beside.len() <= LISTED_MAX => {
                beside.into_iter().filter(|it| is_file(&it)).collect()
            }
            None => vec![],
        };
        if known.is_empty() && self.store.children("").is_ok_and(|names| !names.is_empty()) {
            let error = Error::usage(format!("no striped file named `{name}`"));
            return error.remedy("`euphrates file ls` lists all");
        }
        unknown("striped file", name, known.iter().map(String::as_str))
    }

    /// The striped files in a folder of names, and the names of the folders in it that have files.
    /// The root is the empty name.
    ///
    /// ```
    /// use euphrates_store::catalog::Catalog;
    /// use euphrates_store::striped::{StripedOptions, StripedWriter};
    ///
    /// let home = tempfile::tempdir()?;
    /// for name in ["a/one", "a/b/two", "three"] {
    ///     let options = StripedOptions { data: 1, parity: 0, ..StripedOptions::default() };
    ///     StripedWriter::create(home.path(), name, options)?.commit()?;
    /// }
    /// let (files, folders) = Catalog::of(home.path())?.list_folder("a")?;
    /// assert_eq!(files.iter().map(|file| &file.name).collect::<Vec<_>>(), ["a/one"]);
    /// assert!(folders.iter().eq(["a/b"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list_folder(&self, folder: &str) -> Result<(Vec<FoundCollection>, BTreeSet<String>)> {
        let beginning = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (mut files, mut folders) = (vec![], BTreeSet::new());
        for name in self.names_below(folder)? {
            let Some(rest) = name.strip_prefix(&beginning) else { continue };
            let child = rest.split_once('/').map(|(child, _)| format!("{beginning}{child}"));
            // One file is enough to know that the folder is not empty.
            if child.as_ref().is_some_and(|child| folders.contains(child)) {
                continue;
            }
            let found = self.find(&name)?.filter(|found| found.exists() && found.is_file());
            match (found, child) {
                (Some(_), Some(child)) => drop(folders.insert(child)),
                (Some(found), None) => files.push(found),
                (None, _) => {}
            }
        }
        Ok((files, folders))
    }

    /// Whether the newest version of any name has a file on this disk.
    pub(crate) fn uses_disk(&self, disk: &str) -> Result<bool> {
        for name in self.names()? {
            let manifest = self.find(&name)?.filter(FoundCollection::exists);
            let manifest = manifest.and_then(|found| found.manifest);
            if manifest.is_some_and(|manifest| manifest.disks().contains(disk)) {
                return Ok(true);
            }
        }
        Ok(false)
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
