//! Remote mirrors: writes copies of segments to disks of other processes (River 2.2.3).
//!
//! Several processes write a collection, each the segments whose first copy is on a disk of its
//! own. A mirror on a disk of another process is sent there block by block, as the blocks are
//! written (`sending.rs`); that process keeps the file (`receiving.rs`) and acknowledges the bytes
//! written, so that only a few blocks are in flight. A process moves the mirrors that it stores for
//! others to their final folders together with its own segments, once all other processes have
//! announced that they send nothing more.

mod link;
mod message;
mod receiving;
mod sending;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use arrow::buffer::Buffer;
use euphrates_device::disk::Owners;
use euphrates_flow::{Cancel, Exchange, Result};
use parking_lot::{Condvar, Mutex};

use self::link::{OwnerLink, malformed};
use self::message::MirrorMessage;
pub use self::receiving::Spot;
use self::receiving::StoredMirror;
use self::sending::MirrorSender;
pub use self::sending::{RemoteCopy, RemoteTarget};

/// The processes that write a collection, as one of them sees them. By default there is one.
///
/// ```
/// use euphrates_store::mirroring::Writers;
///
/// let alone = Writers::default();
/// assert!(alone.remote("d1", "0.arrow").is_none(), "this process uses every disk itself");
/// alone.finish()?;
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Default)]
pub struct Writers {
    sending: Arc<MirrorSender>,
    state: Mutex<MirroringState>,
    changed: Condvar,
}

#[derive(Default)]
struct MirroringState {
    /// The mirrors that this process stores for other processes, by process and its number.
    kept: HashMap<(usize, u32), StoredMirror>,
    /// The processes that have announced that they send nothing more.
    over: BTreeSet<usize>,
    is_closed: bool,
}

impl std::fmt::Debug for Writers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writers").field("owners", self.owners()).finish_non_exhaustive()
    }
}

impl Writers {
    /// The writers among the processes that run instances of a module; `workers` maps a disk's name
    /// to its worker.
    pub fn new(
        exchange: Arc<dyn Exchange>,
        workers: &BTreeMap<String, String>,
        cancel: Arc<Cancel>,
    ) -> Arc<Writers> {
        let owners = Owners::new(exchange, workers);
        let sending = MirrorSender::new(Arc::new(OwnerLink { owners, cancel }));
        Arc::new(Writers { sending, state: Mutex::default(), changed: Condvar::new() })
    }

    /// The ownership of the disks.
    pub fn owners(&self) -> &Owners {
        &self.sending.link.owners
    }

    /// The target of a mirror on a disk of another process; `None` for a disk that this process
    /// uses itself.
    pub fn remote(&self, disk: &str, file: &str) -> Option<RemoteTarget> {
        let process = self.owners().elsewhere(disk)?;
        let sending = self.sending.clone();
        Some(RemoteTarget { sending, process, disk: disk.into(), file: file.into() })
    }

    /// Handles a message of another process; `spot` maps the names of a disk and a file to the
    /// file's location. A malformed message is an error.
    pub fn on_message(
        &self,
        process: usize,
        bytes: &[u8],
        body: &Buffer,
        spot: &dyn Fn(&str, &str) -> Result<Spot>,
    ) -> Result<()> {
        let (number, message) = message::read(bytes).ok_or_else(malformed)?;
        match message {
            MirrorMessage::Make { disk, file } => {
                if !self.owners().owns(&disk) || Path::new(&file).components().count() != 1 {
                    return Err(malformed());
                }
                // The thread does not keep the exchange alive.
                let link = Arc::downgrade(&self.sending.link);
                let reply = move |message: &MirrorMessage| {
                    if let Some(link) = link.upgrade() {
                        link.send(process, number, message, vec![]);
                    }
                };
                let kept = StoredMirror::start(Box::new(reply), spot(&disk, &file))?;
                let mut state = self.state.lock();
                if !state.is_closed {
                    state.kept.insert((process, number), kept);
                }
            }
            MirrorMessage::Write { .. } | MirrorMessage::Finish { .. } | MirrorMessage::Discard => {
                // A mirror that failed has sent its error already.
                if let Some(kept) = self.state.lock().kept.get(&(process, number)) {
                    kept.post(message, body.clone());
                }
            }
            MirrorMessage::Over => {
                self.state.lock().over.insert(process);
                self.changed.notify_all();
            }
            MirrorMessage::Written { .. }
            | MirrorMessage::Kept { .. }
            | MirrorMessage::Failed { .. } => {
                self.sending.on_message(process, number, message)?;
            }
        }
        Ok(())
    }

    /// Announces that this process sends nothing more, and waits until all others have announced
    /// the same.
    pub fn finish(&self) -> Result<()> {
        let link = &self.sending.link;
        let others = link.owners.exchange().others();
        others.iter().for_each(|other| link.send(*other, 0, &MirrorMessage::Over, vec![]));
        let mut state = self.state.lock();
        while state.over.len() < others.len() {
            link.cancel.wait(&self.changed, &mut state)?;
        }
        Ok(())
    }

    /// Stops keeping mirrors for others, and removes the unfinished ones.
    pub fn close(&self) {
        let kept: Vec<StoredMirror> = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.kept.drain().map(|(_, kept)| kept).collect()
        };
        kept.into_iter().for_each(StoredMirror::end);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{OnceLock, Weak};

    use euphrates_device::disk::Disk;

    use euphrates_flow::{Batches, Kind};

    use super::*;

    /// Two processes and the network between them, which may flip a bit of every body of this
    /// length.
    #[derive(Debug)]
    struct Between {
        me: usize,
        other: OnceLock<Weak<Writers>>,
        folder: std::path::PathBuf,
        flipped_bytes: usize,
    }

    impl Exchange for Between {
        fn others(&self) -> Vec<usize> {
            vec![1 - self.me]
        }

        fn me(&self) -> usize {
            self.me
        }

        fn name(&self, process: usize) -> &str {
            ["w0", "w1"][process]
        }

        fn send(&self, _: usize, bytes: &[u8], body: Vec<Buffer>) {
            let Some(other) = self.other.get().and_then(Weak::upgrade) else { return };
            let mut body: Vec<u8> = body.iter().flat_map(|part| part.to_vec()).collect();
            if body.len() == self.flipped_bytes {
                body[self.flipped_bytes / 2] ^= 4;
            }
            let spot = |disk: &str, file: &str| {
                let disk = Disk::new(disk, &self.folder, Default::default())?;
                Ok(Spot { disk, path: self.folder.join(file), final_path: file.into() })
            };
            other.on_message(self.me, bytes, &Buffer::from(body), &spot).unwrap();
        }

        fn fetch(&self, _: u64) -> Result<Vec<Batches>> {
            unreachable!("nothing is fetched")
        }

        fn may_take(&self, _: bool) -> Result<bool> {
            unreachable!("nothing is served")
        }
    }

    /// Writes a mirror of two blocks and a table of contents to the other process's disk.
    fn mirror(folder: &Path, flipped_bytes: usize) -> Result<()> {
        let folder = folder.to_path_buf();
        let between = [0, 1].map(|me| {
            let (other, folder) = (OnceLock::new(), folder.clone());
            Arc::new(Between { me, other, folder, flipped_bytes })
        });
        let workers = [("d".to_string(), "w1".to_string())].into();
        let writers = [0, 1]
            .map(|me| Writers::new(between[me].clone(), &workers, Arc::new(Cancel::default())));
        for me in 0..2 {
            between[me].other.set(Arc::downgrade(&writers[1 - me])).unwrap();
        }
        let mirror = writers[0].remote("d", "mirror").unwrap().create(None);
        let (one, two) = (Buffer::from(vec![1_u8; 10]), Buffer::from(vec![2_u8; 20]));
        let written = mirror
            .write(0, &[one.clone(), two.clone()])
            .and_then(|()| mirror.write(30, &[two]))
            .and_then(|()| mirror.finish(50, &[3; 7]));
        drop(mirror);
        writers[1].close();
        written
    }

    #[test]
    fn block_corrupted_in_flight_is_not_mirrored() {
        let folder = tempfile::tempdir().unwrap();
        for flipped_bytes in [30, 20, 7] {
            let error = mirror(folder.path(), flipped_bytes).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(error.to_string().contains(&format!("{flipped_bytes} bytes")), "{error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of it");
        }
        mirror(folder.path(), usize::MAX).unwrap();
        let expected = [vec![1; 10], vec![2; 20], vec![2; 20]].concat();
        assert_eq!(fs::read(folder.path().join("mirror")).unwrap(), expected);
    }
}
