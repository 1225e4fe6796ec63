//! What has arrived at an endpoint and waits to be handled: the threads of lanes fill the queue,
//! and the thread that polls the endpoint empties it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::encoding::ActiveMeta;
use super::message::{PeerId, REQUESTS_MAX};
use crate::connection::Connection;
use crate::frame::FrameKind;
use crate::lane::Lane;
use crate::link::Frame;

/// Frames of one peer that wait, at most. A peer that keeps to its credits sends fewer: requests
/// and replies, and for each message of this end an acknowledgement or a return.
const FRAMES_MAX: u32 = 4 * REQUESTS_MAX;

/// What has arrived of a peer.
#[derive(Debug)]
pub(super) enum PeerEvent {
    /// It has connected.
    Connected(PeerLane),
    /// A frame with an active message, or about one.
    Frame(ActiveMeta, Frame),
    /// A frame that breaks the protocol; nothing after it is delivered.
    Breach(Error),
    /// Its connection has ended: with a Bye, or for this reason.
    Ended(Result<()>),
}

/// The lane of a peer, and how many of its frames wait.
#[derive(Debug)]
pub(super) struct PeerLane {
    pub(super) lane: Lane,
    pub(super) frames_waiting: Arc<AtomicU32>,
}

/// Events of all peers, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct ArrivalQueue {
    waiting: Mutex<WaitingEvents>,
    /// The length of the queue, for a look without the lock.
    length: AtomicUsize,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitingEvents {
    events: VecDeque<(PeerId, PeerEvent)>,
    next_peer: u32,
    /// Threads that sleep until something arrives. Waking none would cost a system call.
    sleeping: usize,
    /// Whether the endpoint is gone.
    is_closed: bool,
}

impl ArrivalQueue {
    /// Starts a lane whose frames are queued. The peer that dialled is announced by an event.
    pub fn start(
        self: &Arc<ArrivalQueue>,
        connection: Connection,
        lost_after: Option<Duration>,
        announce: bool,
    ) -> Result<(PeerId, Option<PeerLane>)> {
        // No frame is queued before its peer, since the lane's thread waits for the lock.
        let mut waiting = self.waiting.lock();
        let peer = PeerId::of_number(waiting.next_peer);
        waiting.next_peer += 1;
        let frames_waiting = Arc::new(AtomicU32::new(0));
        let (frames, ends, count) = (self.clone(), self.clone(), frames_waiting.clone());
        let mut is_broken = false;
        let on_frame = move |frame| {
            if !is_broken {
                let event = event_of(frame, &count);
                is_broken = matches!(event, PeerEvent::Breach(_));
                frames.push(peer, event);
            }
        };
        let on_end = move |end| ends.push(peer, PeerEvent::Ended(end));
        let name = format!("active {}", connection.peer.name);
        let lane = Lane::start_within(lost_after, connection, &name, on_frame, on_end)?;
        let lane = PeerLane { lane, frames_waiting };
        if !announce {
            return Ok((peer, Some(lane)));
        }
        self.add(waiting, peer, PeerEvent::Connected(lane));
        Ok((peer, None))
    }

    /// Whether this peer has connected at some time.
    pub fn has_started(&self, peer: PeerId) -> bool {
        peer.number() < self.waiting.lock().next_peer
    }

    fn push(&self, peer: PeerId, event: PeerEvent) {
        self.add(self.waiting.lock(), peer, event);
    }

    fn add(
        &self,
        mut waiting: parking_lot::MutexGuard<'_, WaitingEvents>,
        peer: PeerId,
        event: PeerEvent,
    ) {
        if waiting.is_closed {
            drop(waiting);
            // A lane in the event is closed.
            drop(event);
            return;
        }
        waiting.events.push_back((peer, event));
        self.length.store(waiting.events.len(), Release);
        let has_sleepers = waiting.sleeping > 0;
        drop(waiting);
        if has_sleepers {
            self.changed.notify_all();
        }
    }

    /// Takes all events, into a queue that is empty.
    pub fn take(&self, into: &mut VecDeque<(PeerId, PeerEvent)>) {
        if self.length.load(Acquire) == 0 {
            return;
        }
        debug_assert!(into.is_empty());
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.events, into);
        self.length.store(0, Release);
    }

    /// Waits until something has arrived; false at the deadline.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.sleeping += 1;
        let mut in_time = true;
        while waiting.events.is_empty() && !waiting.is_closed && in_time {
            match deadline {
                Some(at) => in_time = !self.changed.wait_until(&mut waiting, at).timed_out(),
                None => self.changed.wait(&mut waiting),
            }
        }
        waiting.sleeping -= 1;
        !waiting.events.is_empty()
    }

    /// Drops what has arrived, and whatever still arrives.
    pub fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        let events = std::mem::take(&mut waiting.events);
        self.length.store(0, Release);
        drop(waiting);
        drop(events);
        self.changed.notify_all();
    }
}

/// The event of a frame; a breach if it is none about active messages, or one too many.
fn event_of(frame: Frame, waiting: &AtomicU32) -> PeerEvent {
    if frame.header.kind != FrameKind::Active {
        let kind = frame.header.kind;
        return PeerEvent::Breach(Error::corrupt(format!("a frame of the kind {kind:?}")));
    }
    if waiting.fetch_add(1, Relaxed) >= FRAMES_MAX {
        return PeerEvent::Breach(Error::corrupt("more active messages than there are credits"));
    }
    match ActiveMeta::read(&frame.meta, frame.body.len() as u64) {
        Ok(meta) => PeerEvent::Frame(meta, frame),
        Err(error) => PeerEvent::Breach(error),
    }
}

/// Waits for what arrives at an endpoint, on a thread that does not hold it.
#[derive(Clone, Debug)]
pub struct Doorbell(pub(super) Arc<ArrivalQueue>);

impl Doorbell {
    /// Waits until something has arrived that `poll` will handle; false at the deadline.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.0.wait(deadline)
    }
}
