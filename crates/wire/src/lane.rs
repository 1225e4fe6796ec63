//! A connection in use: an outbox, a reading thread, a writing thread, and heartbeats.
//!
//! A sending thread writes its frame to the socket itself if no other thread is writing and the
//! socket buffer has space: that saves a context switch, and the batch is still in the processor's
//! cache. Other frames are queued in the outbox for the writing thread, in order, many small ones
//! per system call.
//!
//! Both ends send heartbeats. A peer that sends nothing for the timeout is declared lost, and so is
//! one that reads nothing for as long, so that the socket buffer stays full. The failure detector
//! (`policy`) chooses the timeout by whether the peer is on the same machine, unless one is
//! configured, and raises it for a peer that advertises a longer one or has irregular heartbeats.
//! Lanes for batches have a longer timeout: on a congested link, heartbeats queue behind batches
//! and are lost with them.

mod liveness;
mod outbox;
mod reading;
mod shared;
mod slices;
mod writing;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::failure_detector;

use self::liveness::Liveness;
use self::outbox::FrameWriter;
use self::reading::set_timeout;
use self::shared::Shared;
use crate::connection::Connection;
use crate::frame::Header;
use crate::greeting::Greeting;
use crate::link::{Frame, Outgoing, lost};
use crate::shared_memory::{SlabReceiver, SlabSender};

/// A connection in use. Clones are the same lane; when the last is dropped, it is closed.
#[derive(Clone, Debug)]
pub struct Lane(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Lane {
    /// Starts a thread that writes the outbox and one that reads frames and calls `on_frame`, which
    /// must not block for long, since nothing is read meanwhile. The reading thread calls `on_end`
    /// once, with `Ok` after a Bye of the other end, or with the reason why the lane ended.
    /// `lost_after` is the heartbeat timeout of both ends, if not the default; this end advertises
    /// it to the other.
    pub fn start_within(
        lost_after: Option<Duration>,
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        let base = failure_detector::base_timeout(connection.is_within_machine(), lost_after);
        let advertised_min = lost_after.map_or(Duration::ZERO, |_| base);
        Lane::start_as((base, advertised_min), connection, name, on_frame, on_end)
    }

    /// Like `start_within`, with a heartbeat timeout of the other end, which is not advertised.
    pub fn start_patient(
        timeout: Duration,
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        Lane::start_as((timeout, Duration::ZERO), connection, name, on_frame, on_end)
    }

    fn start_as(
        (base, advertised_min): (Duration, Duration),
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        let (closer, shares_memory) = (connection.closer(), connection.shares_memory());
        let Connection { peer, mut sender, mut receiver, .. } = connection;
        let slabs_here = shares_memory.then(|| SlabSender::new(peer.caps));
        let slabs_there = shares_memory.then(|| SlabReceiver::new(peer.caps));
        let liveness = Liveness::new(base, Duration::from_millis(peer.silence_ms.into()));
        let timeout = liveness.timeout();
        set_timeout(&mut receiver, &peer.name, timeout).map_err(lost)?;
        sender.stream_mut().half.set_timeout(&peer.name, timeout).map_err(lost)?;
        let shared = Arc::new(Shared::new(
            peer,
            (base, advertised_min),
            closer,
            FrameWriter { sender, rest: None },
            slabs_here,
        ));
        let lane = Lane(Arc::new(Handle(shared.clone())));
        let writing = shared.clone();
        let write = move || {
            // Heartbeats must not wait until every computing thread has had its turn.
            slices::ask_short();
            writing.write();
        };
        let started = spawn(format!("{name} out"), write).and_then(|writer| {
            let read =
                move || shared.read((receiver, slabs_there, liveness), writer, on_frame, on_end);
            spawn(format!("{name} in"), read)
        });
        started.inspect_err(|_| lane.cut()).map(|_| lane)
    }

    /// Sends a frame without blocking: copies a large body to shared memory if both ends use it,
    /// writes what the socket takes now, and queues the rest. After the lane has ended, the frame
    /// is dropped silently.
    pub fn send(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>) {
        let frame = Outgoing::new(header, meta, body);
        let (offer, frame) = match &self.0.0.slabs {
            Some(slabs) => slabs.place(frame),
            None => (None, frame),
        };
        offer.into_iter().chain([frame]).for_each(|frame| self.0.0.send(frame));
    }

    /// Bytes in the outbox and in a write that has begun.
    pub fn waiting_bytes(&self) -> usize {
        self.0.0.waiting_bytes.load(Relaxed)
    }

    /// Bytes sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.0.0.sent_bytes.load(Relaxed)
    }

    /// Bytes of bodies that were sent in shared memory so far; they count as sent, too.
    pub fn placed_bytes(&self) -> u64 {
        self.0.0.slabs.as_ref().map_or(0, SlabSender::placed_bytes)
    }

    /// Bytes received so far, in whole frames.
    pub fn received_bytes(&self) -> u64 {
        self.0.0.received_bytes.load(Relaxed)
    }

    /// Limits the rate of sending; `None` removes the limit.
    pub fn limit_rate(&self, bytes_per_second: Option<u64>) {
        let mut outbox = self.0.0.outbox.lock();
        if outbox.hold.set(bytes_per_second) {
            self.0.0.wake(outbox);
        }
    }

    /// Sends Bye once the outbox is empty, and ends when the other end has read everything. Frames
    /// that the other end sends until then are still delivered.
    pub fn close(&self) {
        self.0.0.close();
    }

    /// Ends at once; unsent frames are lost.
    pub fn cut(&self) {
        let name = &self.peer().name;
        let cause = Error::resource(format!("the connection to `{name}` was cut at this end"));
        self.cut_for(cause);
    }

    /// As `cut`, for a cause that this end has found.
    pub fn cut_for(&self, cause: Error) {
        self.0.0.fail(cause);
    }

    /// The timeout of the other end while its heartbeats are regular.
    pub fn base_timeout(&self) -> Duration {
        self.0.0.base_timeout
    }

    /// The greeting of the other end.
    pub fn peer(&self) -> &Greeting {
        &self.0.0.peer
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = thread::Builder::new().name(name).spawn(run);
    spawned.map_err(|error| Error::resource(format!("no thread for a connection: {error}")))
}
