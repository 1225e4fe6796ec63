//! Counters and times of an instance: rows, bytes, and how long it was busy, starved and blocked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The state of an instance at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum InstanceState {
    /// The instance has not started.
    #[default]
    #[serde(rename = "waiting")]
    NotStarted,
    /// In the module's own code.
    Busy,
    /// Waiting in `get` or `select` for input.
    Starved,
    /// Waiting in `put` for slower consumers.
    Blocked,
    /// The instance has returned from `run`.
    Ended,
}

impl InstanceState {
    /// The name shown in user interfaces.
    pub fn word(self) -> &'static str {
        match self {
            InstanceState::NotStarted => "waiting",
            InstanceState::Busy => "busy",
            InstanceState::Starved => "starved",
            InstanceState::Blocked => "blocked",
            InstanceState::Ended => "ended",
        }
    }
}

/// The counters of one instance. Its thread writes them, any thread may read them.
///
/// ```
/// use euphrates_flow::metrics::{InstanceMetrics, InstanceState};
///
/// let metrics = InstanceMetrics::default();
/// metrics.put(100, 800);
/// assert_eq!((metrics.read().rows_out, metrics.read().bytes_out), (100, 800));
/// assert_eq!(metrics.state(), InstanceState::NotStarted);
/// ```
#[derive(Debug, Default)]
pub struct InstanceMetrics {
    /// Origin of the points in time below.
    epoch: Epoch,
    /// The id of the thread, or of the child process, that runs the instance; 0 until it is known.
    task_id: AtomicU32,
    state: AtomicU8,
    began_ns: AtomicU64,
    /// When the current wait began, if the instance waits.
    waits_since_ns: AtomicU64,
    rows_in: AtomicU64,
    bytes_in: AtomicU64,
    batches_in: AtomicU64,
    rows_out: AtomicU64,
    bytes_out: AtomicU64,
    batches_out: AtomicU64,
    wait_get_ns: AtomicU64,
    wait_put_ns: AtomicU64,
    /// The part of both waits that was spent outside of the ports.
    wait_outside_ns: AtomicU64,
    life_ns: AtomicU64,
    /// The largest busy time that was read, in nanoseconds: a reader that races with the end of a
    /// wait may compute less, but monitoring takes a smaller value for a restart.
    busy_read_ns: AtomicU64,
    spilled_bytes: AtomicU64,
    cached_bytes: AtomicU64,
    peer_bytes: AtomicU64,
    origin_bytes: AtomicU64,
    /// The last metrics received for an instance in another process.
    remote: OnceLock<Mutex<RemoteMetrics>>,
}

/// Metrics of an instance, sent between processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoteMetrics {
    /// Rows and bytes moved so far.
    pub counters: Counters,
    /// The state at the time of sending.
    pub state: InstanceState,
    /// Time spent in the module's own code.
    pub busy: Duration,
    /// Processor time of its thread, and the time the thread waited for a processor; `None` if the
    /// system does not report them.
    pub times: Option<(Duration, Duration)>,
}

/// A snapshot of the counters.
///
/// ```
/// use euphrates_flow::metrics::Counters;
///
/// let one =
///     Counters { rows_in: 5, life_seconds: 10.0, starved_seconds: 4.0, ..Default::default() };
/// let mut all = one;
/// all.add(&one);
/// assert_eq!((all.rows_in, all.busy_seconds()), (10, 12.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Rows taken from the inputs, or read by a source from outside the flow.
    pub rows_in: u64,
    /// Bytes taken from the inputs, or read by a source from outside the flow.
    pub bytes_in: u64,
    /// Batches in which the rows came in.
    pub batches_in: u64,
    /// Rows put on the outputs, or written by a sink out of the flow.
    pub rows_out: u64,
    /// Bytes put on the outputs, or written by a sink out of the flow.
    pub bytes_out: u64,
    /// Batches in which the rows went out.
    pub batches_out: u64,
    /// Seconds from the start of `run` to its end, once it has ended.
    pub life_seconds: f64,
    /// Seconds spent waiting for input, in the ports or outside of them.
    pub starved_seconds: f64,
    /// Seconds spent waiting for room, in the ports or outside of them.
    pub blocked_seconds: f64,
    /// Bytes written to scratch because they did not fit the memory budget.
    pub spilled_bytes: u64,
    /// Bytes of remote objects that were in the memory of the process.
    #[serde(default)]
    pub cached_bytes: u64,
    /// Bytes of remote objects that were in the memory of other workers.
    #[serde(default)]
    pub peer_bytes: u64,
    /// Bytes of remote objects that their store or server has sent.
    #[serde(default)]
    pub origin_bytes: u64,
}

impl Counters {
    /// Adds another instance's counters.
    pub fn add(&mut self, other: &Counters) {
        self.rows_in += other.rows_in;
        self.bytes_in += other.bytes_in;
        self.batches_in += other.batches_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
        self.batches_out += other.batches_out;
        self.life_seconds += other.life_seconds;
        self.starved_seconds += other.starved_seconds;
        self.blocked_seconds += other.blocked_seconds;
        self.spilled_bytes += other.spilled_bytes;
        self.cached_bytes += other.cached_bytes;
        self.peer_bytes += other.peer_bytes;
        self.origin_bytes += other.origin_bytes;
    }

    /// Seconds spent in the module's own code, once the instance has ended; 0 before (see
    /// [`InstanceMetrics::busy_so_far`]).
    pub fn busy_seconds(&self) -> f64 {
        (self.life_seconds - self.starved_seconds - self.blocked_seconds).max(0.0)
    }
}

/// When the metrics were made.
#[derive(Debug)]
struct Epoch(Instant);

impl Default for Epoch {
    fn default() -> Epoch {
        Epoch(Instant::now())
    }
}

impl InstanceMetrics {
    /// Stores the metrics that another process has sent for this instance.
    pub fn set_remote(&self, remote: RemoteMetrics) {
        let last = self.remote.get_or_init(Mutex::default);
        *last.lock() = remote;
    }

    /// The last metrics received, if the instance is in another process.
    pub fn remote(&self) -> Option<RemoteMetrics> {
        Some(*self.remote.get()?.lock())
    }

    /// A snapshot of the counters.
    pub fn read(&self) -> Counters {
        if let Some(remote) = self.remote() {
            return remote.counters;
        }
        let seconds = |ns: &AtomicU64| Duration::from_nanos(ns.load(Relaxed)).as_secs_f64();
        Counters {
            rows_in: self.rows_in.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            batches_in: self.batches_in.load(Relaxed),
            rows_out: self.rows_out.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            batches_out: self.batches_out.load(Relaxed),
            life_seconds: seconds(&self.life_ns),
            starved_seconds: seconds(&self.wait_get_ns),
            blocked_seconds: seconds(&self.wait_put_ns),
            spilled_bytes: self.spilled_bytes.load(Relaxed),
            cached_bytes: self.cached_bytes.load(Relaxed),
            peer_bytes: self.peer_bytes.load(Relaxed),
            origin_bytes: self.origin_bytes.load(Relaxed),
        }
    }

    /// A number that changes whenever rows are taken or put.
    pub fn moved(&self) -> u64 {
        if let Some(RemoteMetrics { counters, .. }) = self.remote() {
            let Counters { rows_in, bytes_in, rows_out, bytes_out, .. } = counters;
            return [rows_in, bytes_in, rows_out, bytes_out].into_iter().fold(0, u64::wrapping_add);
        }
        let counters = [&self.rows_in, &self.bytes_in, &self.rows_out, &self.bytes_out];
        counters.iter().map(|counter| counter.load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// The state of the instance now.
    pub fn state(&self) -> InstanceState {
        if let Some(remote) = self.remote() {
            return remote.state;
        }
        const STATES: [InstanceState; 5] = [
            InstanceState::NotStarted,
            InstanceState::Busy,
            InstanceState::Starved,
            InstanceState::Blocked,
            InstanceState::Ended,
        ];
        STATES[self.state.load(Relaxed) as usize]
    }

    /// Time spent in the module's own code so far, including the current stretch. It never
    /// decreases.
    pub fn busy_so_far(&self) -> Duration {
        if let Some(remote) = self.remote() {
            return remote.busy;
        }
        let state = self.state();
        let (now, began) = (self.now_ns(), self.began_ns.load(Relaxed));
        let life = match state {
            InstanceState::NotStarted => 0,
            InstanceState::Ended => self.life_ns.load(Relaxed),
            _ => now.saturating_sub(began),
        };
        let waits_now = match state {
            InstanceState::Starved | InstanceState::Blocked => {
                now.saturating_sub(self.waits_since_ns.load(Relaxed))
            }
            _ => 0,
        };
        let waited = self.wait_get_ns.load(Relaxed) + self.wait_put_ns.load(Relaxed) + waits_now;
        let busy = life.saturating_sub(waited);
        Duration::from_nanos(self.busy_read_ns.fetch_max(busy, Relaxed).max(busy))
    }

    /// The thread's id in the operating system, once it runs.
    pub fn thread(&self) -> Option<u32> {
        Some(self.task_id.load(Relaxed)).filter(|thread| *thread != 0)
    }

    /// Marks the instance as running in this thread of the operating system; dropping the guard
    /// marks its end.
    pub fn live(&self, task_id: u32) -> RunTimer<'_> {
        self.task_id.store(task_id, Relaxed);
        self.began_ns.store(self.now_ns(), Relaxed);
        self.state.store(InstanceState::Busy as u8, Relaxed);
        RunTimer { metrics: self, began: Instant::now() }
    }

    /// Sets the thread, or the process by its id, that runs the instance from now on. Processor
    /// times are read from it.
    pub fn runs_in(&self, task_id: u32) {
        self.task_id.store(task_id, Relaxed);
    }

    /// Enters a waiting state until the guard is dropped: for modules that wait outside of their
    /// ports.
    pub fn enter(&self, state: InstanceState) -> Entered<'_> {
        self.wait(state, true)
    }

    /// Like `enter`, for waits inside the ports.
    pub(crate) fn enter_in_ports(&self, state: InstanceState) -> Entered<'_> {
        self.wait(state, false)
    }

    fn wait(&self, state: InstanceState, is_outside: bool) -> Entered<'_> {
        self.waits_since_ns.store(self.now_ns(), Relaxed);
        self.state.store(state as u8, Relaxed);
        Entered { metrics: self, state, is_outside, began: Instant::now() }
    }

    /// Total wait time outside of the ports.
    pub(crate) fn waited_outside(&self) -> Duration {
        Duration::from_nanos(self.wait_outside_ns.load(Relaxed))
    }

    fn now_ns(&self) -> u64 {
        self.epoch.0.elapsed().as_nanos() as u64
    }

    /// Counts a batch taken from an input, or read by a source from outside the flow.
    pub fn got(&self, rows: usize, bytes: usize) {
        self.rows_in.fetch_add(rows as u64, Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.batches_in.fetch_add(1, Relaxed);
    }

    /// Counts a batch put on an output, or written by a sink out of the flow.
    pub fn put(&self, rows: usize, bytes: usize) {
        self.rows_out.fetch_add(rows as u64, Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
        self.batches_out.fetch_add(1, Relaxed);
    }

    /// Counts bytes written to scratch.
    pub fn spilled(&self, bytes: usize) {
        self.spilled_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes of remote objects, from the memory of the process, from that of other workers
    /// and from their origin.
    pub fn read_remote(&self, cached_bytes: u64, peer_bytes: u64, origin_bytes: u64) {
        self.cached_bytes.fetch_add(cached_bytes, Relaxed);
        self.peer_bytes.fetch_add(peer_bytes, Relaxed);
        self.origin_bytes.fetch_add(origin_bytes, Relaxed);
    }
}

/// Guard for the time from the start of `run` to its end.
pub struct RunTimer<'a> {
    metrics: &'a InstanceMetrics,
    began: Instant,
}

impl Drop for RunTimer<'_> {
    fn drop(&mut self) {
        self.metrics.life_ns.store(self.began.elapsed().as_nanos() as u64, Relaxed);
        self.metrics.state.store(InstanceState::Ended as u8, Relaxed);
    }
}

/// Guard of a wait: when it is dropped, the instance is busy again.
pub struct Entered<'a> {
    metrics: &'a InstanceMetrics,
    state: InstanceState,
    is_outside: bool,
    began: Instant,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let time_ns = self.began.elapsed().as_nanos() as u64;
        let waited = match self.state {
            InstanceState::Blocked => &self.metrics.wait_put_ns,
            _ => &self.metrics.wait_get_ns,
        };
        waited.fetch_add(time_ns, Relaxed);
        if self.is_outside {
            self.metrics.wait_outside_ns.fetch_add(time_ns, Relaxed);
        }
        self.metrics.state.store(InstanceState::Busy as u8, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_inside_and_outside_ports_are_not_busy() {
        let metrics = InstanceMetrics::default();
        assert_eq!((metrics.busy_so_far(), metrics.thread()), (Duration::ZERO, None));
        let life = metrics.live(7);
        {
            let _waits = metrics.enter(InstanceState::Starved);
            std::thread::park_timeout(Duration::from_millis(20));
            let (busy, life) = (metrics.busy_so_far(), metrics.epoch.0.elapsed());
            assert!(busy + Duration::from_millis(10) < life, "{busy:?} of {life:?}");
        }
        drop(metrics.enter_in_ports(InstanceState::Blocked));
        drop(life);
        let counters = metrics.read();
        assert!(counters.starved_seconds > 0.01 && counters.blocked_seconds < 0.01);
        assert_eq!(metrics.waited_outside().as_secs_f64(), counters.starved_seconds);
        assert_eq!((metrics.state(), metrics.thread()), (InstanceState::Ended, Some(7)));
        let busy = metrics.busy_so_far().as_secs_f64();
        assert!((busy - counters.busy_seconds()).abs() < 1e-6, "{busy}");
    }
}
