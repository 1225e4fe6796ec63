//! Locations of input and output files: paths, glob patterns, folders and lists of them, local, in
//! an object store, at a web server, or of striped files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_flow::error::unknown;
use euphrates_flow::secrets::{SERVERS, STORES, refuse_key};
use euphrates_flow::{Error, Result};

use crate::remote::{RemoteObject, Store};
use crate::storage_options::StorageOptions;
use crate::striped::path_of_address;
use crate::web_files::{WebFile, look_up};

mod file_ref;
mod missing;
mod patterns;
mod striped_paths;

use file_ref::Backend;
pub use file_ref::FileRef;
use missing::missing;
use patterns::{
    MATCH, has_extension, is_hidden, is_pattern, is_pattern_char, matching, some, wrong_pattern,
};
use striped_paths::find_striped;

/// A place that an output is written to.
pub enum Destination {
    /// A path on a file system of this machine.
    Local(PathBuf),
    /// An object of an object store.
    Remote(RemoteObject),
    /// The path of a striped file, and its options.
    Striped(String, StorageOptions),
}

/// How many files of web servers are looked up concurrently, since each costs a round trip.
const CONCURRENT_LOOKUPS_MAX: usize = 16;

/// Expands paths to files: files, patterns (`*`, `?`, `[a-z]`, `**`) and folders. The files of
/// patterns and folders are sorted; of folders, only files with one of the extensions whose name
/// does not begin with a dot or an underscore are taken, or begins `_name=`. A path that matches
/// nothing is an error. `storage` are the options of stores and servers.
///
/// ```
/// use euphrates_device::location::find;
/// use euphrates_device::storage_options::StorageOptions;
///
/// let folder = tempfile::tempdir()?;
/// for name in ["b.csv", "a.csv", "_part.csv", "notes.txt"] {
///     std::fs::write(folder.path().join(name), "")?;
/// }
/// let paths = [folder.path().to_string_lossy().into_owned()];
/// let found = find(&paths, &["csv"], &StorageOptions::default())?;
/// let names: Vec<&str> = found.iter().map(|file| file.name.rsplit('/').next().unwrap()).collect();
/// assert_eq!(names, ["a.csv", "b.csv"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn find(
    paths: &[String],
    extensions: &[impl AsRef<str>],
    storage: &StorageOptions,
) -> Result<Vec<FileRef>> {
    if paths.is_empty() {
        return Err(Error::usage("no path is given").remedy("give at least one path"));
    }
    let mut found: Vec<Vec<FileRef>> = vec![];
    let mut web: Vec<(usize, &str, Arc<Store>, &str)> = vec![];
    // A client loads certificates, and keeps connections: one for all files of a store.
    let mut stores: BTreeMap<(&str, String), Arc<Store>> = BTreeMap::new();
    for path in paths {
        if let Some(key) = path_of_address(path) {
            found.push(find_striped(path, key, storage.striped()?, extensions)?);
            continue;
        }
        let Some((scheme, bucket, key)) = split_url(path)? else {
            found.push(find_local(local_path(path), extensions)?);
            continue;
        };
        let (bucket, key) = match key.split_once('?') {
            Some((key, query)) if SERVERS.contains(&scheme) => (format!("{bucket}?{query}"), key),
            _ => (bucket.to_string(), key),
        };
        let store = match stores.entry((scheme, bucket)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(at) => {
                let store = Store::open(scheme, &at.key().1, storage)?;
                at.insert(store).clone()
            }
        };
        match store.is_web() {
            true => {
                web.push((found.len(), path.as_str(), store, key));
                found.push(vec![]);
            }
            false => found.push(find_remote(path, store, key, extensions)?),
        }
    }
    for together in web.chunks(CONCURRENT_LOOKUPS_MAX) {
        let results: Vec<Result<FileRef>> = std::thread::scope(|scope| {
            let look_up = |(_, path, store, key): &(usize, &str, Arc<Store>, &str)| {
                let (path, store, key) = (path.to_string(), store.clone(), key.to_string());
                scope.spawn(move || find_web(&path, &store, &key))
            };
            let threads: Vec<_> = together.iter().map(look_up).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for ((at, ..), result) in together.iter().zip(results) {
            found[*at].push(result?);
        }
    }
    let found: Vec<FileRef> = found.into_iter().flatten().collect();
    found.iter().for_each(FileRef::hold);
    Ok(found)
}

/// The place that a path names for writing; it need not exist.
///
/// ```
/// use euphrates_device::location::{Destination, destination};
/// use euphrates_device::storage_options::StorageOptions;
///
/// let storage = StorageOptions::default();
/// let local = destination("out/days.parquet", &storage)?;
/// assert!(matches!(local, Destination::Local(path) if path.ends_with("days.parquet")));
/// assert!(destination("s3://bucket/", &storage).is_err(), "it names no file");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn destination(path: &str, storage: &StorageOptions) -> Result<Destination> {
    let no_file = || Error::usage(format!("{path} names no file")).remedy("add a name");
    if let Some(key) = path_of_address(path) {
        storage.striped()?;
        if key.is_empty() || key.ends_with('/') {
            return Err(no_file());
        }
        return Ok(Destination::Striped(key.to_string(), storage.clone()));
    }
    match split_url(path)? {
        None => Ok(Destination::Local(local_path(path).into())),
        Some((scheme, ..)) if SERVERS.contains(&scheme) => {
            let error = Error::usage(format!("{path} is at a web server, which takes no files"));
            Err(error.remedy("write to an object store (s3://, gs://, az://) or a file"))
        }
        Some((scheme, bucket, key)) => {
            if key.is_empty() || key.ends_with('/') {
                return Err(no_file());
            }
            Ok(Destination::Remote(Store::open(scheme, bucket, storage)?.object(key)?))
        }
    }
}

/// The extension of a path or URL in lower case, without its dot.
///
/// ```
/// use euphrates_device::location::extension_of;
///
/// assert_eq!(extension_of("s3://bucket/days.CSV").as_deref(), Some("csv"));
/// assert_eq!(extension_of("days.csv.gz").as_deref(), Some("gz"), "the last one");
/// assert_eq!(extension_of("https://host/days.csv?n=1").as_deref(), Some("csv"));
/// assert_eq!(extension_of("days"), None);
/// ```
pub fn extension_of(name: &str) -> Option<String> {
    let extension = Path::new(without_query(name)).extension()?;
    Some(extension.to_string_lossy().to_lowercase())
}

/// An address without its query; other paths as they are.
///
/// ```
/// use euphrates_device::location::without_query;
///
/// assert_eq!(without_query("https://host/days.csv?n=1"), "https://host/days.csv");
/// assert_eq!(without_query("/tmp/days?.csv"), "/tmp/days?.csv", "a pattern");
/// ```
pub fn without_query(name: &str) -> &str {
    let is_web = name.split_once("://").is_some_and(|(scheme, _)| SERVERS.contains(&scheme));
    let end = name.find(['?', '#']).filter(|_| is_web);
    &name[..end.unwrap_or(name.len())]
}

fn local_path(path: &str) -> &str {
    path.strip_prefix("file://").unwrap_or(path)
}

/// Scheme, bucket (or host) and key of a URL of an object store or web server; `None` for a local
/// path.
///
/// ```
/// use euphrates_device::location::split_url;
///
/// assert_eq!(split_url("s3://bucket/day/1.csv")?, Some(("s3", "bucket", "day/1.csv")));
/// assert_eq!(split_url("/tmp/1.csv")?, None);
/// assert!(split_url("ftp://host/1.csv").is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn split_url(path: &str) -> Result<Option<(&str, &str, &str)>> {
    let Some((scheme, rest)) = path.split_once("://") else { return Ok(None) };
    if scheme == "file" {
        return Ok(None);
    }
    refuse_key(path)?;
    if scheme == "hf" {
        let error = Error::usage("addresses of Hugging Face are looked up by its Python client");
        return Err(error.at(path).remedy("use it in Python: eu.scan, eu.sql or eu.query"));
    }
    if scheme == "euphrates" {
        return Err(Error::usage("a striped file cannot be used here").at(path));
    }
    if !STORES.contains(&scheme) && !SERVERS.contains(&scheme) {
        let known = STORES.iter().chain(SERVERS).copied().chain(["file"]);
        return Err(unknown("kind of URL", scheme, known).at(path));
    }
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(Error::usage(format!("{path} names no bucket"))
            .remedy(format!("write {scheme}://bucket/key")));
    }
    Ok(Some((scheme, bucket, key)))
}

fn find_local(path: &str, extensions: &[impl AsRef<str>]) -> Result<Vec<FileRef>> {
    let plain = Path::new(path);
    if plain.is_dir() {
        let mut found = vec![];
        walk(plain, extensions, &mut found)?;
        found.sort();
        return some(found.into_iter().map(FileRef::local).collect(), path, extensions);
    }
    let is_pattern = is_pattern(path);
    let about = std::fs::symlink_metadata(plain);
    if about.is_err_and(|error| error.kind() == ErrorKind::NotFound) && !is_pattern {
        return Err(missing(plain, extensions));
    }
    // The name of an existing file is never a pattern.
    if plain.exists() || !is_pattern {
        return Ok(vec![FileRef::local(plain)]);
    }
    let paths = glob::glob_with(path, MATCH).map_err(|error| wrong_pattern(path, &error))?;
    let mut found = vec![];
    for entry in paths {
        let entry = entry.map_err(|error| Error::os("list", error.path(), error.error()))?;
        if entry.is_file() {
            found.push(FileRef::local(entry));
        }
    }
    matching(found, "file", path)
}

/// Collects the files under a folder, at any depth.
fn walk(folder: &Path, extensions: &[impl AsRef<str>], found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error: &std::io::Error| Error::os("list", folder, error);
    for entry in std::fs::read_dir(folder).map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        let path = entry.path();
        if is_hidden(&entry.file_name().to_string_lossy()) {
            continue;
        }
        // Links to folders are not followed: they may form a circle.
        if entry.file_type().map_err(|error| failed(&error))?.is_dir() {
            walk(&path, extensions, found)?;
        } else if path.is_file() && has_extension(&path.to_string_lossy(), extensions) {
            found.push(path);
        }
    }
    Ok(())
}

/// The file at an address of a web server, which lists nothing.
fn find_web(path: &str, store: &Arc<Store>, key: &str) -> Result<FileRef> {
    if key.contains(['*', '[']) {
        let error = Error::usage(format!("{path} is a pattern, and web servers list no files"));
        return Err(error.remedy("give a list of addresses"));
    }
    if key.is_empty() || key.ends_with('/') {
        let error = Error::usage(format!("{path} names no file, and web servers list none"));
        return Err(error.remedy("give the address of a file, or a list of them"));
    }
    let object = store.object(key)?;
    let name = object.name();
    let backend = match look_up(&object)? {
        Some(WebFile::Ranges(identity)) => Backend::Remote(object, identity),
        Some(WebFile::Whole(identity, file)) => Backend::Whole(identity, file),
        None => {
            let error = Error::usage(format!("there is no file at {name}"));
            return Err(error.remedy("check the address"));
        }
    };
    Ok(FileRef { name, backend })
}

fn find_remote(
    path: &str,
    store: Arc<Store>,
    key: &str,
    extensions: &[impl AsRef<str>],
) -> Result<Vec<FileRef>> {
    if is_pattern(key) {
        let pattern = glob::Pattern::new(key).map_err(|error| wrong_pattern(path, &error))?;
        let literal = &key[..key.find(is_pattern_char).unwrap_or(0)];
        let folder = literal.rfind('/').map_or("", |end| &literal[..end]);
        let listed = store.list(folder)?.into_iter();
        let found: Vec<FileRef> = listed
            .filter(|(object, _)| pattern.matches_with(object.key(), MATCH))
            .map(FileRef::remote)
            .collect();
        return matching(found, "object", path);
    }
    if !key.is_empty() && !key.ends_with('/') {
        let object = store.object(key)?;
        if let Some(identity) = object.identity()? {
            return Ok(vec![FileRef::remote((object, identity))]);
        }
    }
    let folder = key.trim_end_matches('/');
    let found: Vec<FileRef> = store
        .list(folder)?
        .into_iter()
        .filter(|(object, _)| {
            let below = &object.key()[folder.len()..];
            !below.split('/').any(is_hidden) && has_extension(below, extensions)
        })
        .map(FileRef::remote)
        .collect();
    some(found, path, extensions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    #[test]
    fn paths_expand_files_patterns_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("deep/er")).unwrap();
        std::fs::create_dir_all(root.join("_temporary")).unwrap();
        let files = [
            "b.csv",
            "a.csv",
            "c.parquet",
            "deep/er/d.CSV",
            ".hidden.csv",
            "_temporary/e.csv",
            "[odd].csv",
            "notes.txt",
        ];
        for file in files {
            std::fs::write(root.join(file), b"").unwrap();
        }
        let cases: [(&str, &[&str]); 7] = [
            ("a.csv", &["a.csv"]),
            ("*.csv", &["[odd].csv", "a.csv", "b.csv"]),
            ("?.csv", &["a.csv", "b.csv"]),
            ("[odd].csv", &["[odd].csv"]),
            ("**/*.CSV", &["deep/er/d.CSV"]),
            ("deep", &["deep/er/d.CSV"]),
            ("", &["[odd].csv", "a.csv", "b.csv", "deep/er/d.CSV"]),
        ];
        for (path, expected) in cases {
            for prefix in ["", "file://"] {
                let full = format!("{prefix}{}", root.join(path).display());
                let found = find(&[full], &["csv"], &StorageOptions::default()).unwrap();
                let names: Vec<&str> = found
                    .iter()
                    .map(|file| file.name[root.to_str().unwrap().len()..].trim_matches('/'))
                    .collect();
                assert_eq!(names, expected, "{path}");
            }
        }
    }

    #[test]
    fn path_without_matches_is_a_usage_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().display().to_string();
        let cases = [
            "s3:///key",
            "ftp://x/y",
            "hf://datasets/x",
            "euphrates://models/first.csv",
            "https://h/*.csv",
            &format!("{empty}/*.csv"),
            &format!("{empty}/a[b"),
            &format!("{empty}/missing"),
            &empty,
        ];
        for path in cases {
            let storage = StorageOptions::default();
            let error = find(&[path.to_string()], &["csv"], &storage).err().expect(path);
            assert_eq!(error.kind(), Kind::Usage, "{path}: {error}");
            assert!(error.advice().is_some(), "{path}: {error}");
        }
        assert!(find(&[], &["csv"], &StorageOptions::default()).is_err());
    }
}
