//! The master's side of a launch: starts programs on several workers, exchanges their standard
//! streams, and stops them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_launch::{LaunchRequest, Notice, ORDER_BYTES_MAX};
use parking_lot::{Condvar, Mutex};

use super::control_connection::{WorkerEvent, WorkerHandle};
use super::identity::check_path;
use super::{Cluster, control};
use crate::run::placement::{self, WorkerProperties};

pub use euphrates_launch::{
    CHUNK_BYTES_MAX, Id, LaunchOrder, Origin, OutputStream, PROGRAMS_MAX, ProgramEnd, ProgramEntry,
    ProgramState, WINDOW_BYTES_MAX,
};

/// How long workers may take to start their programs.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// The window is extended once at least this many bytes were returned.
const ALLOW_BYTES: usize = CHUNK_BYTES_MAX;

/// The slot of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSlot {
    /// The name of its worker.
    pub worker: String,
    /// The worker's name, or `w1.2` where a worker has several programs.
    pub name: String,
}

/// The next event of a launch.
#[derive(Debug)]
pub enum LaunchEvent {
    /// A program has written to a stream.
    Wrote {
        /// The program's number in the launch.
        rank: usize,
        /// The stream it has written to.
        stream: OutputStream,
        /// The bytes; lines may be split anywhere.
        bytes: Buffer,
    },
    /// A program has ended.
    Ended {
        /// The program's number in the launch.
        rank: usize,
        /// Its exit status, or its loss.
        end: ProgramEnd,
    },
    /// The time limit has passed without an event.
    Quiet,
    /// All programs have ended, and all events were returned.
    Over,
}

/// Started programs. Dropping it or closing the cluster ends them, unless they are detached.
pub struct Launch {
    number: u64,
    slots: Vec<ProgramSlot>,
    /// By program: its worker.
    handles: Vec<Arc<WorkerHandle>>,
    is_detached: bool,
    reading: Mutex<EventReader>,
    feeding: Arc<Feeding>,
}

/// An event, with the number of its worker in the launch.
type FromWorker = (usize, WorkerEvent<Notice>);

/// Events received and not returned.
struct EventReader {
    received: Receiver<FromWorker>,
    /// By worker: the numbers of its programs.
    ranks: Vec<Vec<usize>>,
    steps: VecDeque<LaunchEvent>,
    has_ended: Vec<bool>,
    /// By program: bytes returned for which the window was not extended yet.
    taken_bytes: Vec<usize>,
}

/// Bytes sent to each program that it has not read; none for programs that have ended.
struct Feeding {
    unread_bytes: Mutex<Vec<Option<usize>>>,
    changed: Condvar,
}

/// Starts programs on the workers with one of these names or labels; on all, if none is given.
/// Returns when all run; if one cannot start, none does.
pub fn launch(
    cluster: &Cluster,
    order: &LaunchOrder,
    on: &[String],
    per_worker: usize,
) -> Result<Launch> {
    if !(1..=PROGRAMS_MAX).contains(&per_worker) {
        let message = format!("{per_worker} programs on each worker");
        return Err(Error::usage(message).remedy(format!("give 1 to {PROGRAMS_MAX}")));
    }
    order.cwd.as_deref().map_or(Ok(()), check_path)?;
    let bytes = control::write(order).len();
    if bytes > ORDER_BYTES_MAX {
        let message = format!("the program, its arguments and variables take {bytes} bytes");
        return Err(Error::usage(message)
            .remedy("write what it needs to its standard input, or into a file it reads"));
    }
    let workers = selected_workers(cluster, on)?;
    let (number, programs) = (cluster.next_flow(), workers.len() * per_worker);
    let feeding = Arc::new(Feeding {
        unread_bytes: Mutex::new(vec![Some(0); programs]),
        changed: Condvar::new(),
    });
    let (sender, received) = channel();
    let ranks = (0..workers.len()).map(|at| (at * per_worker..(at + 1) * per_worker).collect());
    let reading = EventReader {
        received,
        ranks: ranks.collect(),
        steps: VecDeque::new(),
        has_ended: vec![false; programs],
        taken_bytes: vec![0; programs],
    };
    let slots = workers.iter().flat_map(|handle| slots(&handle.member().name, per_worker));
    let launch = Launch {
        number,
        slots: slots.collect(),
        handles: workers.iter().flat_map(|handle| vec![handle.clone(); per_worker]).collect(),
        is_detached: order.is_detached,
        reading: Mutex::new(reading),
        feeding,
    };
    // Programs that have started are stopped, detached ones too, since nothing refers to them. A
    // worker that has not answered handles this after the request to start.
    launch.begin(&workers, order, &sender).inspect_err(|_| launch.stop(true))?;
    Ok(launch)
}

fn slots(worker: &str, per_worker: usize) -> impl Iterator<Item = ProgramSlot> + '_ {
    (0..per_worker).map(move |number| ProgramSlot {
        worker: worker.to_string(),
        name: if per_worker == 1 { worker.to_string() } else { format!("{worker}.{number}") },
    })
}

/// The workers with one of these names or labels, in the cluster's order.
fn selected_workers(cluster: &Cluster, on: &[String]) -> Result<Vec<Arc<WorkerHandle>>> {
    let all = cluster.roster.available();
    if all.is_empty() {
        return Err(cluster.roster.none_available());
    }
    let members: Vec<&WorkerProperties> = all.iter().map(|handle| handle.member()).collect();
    Ok(placement::select_workers(on, &members)?.into_iter().map(|at| all[at].clone()).collect())
}

impl Launch {
    /// Tells all workers to start their programs, and waits until they have.
    fn begin(
        &self,
        workers: &[Arc<WorkerHandle>],
        order: &LaunchOrder,
        sender: &Sender<FromWorker>,
    ) -> Result<()> {
        let mut reading = self.reading.lock();
        for (at, handle) in workers.iter().enumerate() {
            let (sender, feeding) = (sender.clone(), self.feeding.clone());
            let ranks = reading.ranks[at].clone();
            handle.listen_to_launch(self.number, move |event| {
                feeding.note(&ranks, &event);
                // The receiver may be gone.
                let _ = sender.send((at, event));
            });
        }
        for (at, handle) in workers.iter().enumerate() {
            let request = LaunchRequest::Launch {
                order: order.clone(),
                worker: handle.member().name.clone(),
                ranks: reading.ranks[at].clone(),
                size: (self.slots.len(), workers.len()),
            };
            handle.launch(self.number, &request, vec![]);
        }
        let deadline = Instant::now() + ANSWER_WAIT;
        let mut waiting = workers.len();
        while waiting > 0 {
            let (at, event) = reading.next(deadline)?;
            let place = |error: Error| error.at(format!("worker {}", workers[at].member().name));
            match event {
                WorkerEvent::Message(Notice::Started, _) => waiting -= 1,
                WorkerEvent::Message(Notice::Refused { error }, _) | WorkerEvent::Lost(error) => {
                    return Err(place(error));
                }
                event => reading.take(at, event),
            }
        }
        Ok(())
    }

    /// The id of the launch.
    pub fn id(&self) -> Id {
        Id { number: self.number, rank: None }
    }

    /// By program: its slot.
    pub fn slots(&self) -> &[ProgramSlot] {
        &self.slots
    }

    /// The next event, or `Quiet` after `within`. To be called by one thread: a call acknowledges
    /// the output that the last one returned.
    pub fn step(&self, within: Duration) -> LaunchEvent {
        let mut reading = self.reading.lock();
        let deadline = Instant::now().checked_add(within);
        loop {
            if let Some(step) = reading.steps.pop_front() {
                if let LaunchEvent::Wrote { rank, bytes, .. } = &step {
                    self.allow(&mut reading, *rank, bytes.len());
                }
                return step;
            }
            if reading.has_ended.iter().all(|has_ended| *has_ended) {
                return LaunchEvent::Over;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match reading.received.recv_timeout(left.unwrap_or(Duration::MAX)) {
                Ok((at, event)) => reading.take(at, event),
                Err(RecvTimeoutError::Timeout) => return LaunchEvent::Quiet,
                Err(RecvTimeoutError::Disconnected) => return LaunchEvent::Over,
            }
        }
    }

    /// Extends the window by the bytes returned before.
    fn allow(&self, reading: &mut EventReader, rank: usize, bytes: usize) {
        let before = reading.taken_bytes[rank];
        reading.taken_bytes[rank] += bytes;
        if before >= ALLOW_BYTES {
            reading.taken_bytes[rank] = bytes;
            let request = LaunchRequest::Allow { rank, bytes: before };
            self.handles[rank].launch(self.number, &request, vec![]);
        }
    }

    /// Stops all programs: by an interrupt, and after a grace period by force; or at once by force.
    pub fn stop(&self, at_once: bool) {
        let mut asked: Vec<&str> = vec![];
        for (handle, slot) in self.handles.iter().zip(&self.slots) {
            if !asked.contains(&slot.worker.as_str()) {
                asked.push(&slot.worker);
                handle.launch(self.number, &LaunchRequest::Stop { at_once }, vec![]);
            }
        }
    }

    /// Sends bytes to the standard input of all programs; an empty slice closes it. Waits until
    /// each has room, and returns whether a program may still read.
    pub fn feed(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            self.feed_chunk(bytes);
            return false;
        }
        bytes.chunks(CHUNK_BYTES_MAX).all(|chunk| self.feed_chunk(chunk))
    }

    fn feed_chunk(&self, chunk: &[u8]) -> bool {
        let mut unread = self.feeding.unread_bytes.lock();
        let has_room = |bytes: &Option<usize>| {
            bytes.is_none_or(|bytes| bytes + chunk.len() <= WINDOW_BYTES_MAX)
        };
        while !unread.iter().all(has_room) {
            self.feeding.changed.wait(&mut unread);
        }
        let body = Buffer::from(chunk);
        let mut any = false;
        for (rank, bytes) in unread.iter_mut().enumerate() {
            let Some(bytes) = bytes else { continue };
            *bytes += chunk.len();
            any = true;
            self.handles[rank].launch(
                self.number,
                &LaunchRequest::Feed { rank },
                vec![body.clone()],
            );
        }
        any
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        let has_ended = self.reading.lock().has_ended.iter().all(|has_ended| *has_ended);
        if !has_ended && !self.is_detached {
            self.stop(true);
        }
        self.handles.iter().for_each(|handle| handle.forget_launch(self.number));
    }
}

impl EventReader {
    fn next(&self, deadline: Instant) -> Result<FromWorker> {
        let left = deadline.saturating_duration_since(Instant::now());
        let silent = |_| {
            let message = "the workers do not say whether the programs run";
            Error::resource(message).remedy("look at the workers, and at the network between")
        };
        self.received.recv_timeout(left).map_err(silent)
    }

    fn take(&mut self, at: usize, event: WorkerEvent<Notice>) {
        match event {
            WorkerEvent::Message(Notice::Wrote { rank, stream }, bytes)
                if rank < self.has_ended.len() =>
            {
                self.steps.push_back(LaunchEvent::Wrote { rank, stream, bytes });
            }
            WorkerEvent::Message(Notice::Ended { rank, end }, _) => self.end(rank, end),
            WorkerEvent::Message(..) | WorkerEvent::Draining => {}
            WorkerEvent::Lost(error) => {
                let ranks = self.ranks[at].clone();
                ranks.into_iter().for_each(|rank| self.end(rank, ProgramEnd::Lost(error.clone())));
            }
        }
    }

    /// Records the end of a program, once.
    fn end(&mut self, rank: usize, end: ProgramEnd) {
        let has_ended = self.has_ended.get_mut(rank);
        if has_ended.is_some_and(|has_ended| !std::mem::replace(has_ended, true)) {
            self.steps.push_back(LaunchEvent::Ended { rank, end });
        }
    }
}

impl Feeding {
    /// Updates the unread bytes of each program. Called when an event is received, before it is
    /// returned.
    fn note(&self, ranks: &[usize], event: &WorkerEvent<Notice>) {
        let mut unread = self.unread_bytes.lock();
        match event {
            WorkerEvent::Message(Notice::Read { rank, bytes }, _) => {
                if let Some(Some(unread)) = unread.get_mut(*rank) {
                    *unread = unread.saturating_sub(*bytes);
                }
            }
            WorkerEvent::Message(Notice::Ended { rank, .. }, _) => {
                unread.get_mut(*rank).into_iter().for_each(|unread| *unread = None);
            }
            WorkerEvent::Message(..) | WorkerEvent::Draining => return,
            WorkerEvent::Lost(_) => ranks.iter().for_each(|rank| unread[*rank] = None),
        }
        self.changed.notify_all();
    }
}
