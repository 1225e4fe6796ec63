//! What programs ask for, by inode and name: attributes, open files, names.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use euphrates_store::catalog::check_name;
use euphrates_store::striped::{StripedReader, name_of_path, path_of_name};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use parking_lot::Mutex;

use super::home::{Home, PublishedFile};
use super::live::LiveFile;
use super::serving::MountUse;
use super::tree::{InodeTree, NodeKind, ROOT, UNKNOWN, child_name, entry_towards, is_below};

pub type Done<T> = Result<T, Errno>;

/// What a program has opened.
pub enum OpenHandle {
    /// A version of a file, for reading.
    Version(u64, Box<StripedReader>),
    /// A file that programs of this mount write, and whether this one does.
    Live(u64, Arc<LiveFile>, bool),
    /// A folder, as it was listed then.
    Folder(Vec<ListedEntry>),
}

/// An entry of a listing.
pub struct ListedEntry {
    pub number: u64,
    pub kind: FileType,
    pub name: Vec<u8>,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub struct HowToOpen {
    pub is_written: bool,
    pub is_truncated: bool,
    /// Fails if there is a file.
    pub is_new: bool,
}

impl HowToOpen {
    pub fn of(flags: i32) -> HowToOpen {
        HowToOpen {
            is_written: flags & libc::O_ACCMODE != libc::O_RDONLY,
            is_truncated: flags & libc::O_TRUNC != 0,
            is_new: flags & libc::O_EXCL != 0,
        }
    }
}

/// The mounted files.
pub struct Mounted {
    pub home: Home,
    pub tree: Mutex<InodeTree>,
    live: Mutex<HashMap<u64, (Arc<LiveFile>, usize)>>,
    handles: Mutex<HashMap<u64, Arc<OpenHandle>>>,
    /// The versions that are open for reading, by inode, with the number of their handles.
    versions: Mutex<HashMap<u64, (PublishedFile, usize)>>,
    next: AtomicU64,
    owner: (u32, u32),
}

impl MountUse for Mounted {
    fn is_in_use(&self) -> bool {
        let handles = self.handles.lock();
        handles.values().any(|open| !matches!(&**open, OpenHandle::Folder(_)))
    }

    fn writing_count(&self) -> usize {
        self.live.lock().len()
    }
}

impl Mounted {
    pub fn new(home: Home) -> Mounted {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        Mounted {
            home,
            tree: Mutex::new(InodeTree::new()),
            live: Mutex::default(),
            handles: Mutex::default(),
            versions: Mutex::default(),
            next: AtomicU64::new(1),
            owner,
        }
    }

    /// The name of an entry of a folder.
    pub fn child(&self, parent: u64, part: &OsStr) -> Done<String> {
        let tree = self.tree.lock();
        let name =
            child_name(tree.name(parent).ok_or(Errno::ENOENT)?, &name_of_path(part.as_bytes()));
        check_name(&name).map_err(|_| Errno::ENAMETOOLONG)?;
        Ok(name)
    }

    fn name(&self, number: u64) -> Done<String> {
        self.tree.lock().name(number).map(String::from).ok_or(Errno::ENOENT)
    }

    pub fn live_of(&self, name: &str) -> Option<(u64, Arc<LiveFile>)> {
        let number = self.tree.lock().known(name)?;
        Some((number, self.live_with(number)?))
    }

    fn live_with(&self, number: u64) -> Option<Arc<LiveFile>> {
        self.live.lock().get(&number).map(|(live, _)| live.clone())
    }

    /// What a name stands for now.
    pub fn find(&self, name: &str) -> Done<FoundPath> {
        if let Some((_, live)) = self.live_of(name) {
            return Ok(FoundPath::Live(live));
        }
        if let Some(facts) = self.home.find(name)? {
            return Ok(FoundPath::File(facts));
        }
        match self.is_folder(name)? {
            true => Ok(FoundPath::Folder),
            false => Err(Errno::ENOENT),
        }
    }

    fn is_folder(&self, name: &str) -> Done<bool> {
        let is_made = {
            let tree = self.tree.lock();
            tree.made.iter().any(|one| one == name || is_below(one, name))
        };
        let is_folder = is_made || self.live_names().iter().any(|one| is_below(one, name));
        Ok(is_folder || self.home.has_folder(name)?)
    }

    pub fn live_names(&self) -> Vec<String> {
        let numbers: Vec<u64> = self.live.lock().keys().copied().collect();
        let tree = self.tree.lock();
        numbers.into_iter().filter_map(|number| tree.name(number).map(String::from)).collect()
    }

    fn attributes(&self, number: u64, found: &FoundPath) -> FileAttr {
        let (kind, bytes, created) = match found {
            FoundPath::Live(live) => {
                let (bytes, created) = live.facts();
                (FileType::RegularFile, bytes, created)
            }
            FoundPath::File(facts) => (FileType::RegularFile, facts.bytes, facts.created),
            FoundPath::Folder => (FileType::Directory, 0, 0),
        };
        let is_folder = kind == FileType::Directory;
        let time = UNIX_EPOCH + Duration::from_secs(created);
        FileAttr {
            ino: INodeNo(number),
            size: bytes,
            blocks: bytes.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: if is_folder { 0o755 } else { 0o644 },
            nlink: if is_folder { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 1 << 20,
            flags: 0,
        }
    }

    /// The attributes of a name, whose number the kernel gets. If another program has replaced a
    /// version that is open here, the new one has another number, as if it were renamed there: the
    /// kernel has one length and one page cache for each.
    pub fn look_up(&self, name: &str) -> Done<FileAttr> {
        let found = self.find(name)?;
        let mut tree = self.tree.lock();
        if let (FoundPath::File(facts), Some(known)) = (&found, tree.known(name)) {
            let open = self.versions.lock().get(&known).map(|(open, _)| open.version);
            if open.is_some_and(|open| open != facts.version) {
                tree.remove(name);
            }
        }
        let number = tree.look_up(name, found.kind());
        drop(tree);
        Ok(self.attributes(number, &found))
    }

    /// The attributes of an inode.
    pub fn attributes_of(&self, number: u64) -> Done<FileAttr> {
        if number == ROOT {
            self.home.check()?;
            return Ok(self.attributes(ROOT, &FoundPath::Folder));
        }
        if let Some(live) = self.live_with(number) {
            return Ok(self.attributes(number, &FoundPath::Live(live)));
        }
        let open = self.versions.lock().get(&number).map(|(open, _)| *open);
        let found = match open {
            Some(open) => FoundPath::File(open),
            None => self.find(&self.name(number)?)?,
        };
        Ok(self.attributes(number, &found))
    }

    fn keep(&self, handle: OpenHandle) -> u64 {
        let number = self.next.fetch_add(1, Relaxed);
        self.handles.lock().insert(number, Arc::new(handle));
        number
    }

    /// An open file or folder.
    pub fn handle(&self, handle: u64) -> Done<Arc<OpenHandle>> {
        self.handles.lock().get(&handle).cloned().ok_or(Errno::EBADF)
    }

    /// Joins the programs that write a file, or is the first of them.
    fn join(&self, number: u64, begin: impl FnOnce() -> Done<LiveFile>) -> Done<Arc<LiveFile>> {
        if let Some((live, count)) = self.live.lock().get_mut(&number) {
            *count += 1;
            return Ok(live.clone());
        }
        let begun = Arc::new(begin()?);
        let mut all = self.live.lock();
        // Another thread may have been faster; then this session is dropped.
        let (live, count) = all.entry(number).or_insert_with(|| (begun, 0));
        *count += 1;
        Ok(live.clone())
    }

    /// Leaves a file; the last program publishes what it was not written since.
    fn leave(&self, number: u64, live: &LiveFile) -> Done<()> {
        let is_last = self.live.lock().get(&number).is_some_and(|(_, count)| *count == 1);
        let published = if is_last { live.publish(&self.home) } else { Ok(()) };
        let mut all = self.live.lock();
        if let Some((_, count)) = all.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                all.remove(&number);
            }
        }
        published
    }

    /// Opens a file that has a number.
    pub fn open(&self, number: u64, how: HowToOpen) -> Done<u64> {
        let joined = self.live_with(number);
        if !how.is_written && joined.is_none() {
            let reader = self.home.read(&self.name(number)?)?;
            let manifest = reader.manifest();
            let (version, created) = (manifest.version, manifest.created);
            let facts = PublishedFile { version, bytes: reader.bytes(), created };
            self.versions.lock().entry(number).or_insert((facts, 0)).1 += 1;
            return Ok(self.keep(OpenHandle::Version(number, Box::new(reader))));
        }
        let live = self.join(number, || {
            let name = self.name(number)?;
            let facts = self.home.find(&name)?.ok_or(Errno::ENOENT)?;
            match how.is_truncated {
                true => LiveFile::create(&self.home, &name, Some(facts)),
                false => Ok(LiveFile::open(&name, facts)),
            }
        })?;
        if how.is_truncated && joined.is_some() {
            let cut = live.truncate(&self.home, 0);
            cut.or_else(|errno| self.leave(number, &live).and(Err(errno)))?;
        }
        Ok(self.keep(OpenHandle::Live(number, live, how.is_written)))
    }

    /// Creates a file, or opens the one of the name.
    pub fn create(&self, name: &str, how: HowToOpen) -> Done<(FileAttr, u64)> {
        match self.find(name) {
            Ok(_) if how.is_new => return Err(Errno::EEXIST),
            Ok(FoundPath::Folder) => return Err(Errno::EISDIR),
            Ok(_) => {
                let attributes = self.look_up(name)?;
                return Ok((attributes, self.open(attributes.ino.0, how)?));
            }
            Err(errno) if errno.code() != libc::ENOENT => return Err(errno),
            Err(_) if self.home.is_taken(name)? => return Err(Errno::EEXIST),
            Err(_) => {}
        }
        let new = LiveFile::create(&self.home, name, None)?;
        let number = self.tree.lock().look_up(name, NodeKind::File);
        let live = self.join(number, || Ok(new))?;
        let attributes = self.attributes(number, &FoundPath::Live(live.clone()));
        Ok((attributes, self.keep(OpenHandle::Live(number, live, true))))
    }

    /// Ends a handle.
    pub fn release(&self, handle: u64) -> Done<()> {
        let Some(open) = self.handles.lock().remove(&handle) else { return Ok(()) };
        match &*open {
            OpenHandle::Live(number, live, _) => self.leave(*number, live),
            OpenHandle::Version(number, _) => {
                let mut all = self.versions.lock();
                if let Some((_, count)) = all.get_mut(number) {
                    *count -= 1;
                    if *count == 0 {
                        all.remove(number);
                    }
                }
                Ok(())
            }
            OpenHandle::Folder(_) => Ok(()),
        }
    }

    /// Cuts or extends a file; if no program has it open, publishes it at once.
    pub fn truncate(&self, number: u64, bytes: u64) -> Done<()> {
        let is_open = self.live.lock().contains_key(&number);
        let how = HowToOpen { is_written: true, is_truncated: bytes == 0, is_new: false };
        let handle = self.open(number, how)?;
        let cut = match &*self.handle(handle)? {
            OpenHandle::Live(_, live, _) if bytes > 0 || is_open => {
                live.truncate(&self.home, bytes)
            }
            _ => Ok(()),
        };
        let released = self.release(handle);
        cut.and(released)
    }

    /// Lists a folder.
    pub fn open_folder(&self, number: u64) -> Done<u64> {
        let folder = self.name(number)?;
        let mut found: BTreeMap<String, NodeKind> = BTreeMap::new();
        let made: Vec<String> = self.tree.lock().made.iter().cloned().collect();
        let files = self.home.below(&folder)?.into_iter().chain(self.live_names());
        let folders = made.into_iter().map(|name| name + "/");
        for name in files.chain(folders) {
            if let Some((part, kind)) = entry_towards(&name, &folder) {
                // A file that has the name of a folder hides it.
                let entry = found.entry(part.to_string()).or_insert(kind);
                *entry = if kind == NodeKind::File { kind } else { *entry };
            }
        }
        let tree = self.tree.lock();
        let dots = [".", ".."].map(|name| ListedEntry {
            number,
            kind: FileType::Directory,
            name: name.into(),
        });
        let entries = found.into_iter().map(|(part, kind)| ListedEntry {
            number: tree.known(&child_name(&folder, &part)).unwrap_or(UNKNOWN),
            kind: match kind {
                NodeKind::File => FileType::RegularFile,
                NodeKind::Folder => FileType::Directory,
            },
            name: path_of_name(&part),
        });
        let listed = dots.into_iter().chain(entries).collect();
        drop(tree);
        Ok(self.keep(OpenHandle::Folder(listed)))
    }
}

/// What a name stands for.
pub enum FoundPath {
    Live(Arc<LiveFile>),
    File(PublishedFile),
    Folder,
}

impl FoundPath {
    fn kind(&self) -> NodeKind {
        match self {
            FoundPath::Folder => NodeKind::Folder,
            FoundPath::Live(_) | FoundPath::File(_) => NodeKind::File,
        }
    }
}
