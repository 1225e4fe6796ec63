//! Checkpoints, and the threads that make them, renew the lease and clean segments.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use euphrates_policy::log_cleaning::is_checkpoint_due;
use parking_lot::{Condvar, Mutex};

use super::checkpoint_codec::encode;
use super::core::{CHUNK_BYTES, Core, VolumeState, now};
use crate::disks::{VolumeLease, VolumeRoot};
use crate::tree::Errno;

/// Between two looks of the maintenance: so long a written byte stays in memory, at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// The threads of a volume that is written.
pub struct Threads {
    ends: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub fn start(core: &Arc<Core>) -> Result<Threads> {
        let mut threads =
            Threads { ends: Arc::new((Mutex::new(false), Condvar::new())), threads: vec![] };
        threads.spawn(core, "volume-lease", VolumeLease::INTERVAL, renew_lease)?;
        threads.spawn(core, "volume-checkpoints", INTERVAL, maintain)?;
        Ok(threads)
    }

    fn spawn(
        &mut self,
        core: &Arc<Core>,
        name: &str,
        interval: Duration,
        act: impl Fn(&Core) + Send + 'static,
    ) -> Result<()> {
        let (core, ends) = (core.clone(), self.ends.clone());
        let run = move || {
            let (has_ended, changed) = &*ends;
            let mut has_ended = has_ended.lock();
            while !*has_ended {
                changed.wait_for(&mut has_ended, interval);
                if !*has_ended {
                    parking_lot::MutexGuard::unlocked(&mut has_ended, || act(&core));
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run);
        let thread = thread.map_err(|error| Error::failed(format!("cannot start: {error}")))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        *self.ends.0.lock() = true;
        self.ends.1.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub fn renew_lease(core: &Core) {
    if let Some(end) = &core.writer
        && let Err(error) = end.lease.renew()
    {
        (core.say)(&format!("volume {}: the lease is not renewed: {error}", core.roots.name));
    }
}

fn maintain(core: &Core) {
    let Some(end) = core.writer.as_ref().filter(|end| !end.has_ended.load(Relaxed)) else { return };
    core.measure_space();
    let (log_bytes, since, took) = {
        let mut state = core.state();
        // Its errors are those of the next operation.
        let _ = core.seal(&mut state);
        (state.log_bytes, state.checkpointed.elapsed(), state.checkpoint_took)
    };
    if is_checkpoint_due(log_bytes, since.as_nanos() as u64, took.as_nanos() as u64) {
        let done = core.checkpoint(true).and_then(|()| core.clean());
        if let Err(error) = done {
            core.fail(end, &error);
        }
    }
}

impl Core {
    /// Stores the tree, and publishes it as the state from which a replay begins.
    pub fn checkpoint(&self, is_writing: bool) -> Result<()> {
        let Some(end) = &self.writer else { return Ok(()) };
        let (mut root, began) = (self.root.lock(), Instant::now());
        let (bytes, live, next, log_segment) = {
            let mut state = self.state();
            let sealed = self.seal(&mut state);
            sealed.map_err(|_: Errno| Error::resource("the log cannot be written"))?;
            let log_segment = end.log.roll();
            let VolumeState { tree, places, segments, .. } = &mut *state;
            places.retain(|chunk, _| tree.live().contains_key(chunk));
            let live: BTreeSet<u64> = places.values().map(|place| place.segment).collect();
            segments.retain(|segment, _| live.contains(segment));
            let bytes = encode(&state.tree, &state, &live);
            state.log_bytes = 0;
            (bytes, live, state.chunk, log_segment)
        };
        end.log.sync(next)?;
        let checkpoint = end.log.write_apart(&self.disks, &bytes, CHUNK_BYTES)?;
        let published = VolumeRoot {
            version: root.version + 1,
            checkpoint: Some(checkpoint),
            next_chunk: next,
            log_segment,
            written: (now() / 1_000_000_000) as u64,
            writer: root.writer.clone().filter(|_| is_writing),
            ..root.clone()
        };
        if !end.lease.is_valid() {
            return Err(Error::resource("the lease has expired"));
        }
        self.roots.publish(&published)?;
        *root = published;
        {
            let mut state = self.state();
            (state.checkpointed, state.checkpoint_took) = (Instant::now(), began.elapsed());
        }
        let is_needed =
            |one: u64| one >= log_segment || one == checkpoint.segment || live.contains(&one);
        for removed in self.disks.remove_except(is_needed) {
            self.reader.forget(removed);
        }
        Ok(())
    }
}
