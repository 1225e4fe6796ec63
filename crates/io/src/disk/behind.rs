//! Writing past the page cache, behind the writer's back: a few requests at a time, told of when
//! the next one is written or at the end.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::device::Way;

use super::queue::{Completion, Op, Request, THREADS_MAX};
use super::{Disk, DiskFile, gather, write_error};

/// The writes of one file that are under way.
#[derive(Debug)]
pub struct WriteBehind {
    disk: Disk,
    file: Arc<DiskFile>,
    done: Sender<Completion>,
    way: Mutex<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    completions: Receiver<Completion>,
    requests: usize,
    failed: bool,
}

impl WriteBehind {
    /// Nothing is under way yet.
    pub fn new(disk: &Disk, file: &Arc<DiskFile>) -> WriteBehind {
        let (done, completions) = channel();
        let way = Mutex::new(UnderWay { completions, requests: 0, failed: false });
        WriteBehind { disk: disk.clone(), file: file.clone(), done, way }
    }

    /// Begins to write all parts, one behind the other, from `offset` on; offset and length must
    /// be multiples of the file's alignment. Waits while there are enough requests under way, and
    /// fails if one of them did.
    pub fn write(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        let buffer = gather(parts)?;
        let mut way = self.lock();
        while way.requests >= THREADS_MAX {
            self.take(&mut way)?;
        }
        way.requests += 1;
        drop(way);
        let (op, file, way) = (Op::Write, self.file.clone(), Way::Direct);
        self.disk.submit(Request { op, file, offset, buffer, way, tag: offset }, &self.done);
        Ok(())
    }

    /// Waits until nothing is under way; fails if any write ever did.
    pub fn wait(&self) -> Result<()> {
        let mut way = self.lock();
        while way.requests > 0 {
            self.take(&mut way)?;
        }
        match way.failed {
            true => Err(Error::resource("an earlier write failed").at(self.file.path().display())),
            false => Ok(()),
        }
    }

    fn take(&self, way: &mut UnderWay) -> Result<()> {
        // A sender is kept here, so the channel cannot end.
        let completion = way.completions.recv().map_err(|_| Error::failed("the queue ended"))?;
        way.requests -= 1;
        let Err(error) = completion.done else { return Ok(()) };
        way.failed = true;
        Err(write_error(&self.file, completion.tag, completion.buffer.len(), &error))
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.way.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
