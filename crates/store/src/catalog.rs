//! The catalog: maps names to collections by versioned manifests, in an object store or a shared
//! folder.
//!
//! Version *n* of `sales/2026` is the object `sales/2026/.v/000000000n.json`, and is put only if it
//! is absent. So at most one of two writers wins, even if a process dies; there is no server and no
//! lock, and a laptop, NFS and S3 are used alike. The manifests of mirrored collections have copies
//! on their disks (`manifest_copies.rs`), which readers use when the catalog's own is damaged.

mod files;
pub(crate) mod folders;
mod found;
mod look_up;
mod manifest;
mod manifest_copies;
mod manifest_store;
mod statistics;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_flow::secrets::SERVERS;
use euphrates_flow::{Error, Result};

use crate::commit::reservation::SUFFIX;
use crate::segment::Damage;
use euphrates_device::durable::Durability;
use euphrates_device::location::split_url;
use euphrates_device::remote::Store;
use euphrates_device::served::ServedHome;
use euphrates_device::storage_options::StorageOptions;
use folders::VERSIONS;
pub use found::FoundCollection;
pub use manifest::{
    ColumnEntry, CopyEntry, CopyLayout, Existence, FileEntry, Manifest, SegmentEntry,
};
use manifest_copies::ManifestCopies;
pub(crate) use manifest_copies::tag;
use manifest_store::ManifestStore;
pub(crate) use manifest_store::SERVED;
pub use statistics::{ColumnStatistics, Statistics};

/// A catalog. Clones share it.
///
/// ```
/// use euphrates_store::catalog::Catalog;
///
/// let folder = tempfile::tempdir()?;
/// let catalog = Catalog::local(folder.path())?;
/// assert!(catalog.find("sales")?.is_none() && catalog.list()?.is_empty());
/// let error = catalog.find_existing("sales").err().expect("there is none");
/// assert_eq!(error.message(), "no collection named `sales`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Catalog {
    store: Arc<ManifestStore>,
    /// The home folder that names the disks of the collections.
    home: Option<PathBuf>,
}

impl Catalog {
    /// The catalog of a home folder: that of a worker if the disks are served; `$EUPHRATES_CATALOG`
    /// if that is set (a folder, or the URL of an object store); else its folder `catalog/`.
    pub fn of(home: &Path) -> Result<Catalog> {
        if let Some(served) = ServedHome::of(home)? {
            let folder = ManifestStore::Folder(served.catalog_folder()?);
            return Ok(Catalog::over(folder).with_home(home));
        }
        let catalog = match std::env::var("EUPHRATES_CATALOG") {
            Ok(address) if !address.is_empty() => Catalog::open(&address),
            _ => Catalog::local(&home.join("catalog")),
        };
        Ok(catalog?.with_home(home))
    }

    /// The catalog in a folder, or at a URL with credentials from the environment.
    pub fn open(address: &str) -> Result<Catalog> {
        match split_url(address)? {
            Some((scheme, ..)) if SERVERS.contains(&scheme) => {
                let error = Error::usage(format!("{address} is at a web server"));
                Err(error.remedy("keep the catalog in a folder or an object store"))
            }
            None => Catalog::local(Path::new(address.trim_start_matches("file://"))),
            Some((scheme, bucket, key)) => {
                let store = Store::open(scheme, bucket, &StorageOptions::default())?.objects();
                let prefix = object_store::path::Path::from(key);
                Ok(Catalog::over(ManifestStore::Store(store, prefix, address.to_string())))
            }
        }
    }

    /// The catalog in a folder, which is created if it is missing.
    pub fn local(folder: &Path) -> Result<Catalog> {
        Ok(Catalog::over(ManifestStore::folder(folder)?))
    }

    /// The same catalog, for collections on the disks of a home.
    pub(crate) fn with_home(self, home: &Path) -> Catalog {
        Catalog { home: Some(home.to_path_buf()), ..self }
    }

    /// The folder or URL from which `open` opens it again.
    pub(crate) fn address(&self) -> String {
        self.store.address()
    }

    /// Whether a worker serves it, which may be lost before it answers.
    pub(crate) fn is_served(&self) -> bool {
        self.store.is_served()
    }

    /// The path that reserves a collection's name while a new version is prepared. `None` in an
    /// object store, which cannot show whether the owner of a reservation lives, and in a catalog
    /// that a worker serves.
    pub(crate) fn reservation(&self, name: &str) -> Option<PathBuf> {
        Some(self.reserves_in(name)?.join(format!(".version.{SUFFIX}")))
    }

    /// The folder of the reservation's path, if there is one.
    pub fn reserves_in(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder()?.join(name).join(VERSIONS))
    }

    /// The folder, unless it is an object store, or a worker serves it.
    pub fn folder(&self) -> Option<&Path> {
        match &*self.store {
            ManifestStore::Folder(folder) => folder.local(),
            ManifestStore::Store(..) => None,
        }
    }

    /// Reads one version of a collection.
    pub(crate) fn version(&self, name: &str, version: u64) -> Result<Manifest> {
        check_name(name)?;
        let (manifest, _, _) = self.read(name, version, &self.mirrors()?)?;
        let path = self.store.path(name, version);
        manifest.ok_or_else(|| Error::corrupt("the manifest is damaged").at(path))
    }

    fn over(store: ManifestStore) -> Catalog {
        Catalog { store: Arc::new(store), home: None }
    }

    /// The states of all collections, sorted by name, with those whose manifests are damaged.
    pub fn list(&self) -> Result<Vec<FoundCollection>> {
        Ok(self.all()?.into_iter().filter(|found| !found.is_file()).collect())
    }

    /// Every name that has a version, removed collections included.
    pub(crate) fn names(&self) -> Result<BTreeSet<String>> {
        self.names_below("")
    }

    /// As `names`, those below a folder of names; the root is the empty name.
    fn names_below(&self, folder: &str) -> Result<BTreeSet<String>> {
        let copies = self.mirrors()?.names(folder);
        let mut names = self.store.with_copies(self.store.names(folder), copies)?;
        names.retain(|name| check_name(name).is_ok());
        Ok(names)
    }

    /// The versions before a given one, the newest first; `None` for each that cannot be read.
    pub(crate) fn versions_before(
        &self,
        newest: &Manifest,
    ) -> Result<impl Iterator<Item = Option<Manifest>>> {
        let (catalog, name) = (self.clone(), newest.name.clone());
        let versions = self.store.versions(&name)?;
        let versions = versions.range(..newest.version).rev().copied().collect::<Vec<_>>();
        Ok(versions.into_iter().map(move |version| {
            let text = catalog.store.read(&name, version).ok()?;
            Manifest::decode_as(&text, &name, version).ok()
        }))
    }

    /// Makes the manifest's version the newest, if its number is free. Otherwise another writer was
    /// faster: fails, and changes nothing.
    pub fn commit(&self, manifest: &Manifest) -> Result<Durability> {
        check_name(&manifest.name)?;
        let (name, mirrors) = (&manifest.name, self.mirrors()?);
        let copies = mirrors.prepare(manifest)?;
        let put = self.store.put(name, manifest.version, &manifest.encode());
        if let Ok(Some(durability)) = put {
            mirrors.show(manifest, copies);
            return Ok(durability);
        }
        drop(copies);
        mirrors.clear(name);
        put?;
        let message = format!("another writer has just written {}", manifest.title());
        Err(Error::failed(message).remedy("look at what it wrote, then run again"))
    }

    /// Syncs the visible versions of a collection again.
    pub(crate) fn sync(&self, name: &str) -> Durability {
        self.store.sync(name)
    }

    /// Completes the unfinished work of a collection's dead writers: writes the missing copies of
    /// its manifest, and removes their staged files. Returns the number of removed files.
    pub fn recover(&self, name: &str) -> Result<usize> {
        let mirrors = self.mirrors()?;
        let removed = self.store.clear(name) + mirrors.clear(name);
        if let Some(found) = self.find_listed(name)?
            && let Ok(newest) = found.newest()
        {
            mirrors.repair_manifests(&newest)?;
        }
        Ok(removed)
    }

    /// The damages of the newest manifest and its copies.
    pub fn damages(&self, found: &FoundCollection) -> Result<Vec<Damage>> {
        let mut damages = found.damages.clone();
        if let Some(manifest) = found.manifest.as_ref().filter(|one| one.version == found.version) {
            let copies = self.mirrors()?.damages(manifest).into_iter();
            damages.extend(copies.filter(|copy| found.damages.iter().all(|d| d.path != copy.path)));
        }
        Ok(damages)
    }

    /// Rewrites the newest manifest and its copies where they are damaged or missing. If none of
    /// them is good, the substitute version becomes the newest.
    pub fn repair_manifests(
        &self,
        found: &FoundCollection,
        run_id: &str,
        created: u64,
    ) -> Result<()> {
        let Some(manifest) = &found.manifest else { return Ok(()) };
        let what = format!("the manifest of collection `{}`", found.name);
        if manifest.version != found.version {
            let version = found.version + 1;
            let run_id = run_id.to_string();
            let newest = Manifest { version, run_id, created, ..manifest.clone() };
            return self.commit(&newest)?.durable(&what);
        }
        if found.copy.is_some() {
            let text = manifest.encode();
            self.store.replace(&found.name, manifest.version, &text)?.durable(&what)?;
        }
        self.mirrors()?.repair_manifests(manifest).map(drop)
    }

    /// Reads a version: its manifest, the disk if a copy was read, and the damages found.
    fn read(
        &self,
        name: &str,
        version: u64,
        mirrors: &ManifestCopies,
    ) -> Result<(Option<Manifest>, Option<String>, Vec<Damage>)> {
        let text = self.store.read(name, version);
        let error = match text.and_then(|text| Manifest::decode_as(&text, name, version)) {
            Ok(manifest) => return Ok((Some(manifest), None, vec![])),
            Err(error) if error.kind() == euphrates_flow::Kind::Corrupt => error,
            Err(error) => return Err(error),
        };
        let (path, what) = (self.store.path(name, version).into(), error.message().to_string());
        let mut damages = vec![Damage { disk: "catalog".into(), path, block: None, what }];
        let copy = mirrors.read(name, version, &mut damages);
        let (manifest, disk) = copy.unzip();
        Ok((manifest, disk, damages))
    }

    fn mirrors(&self) -> Result<ManifestCopies> {
        self.home.as_deref().map_or_else(|| Ok(ManifestCopies::default()), ManifestCopies::of)
    }
}

/// Checks a collection's name: at most 200 bytes; words of ASCII letters, digits, `_`, `-` and `.`,
/// separated by `/`, none of which begins with `.` or `-`.
///
/// ```
/// use euphrates_store::catalog::check_name;
///
/// assert!(check_name("sales/2024_q1").is_ok());
/// assert!(check_name("sales/.hidden").is_err());
/// ```
pub fn check_name(name: &str) -> Result<()> {
    const BYTES_MAX: usize = 200;
    let good = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let is_slug =
        |word: &str| !word.is_empty() && !word.starts_with(['.', '-']) && word.chars().all(good);
    if name.len() <= BYTES_MAX && name.split('/').all(is_slug) {
        return Ok(());
    }
    Err(Error::usage(format!("`{name}` cannot be the name of a collection"))
        .remedy("use letters, digits, `_`, `-` and `.`, with `/` between folders"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use euphrates_flow::Kind;
    use std::collections::BTreeMap;

    fn manifest(name: &str, version: u64, life: Existence) -> Manifest {
        let mut manifest = Manifest {
            name: name.into(),
            version,
            life,
            run_id: "run".into(),
            created: 0,
            columns: vec![],
            schema: String::new(),
            layout: CopyLayout::Plain,
            ordered: false,
            interleaved: false,
            sort_keys: vec![],
            rows: 0,
            bytes: 0,
            segments: vec![],
            statistics: BTreeMap::new(),
            file: None,
        };
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        manifest.set_schema(&schema).unwrap();
        assert_eq!(*manifest.arrow_schema().unwrap(), schema);
        manifest
    }

    fn catalogs() -> Vec<(Option<tempfile::TempDir>, Catalog)> {
        let folder = tempfile::tempdir().unwrap();
        let local = Catalog::local(folder.path()).unwrap();
        let memory = Arc::new(object_store::memory::InMemory::new());
        vec![
            (Some(folder), local),
            (None, Catalog::over(ManifestStore::Store(memory, "pre/fix".into(), String::new()))),
        ]
    }

    #[test]
    fn newest_version_is_found_in_every_store() {
        for (_folder, catalog) in catalogs() {
            assert_eq!(catalog.newest("a").unwrap(), None);
            catalog.commit(&manifest("a", 1, Existence::Live)).unwrap();
            catalog.commit(&manifest("a/b", 1, Existence::Live)).unwrap();
            catalog.commit(&manifest("a", 2, Existence::Live)).unwrap();
            catalog.commit(&manifest("gone", 1, Existence::Live)).unwrap();
            catalog.commit(&manifest("gone", 2, Existence::Removed)).unwrap();
            assert_eq!(catalog.newest_readable("a").unwrap().version, 2);
            let names: Vec<_> =
                catalog.list().unwrap().into_iter().map(|found| found.name).collect();
            assert_eq!(names, ["a", "a/b"]);
            let error = catalog.newest_readable("gone").unwrap_err();
            assert!(!error.to_string().contains("did you mean"), "{error}");
            let error = catalog.newest_readable("a/c").unwrap_err();
            assert!(error.to_string().contains("did you mean `a/b`?"), "{error}");
        }
    }

    #[test]
    fn exactly_one_of_many_writers_commits_a_version() {
        for (_folder, catalog) in catalogs() {
            let commit = || catalog.commit(&manifest("c", 1, Existence::Live));
            let results: Vec<_> = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..8).map(|_| scope.spawn(commit)).collect();
                writers.into_iter().map(|writer| writer.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            assert_eq!((won.len(), lost.len()), (1, 7));
            for error in lost.into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), Kind::Failed);
                assert!(error.to_string().contains("another writer"), "{error}");
            }
        }
    }

    #[test]
    fn collection_names_must_be_slugs() {
        for good in ["a", "sales/2026-11", "a.b_c/D"] {
            check_name(good).unwrap();
        }
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", ".v", "a/.v", "a b", "é", "-a", "a\n"]
        {
            assert_eq!(check_name(bad).unwrap_err().kind(), Kind::Usage, "{bad:?}");
        }
    }
}
