//! A connection in use: an outbox, a thread that reads, and one that writes what had to wait.
//!
//! Whoever sends a frame hands it to the socket on the spot, if nobody else is about to and there
//! is room: that spares a change of threads, and a batch is still in the processor's cache. What
//! does not go at once waits in the outbox for the writing thread, in order, many small frames at a
//! time.
//!
//! Both ends give signs of life. An end that says nothing for a lane's patience is lost, and so is
//! one that takes nothing for so long: its socket is full. How long that is, policy says by the
//! distance, unless somebody has asked for another time. It is longer for an end that says that it
//! needs it, or has been irregular, and on lanes for batches: on a slow link that many fill, signs
//! of life wait, and are lost, with others.

mod outbox;
mod reading;
mod signs;
mod slices;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_policy::suspicion;

use self::reading::suspect;
use self::signs::Signs;
use crate::connection::{Closer, Connection};
use crate::frame::{Caps, HEADER_BYTES, Header, Kind};
use crate::greeting::Greeting;
use crate::link::{Frame, Outgoing, Sender, Sending, lost};
use crate::silence;
use crate::stream::WriteHalf;

/// An end that has said nothing for so long says that it lives.
pub const BEAT: Duration = Duration::from_millis(250);
/// An end on the same machine that says or takes nothing for so long is lost.
pub const SUSPICION: Duration = suspicion::WITHIN_MACHINE;
/// The same, where others watch whether it lives: TCP, when a crowded link has lost the same packet
/// seven times, sends it again after 25 seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What goes out at once: enough to fill a socket, little enough to be counted as it goes.
const AT_ONCE_BYTES: usize = 1 << 20;

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
    /// Starts the threads: one writes what is in the outbox, one reads and calls `on_frame`, which
    /// must not wait for long, since nothing is read meanwhile. `on_end` is called once, from the
    /// reading thread, with `Ok` if the other end said Bye, or why it ended.
    pub fn start(
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        Lane::start_within(None, connection, name, on_frame, on_end)
    }

    /// Like `start`, with a limit on silence for both ends. This end announces the limit to the
    /// other.
    pub fn start_within(
        lost_after: Option<Duration>,
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        let borne = suspicion::borne(connection.is_within_machine(), lost_after);
        let claimed = lost_after.map_or(Duration::ZERO, |_| borne);
        Lane::start_as((borne, claimed), connection, name, on_frame, on_end)
    }

    /// The same, for an end that may be silent for so long.
    pub fn start_patient(
        patience: Duration,
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        Lane::start_as((patience, Duration::ZERO), connection, name, on_frame, on_end)
    }

    fn start_as(
        (borne, claimed): (Duration, Duration),
        connection: Connection,
        name: &str,
        on_frame: impl FnMut(Frame) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<Lane> {
        let closer = connection.closer();
        let Connection { peer, mut sender, mut receiver, .. } = connection;
        let signs = Signs::new(borne, Duration::from_millis(peer.silence_ms.into()));
        let patience = signs.patience();
        suspect(&mut receiver, &peer.name, patience).map_err(lost)?;
        sender.stream_mut().suspect(&peer.name, patience).map_err(lost)?;
        let shared =
            Arc::new(Shared::new(peer, (borne, claimed), closer, Out { sender, rest: None }));
        let lane = Lane(Arc::new(Handle(shared.clone())));
        let writing = shared.clone();
        let write = move || {
            // Signs of life must not wait until all who compute have had their turn.
            slices::ask_short();
            writing.write();
        };
        let started = spawn(format!("{name} out"), write).and_then(|writer| {
            let read = move || shared.read((receiver, signs), writer, on_frame, on_end);
            spawn(format!("{name} in"), read)
        });
        started.inspect_err(|_| lane.cut()).map(|_| lane)
    }

    /// Sends a frame, as far as it goes now; the rest follows. Never waits; after the end, it is
    /// dropped without a word.
    pub fn send(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>) {
        self.0.0.send(Outgoing { header, meta, body });
    }

    /// Bytes in the outbox, and on their way into the socket.
    pub fn waiting_bytes(&self) -> usize {
        self.0.0.waiting_bytes.load(Relaxed)
    }

    /// Bytes sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.0.0.sent_bytes.load(Relaxed)
    }

    /// Bytes received so far, in whole frames.
    pub fn received_bytes(&self) -> u64 {
        self.0.0.received_bytes.load(Relaxed)
    }

    /// From now on it sends at most so many bytes a second, or as many as it can.
    pub fn hold(&self, bytes_per_second: Option<u64>) {
        let mut outbox = self.0.0.lock();
        if outbox.hold.set(bytes_per_second) {
            self.0.0.wake(outbox);
        }
    }

    /// Says Bye when the outbox is empty, and ends when the other end has read all of it. What the
    /// other end says until then still comes.
    pub fn close(&self) {
        self.0.0.close();
    }

    /// Ends at once; what was not sent yet is lost.
    pub fn cut(&self) {
        let name = &self.peer().name;
        let cause = Error::resource(format!("the connection to `{name}` was cut at this end"));
        self.0.0.fail(cause);
    }

    /// The limit on silence of the other end while its signs of life are regular.
    pub fn borne(&self) -> Duration {
        self.0.0.borne
    }

    /// The other end.
    pub fn peer(&self) -> &Greeting {
        &self.0.0.peer
    }
}

/// What both threads and all handles know.
#[derive(Debug)]
struct Shared {
    peer: Greeting,
    /// The limit on silence of the other end.
    borne: Duration,
    /// The silence that this end announces, at least.
    claimed: Duration,
    closer: Closer,
    outbox: Mutex<Outbox>,
    /// Somebody waits for the outbox: the writing thread.
    changed: Condvar,
    waiting_bytes: AtomicUsize,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

#[derive(Debug)]
struct Outbox {
    frames: VecDeque<Outgoing>,
    hold: outbox::Hold,
    /// Whoever has taken it writes.
    out: Option<Out>,
    /// When something was sent last.
    last: Instant,
    /// The writing thread sleeps. Waking one that does not would cost a system call.
    idle: bool,
    phase: Phase,
    /// Nothing is read any more.
    heard: bool,
    /// Why it ended, if that was noticed at this end.
    cause: Option<Error>,
    /// How long the other end may take nothing from now on, if that has changed.
    patience: Option<Duration>,
}

/// What frames go out by, and those of which a part has gone.
#[derive(Debug)]
struct Out {
    sender: Sender<WriteHalf>,
    rest: Option<Sending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No more frames are taken; Bye is said behind those that wait.
    Closing,
    /// Bye has been said.
    Said,
    /// Nothing is sent any more.
    Ended,
}

/// What the writing thread does next.
enum Next {
    Frames(Vec<Outgoing>),
    Rest,
    Beat,
    Bye,
}

impl Shared {
    fn new(
        peer: Greeting,
        (borne, claimed): (Duration, Duration),
        closer: Closer,
        out: Out,
    ) -> Shared {
        let outbox = Outbox {
            frames: VecDeque::new(),
            hold: outbox::Hold::default(),
            out: Some(out),
            last: Instant::now(),
            idle: false,
            phase: Phase::Open,
            heard: false,
            cause: None,
            patience: None,
        };
        Shared {
            peer,
            borne,
            claimed,
            closer,
            outbox: Mutex::new(outbox),
            changed: Condvar::new(),
            waiting_bytes: 0.into(),
            sent_bytes: 0.into(),
            received_bytes: 0.into(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes the writing thread, and nobody else: no one else waits.
    fn wake(&self, outbox: MutexGuard<'_, Outbox>) {
        let idle = outbox.idle;
        drop(outbox);
        if idle {
            self.changed.notify_one();
        }
    }

    fn send(&self, frame: Outgoing) {
        let mut outbox = self.lock();
        if outbox.phase != Phase::Open {
            return;
        }
        self.waiting_bytes.fetch_add(frame.bytes(), Relaxed);
        let free = outbox.is_free();
        match outbox.out.take_if(|out| free && out.rest.is_none()) {
            Some(mut out) => {
                outbox.hold.go(frame.bytes());
                drop(outbox);
                out.sender.stream_mut().hurry(true);
                let done = self.write_frames(&mut out, vec![frame]);
                out.sender.stream_mut().hurry(false);
                self.put_back(out, done);
            }
            None => {
                outbox.frames.push_back(frame);
                self.wake(outbox);
            }
        }
    }

    /// Lets others write; the writing thread, if there is something left.
    fn put_back(&self, out: Out, done: io::Result<()>) {
        if let Err(error) = done {
            self.write_failed(error);
        }
        let mut outbox = self.lock();
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

    fn close(&self) {
        let mut outbox = self.lock();
        if outbox.phase == Phase::Open {
            outbox.phase = Phase::Closing;
            self.wake(outbox);
        }
    }

    /// Nothing is sent any more; if the other end has said Bye, it hears one. What waited is lost.
    fn stop(&self, bye: bool) {
        let mut outbox = self.lock();
        outbox.phase = match outbox.phase {
            Phase::Open | Phase::Closing if bye => Phase::Closing,
            Phase::Said if bye => Phase::Said,
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

    /// Ends at once, for a reason found at this end; the first is the one that counts.
    fn fail(&self, cause: Error) {
        self.lock().cause.get_or_insert(cause);
        self.stop(false);
        self.closer.close();
    }

    // --- the writing thread --------------------------------------------------------------------

    fn write(&self) {
        while let Some((mut out, next)) = self.next() {
            let done = match next {
                Next::Frames(frames) => self.write_frames(&mut out, frames),
                Next::Rest => self.write_rest(&mut out),
                Next::Beat => write_beat(&mut out.sender, self.claimed),
                Next::Bye => return self.write_bye(&mut out.sender),
            };
            self.put_back(out, done);
        }
    }

    /// What is to be done, once nobody else writes; `None` at the end.
    fn next(&self) -> Option<(Out, Next)> {
        let mut outbox = self.lock();
        loop {
            if matches!(outbox.phase, Phase::Said | Phase::Ended) {
                return None;
            }
            let left = BEAT.saturating_sub(outbox.last.elapsed());
            if let Some(mut out) = outbox.out.take() {
                if let Some(patience) = outbox.patience.take() {
                    // A socket that is gone says so when it is written to.
                    let _ = out.sender.stream_mut().suspect(&self.peer.name, patience);
                }
                match outbox.next(&out, left.is_zero()) {
                    Some(next) => return Some((out, next)),
                    None => outbox.out = Some(out),
                }
            }
            outbox.idle = true;
            // Whoever writes meanwhile gives a sign of life, too.
            let wait = if left.is_zero() { BEAT } else { left };
            let held = outbox.held();
            let wait = if held.is_zero() { wait } else { wait.min(held) };
            let waited = self.changed.wait_timeout(outbox, wait);
            outbox = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            outbox.idle = false;
        }
    }

    fn write_frames(&self, out: &mut Out, frames: Vec<Outgoing>) -> io::Result<()> {
        let bytes: usize = frames.iter().map(Outgoing::bytes).sum();
        let allowed = frames.iter().try_for_each(|frame| self.allow(frame));
        match allowed.and_then(|()| out.sender.begin(frames)) {
            Ok(sending) => {
                out.rest = Some(sending);
                self.write_rest(out)
            }
            Err(error) => {
                self.waiting_bytes.fetch_sub(bytes, Relaxed);
                Err(error)
            }
        }
    }

    /// Goes on with what has begun to go, as far as it goes now.
    fn write_rest(&self, out: &mut Out) -> io::Result<()> {
        let Some(mut rest) = out.rest.take() else { return Ok(()) };
        let done = out.sender.go_on(&mut rest);
        let bytes = rest.bytes();
        match done {
            Ok(false) => out.rest = Some(rest),
            Ok(true) => {
                self.waiting_bytes.fetch_sub(bytes, Relaxed);
                self.sent_bytes.fetch_add(bytes as u64, Relaxed);
            }
            Err(_) => {
                self.waiting_bytes.fetch_sub(bytes, Relaxed);
            }
        }
        done.map(drop)
    }

    /// The other end would refuse it, and could not say which.
    fn allow(&self, frame: &Outgoing) -> io::Result<()> {
        let Caps { meta_bytes_max, body_bytes_max } = self.peer.caps;
        let meta = (frame.meta.len() as u64, u64::from(meta_bytes_max));
        let body = ((frame.bytes() - HEADER_BYTES - frame.meta.len()) as u64, body_bytes_max);
        let Some((bytes, bytes_max)) = [meta, body].into_iter().find(|(bytes, max)| bytes > max)
        else {
            return Ok(());
        };
        let message = format!("a frame of {bytes} bytes, where {bytes_max} were agreed on");
        Err(io::Error::other(Error::failed(message).remedy("make batches smaller")))
    }

    /// If it does not arrive, the reading thread notices.
    fn write_bye(&self, sender: &mut Sender<WriteHalf>) {
        let said = sender.send(Header::of(Kind::Bye), &[], &[]);
        let mut outbox = self.lock();
        if outbox.phase == Phase::Closing {
            outbox.phase = Phase::Said;
        }
        if outbox.heard || said.is_err() {
            self.closer.close();
        }
    }

    /// If the other end has hung up, the reading thread still reads why.
    fn write_failed(&self, error: io::Error) {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => self.stop(false),
            _ => self.fail(lost(error)),
        }
    }
}

/// Says that this end lives, and how long it may be silent.
fn write_beat(sender: &mut Sender<WriteHalf>, claimed: Duration) -> io::Result<()> {
    let silence = silence::of_this_end().max(claimed);
    sender.send(Header::of(Kind::Beat), &silence::encode(silence), &[])
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = thread::Builder::new().name(name).spawn(run);
    spawned.map_err(|error| Error::resource(format!("no thread for a connection: {error}")))
}
