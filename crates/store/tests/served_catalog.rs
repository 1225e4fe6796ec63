//! A catalog that is served and lost in the middle of a publication: nothing is removed that the
//! version may need, whether or not it had become visible.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use euphrates_device::disk::DiskFile;
use euphrates_device::durable::Durability;
use euphrates_device::folder::{
    AbandonedFolder, DiskFolder, EntryKind, FolderEntry, FolderFacts, FolderTree, HeldFolder,
    LocalFolder, SmallFiles, StagedSmallFile,
};
use euphrates_device::served::{
    Connector, ServedDisk, ServedFolderAddress, ServedHome, WorkerAccess, install,
};
use euphrates_flow::{Error, Kind, Result};
use euphrates_store::striped::{StripedOptions, StripedReader, StripedWriter, verify_file};

/// Answers all.
const GOOD: u8 = 0;
/// Is lost before the next file is published.
const LOST_BEFORE: u8 = 1;
/// Is lost when the next file has been published, before it answers.
const LOST_AFTER: u8 = 2;
/// Answers nothing.
const LOST: u8 = 3;

/// The state of each folder that is served, by its path.
static STATES: std::sync::Mutex<Vec<(PathBuf, Arc<AtomicU8>)>> = std::sync::Mutex::new(vec![]);

fn state_of(folder: &Path) -> Arc<AtomicU8> {
    let mut states = STATES.lock().unwrap();
    if let Some((_, state)) = states.iter().find(|(known, _)| known == folder) {
        return state.clone();
    }
    states.push((folder.to_path_buf(), Arc::default()));
    states.last().unwrap().1.clone()
}

struct TestConnector;

impl Connector for TestConnector {
    fn folder(
        &self,
        at: &ServedFolderAddress,
        machine: &str,
        _: &WorkerAccess,
    ) -> Result<Arc<dyn DiskFolder>> {
        let path = Path::new(&at.folder);
        let (local, machine) = (LocalFolder::new(path), machine.to_string());
        Ok(Arc::new(RemoteFolder { local, machine, state: state_of(path) }))
    }
}

/// A local folder that behaves as one at a worker.
#[derive(Debug)]
struct RemoteFolder {
    local: LocalFolder,
    machine: String,
    state: Arc<AtomicU8>,
}

impl RemoteFolder {
    fn reach(&self) -> io::Result<&LocalFolder> {
        match self.state.load(SeqCst) {
            LOST => Err(io::Error::new(ErrorKind::HostUnreachable, "the worker is out of reach")),
            _ => Ok(&self.local),
        }
    }

    fn reach_typed(&self) -> Result<&LocalFolder> {
        self.reach().map_err(Error::resource)
    }
}

impl DiskFolder for RemoteFolder {
    fn place(&self) -> &Path {
        self.local.place()
    }

    fn local(&self) -> Option<&Path> {
        None
    }

    fn facts(&self) -> io::Result<FolderFacts> {
        let facts = self.reach()?.facts()?;
        Ok(FolderFacts { machine: self.machine.clone(), ..facts })
    }

    fn make(&self) -> io::Result<()> {
        self.reach()?.make()
    }

    fn open(&self, path: &Path) -> io::Result<DiskFile> {
        self.reach()?.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.reach()?.create(path)
    }
}

impl SmallFiles for RemoteFolder {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.reach()?.kind(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        self.reach()?.list(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.reach()?.read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
        self.reach()?.write(path, bytes, is_synced)
    }

    fn stage(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn StagedSmallFile>> {
        let staged = self.reach_typed()?.stage(path, bytes)?;
        Ok(Box::new(StagedThere { staged, state: self.state.clone() }))
    }

    fn clear_staged(&self, path: &Path) -> usize {
        self.reach().map_or(0, |local| local.clear_staged(path))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.reach()?.link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.reach()?.remove_file(path)
    }
}

impl FolderTree for RemoteFolder {
    fn hold(&self, parent: &Path, name: &str) -> Result<Box<dyn HeldFolder>> {
        self.reach_typed()?.hold(parent, name)
    }

    fn is_held(&self, parent: &Path, name: &str) -> bool {
        self.reach().map_or(true, |local| local.is_held(parent, name))
    }

    fn abandoned(&self, parent: &Path) -> Vec<Box<dyn AbandonedFolder>> {
        self.reach().map_or(vec![], |local| local.abandoned(parent))
    }

    fn move_folder(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.reach()?.move_folder(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.reach()?.sync_folder(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.reach()?.remove_folder(path)
    }

    fn remove_empty(&self, path: &Path) {
        let _ = self.reach().map(|local| local.remove_empty(path));
    }
}

struct StagedThere {
    staged: Box<dyn StagedSmallFile>,
    state: Arc<AtomicU8>,
}

impl StagedSmallFile for StagedThere {
    fn publish(self: Box<Self>) -> Result<Option<Durability>> {
        let state = self.state.load(SeqCst);
        if state == GOOD {
            return self.staged.publish();
        }
        self.state.store(LOST, SeqCst);
        if state == LOST_AFTER {
            self.staged.publish()?;
        }
        Err(Error::resource("the worker is out of reach"))
    }

    fn replace(self: Box<Self>) -> Result<Durability> {
        self.staged.replace()
    }
}

/// The folder of a client of disks and of a catalog below this folder.
fn client(top: &Path, name: &str) -> PathBuf {
    install(Box::new(TestConnector));
    let at = |worker: &str, folder: &str| ServedFolderAddress {
        worker: worker.to_string(),
        address: "127.0.0.1:1".into(),
        folder: top.join(folder).to_str().unwrap().to_string(),
    };
    let disks = ["d0", "d1", "d2"].map(|name| ServedDisk {
        name: name.to_string(),
        machine: format!("machine of {name}"),
        at: at(name, name),
    });
    let served = ServedHome {
        home: top.join("home"),
        client: name.to_string(),
        catalog: at("keeper", "catalog"),
        disks: disks.to_vec(),
        access: WorkerAccess {
            token_file: top.join("token"),
            is_encrypted: true,
            lost_after_ms: None,
        },
    };
    fs::create_dir_all(top.join("catalog")).unwrap();
    let home = top.join(name);
    served.save(&home).unwrap();
    home
}

fn write(home: &Path, content: &[u8]) -> Result<u64> {
    let options = StripedOptions {
        data: 2,
        parity: 1,
        block_bytes: 1000,
        overwrite: true,
        ..StripedOptions::default()
    };
    let mut writer = StripedWriter::create(home, "f", options)?;
    writer.write_at(0, content)?;
    writer.commit()
}

fn read(home: &Path) -> Vec<u8> {
    let reader = StripedReader::open(home, "f").unwrap();
    let mut bytes = vec![0; reader.bytes() as usize];
    reader.read_at(0, &mut bytes).unwrap();
    bytes
}

/// The folders of segments of the file on a disk.
fn attempts(top: &Path) -> usize {
    let all = fs::read_dir(top.join("d0/f")).unwrap().flatten();
    all.filter(|entry| entry.file_name().as_encoded_bytes()[0] == b'@').count()
}

#[test]
fn version_whose_publication_was_not_answered_is_whole_or_absent_when_the_catalog_is_back() {
    for (lost, expected) in [(LOST_BEFORE, [1; 9000]), (LOST_AFTER, [2; 9000])] {
        let top = tempfile::tempdir().unwrap();
        let (home, other) = (client(top.path(), "client"), client(top.path(), "other"));
        let catalog = state_of(&top.path().join("catalog"));
        write(&home, &[1; 9000]).unwrap();
        catalog.store(lost, SeqCst);
        let error = write(&home, &[2; 9000]).unwrap_err();
        assert_eq!(error.kind(), Kind::Resource);
        assert!(error.to_string().contains("may be visible, or not"), "{error}");
        assert_eq!(attempts(top.path()), 2, "both versions are kept");
        assert!(read(&other) == [1; 9000], "by the copies of the manifest");
        for home in [&home, &other] {
            assert!(write(home, &[3; 9000]).is_err(), "nobody knows the newest version");
        }
        assert_eq!(attempts(top.path()), 2);
        catalog.store(GOOD, SeqCst);
        assert!(read(&home) == expected && read(&other) == expected);
        assert!(write(&other, &[4; 9000]).is_ok());
        assert!(read(&home) == [4; 9000]);
        assert!(verify_file(&home, "f").unwrap().damages.is_empty());
        assert_eq!(attempts(top.path()), 1, "what is not needed is reclaimed");
        assert_eq!(fs::read_dir(top.path().join("d0/.staging")).unwrap().count(), 0);
    }
}
