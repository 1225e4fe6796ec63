//! A file in lent memory, or on disk after it was moved there.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};
use euphrates_policy::io_path::IoPath;

use super::arena::{Arena, SLOT_BYTES};
use crate::buffer::pool;
use crate::disk::{Disk, DiskFile, ServedFile};

/// A file of a borrower.
pub(super) struct LentFile {
    /// Its place in the order of making.
    pub number: u64,
    /// Bytes that files may still take.
    free_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    content: Mutex<LentContent>,
    /// Held by a write, and by a move: what is moved does not change meanwhile.
    change: Mutex<()>,
}

#[derive(Clone)]
struct LentContent {
    bytes: u64,
    backing: LentBacking,
}

#[derive(Clone)]
enum LentBacking {
    Memory(Arc<Slots>),
    Disk(Arc<MovedFile>),
}

/// Slots of a file, which are free when no reader uses them any more.
struct Slots {
    arena: Arc<Arena>,
    taken: Mutex<Vec<u64>>,
}

/// A file of the lender's disk, removed when no reader uses it any more.
struct MovedFile {
    disk: Disk,
    file: Arc<DiskFile>,
}

impl LentFile {
    /// An empty file in memory.
    pub fn new(
        number: u64,
        arena: &Arc<Arena>,
        free_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    ) -> LentFile {
        let slots = Slots { arena: arena.clone(), taken: Mutex::default() };
        let content = LentContent { bytes: 0, backing: LentBacking::Memory(Arc::new(slots)) };
        let (content, change) = (Mutex::new(content), Mutex::default());
        LentFile { number, free_bytes, content, change }
    }

    /// Its bytes in memory, in whole slots.
    pub fn memory_bytes(&self) -> u64 {
        match &self.content.lock().backing {
            LentBacking::Memory(slots) => (slots.taken.lock().len() * SLOT_BYTES) as u64,
            LentBacking::Disk(_) => 0,
        }
    }

    /// Moves its content to a file of a folder. Readers go on meanwhile, writers wait.
    pub fn move_to(&self, folder: &Path) -> Result<()> {
        let _unchanged = self.change.lock();
        let LentContent { bytes, backing: LentBacking::Memory(slots) } = self.content() else {
            return Ok(());
        };
        let path = folder.join(format!("file-{}", self.number));
        let disk = Disk::of(&path)?;
        let moved = MovedFile { file: disk.create(&path)?, disk };
        for offset in (0..bytes).step_by(SLOT_BYTES) {
            let count = (bytes - offset).min(SLOT_BYTES as u64) as usize;
            let mut buffer = pool().take(count)?;
            let failed = |error: io::Error| Error::os("move lent memory to", &path, &error);
            slots.read(offset, &mut buffer).map_err(failed)?;
            let is_whole = count == SLOT_BYTES && moved.file.align_bytes().is_some();
            let way = if is_whole { IoPath::Direct } else { IoPath::Buffered };
            moved.file.write(way, offset, &buffer).map_err(failed)?;
        }
        self.content.lock().backing = LentBacking::Disk(Arc::new(moved));
        Ok(())
    }

    fn content(&self) -> LentContent {
        self.content.lock().clone()
    }
}

impl Slots {
    /// Takes slots until there are `count`; fails with `StorageFull` if none is free.
    fn grow(&self, count: usize, free_bytes: impl Fn() -> u64) -> io::Result<()> {
        let mut taken = self.taken.lock();
        while taken.len() < count {
            if free_bytes() < SLOT_BYTES as u64 {
                return Err(ErrorKind::StorageFull.into());
            }
            taken.push(self.arena.take().ok_or(ErrorKind::StorageFull)?);
        }
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.each(offset, buffer.len(), |slot, at, range| {
            self.arena.read(slot, at, &mut buffer[range])
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.each(offset, bytes.len(), |slot, at, range| self.arena.write(slot, at, &bytes[range]))
    }

    /// Calls `act` for the part of a range in each slot: the slot, the offset there, and the
    /// positions within the range.
    fn each(
        &self,
        offset: u64,
        count: usize,
        mut act: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < count {
            let position = offset + done as u64;
            let at = (position % SLOT_BYTES as u64) as usize;
            let part = (SLOT_BYTES - at).min(count - done);
            let slot = self.taken.lock().get((position / SLOT_BYTES as u64) as usize).copied();
            act(slot.ok_or(ErrorKind::UnexpectedEof)?, at, done..done + part)?;
            done += part;
        }
        Ok(())
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.arena.give_back(self.taken.get_mut().drain(..));
    }
}

impl Drop for MovedFile {
    fn drop(&mut self) {
        // What cannot be removed now is removed with the folder.
        let _ = self.disk.remove(self.file.path());
    }
}

/// A file that a borrower has open.
pub(super) struct OpenLentFile(pub Arc<LentFile>);

impl fmt::Debug for OpenLentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenLentFile").field(&self.0.number).finish()
    }
}

impl ServedFile for OpenLentFile {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let LentContent { bytes, backing } = self.0.content();
        let count = bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        match backing {
            LentBacking::Memory(slots) => slots.read(offset, &mut buffer[..count])?,
            LentBacking::Disk(moved) => {
                return moved.file.read(IoPath::Buffered, offset, &mut buffer[..count]);
            }
        }
        Ok(count)
    }

    fn write(&self, _: IoPath, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _alone = self.0.change.lock();
        let end = offset.checked_add(bytes.len() as u64).ok_or(ErrorKind::InvalidInput)?;
        match self.0.content().backing {
            LentBacking::Memory(slots) => {
                let count = usize::try_from(end.div_ceil(SLOT_BYTES as u64));
                slots.grow(count.map_err(io::Error::other)?, &self.0.free_bytes)?;
                slots.write(offset, bytes)?;
            }
            LentBacking::Disk(moved) => moved.file.write(IoPath::Buffered, offset, bytes)?,
        }
        let mut content = self.0.content.lock();
        content.bytes = content.bytes.max(end);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.content.lock().bytes)
    }

    fn publish(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
