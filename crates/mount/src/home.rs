//! The home of the mounted files: which there are, and what changes them.
//!
//! A file is looked up in the catalog each time, so what others have published is seen at the next
//! `open`. Folders and listings come from an index of the newest versions, which reads only the
//! manifests that have changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use euphrates_device::disk::Disks;
use euphrates_device::folder::FolderFacts;
use euphrates_flow::{Error, Result};
use euphrates_store::catalog::{Catalog, FoundCollection};
use euphrates_store::striped::{
    StripedOptions, StripedReader, StripedWriter, remove_file, rename_file,
};
use fuser::Errno;
use parking_lot::Mutex;

use super::tree::is_below;

/// How old the index may be when a name is looked up that is not a file.
const INDEX_AGE_MAX: Duration = Duration::from_secs(1);

/// What is known of a published file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// The number of its newest version.
    pub version: u64,
    pub bytes: u64,
    /// When the version was published, in seconds since 1970.
    pub created: u64,
}

/// Space on the disks of new files, in bytes of files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    pub all: u64,
    pub free: u64,
}

/// Where messages go.
pub type Say = Box<dyn Fn(&str) + Send + Sync>;

/// A home, as the mount uses it.
pub struct Home {
    pub path: PathBuf,
    options: StripedOptions,
    new_run_id: fn() -> String,
    catalog: Catalog,
    /// Device and inode of the home's folder.
    identity: (u64, u64),
    index: Mutex<Index>,
    say: Say,
}

#[derive(Default)]
struct Index {
    /// The newest version of each name, and the file if it is one.
    names: BTreeMap<String, (u64, Option<PublishedFile>)>,
    refreshed: Option<Instant>,
}

impl Home {
    /// Opens a home. `options` are those of new files.
    pub fn open(
        path: PathBuf,
        options: StripedOptions,
        new_run_id: fn() -> String,
        say: Say,
    ) -> Result<Home> {
        let catalog = Catalog::of(&path)?;
        let identity =
            identity(&path).map_err(|error| Error::os("open the home", &path, &error))?;
        let index = Mutex::default();
        Ok(Home { path, options, new_run_id, catalog, identity, index, say })
    }

    /// Fails if the home's folder has gone, or another one is in its place.
    pub fn check(&self) -> Result<(), Errno> {
        match identity(&self.path) {
            Ok(identity) if identity == self.identity => Ok(()),
            _ => Err(Errno::EIO),
        }
    }

    /// Sends a message to where the mount was started.
    pub fn tell(&self, text: &str) {
        (self.say)(text);
    }

    /// Tells of an error, and returns the number that programs get.
    pub fn errno(&self, what: &str, error: &Error) -> Errno {
        (self.say)(&format!("{what}: {error}"));
        match self.space() {
            // Without any, no disk is within reach.
            Ok(space) if space.all > 0 && space.free == 0 => Errno::ENOSPC,
            _ => Errno::EIO,
        }
    }

    /// A published file.
    pub fn find(&self, name: &str) -> Result<Option<PublishedFile>, Errno> {
        self.check()?;
        let found = self.catalog.find(name).map_err(|error| self.errno(name, &error))?;
        let Some(found) = found else { return Ok(None) };
        let facts = facts_of(&found);
        self.index.lock().names.insert(name.to_string(), (found.version, facts));
        Ok(facts)
    }

    /// Whether a name is that of something else than a striped file.
    pub fn is_taken(&self, name: &str) -> Result<bool, Errno> {
        let found = self.catalog.find(name).map_err(|error| self.errno(name, &error))?;
        Ok(found.is_some_and(|found| found.exists() && !found.is_file()))
    }

    /// Whether there are files below a name.
    pub fn has_folder(&self, name: &str) -> Result<bool, Errno> {
        self.refresh(INDEX_AGE_MAX)?;
        let index = self.index.lock();
        let mut below = index.names.range(format!("{name}/")..);
        Ok(below
            .by_ref()
            .take_while(|(one, _)| is_below(one, name))
            .any(|(_, (_, file))| file.is_some()))
    }

    /// The names of all files below a folder.
    pub fn below(&self, folder: &str) -> Result<Vec<String>, Errno> {
        self.refresh(Duration::ZERO)?;
        let index = self.index.lock();
        let files =
            index.names.iter().filter(|(name, (_, file))| file.is_some() && is_below(name, folder));
        Ok(files.map(|(name, _)| name.clone()).collect())
    }

    /// Opens the newest version of a file.
    pub fn read(&self, name: &str) -> Result<StripedReader, Errno> {
        self.check()?;
        let opened = StripedReader::open(&self.path, name);
        let reader = opened.map_err(|error| self.errno("open", &error))?;
        reader.warning().iter().for_each(|text| (self.say)(text));
        Ok(reader)
    }

    /// Begins a new file, or a new version without the old content.
    pub fn create(&self, name: &str, overwrite: bool) -> Result<StripedWriter, Errno> {
        self.check()?;
        let options =
            StripedOptions { overwrite, run_id: (self.new_run_id)(), ..self.options.clone() };
        let begun = StripedWriter::create(&self.path, name, options);
        begun.map_err(|error| self.errno("create", &error))
    }

    /// Begins to change the newest version of a file.
    pub fn update(&self, name: &str) -> Result<StripedWriter, Errno> {
        self.check()?;
        let begun = StripedWriter::update(&self.path, name, &(self.new_run_id)());
        begun.map_err(|error| self.errno("write", &error))
    }

    /// Publishes a version.
    pub fn publish(&self, name: &str, session: StripedWriter) -> Result<PublishedFile, Errno> {
        self.check()?;
        let bytes = session.bytes();
        let version = session.commit().map_err(|error| self.errno("close", &error))?;
        let facts = PublishedFile { version, bytes, created: seconds_now() };
        self.index.lock().names.insert(name.to_string(), (version, Some(facts)));
        Ok(facts)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> Result<(), Errno> {
        self.check()?;
        let removed = remove_file(&self.path, name, &(self.new_run_id)());
        removed.map_err(|error| self.errno("remove", &error))?;
        self.find(name).map(drop)
    }

    /// Gives a file another name, in place of a file that has it. Returns the version there.
    pub fn rename(&self, from: &str, to: &str) -> Result<u64, Errno> {
        self.check()?;
        let renamed = rename_file(&self.path, from, to, true, &(self.new_run_id)());
        let version = renamed.map_err(|error| self.errno("rename", &error))?;
        self.find(from)?;
        self.find(to)?;
        Ok(version)
    }

    /// Space for new files, parity taken off.
    pub fn space(&self) -> Result<Space, Errno> {
        let disks = Disks::of(&self.path).map_err(|_| Errno::EIO)?;
        let (mut all, mut free) = (0, 0);
        let mut seen: Vec<FolderFacts> = vec![];
        for (disk, folder) in disks.folders() {
            let is_used = match self.options.disks.is_empty() {
                true => disks.named().len() == 1 || disk.name != euphrates_device::disk::HOME,
                false => self.options.disks.contains(&disk.name),
            };
            let Ok(facts) = folder.facts() else { continue };
            if !is_used || seen.iter().any(|known| known.is_same_device(&facts)) {
                continue;
            }
            all += facts.bytes_all;
            free += facts.bytes_free;
            seen.push(facts);
        }
        let (data, width) =
            (self.options.data as u64, (self.options.data + self.options.parity) as u64);
        let of_files = |bytes: u64| bytes / width * data;
        Ok(Space { all: of_files(all), free: of_files(free) })
    }

    /// Reads the manifests that have changed since, if the index is older.
    fn refresh(&self, age_max: Duration) -> Result<(), Errno> {
        self.check()?;
        let mut index = self.index.lock();
        if index.refreshed.is_some_and(|then| then.elapsed() < age_max) {
            return Ok(());
        }
        let newest = self.catalog.newest_versions();
        let newest = newest.map_err(|error| self.errno("list", &error))?;
        let mut names = BTreeMap::new();
        for (name, version) in newest {
            let entry = match index.names.remove(&name).filter(|(known, _)| *known >= version) {
                Some(known) => known,
                None => {
                    let found = self.catalog.find(&name);
                    let found = found.map_err(|error| self.errno("list", &error))?;
                    (version, found.as_ref().and_then(facts_of))
                }
            };
            names.insert(name, entry);
        }
        *index = Index { names, refreshed: Some(Instant::now()) };
        Ok(())
    }
}

fn facts_of(found: &FoundCollection) -> Option<PublishedFile> {
    let manifest = found.manifest.as_ref().filter(|_| found.exists())?;
    let bytes = manifest.file.as_ref()?.bytes;
    Some(PublishedFile { version: found.version, bytes, created: manifest.created })
}

fn identity(folder: &std::path::Path) -> std::io::Result<(u64, u64)> {
    fs::metadata(folder).map(|found| (found.dev(), found.ino()))
}

/// Seconds since 1970.
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
