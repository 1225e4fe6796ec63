//! A master's side of a launch: programs are started on all the workers at once, heard, and
//! stopped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::handle::{Event as Heard, WorkerHandle};
use super::launch::{
    Ask, CHUNK_BYTES_MAX, End, Id, ORDER_BYTES_MAX, Order, PROGRAMS_MAX, Stream, Tell,
    WINDOW_BYTES_MAX,
};
use super::{Cluster, check_path, control};
use crate::run::placement::{self, Member};

/// How long workers may take to start their programs.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// What has been heard is made up for in pieces of this size.
const ALLOW_BYTES: usize = CHUNK_BYTES_MAX;

/// Where one of the programs runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its worker.
    pub worker: String,
    /// What it is called: as the worker, or `w1.2` where a worker has several.
    pub name: String,
}

/// What comes next from a launch.
#[derive(Debug)]
pub enum Step {
    /// A program has written something.
    Wrote {
        /// Which.
        rank: usize,
        /// Where.
        stream: Stream,
        /// What; lines may be cut anywhere.
        bytes: Buffer,
    },
    /// A program has ended.
    Ended {
        /// Which.
        rank: usize,
        /// How.
        end: End,
    },
    /// Nothing for now.
    Quiet,
    /// All have ended, and all has been told.
    Over,
}

/// Programs that have been started. They end when it is dropped and when the cluster is closed,
/// unless they are detached.
pub struct Launch {
    number: u64,
    places: Vec<Place>,
    /// By program.
    handles: Vec<Arc<WorkerHandle>>,
    is_detached: bool,
    reading: Mutex<Reading>,
    feeding: Arc<Feeding>,
}

/// What a worker has told, with its number among those of the launch.
type Told = (usize, Heard<Tell>);

/// What has been heard.
struct Reading {
    heard: Receiver<Told>,
    /// The programs of each worker.
    ranks: Vec<Vec<usize>>,
    steps: VecDeque<Step>,
    has_ended: Vec<bool>,
    /// What has been taken of each program's output, and has not been allowed anew.
    taken_bytes: Vec<usize>,
}

/// What has been sent to each program and it has not read; nothing of those that have ended.
struct Feeding {
    unread_bytes: Mutex<Vec<Option<usize>>>,
    changed: Condvar,
}

/// Starts programs on workers: those that are called so, or have such a label; all, if none is
/// said. Returns when all run; if one cannot, none does.
pub fn launch(
    cluster: &Cluster,
    order: &Order,
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
    let workers = chosen(cluster, on)?;
    let (number, programs) = (cluster.next_flow(), workers.len() * per_worker);
    let feeding = Arc::new(Feeding {
        unread_bytes: Mutex::new(vec![Some(0); programs]),
        changed: Condvar::new(),
    });
    let (tell, heard) = channel();
    let ranks = (0..workers.len()).map(|at| (at * per_worker..(at + 1) * per_worker).collect());
    let reading = Reading {
        heard,
        ranks: ranks.collect(),
        steps: VecDeque::new(),
        has_ended: vec![false; programs],
        taken_bytes: vec![0; programs],
    };
    let places = workers.iter().flat_map(|handle| places(&handle.member().name, per_worker));
    let launch = Launch {
        number,
        places: places.collect(),
        handles: workers.iter().flat_map(|handle| vec![handle.clone(); per_worker]).collect(),
        is_detached: order.is_detached,
        reading: Mutex::new(reading),
        feeding,
    };
    // What has begun ends with what cannot, also what would have stayed: nobody knows its name. A
    // worker that has not answered reads this behind what it was asked to start.
    launch.begin(&workers, order, &tell).inspect_err(|_| launch.stop(true))?;
    Ok(launch)
}

fn places(worker: &str, per_worker: usize) -> impl Iterator<Item = Place> + '_ {
    (0..per_worker).map(move |number| Place {
        worker: worker.to_string(),
        name: if per_worker == 1 { worker.to_string() } else { format!("{worker}.{number}") },
    })
}

/// The workers that are meant, in the cluster's order.
fn chosen(cluster: &Cluster, on: &[String]) -> Result<Vec<Arc<WorkerHandle>>> {
    let all = cluster.living();
    if all.is_empty() {
        return Err(Error::resource("all workers of the cluster are lost").remedy("open it again"));
    }
    let members: Vec<&Member> = all.iter().map(|handle| handle.member()).collect();
    Ok(placement::chosen(on, &members)?.into_iter().map(|at| all[at].clone()).collect())
}

impl Launch {
    /// Has all workers start theirs, and waits until they have.
    fn begin(
        &self,
        workers: &[Arc<WorkerHandle>],
        order: &Order,
        tell: &Sender<Told>,
    ) -> Result<()> {
        let mut reading = self.reading.lock();
        for (at, handle) in workers.iter().enumerate() {
            let (tell, feeding) = (tell.clone(), self.feeding.clone());
            let ranks = reading.ranks[at].clone();
            handle.listen_to_launch(self.number, move |event| {
                feeding.note(&ranks, &event);
                // Whoever has started it may have lost interest.
                let _ = tell.send((at, event));
            });
        }
        for (at, handle) in workers.iter().enumerate() {
            let ask = Ask::Launch {
                order: order.clone(),
                worker: handle.member().name.clone(),
                ranks: reading.ranks[at].clone(),
                size: (self.places.len(), workers.len()),
            };
            handle.launch(self.number, &ask, vec![]);
        }
        let deadline = Instant::now() + ANSWER_WAIT;
        let mut waiting = workers.len();
        while waiting > 0 {
            let (at, event) = reading.next(deadline)?;
            let place = |error: Error| error.at(format!("worker {}", workers[at].member().name));
            match event {
                Heard::Told(Tell::Started, _) => waiting -= 1,
                Heard::Told(Tell::Refused { error }, _) | Heard::Lost(error) => {
                    return Err(place(error));
                }
                event => reading.take(at, event),
            }
        }
        Ok(())
    }

    /// What it is called.
    pub fn id(&self) -> Id {
        Id { number: self.number, rank: None }
    }

    /// Where the programs are.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// What comes next, waiting at most so long. What it returned before has been dealt with: the
    /// program may write so much more. To be called by one thread.
    pub fn step(&self, within: Duration) -> Step {
        let mut reading = self.reading.lock();
        let deadline = Instant::now().checked_add(within);
        loop {
            if let Some(step) = reading.steps.pop_front() {
                if let Step::Wrote { rank, bytes, .. } = &step {
                    self.allow(&mut reading, *rank, bytes.len());
                }
                return step;
            }
            if reading.has_ended.iter().all(|has_ended| *has_ended) {
                return Step::Over;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            match reading.heard.recv_timeout(left.unwrap_or(Duration::MAX)) {
                Ok((at, event)) => reading.take(at, event),
                Err(RecvTimeoutError::Timeout) => return Step::Quiet,
                Err(RecvTimeoutError::Disconnected) => return Step::Over,
            }
        }
    }

    /// What is being taken now makes room for as much as was taken before.
    fn allow(&self, reading: &mut Reading, rank: usize, bytes: usize) {
        let before = reading.taken_bytes[rank];
        reading.taken_bytes[rank] += bytes;
        if before >= ALLOW_BYTES {
            reading.taken_bytes[rank] = bytes;
            let ask = Ask::Allow { rank, bytes: before };
            self.handles[rank].launch(self.number, &ask, vec![]);
        }
    }

    /// Has all programs stop: by an interrupt, and after a while outright; or at once.
    pub fn stop(&self, at_once: bool) {
        let mut asked: Vec<&str> = vec![];
        for (handle, place) in self.handles.iter().zip(&self.places) {
            if !asked.contains(&place.worker.as_str()) {
                asked.push(&place.worker);
                handle.launch(self.number, &Ask::Stop { at_once }, vec![]);
            }
        }
    }

    /// Has all programs read this; nothing is the end. Waits until each has room for it, and says
    /// whether one is left that might read more.
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
            self.handles[rank].launch(self.number, &Ask::Feed { rank }, vec![body.clone()]);
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

impl Reading {
    fn next(&self, deadline: Instant) -> Result<Told> {
        let left = deadline.saturating_duration_since(Instant::now());
        let silent = |_| {
            let message = "the workers do not say whether the programs run";
            Error::resource(message).remedy("look at the workers, and at the network between")
        };
        self.heard.recv_timeout(left).map_err(silent)
    }

    fn take(&mut self, at: usize, event: Heard<Tell>) {
        match event {
            Heard::Told(Tell::Wrote { rank, stream }, bytes) if rank < self.has_ended.len() => {
                self.steps.push_back(Step::Wrote { rank, stream, bytes });
            }
            Heard::Told(Tell::Ended { rank, end }, _) => self.end(rank, end),
            Heard::Told(..) => {}
            Heard::Lost(error) => {
                let ranks = self.ranks[at].clone();
                ranks.into_iter().for_each(|rank| self.end(rank, End::Lost(error.clone())));
            }
        }
    }

    /// Each ends once.
    fn end(&mut self, rank: usize, end: End) {
        let has_ended = self.has_ended.get_mut(rank);
        if has_ended.is_some_and(|has_ended| !std::mem::replace(has_ended, true)) {
            self.steps.push_back(Step::Ended { rank, end });
        }
    }
}

impl Feeding {
    /// What bears on how much each may be fed. Heard at once, whoever reads the rest.
    fn note(&self, ranks: &[usize], event: &Heard<Tell>) {
        let mut unread = self.unread_bytes.lock();
        match event {
            Heard::Told(Tell::Read { rank, bytes }, _) => {
                if let Some(Some(unread)) = unread.get_mut(*rank) {
                    *unread = unread.saturating_sub(*bytes);
                }
            }
            Heard::Told(Tell::Ended { rank, .. }, _) => {
                unread.get_mut(*rank).into_iter().for_each(|unread| *unread = None);
            }
            Heard::Told(..) => return,
            Heard::Lost(_) => ranks.iter().for_each(|rank| unread[*rank] = None),
        }
        self.changed.notify_all();
    }
}
