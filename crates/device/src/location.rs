//! Locations of input and output files: paths, glob patterns, folders and lists of them, local or
//! in an object store.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_flow::error::unknown;
use euphrates_flow::secrets::{STORES, refuse_key};
use euphrates_flow::{Error, Result};

use crate::blob::Blob;
use crate::remote::{Identity, RemoteObject, Store};

/// A file that existed when it was looked up.
///
/// ```
/// use euphrates_device::location::FileRef;
///
/// let file = tempfile::NamedTempFile::new()?;
/// let reference = FileRef::local(file.path());
/// assert!(reference.is_local() && reference.bytes() == 0);
/// let before = reference.version();
/// std::fs::write(file.path(), "12345")?;
/// assert_eq!(reference.bytes(), 5);
/// assert_ne!(reference.version(), before);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct FileRef {
    /// The path or URL, as errors show it.
    pub name: String,
    backend: Backend,
}

#[derive(Clone)]
enum Backend {
    Local(PathBuf),
    Remote(RemoteObject, Identity),
}

impl FileRef {
    /// A local path; does not check that the file exists.
    pub fn local(path: impl Into<PathBuf>) -> FileRef {
        let path = path.into();
        FileRef { name: path.display().to_string(), backend: Backend::Local(path) }
    }

    fn remote((object, identity): (RemoteObject, Identity)) -> FileRef {
        FileRef { name: object.name(), backend: Backend::Remote(object, identity) }
    }

    /// Opens it for positioned reads.
    pub fn open(&self) -> Result<Blob> {
        match &self.backend {
            Backend::Local(path) => Blob::open_local(path),
            Backend::Remote(object, it) => Ok(Blob::open_remote(object.clone(), it.bytes)),
        }
    }

    /// Whether it is on a file system of this machine.
    pub fn is_local(&self) -> bool {
        matches!(self.backend, Backend::Local(_))
    }

    /// Its absolute name, which is valid in any working directory.
    pub fn standing(&self) -> String {
        match &self.backend {
            Backend::Local(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                path.display().to_string()
            }
            Backend::Remote(..) => self.name.clone(),
        }
    }

    /// Its length in bytes; 0 for a local file that is missing.
    pub fn bytes(&self) -> u64 {
        match &self.backend {
            Backend::Local(path) => std::fs::metadata(path).map_or(0, |about| about.len()),
            Backend::Remote(_, identity) => identity.bytes,
        }
    }

    /// A fingerprint that distinguishes it from any other file of this name, past or future; empty
    /// for a local file that is missing.
    pub fn version(&self) -> String {
        match &self.backend {
            Backend::Local(path) => std::fs::metadata(path).map_or(String::new(), |about| {
                format!("{}.{:09} {}", about.mtime(), about.mtime_nsec(), about.len())
            }),
            Backend::Remote(_, identity) => identity.to_string(),
        }
    }
}

/// A place that an output is written to.
pub enum Destination {
    /// A path on a file system of this machine.
    Local(PathBuf),
    /// An object of an object store.
    Remote(RemoteObject),
}

/// Expands paths to files: files, patterns (`*`, `?`, `[a-z]`, `**`) and folders. The files of
/// patterns and folders are sorted; of folders, only files with one of the extensions whose name
/// does not begin with a dot or an underscore are taken, or begins `_name=`. A path that matches
/// nothing is an error.
///
/// ```
/// use euphrates_device::location::find;
///
/// let folder = tempfile::tempdir()?;
/// for name in ["b.csv", "a.csv", "_part.csv", "notes.txt"] {
///     std::fs::write(folder.path().join(name), "")?;
/// }
/// let found = find(&[folder.path().to_string_lossy().into_owned()], &["csv"])?;
/// let names: Vec<&str> = found.iter().map(|file| file.name.rsplit('/').next().unwrap()).collect();
/// assert_eq!(names, ["a.csv", "b.csv"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn find(paths: &[String], extensions: &[impl AsRef<str>]) -> Result<Vec<FileRef>> {
    if paths.is_empty() {
        return Err(Error::usage("no path is given").remedy("give at least one path"));
    }
    let mut found = vec![];
    for path in paths {
        match split_url(path)? {
            None => found.extend(find_local(local_path(path), extensions)?),
            Some((scheme, bucket, key)) => {
                found.extend(find_remote(path, Store::open(scheme, bucket)?, key, extensions)?)
            }
        }
    }
    Ok(found)
}

/// The place that a path names for writing; it need not exist.
///
/// ```
/// use euphrates_device::location::{Destination, destination};
///
/// let local = destination("out/days.parquet")?;
/// assert!(matches!(local, Destination::Local(path) if path.ends_with("days.parquet")));
/// assert!(destination("s3://bucket/").is_err(), "it names no file");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn destination(path: &str) -> Result<Destination> {
    match split_url(path)? {
        None => Ok(Destination::Local(local_path(path).into())),
        Some((scheme, bucket, key)) => {
            if key.is_empty() || key.ends_with('/') {
                return Err(Error::usage(format!("{path} names no file")).remedy("add a name"));
            }
            Ok(Destination::Remote(Store::open(scheme, bucket)?.object(key)?))
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
/// assert_eq!(extension_of("days"), None);
/// ```
pub fn extension_of(name: &str) -> Option<String> {
    let extension = Path::new(name).extension()?;
    Some(extension.to_string_lossy().to_lowercase())
}

fn local_path(path: &str) -> &str {
    path.strip_prefix("file://").unwrap_or(path)
}

/// Scheme, bucket and key of a URL of an object store; `None` for a local path.
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
    if !STORES.contains(&scheme) {
        let known = STORES.iter().copied().chain(["file"]);
        return Err(unknown("kind of URL", scheme, known).at(path));
    }
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(Error::usage(format!("{path} names no bucket"))
            .remedy(format!("write {scheme}://bucket/key")));
    }
    Ok(Some((scheme, bucket, key)))
}

/// A star matches no separator, and no dot at the beginning of a name.
const MATCH: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

fn find_local(path: &str, extensions: &[impl AsRef<str>]) -> Result<Vec<FileRef>> {
    let plain = Path::new(path);
    if plain.is_dir() {
        let mut found = vec![];
        walk(plain, extensions, &mut found)?;
        found.sort();
        return some(found.into_iter().map(FileRef::local).collect(), path, extensions);
    }
    // The name of an existing file is never a pattern.
    if plain.exists() || !is_pattern(path) {
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

fn some(found: Vec<FileRef>, path: &str, extensions: &[impl AsRef<str>]) -> Result<Vec<FileRef>> {
    if !found.is_empty() {
        return Ok(found);
    }
    let message = format!("{path} is no file, and no folder with a file of a known kind in it");
    let known: Vec<&str> = extensions.iter().map(AsRef::as_ref).collect();
    Err(Error::usage(message).remedy(format!("known extensions: {}", known.join(", "))))
}

fn matching(found: Vec<FileRef>, what: &str, path: &str) -> Result<Vec<FileRef>> {
    if found.is_empty() {
        let error = Error::usage(format!("no {what} matches `{path}`"));
        return Err(error.remedy("check the pattern"));
    }
    Ok(found)
}

/// Whether a name is passed over in folders. `_name=value` is a column's folder, as in Spark.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

/// Whether a name ends with a dot and one of these: `csv`, `csv.gz`.
fn has_extension(name: &str, extensions: &[impl AsRef<str>]) -> bool {
    let name = name.to_lowercase();
    let has = |extension: &str| {
        let stem = name.strip_suffix(extension).and_then(|name| name.strip_suffix('.'));
        stem.is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'))
    };
    extensions.iter().any(|extension| has(extension.as_ref()))
}

fn is_pattern(path: &str) -> bool {
    path.contains(is_pattern_char)
}

fn is_pattern_char(character: char) -> bool {
    matches!(character, '*' | '?' | '[')
}

fn wrong_pattern(path: &str, error: &glob::PatternError) -> Error {
    Error::usage(format!("`{path}` is no valid pattern: {error}")).remedy("`*`, `?`, `[a-z]`, `**`")
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
        let cases: [(&str, &[&str]); 8] = [
            ("a.csv", &["a.csv"]),
            ("*.csv", &["[odd].csv", "a.csv", "b.csv"]),
            ("?.csv", &["a.csv", "b.csv"]),
            ("[odd].csv", &["[odd].csv"]),
            ("**/*.CSV", &["deep/er/d.CSV"]),
            ("deep", &["deep/er/d.CSV"]),
            ("", &["[odd].csv", "a.csv", "b.csv", "deep/er/d.CSV"]),
            ("missing", &["missing"]),
        ];
        for (path, expected) in cases {
            for prefix in ["", "file://"] {
                let full = format!("{prefix}{}", root.join(path).display());
                let found = find(&[full], &["csv"]).unwrap();
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
        let cases =
            ["s3:///key", "ftp://x/y", &format!("{empty}/*.csv"), &format!("{empty}/a[b"), &empty];
        for path in cases {
            let error = find(&[path.to_string()], &["csv"]).err().expect(path);
            assert_eq!(error.kind(), Kind::Usage, "{path}: {error}");
            assert!(error.advice().is_some(), "{path}: {error}");
        }
        assert!(find(&[], &["csv"]).is_err());
    }
}
