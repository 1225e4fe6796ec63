//! The catalog: what collections there are, kept as versioned manifests in any object store or
//! shared folder.
//!
//! Version *n* of `sales/2026` is the object `sales/2026/.v/000000000n.json`, and is put there only
//! if it is absent. So of two writers one wins, whoever dies when; there is no server and no lock,
//! and a laptop, NFS and S3 are used alike.

mod manifest;
mod statistics;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use futures::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::commit::reservation::{self, SUFFIX};
use crate::location::split_url;
use crate::remote::{self, Store};
pub use manifest::{Column, CopyEntry, Layout, Life, Manifest, SegmentEntry};
pub use statistics::{ColumnStatistics, Statistics};

/// Where versions are, below a collection's name. No slug begins with a dot.
const VERSIONS: &str = ".v";

/// A catalog. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Catalog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// A folder or a URL, with which it can be opened again.
    place: String,
    /// A local catalog, whose I/O is done on the caller's thread, and which can be synced.
    folder: Option<PathBuf>,
}

impl Catalog {
    /// The catalog of a home folder: `$EUPHRATES_CATALOG` if that is set (a folder, or the URL of
    /// an object store), else `catalog/` in it.
    pub fn of(home: &FilePath) -> Result<Catalog> {
        match std::env::var("EUPHRATES_CATALOG") {
            Ok(place) if !place.is_empty() => Catalog::open(&place),
            _ => Catalog::local(&home.join("catalog")),
        }
    }

    /// The catalog in a folder, or at a URL; credentials come from the environment.
    pub fn open(place: &str) -> Result<Catalog> {
        match split_url(place)? {
            None => Catalog::local(FilePath::new(place.trim_start_matches("file://"))),
            Some((scheme, bucket, key)) => {
                let store = Store::open(scheme, bucket)?.objects();
                Ok(Catalog::over(store, Path::from(key), place))
            }
        }
    }

    /// The catalog in a folder, which is made if it is missing.
    pub fn local(folder: &FilePath) -> Result<Catalog> {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::os("make the catalog", folder, &error))?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| failed(&error))?;
        let (store, prefix, folder) = (Arc::new(store), Path::default(), folder.to_path_buf());
        let place = std::path::absolute(&folder).unwrap_or_else(|_| folder.clone());
        let place = place.display().to_string();
        Ok(Catalog(Arc::new(Inner { store, prefix, place, folder: Some(folder) })))
    }

    fn over(store: Arc<dyn ObjectStore>, prefix: Path, place: &str) -> Catalog {
        Catalog(Arc::new(Inner { store, prefix, place: place.to_string(), folder: None }))
    }

    /// With what it can be opened again.
    pub(crate) fn place(&self) -> &str {
        &self.0.place
    }

    /// Whether it is a folder.
    pub(crate) fn is_local(&self) -> bool {
        self.0.folder.is_some()
    }

    /// Where the name of a collection is reserved while a new version is prepared. In an object
    /// store nowhere: nothing there tells whether the owner of a reservation lives.
    pub(crate) fn reservation(&self, name: &str) -> Option<PathBuf> {
        Some(self.reserves_in(name)?.join(format!(".version.{SUFFIX}")))
    }

    /// The folder in which that is.
    pub fn reserves_in(&self, name: &str) -> Option<PathBuf> {
        self.0.folder.as_ref()?;
        Some(FilePath::new(&self.0.place).join(name).join(VERSIONS))
    }

    /// Ends the reservations that dead flows have left. Returns how many went.
    pub fn reclaim(&self) -> usize {
        self.0.folder.as_deref().map_or(0, reclaim_below)
    }

    /// A version of a collection.
    pub(crate) fn version(&self, name: &str, version: u64) -> Result<Manifest> {
        check_name(name)?;
        self.read(name, version)
    }

    /// The newest version of a collection, also if that says that it was removed; `None` if there
    /// never was one of this name.
    pub fn newest(&self, name: &str) -> Result<Option<Manifest>> {
        check_name(name)?;
        let folder = self.versions_of(name);
        let listed = self.wait(self.0.store.list_with_delimiter(Some(&folder)));
        let listed = listed.map_err(|error| failed(&error).at(name))?;
        let versions = listed.objects.iter().filter_map(|object| version_of(&object.location));
        match versions.max() {
            Some(version) => self.read(name, version).map(Some),
            None => Ok(None),
        }
    }

    /// The newest version of a collection that can be read.
    pub fn describe(&self, name: &str) -> Result<Manifest> {
        match self.newest(name)? {
            Some(manifest) if manifest.life == Life::Live => Ok(manifest),
            _ => {
                let live = self.list().unwrap_or_default().into_iter().flatten();
                let names: Vec<String> = live.map(|manifest| manifest.name).collect();
                Err(unknown("collection", name, names.iter().map(String::as_str)))
            }
        }
    }

    /// The newest versions of all collections, by name; an error in place of each whose manifest
    /// is damaged.
    pub fn list(&self) -> Result<Vec<Result<Manifest>>> {
        let newest = self.names()?.into_iter().map(|(name, version)| self.read(&name, version));
        let live = newest.filter(|read| !matches!(read, Ok(one) if one.life == Life::Removed));
        Ok(live.collect())
    }

    /// Makes the manifest's version the newest, if there is none of its number. Fails if another
    /// writer was faster; nothing has changed then.
    pub fn commit(&self, manifest: &Manifest) -> Result<()> {
        check_name(&manifest.name)?;
        let name = &manifest.name;
        let location = self.location(name, manifest.version);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from(manifest.encode());
        match self.wait(self.0.store.put_opts(&location, payload, options)) {
            Ok(_) => self.sync(&location),
            Err(object_store::Error::AlreadyExists { .. }) => {
                let message = format!("another writer has just written collection `{name}`");
                Err(Error::failed(message).remedy("look at what it wrote, then run again"))
            }
            Err(error) => Err(failed(&error).at(name)),
        }
    }

    fn read(&self, name: &str, version: u64) -> Result<Manifest> {
        let location = self.location(name, version);
        let read = self.wait(async { self.0.store.get(&location).await?.bytes().await });
        let text = read.map_err(|error| failed(&error).at(&location))?;
        let damaged = |error: Error| {
            let place = self.0.folder.as_ref().map(|folder| folder.join(location.as_ref()));
            let place = place.map_or(location.to_string(), |path| path.display().to_string());
            error.remedy("restore it from a copy, or remove the file and write again").at(place)
        };
        let manifest = Manifest::decode(&text).map_err(damaged)?;
        if manifest.name != name || manifest.version != version {
            return Err(damaged(Error::corrupt("the manifest is that of another version")));
        }
        Ok(manifest)
    }

    /// The newest version of everything that ever had a name.
    fn names(&self) -> Result<BTreeMap<String, u64>> {
        let objects: Vec<_> = self
            .wait(self.0.store.list(Some(&self.0.prefix)).try_collect())
            .map_err(|error| failed(&error))?;
        let mut newest = BTreeMap::new();
        for object in objects {
            let Some(version) = version_of(&object.location) else { continue };
            let Some(below) = object.location.prefix_match(&self.0.prefix) else { continue };
            let parts: Vec<String> = below.map(|part| part.as_ref().to_string()).collect();
            let name = parts[..parts.len().saturating_sub(2)].join("/");
            let known = newest.entry(name).or_insert(version);
            *known = version.max(*known);
        }
        Ok(newest)
    }

    /// A local manifest survives a loss of power once its file and folder are synced.
    fn sync(&self, location: &Path) -> Result<()> {
        let Some(folder) = &self.0.folder else { return Ok(()) };
        let path = folder.join(location.as_ref());
        let parent = path.parent().unwrap_or(folder);
        for path in [&path, parent] {
            std::fs::File::open(path)
                .and_then(|file| file.sync_all())
                .map_err(|error| Error::os("sync", path, &error))?;
        }
        Ok(())
    }

    fn versions_of(&self, name: &str) -> Path {
        let below = Path::from(format!("{name}/{VERSIONS}"));
        self.0.prefix.parts().chain(below.parts()).collect()
    }

    fn location(&self, name: &str, version: u64) -> Path {
        self.versions_of(name).join(format!("{version:010}.json"))
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.0.folder {
            Some(_) => futures::executor::block_on(future),
            None => remote::wait(future),
        }
    }
}

/// Ends the reservations of dead flows in a catalog's folder. Returns how many went.
fn reclaim_below(folder: &FilePath) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let reclaimed = folders.map(|path| match path.file_name().is_some_and(|it| it == VERSIONS) {
        true => {
            let ended = reservation::reclaim(&path);
            remove_if_empty(&path);
            ended
        }
        false => reclaim_below(&path),
    });
    reclaimed.sum()
}

/// Removes a folder of versions, and its collection's, as far as they are empty.
pub(crate) fn remove_if_empty(versions: &FilePath) {
    if versions.file_name().is_some_and(|name| name == VERSIONS) {
        let both = versions.ancestors().take(2).map(std::fs::remove_dir);
        let _ = both.take_while(|removed| removed.is_ok()).count();
    }
}

/// Checks the name of a collection: words of letters, digits, `_`, `-` and `.`, none of which
/// begins with a dot, with `/` between.
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

fn version_of(location: &Path) -> Option<u64> {
    let mut parts = location.parts().rev();
    let file = parts.next()?;
    if parts.next()?.as_ref() != VERSIONS {
        return None;
    }
    file.as_ref().strip_suffix(".json")?.parse().ok()
}

fn failed(error: &object_store::Error) -> Error {
    use object_store::Error::*;
    let message = format!("the catalog cannot be used: {error}");
    match error {
        PermissionDenied { .. } | Unauthenticated { .. } => {
            Error::usage(message).remedy("check the credentials and who may write there")
        }
        _ => Error::resource(message).remedy("check that the catalog's folder or store is there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use euphrates_flow::Kind;

    fn manifest(name: &str, version: u64, life: Life) -> Manifest {
        let mut manifest = Manifest {
            name: name.into(),
            version,
            life,
            run_id: "run".into(),
            created: 0,
            columns: vec![],
            schema: String::new(),
            layout: Layout::Plain,
            ordered: false,
            interleaved: false,
            sort_keys: vec![],
            rows: 0,
            bytes: 0,
            segments: vec![],
            statistics: BTreeMap::new(),
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
        vec![(Some(folder), local), (None, Catalog::over(memory, Path::from("pre/fix"), ""))]
    }

    #[test]
    fn the_newest_version_counts_in_every_store() {
        for (_folder, catalog) in catalogs() {
            assert_eq!(catalog.newest("a").unwrap(), None);
            catalog.commit(&manifest("a", 1, Life::Live)).unwrap();
            catalog.commit(&manifest("a/b", 1, Life::Live)).unwrap();
            catalog.commit(&manifest("a", 2, Life::Live)).unwrap();
            catalog.commit(&manifest("gone", 1, Life::Live)).unwrap();
            catalog.commit(&manifest("gone", 2, Life::Removed)).unwrap();
            assert_eq!(catalog.describe("a").unwrap().version, 2);
            let names: Vec<_> =
                catalog.list().unwrap().into_iter().map(|one| one.unwrap().name).collect();
            assert_eq!(names, ["a", "a/b"]);
            let error = catalog.describe("gone").unwrap_err();
            assert!(!error.to_string().contains("did you mean"), "{error}");
            let error = catalog.describe("a/c").unwrap_err();
            assert!(error.to_string().contains("did you mean `a/b`?"), "{error}");
        }
    }

    #[test]
    fn of_many_writers_of_a_version_one_wins() {
        for (_folder, catalog) in catalogs() {
            let commit = || catalog.commit(&manifest("c", 1, Life::Live));
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
    fn names_are_slugs() {
        for good in ["a", "sales/2026-11", "a.b_c/D"] {
            check_name(good).unwrap();
        }
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", ".v", "a/.v", "a b", "é", "-a", "a\n"]
        {
            assert_eq!(check_name(bad).unwrap_err().kind(), Kind::Usage, "{bad:?}");
        }
    }
}
