//! What every instance knows of itself: rows, bytes, and where its time went.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What an instance is doing at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not started yet.
    Waiting,
    /// In the module's own code.
    Busy,
    /// Waiting in `get` or `select`: there is nothing to do.
    Starved,
    /// Waiting in `put`: the consumers are slower.
    Blocked,
    /// `run` has returned.
    Ended,
}

impl State {
    /// The word shown to people.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Busy => "busy",
            State::Starved => "starved",
            State::Blocked => "blocked",
            State::Ended => "ended",
        }
    }
}

/// The counters of one instance; written by its thread, read by anyone.
#[derive(Debug, Default)]
pub struct InstanceMetrics {
    state: AtomicU8,
    rows_in: AtomicU64,
    bytes_in: AtomicU64,
    rows_out: AtomicU64,
    bytes_out: AtomicU64,
    wait_get_ns: AtomicU64,
    wait_put_ns: AtomicU64,
    life_ns: AtomicU64,
    spilled_bytes: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Counters {
    /// Rows that came in.
    pub rows_in: u64,
    /// Bytes that came in.
    pub bytes_in: u64,
    /// Rows that went out.
    pub rows_out: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// Seconds from the start of `run` to its end, once it has ended.
    pub life_seconds: f64,
    /// Seconds waited in `get`.
    pub starved_seconds: f64,
    /// Seconds waited in `put`.
    pub blocked_seconds: f64,
    /// Bytes written to scratch because they did not fit the memory budget.
    pub spilled_bytes: u64,
}

impl Counters {
    /// Adds another instance's counters.
    pub fn add(&mut self, other: &Counters) {
        self.rows_in += other.rows_in;
        self.bytes_in += other.bytes_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
        self.life_seconds += other.life_seconds;
        self.starved_seconds += other.starved_seconds;
        self.blocked_seconds += other.blocked_seconds;
        self.spilled_bytes += other.spilled_bytes;
    }

    /// Seconds spent in the module's own code.
    pub fn busy_seconds(&self) -> f64 {
        (self.life_seconds - self.starved_seconds - self.blocked_seconds).max(0.0)
    }
}

impl InstanceMetrics {
    /// The counters now.
    pub fn read(&self) -> Counters {
        let seconds = |ns: &AtomicU64| Duration::from_nanos(ns.load(Relaxed)).as_secs_f64();
        Counters {
            rows_in: self.rows_in.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            rows_out: self.rows_out.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            life_seconds: seconds(&self.life_ns),
            starved_seconds: seconds(&self.wait_get_ns),
            blocked_seconds: seconds(&self.wait_put_ns),
            spilled_bytes: self.spilled_bytes.load(Relaxed),
        }
    }

    /// A number that changes whenever something comes in or goes out.
    pub fn moved(&self) -> u64 {
        let counters = [&self.rows_in, &self.bytes_in, &self.rows_out, &self.bytes_out];
        counters.iter().map(|counter| counter.load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// What the instance is doing now.
    pub fn state(&self) -> State {
        const STATES: [State; 5] =
            [State::Waiting, State::Busy, State::Starved, State::Blocked, State::Ended];
        STATES[self.state.load(Relaxed) as usize]
    }

    /// Marks the instance as running; dropping the guard marks its end.
    pub fn live(&self) -> Life<'_> {
        self.state.store(State::Busy as u8, Relaxed);
        Life { metrics: self, began: Instant::now() }
    }

    /// Enters a waiting state until the guard is dropped.
    pub fn enter(&self, state: State) -> Entered<'_> {
        self.state.store(state as u8, Relaxed);
        Entered(self)
    }

    /// A source module brought these in from outside the flow.
    pub fn got(&self, rows: usize, bytes: usize) {
        self.rows_in.fetch_add(rows as u64, Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
    }

    /// A sink module took these out of the flow.
    pub fn put(&self, rows: usize, bytes: usize) {
        self.rows_out.fetch_add(rows as u64, Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    /// These went to scratch.
    pub fn spilled(&self, bytes: usize) {
        self.spilled_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn waited_get(&self, time: Duration) {
        self.wait_get_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn waited_put(&self, time: Duration) {
        self.wait_put_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

/// From the start of `run` to its end.
pub struct Life<'a> {
    metrics: &'a InstanceMetrics,
    began: Instant,
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        self.metrics.life_ns.store(self.began.elapsed().as_nanos() as u64, Relaxed);
        self.metrics.state.store(State::Ended as u8, Relaxed);
    }
}

/// Back to busy when dropped.
pub struct Entered<'a>(&'a InstanceMetrics);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.state.store(State::Busy as u8, Relaxed);
    }
}
