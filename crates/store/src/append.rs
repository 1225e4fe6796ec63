//! Ordered parallel appends: several writers append to one file in the order of their runs.
//!
//! Several instances of a sink share a sorted stream run by run, so that they encode runs in
//! parallel; the file must still be in order. A writer that has encoded a part of run *r* waits
//! here until all runs before *r* have their offsets, is given an offset, and writes in parallel
//! with the others.
//!
//! Queues assign runs strictly in order, so the owner of the next run never waits here: there is no
//! deadlock.

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Error, Result, RunIndex};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::commit::PreparedOutput;

/// The destination of a file's bytes. It is staged: nothing is visible before the output is
/// published.
pub trait StagedOutput: Send + Sync {
    /// Writes all parts consecutively from `offset` on. Several threads call it, each with a range
    /// of its own; in the end the ranges have no gaps.
    fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()>;
    /// Makes the written bytes durable, still invisible; `bytes` is the length of the whole file.
    fn sync_contents(&self, bytes: u64) -> Result<()>;
    /// After `sync_contents`: reserves the name of the output, and returns the prepared output that
    /// publishes it. `None` if it is part of an output that is published by other means.
    fn reserve(&self) -> Result<Option<PreparedOutput>> {
        Ok(None)
    }
    /// Leaves the reservation and the staged bytes to the process that publishes them.
    fn leave(&self) {}
    /// Removes the staged bytes, unless they have been published or left.
    fn abandon(&self);
}

/// The position of an append in a stream of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendTurn {
    /// The run to which these bytes belong.
    pub run: RunIndex,
    /// Whether they are the last of the run.
    pub last: bool,
}

/// A value that several threads change in the order of their runs.
///
/// ```
/// use euphrates_flow::Cancel;
/// use euphrates_store::append::{AppendTurn, Turns};
///
/// let (turns, cancel) = (Turns::new(vec![]), Cancel::default());
/// let append = |run, last| {
///     turns.take(Some(AppendTurn { run, last }), &cancel, |all| Ok(all.push(run)))
/// };
/// append(0, false)?;
/// append(0, true)?;
/// append(1, true)?; // Before run 0 was complete, this would have waited.
/// assert_eq!(turns.look(|all| all.clone()), [0, 0, 1]);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Debug)]
pub struct Turns<T> {
    state: Mutex<AppendState<T>>,
    passed: Condvar,
}

#[derive(Debug)]
struct AppendState<T> {
    guarded: T,
    next_run: RunIndex,
    failed: bool,
}

impl<T> Turns<T> {
    /// Guards a value; run 0 has the first turn.
    pub fn new(guarded: T) -> Turns<T> {
        let state = AppendState { guarded, next_run: 0, failed: false };
        Turns { state: Mutex::new(state), passed: Condvar::new() }
    }

    /// Waits until all runs before this one are complete. `waiting` is called only if there is a
    /// wait, and its result is held until the wait ends.
    pub fn wait<G>(
        &self,
        run: Option<RunIndex>,
        cancel: &Cancel,
        waiting: impl FnOnce() -> G,
    ) -> Result<()> {
        let Some(run) = run.filter(|run| self.state.lock().next_run != *run) else { return Ok(()) };
        let _waits = waiting();
        self.await_turn(Some(run), cancel).map(drop)
    }

    /// Waits for the turn, if one is given, then lets `act` change the value.
    pub fn take<R>(
        &self,
        turn: Option<AppendTurn>,
        cancel: &Cancel,
        act: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let mut state = self.await_turn(turn.map(|turn| turn.run), cancel)?;
        let result = act(&mut state.guarded)?;
        if turn.is_some_and(|turn| turn.last) {
            state.next_run += 1;
            drop(state);
            self.passed.notify_all();
        }
        Ok(result)
    }

    /// Reads the value at any time, without waiting for a turn.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.state.lock().guarded)
    }

    /// Ends all waits for turns with an error.
    pub fn fail(&self) {
        self.state.lock().failed = true;
        self.passed.notify_all();
    }

    fn await_turn(
        &self,
        run: Option<RunIndex>,
        cancel: &Cancel,
    ) -> Result<MutexGuard<'_, AppendState<T>>> {
        let mut state = self.state.lock();
        while run.is_some_and(|run| run != state.next_run) {
            if state.failed {
                return Err(Error::interrupted());
            }
            cancel.wait(&self.passed, &mut state)?;
        }
        Ok(state)
    }
}

/// A file to which several writers append.
///
/// ```
/// use arrow::buffer::Buffer;
/// use euphrates_device::location::destination;
/// use euphrates_device::storage_options::StorageOptions;
/// use euphrates_flow::Cancel;
/// use euphrates_store::append::Appender;
/// use euphrates_store::output;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("notes.txt");
/// let path_text = path.to_string_lossy();
/// let place = destination(&path_text, &StorageOptions::default())?;
/// let target = output::create(place, false, "run", None)?;
/// let appender = Appender::new(target);
/// let cancel = Cancel::default();
/// assert_eq!(appender.append(None, &[Buffer::from(b"one ")], &cancel)?, 0);
/// assert_eq!(appender.append(None, &[Buffer::from(b"two")], &cancel)?, 4, "the offset");
/// assert_eq!(appender.bytes(), 7);
/// assert!(!path.exists(), "nothing is visible before it is published");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Appender {
    target: Box<dyn StagedOutput>,
    /// The offset of the next append.
    end: Turns<u64>,
}

impl Appender {
    /// An appender to an empty file at this target.
    pub fn new(target: Box<dyn StagedOutput>) -> Appender {
        Appender { target, end: Turns::new(0) }
    }

    /// Waits as [`Turns::wait`] does.
    pub fn await_turn<G>(
        &self,
        run: Option<RunIndex>,
        cancel: &Cancel,
        waiting: impl FnOnce() -> G,
    ) -> Result<()> {
        self.end.wait(run, cancel, waiting)
    }

    /// Appends the parts and returns the offset at which they begin. With a turn, waits until the
    /// runs before it are complete; without one, takes the next free offset.
    pub fn append(
        &self,
        turn: Option<AppendTurn>,
        parts: &[Buffer],
        cancel: &Cancel,
    ) -> Result<u64> {
        let offset = self.reserve_range(turn, bytes_of(parts), cancel)?;
        self.write(offset, parts)?;
        Ok(offset)
    }

    /// Reserves a range of this many bytes, which the caller must write, and returns its offset.
    pub fn reserve_range(
        &self,
        turn: Option<AppendTurn>,
        bytes: u64,
        cancel: &Cancel,
    ) -> Result<u64> {
        self.end.take(turn, cancel, |end| {
            *end += bytes;
            Ok(*end - bytes)
        })
    }

    /// Writes parts to a reserved range.
    pub fn write(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
        self.target.write_at(offset, parts).inspect_err(|_| self.end.fail())
    }

    /// The bytes appended so far, reserved ranges included.
    pub fn bytes(&self) -> u64 {
        self.end.look(|end| *end)
    }

    /// The destination, to complete, reserve or abandon it.
    pub fn target(&self) -> &dyn StagedOutput {
        self.target.as_ref()
    }
}

fn bytes_of(parts: &[Buffer]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Default)]
    struct Heap(Mutex<Vec<u8>>);

    impl StagedOutput for Arc<Heap> {
        fn write_at(&self, offset: u64, parts: &[Buffer]) -> Result<()> {
            let mut bytes = self.0.lock();
            let mut at = offset as usize;
            for part in parts {
                let end = at + part.len();
                let length = bytes.len().max(end);
                bytes.resize(length, 0);
                bytes[at..end].copy_from_slice(part);
                at = end;
            }
            Ok(())
        }
        fn sync_contents(&self, _: u64) -> Result<()> {
            Ok(())
        }
        fn abandon(&self) {}
    }

    #[test]
    fn runs_of_parallel_writers_are_in_order() {
        let heap = Arc::new(Heap::default());
        let appender = Appender::new(Box::new(heap.clone()));
        let cancel = Cancel::default();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (appender, cancel) = (&appender, &cancel);
                scope.spawn(move || {
                    for run in (thread..100).step_by(4) {
                        let half = Buffer::from(vec![run as u8; run as usize % 7]);
                        for last in [false, true] {
                            let turn = Some(AppendTurn { run, last });
                            appender.append(turn, std::slice::from_ref(&half), cancel).unwrap();
                        }
                    }
                });
            }
        });
        let expected: Vec<u8> =
            (0..100u64).flat_map(|run| vec![run as u8; run as usize % 7 * 2]).collect();
        assert_eq!(*heap.0.lock(), expected);
    }

    #[test]
    fn cancelling_the_flow_ends_the_wait_for_a_turn() {
        let appender = Appender::new(Box::new(Arc::new(Heap::default())));
        let cancel = Cancel::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                appender.append(Some(AppendTurn { run: 3, last: true }), &[], &cancel).unwrap_err()
            });
            cancel.cancel();
            assert_eq!(waiting.join().unwrap().kind(), euphrates_flow::Kind::Interrupted);
        });
    }
}
