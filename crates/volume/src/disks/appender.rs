//! A thread for each disk, which writes blocks in the order of the log and syncs them together.
//!
//! All syncs that wait when the thread comes to them are one call (group commit).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

use super::segments::{VolumeDisks, create};

/// The disk's end of the log.
#[derive(Debug)]
pub struct DiskAppender {
    jobs: Option<Sender<AppenderJob>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<AppenderState>,
}

#[derive(Debug, Default)]
struct AppenderState {
    /// Bytes that wait to be written.
    queued: AtomicU64,
    /// The error that has ended writing.
    failed: Mutex<Option<Error>>,
}

enum AppenderJob {
    /// `guard` drops when the block is written.
    Append {
        segment: u64,
        offset: u64,
        bytes: Vec<u8>,
        guard: Box<dyn Send>,
    },
    Sync(Sender<()>),
}

impl DiskAppender {
    pub fn start(disks: &VolumeDisks, disk: u32) -> Result<DiskAppender> {
        let (jobs, received) = channel();
        let state = Arc::new(AppenderState::default());
        let worker =
            AppenderThread { disks: disks.clone(), disk, file: None, state: state.clone() };
        let name = format!("volume-disk-{disk}");
        let thread = std::thread::Builder::new().name(name).spawn(move || worker.run(received));
        let thread = thread.map_err(|error| Error::failed(format!("cannot start: {error}")))?;
        Ok(DiskAppender { jobs: Some(jobs), thread: Some(thread), state })
    }

    /// Writes a block later.
    pub fn append(&self, segment: u64, offset: u64, bytes: Vec<u8>, guard: Box<dyn Send>) {
        self.state.queued.fetch_add(bytes.len() as u64, Relaxed);
        self.send(AppenderJob::Append { segment, offset, bytes, guard });
    }

    /// Syncs all that was appended before, and answers then.
    pub fn sync(&self, done: Sender<()>) {
        self.send(AppenderJob::Sync(done));
    }

    fn send(&self, job: AppenderJob) {
        let jobs = self.jobs.as_ref().expect("it runs until it is dropped");
        jobs.send(job).expect("the thread ends after its queue");
    }

    pub fn queued_bytes(&self) -> u64 {
        self.state.queued.load(Relaxed)
    }

    /// The error that has ended writing.
    pub fn failure(&self) -> Option<Error> {
        self.state.failed.lock().clone()
    }
}

impl Drop for DiskAppender {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct AppenderThread {
    disks: VolumeDisks,
    disk: u32,
    /// The segment's file that is being written, and whether it has unsynced bytes.
    file: Option<(u64, File, bool)>,
    state: Arc<AppenderState>,
}

impl AppenderThread {
    fn run(mut self, jobs: Receiver<AppenderJob>) {
        while let Ok(first) = jobs.recv() {
            let mut syncs = vec![];
            for job in std::iter::once(first).chain(jobs.try_iter()) {
                match job {
                    AppenderJob::Append { segment, offset, bytes, guard } => {
                        if self.state.failed.lock().is_none()
                            && let Err(error) = self.write(segment, offset, &bytes)
                        {
                            self.fail(segment, &error);
                        }
                        self.state.queued.fetch_sub(bytes.len() as u64, Relaxed);
                        drop(guard);
                    }
                    AppenderJob::Sync(done) => syncs.push(done),
                }
            }
            if !syncs.is_empty()
                && let Err((segment, error)) = self.sync()
            {
                self.fail(segment, &error);
            }
            for done in syncs {
                let _ = done.send(());
            }
        }
    }

    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        if self.file.as_ref().is_none_or(|(open, ..)| *open != segment) {
            self.sync().map_err(|(_, error)| error)?;
            let path = self.disks.path(self.disk, segment);
            let path = path.ok_or(std::io::Error::from(std::io::ErrorKind::NotFound))?;
            self.file = Some((segment, create(&path)?, false));
        }
        let (_, file, is_dirty) = self.file.as_mut().expect("it has just been opened");
        *is_dirty = true;
        file.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> Result<(), (u64, std::io::Error)> {
        match &mut self.file {
            Some((segment, file, is_dirty)) if *is_dirty => {
                file.sync_data().map_err(|error| (*segment, error))?;
                *is_dirty = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fail(&self, segment: u64, error: &std::io::Error) {
        let path = self.disks.path(self.disk, segment).unwrap_or_default();
        self.state.failed.lock().get_or_insert(Error::os("write", path, error));
    }
}
