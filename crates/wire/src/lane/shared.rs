//! The state that the threads and handles of a lane share: sending, closing, failing.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use euphrates_flow::Error;
use euphrates_flow::sync::{Condvar, Mutex, MutexGuard};

use super::outbox::{FrameWriter, LaneOutbox, Phase};
use crate::connection::Closer;
use crate::greeting::Greeting;
use crate::link::Outgoing;
use crate::shared_memory::SlabSender;

/// The state that both threads and all handles of a lane share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) peer: Greeting,
    /// The timeout of the other end while its heartbeats are regular.
    pub(super) base_timeout: Duration,
    /// The timeout that this end advertises, at least.
    pub(super) advertised_min: Duration,
    pub(super) closer: Closer,
    pub(super) outbox: Mutex<LaneOutbox>,
    /// The shared memory that bodies are sent in, if both ends use it.
    pub(super) slabs: Option<SlabSender>,
    /// Wakes the writing thread, the only one that waits for the outbox.
    pub(super) changed: Condvar,
    pub(super) waiting_bytes: AtomicUsize,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        peer: Greeting,
        (base_timeout, advertised_min): (Duration, Duration),
        closer: Closer,
        out: FrameWriter,
        slabs: Option<SlabSender>,
    ) -> Shared {
        let outbox = LaneOutbox::new(out);
        Shared {
            peer,
            base_timeout,
            advertised_min,
            closer,
            outbox: Mutex::new(outbox),
            slabs,
            changed: Condvar::new(),
            waiting_bytes: 0.into(),
            sent_bytes: 0.into(),
            received_bytes: 0.into(),
        }
    }

    /// Wakes the writing thread if it sleeps.
    pub(super) fn wake(&self, outbox: MutexGuard<'_, LaneOutbox>) {
        let idle = outbox.idle;
        drop(outbox);
        if idle {
            self.changed.notify_one();
        }
    }

    pub(super) fn send(&self, frame: Outgoing) {
        let mut outbox = self.outbox.lock();
        if outbox.phase != Phase::Open {
            return;
        }
        self.waiting_bytes.fetch_add(frame.bytes(), Relaxed);
        let free = outbox.is_free();
        match outbox.out.take_if(|out| free && out.rest.is_none()) {
            Some(mut out) => {
                outbox.hold.go(frame.bytes());
                drop(outbox);
                out.sender.stream_mut().set_nonblocking(true);
                let done = self.write_frames(&mut out, vec![frame]);
                out.sender.stream_mut().set_nonblocking(false);
                self.put_back(out, done);
            }
            None => {
                outbox.frames.push_back(frame);
                self.wake(outbox);
            }
        }
    }

    /// Puts the socket back for other writers, and wakes the writing thread if frames are left.
    pub(super) fn put_back(&self, out: FrameWriter, done: io::Result<()>) {
        if let Err(error) = done {
            self.write_failed(error);
        }
        let mut outbox = self.outbox.lock();
        outbox.last = Instant::now();
        if outbox.phase == Phase::Ended {
            let lost = out.rest.map_or(0, |rest| rest.bytes());
            self.waiting_bytes.fetch_sub(lost, Relaxed);
            return;
        }
        let more = out.rest.is_some() || !outbox.frames.is_empty() || outbox.phase != Phase::Open;
        outbox.out = Some(out);
        if more {
            self.wake(outbox);
        }
    }

    pub(super) fn close(&self) {
        let mut outbox = self.outbox.lock();
        if outbox.phase == Phase::Open {
            outbox.phase = Phase::Closing;
            self.wake(outbox);
        }
    }

    /// Stops sending; waiting frames are lost. With `bye`, the other end is sent a Bye in answer to
    /// its own.
    pub(super) fn stop(&self, bye: bool) {
        let mut outbox = self.outbox.lock();
        outbox.phase = match outbox.phase {
            Phase::Open | Phase::Closing if bye => Phase::Closing,
            Phase::ByeSent if bye => Phase::ByeSent,
            _ => Phase::Ended,
        };
        let mut lost: usize = outbox.frames.drain(..).map(|frame| frame.bytes()).sum();
        let ended = outbox.phase == Phase::Ended;
        if let Some(out) = outbox.out.take_if(|_| ended) {
            lost += out.rest.map_or(0, |rest| rest.bytes());
        }
        self.waiting_bytes.fetch_sub(lost, Relaxed);
        self.wake(outbox);
    }

    /// Ends at once for a cause found at this end; the first cause is kept.
    pub(super) fn fail(&self, cause: Error) {
        self.outbox.lock().cause.get_or_insert(cause);
        self.stop(false);
        self.closer.close();
    }
}
