//! Memory that this process lends to others, as a folder that it serves: network RAM.
//!
//! All files are in one memory file of the kernel (`memfd_create`) of equal slots. It has no name,
//! so it ends with the process, however that ends; a slot that becomes free is punched out of it,
//! so its pages return to the system at once. While the machine is short of memory, no file grows,
//! and the oldest files are moved to a scratch folder. Their names stay, and so do open handles:
//! no reader notices.

mod arena;
mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result, spawn_named};
use euphrates_policy::caching::pressure::MemoryLevel;
use euphrates_policy::lent_memory::LendingFacts;

use self::arena::{Arena, SLOT_BYTES};
use self::file::{LentFile, OpenLentFile};
use crate::disk::DiskFile;
use crate::folder::{
    AbandonedFolder, DiskFolder, EntryKind, FolderEntry, FolderFacts, FolderTree, HeldFolder,
    SmallFiles, StagedSmallFile, inside,
};
use crate::memory_level::memory_level;
use crate::scratch::{LockedFolder, hold};

/// The name of the folder among those that a worker serves. No disk has it: names have no slashes.
pub const LENT_MEMORY: &str = "/memory";
/// How often the memory of the machine is looked at while files are held.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long what was read of that memory is used.
const LEVEL_AGE_MAX: Duration = Duration::from_millis(100);
/// Files of all borrowers, at most.
const FILES_MAX: usize = 1 << 14;

/// What a process lends, and where it moves files to when it needs the memory itself.
#[derive(Clone, Debug)]
pub struct LendOptions {
    /// The bytes that it lends at most.
    pub bytes_max: u64,
    /// The scratch folder for files that are moved out of memory.
    pub scratch: PathBuf,
    /// Names its folder there; unique to this process.
    pub run_id: String,
}

/// Lent memory, as a folder of files in folders of their borrowers.
///
/// ```
/// use euphrates_device::folder::{DiskFolder, FolderTree};
/// use euphrates_device::lent_memory::{LendOptions, LentMemory};
/// use euphrates_policy::io_path::IoPath;
/// use std::path::Path;
///
/// let scratch = tempfile::tempdir()?;
/// let (scratch, run_id) = (scratch.path().into(), "lender".into());
/// let lent = LentMemory::new(LendOptions { bytes_max: 8 << 20, scratch, run_id })?;
/// let held = lent.hold(Path::new(""), "run")?;
/// let file = lent.create(Path::new("run/sort-0"))?;
/// file.write(IoPath::Buffered, 0, b"spilled")?;
/// assert!(lent.used_bytes() > 0);
/// drop(file);
/// held.remove();
/// assert_eq!(lent.used_bytes(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LentMemory(Arc<MemoryLender>);

struct MemoryLender {
    options: LendOptions,
    arena: Arc<Arena>,
    level: Box<dyn Fn() -> MemoryLevel + Send + Sync>,
    /// Whether a thread looks at the memory while files are held.
    is_watching: bool,
    state: Mutex<LentState>,
}

#[derive(Default)]
struct LentState {
    /// By folder of a borrower and name; folders without files have an entry, too.
    folders: BTreeMap<String, BTreeMap<String, Arc<LentFile>>>,
    /// Counts the files made so far, for their order.
    made: u64,
    is_watched: bool,
    /// Where files are moved to, made with the first.
    moved: Option<LockedFolder>,
}

impl fmt::Debug for LentMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentMemory").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl LentMemory {
    /// Lends memory; takes none of it yet. Fails without memory files.
    pub fn new(options: LendOptions) -> Result<LentMemory> {
        // A file that grows asks for each slot.
        let known: Mutex<Option<(Instant, MemoryLevel)>> = Mutex::default();
        let level = move || {
            let mut known = known.lock();
            let young = known.filter(|(read, _)| read.elapsed() < LEVEL_AGE_MAX);
            known.insert(young.unwrap_or_else(|| (Instant::now(), memory_level()))).1
        };
        LentMemory::over(options, level, true)
    }

    /// The same, with another source of what the machine has left; the caller calls `look`.
    pub fn with_level(
        options: LendOptions,
        level: impl Fn() -> MemoryLevel + Send + Sync + 'static,
    ) -> Result<LentMemory> {
        LentMemory::over(options, level, false)
    }

    fn over(
        options: LendOptions,
        level: impl Fn() -> MemoryLevel + Send + Sync + 'static,
        is_watching: bool,
    ) -> Result<LentMemory> {
        let slots = options.bytes_max / SLOT_BYTES as u64;
        if slots == 0 {
            let error = Error::usage(format!("{} bytes are too few to lend", options.bytes_max));
            return Err(error.remedy(format!("lend at least {} bytes", SLOT_BYTES)));
        }
        let arena = Arena::new(slots).map_err(|error| {
            Error::os("make", "a memory file", &error).remedy("leave out --lend-memory")
        })?;
        let (arena, level, state) = (Arc::new(arena), Box::new(level), Mutex::default());
        Ok(LentMemory(Arc::new(MemoryLender { options, arena, level, is_watching, state })))
    }

    /// The bytes of all files in memory, counted in whole slots.
    pub fn used_bytes(&self) -> u64 {
        self.0.arena.used_bytes()
    }

    /// Moves files to disk, as many as the memory of the machine asks for. A thread calls it while
    /// files are held.
    pub fn look(&self) {
        let files = self.0.files();
        let bytes: Vec<u64> = files.iter().map(|file| file.memory_bytes()).collect();
        for at in self.0.facts().revoked(&bytes) {
            let moved = self.0.scratch().and_then(|path| files[at].move_to(&path));
            if moved.is_err() {
                // The disk refuses it; the next look tries again.
                break;
            }
        }
    }

    /// Starts the thread that looks at the memory, unless it runs; it ends when no file is left.
    fn watch(&self) {
        let is_watched = std::mem::replace(&mut self.0.state.lock().is_watched, true);
        if is_watched || !self.0.is_watching {
            return;
        }
        let lent = Arc::downgrade(&self.0);
        let watch = move || {
            while let Some(lent) = lent.upgrade().map(LentMemory) {
                lent.look();
                let mut state = lent.0.state.lock();
                if state.folders.values().all(BTreeMap::is_empty) {
                    state.is_watched = false;
                    break;
                }
                drop(state);
                drop(lent);
                std::thread::sleep(INTERVAL);
            }
        };
        if spawn_named("lent memory", watch).is_err() {
            // Without the thread nothing is moved, but nothing grows either while memory is short.
            self.0.state.lock().is_watched = false;
        }
    }
}

impl MemoryLender {
    fn facts(&self) -> LendingFacts {
        LendingFacts {
            lent_bytes_max: self.options.bytes_max,
            used_bytes: self.arena.used_bytes(),
            level: (self.level)(),
        }
    }

    /// All files, the oldest first.
    fn files(&self) -> Vec<Arc<LentFile>> {
        let state = self.state.lock();
        let mut files: Vec<_> =
            state.folders.values().flat_map(BTreeMap::values).cloned().collect();
        drop(state);
        files.sort_unstable_by_key(|file| file.number);
        files
    }

    /// The folder to which files are moved.
    fn scratch(&self) -> Result<PathBuf> {
        let mut state = self.state.lock();
        if state.moved.is_none() {
            let name = format!("{}-lent-0", self.options.run_id);
            state.moved = Some(hold(&self.options.scratch, &name)?);
        }
        Ok(state.moved.as_ref().expect("it has just been made").folder.clone())
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        let removed = self.state.lock().folders.remove(name);
        // Files are dropped without the lock.
        removed.map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Drop for MemoryLender {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *self.state.lock());
        drop(state.folders);
        state.moved.into_iter().for_each(LockedFolder::remove);
    }
}

/// The folder and the name of a file.
fn split(path: &Path) -> io::Result<(String, String)> {
    let path = inside(Path::new(""), path)?;
    let mut parts = path.iter().map(|part| part.to_str().map(str::to_string));
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Some(folder)), Some(Some(name)), None) => Ok((folder, name)),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

/// The only part of a path.
fn folder_name(path: &Path) -> io::Result<String> {
    let path = inside(Path::new(""), path)?;
    let mut parts = path.iter();
    match (parts.next().and_then(|part| part.to_str()), parts.next()) {
        (Some(name), None) => Ok(name.to_string()),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

impl DiskFolder for LentMemory {
    fn place(&self) -> &Path {
        Path::new(LENT_MEMORY)
    }

    fn local(&self) -> Option<&Path> {
        None
    }

    fn facts(&self) -> io::Result<FolderFacts> {
        let (bytes_all, bytes_free) = (self.0.options.bytes_max, self.0.facts().free_bytes());
        Ok(FolderFacts { bytes_all, bytes_free, ..FolderFacts::default() })
    }

    fn make(&self) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<DiskFile> {
        let (folder, name) = split(path)?;
        let state = self.0.state.lock();
        let file = state.folders.get(&folder).and_then(|files| files.get(&name)).cloned();
        drop(state);
        let file = file.ok_or(ErrorKind::NotFound)?;
        Ok(DiskFile::served(path.to_path_buf(), Box::new(OpenLentFile(file))))
    }

    fn create(&self, path: &Path) -> io::Result<DiskFile> {
        let (folder, name) = split(path)?;
        if self.0.facts().free_bytes() == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        let lent = Arc::downgrade(&self.0);
        let free_bytes = move || lent.upgrade().map_or(0, |lent| lent.facts().free_bytes());
        let mut state = self.0.state.lock();
        if state.folders.values().map(BTreeMap::len).sum::<usize>() == FILES_MAX {
            return Err(ErrorKind::StorageFull.into());
        }
        let number = state.made;
        state.made += 1;
        let files = state.folders.get_mut(&folder).ok_or(ErrorKind::NotFound)?;
        if files.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(LentFile::new(number, &self.0.arena, Box::new(free_bytes)));
        files.insert(name, file.clone());
        drop(state);
        self.watch();
        Ok(DiskFile::served(path.to_path_buf(), Box::new(OpenLentFile(file))))
    }
}

impl SmallFiles for LentMemory {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        let state = self.0.state.lock();
        if let Ok(folder) = folder_name(path) {
            return Ok(state.folders.contains_key(&folder).then_some(EntryKind::Folder));
        }
        let (folder, name) = split(path)?;
        let files = state.folders.get(&folder);
        Ok(files.and_then(|files| files.get(&name)).map(|_| EntryKind::File))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let state = self.0.state.lock();
        let entries = |names: Vec<&String>, kind| {
            names.into_iter().map(|name| FolderEntry { name: name.clone(), kind }).collect()
        };
        if path.as_os_str().is_empty() {
            return Ok(entries(state.folders.keys().collect(), EntryKind::Folder));
        }
        let files = state.folders.get(&folder_name(path)?).ok_or(ErrorKind::NotFound)?;
        Ok(entries(files.keys().collect(), EntryKind::File))
    }

    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(no_small_files())
    }

    fn write(&self, _: &Path, _: &[u8], _: bool) -> io::Result<()> {
        Err(no_small_files())
    }

    fn stage(&self, _: &Path, _: &[u8]) -> Result<Box<dyn StagedSmallFile>> {
        Err(Error::usage(no_small_files()))
    }

    fn clear_staged(&self, _: &Path) -> usize {
        0
    }

    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(no_small_files())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = split(path)?;
        let mut state = self.0.state.lock();
        let removed = state.folders.get_mut(&folder).and_then(|files| files.remove(&name));
        drop(state);
        removed.map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl FolderTree for LentMemory {
    fn hold(&self, parent: &Path, name: &str) -> Result<Box<dyn HeldFolder>> {
        let failed = |error: io::Error| Error::os("make the folder", name, &error);
        if !parent.as_os_str().is_empty() {
            return Err(failed(ErrorKind::InvalidInput.into()));
        }
        let name = folder_name(Path::new(name)).map_err(failed)?;
        let mut state = self.0.state.lock();
        if state.folders.contains_key(&name) {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        state.folders.insert(name.clone(), BTreeMap::new());
        Ok(Box::new(BorrowerFolder { name: PathBuf::from(name), lent: self.clone() }))
    }

    fn is_held(&self, parent: &Path, name: &str) -> bool {
        parent.as_os_str().is_empty() && self.0.state.lock().folders.contains_key(name)
    }

    fn abandoned(&self, _: &Path) -> Vec<Box<dyn AbandonedFolder>> {
        // A folder ends with the session of its borrower.
        vec![]
    }

    fn move_folder(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.0.remove_folder(&folder_name(path)?)
    }

    fn remove_empty(&self, _: &Path) {}
}

fn no_small_files() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "lent memory has no small files")
}

/// A borrower's folder. Unlike a folder on disk, it ends with its borrower's session: memory that
/// nobody reads is not left to be reclaimed.
struct BorrowerFolder {
    name: PathBuf,
    lent: LentMemory,
}

impl fmt::Debug for BorrowerFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowerFolder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl HeldFolder for BorrowerFolder {
    fn path(&self) -> &Path {
        &self.name
    }

    fn remove(self: Box<Self>) {
        drop(self);
    }
}

impl Drop for BorrowerFolder {
    fn drop(&mut self) {
        // It may have been removed by name.
        let _ = self.lent.remove_folder(&self.name);
    }
}
