//! Gives every row to each of its outputs, at the pace of each.
//!
//! Each output has a thread, so that one which waits does not stop the others: two of them may lead
//! to a join, which reads one to its end first. Rows that some output has not put yet are the
//! backlog, in memory and beyond the share of it on scratch. The instance reads a few batches
//! further than its fastest output. This cannot deadlock: the output before a consumer that waits
//! has put all it has, so it is the fastest.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, Thread};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_device::disk::Disk;
use euphrates_device::scratch::{Scratch, Unwritten};
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{Bound, ColumnNames, Configure, Inputs, Interface, NeededRows, Needs};
use euphrates_flow::{
    BATCH_BYTES_TARGET, CANCEL_POLL_INTERVAL, Error, Kind, MemoryDemand, MemoryReservation, Module,
    ModuleSpec, PortNames, Ports, Result, Setup, Taken, batch_bytes, spec, split_batch,
};
use euphrates_store::segment::{Segment, SegmentOptions, SegmentWriter};
use parking_lot::{Condvar, Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "spool",
    summary: "Gives every row to each of its outputs, at the pace of each.",
    detail: "As many outputs as are attached. It goes at the pace of the fastest of them; rows \
             that others have not taken yet are held in memory, and then on scratch. So two \
             outputs may lead to one module that reads one of them to its end first, like a \
             join; a `tee`, which holds nothing, would wait forever. One whose consumer has had \
             enough is left out from then on. Rows come in no order.",
    example: r#">>> flow = eu.Flow()
>>> spool = flow.chain(eu.from_arrow({"city": ["Ur", "Ur"], "n": [5, 2]}), eu.spool())
>>> most = flow.chain(spool, eu.aggregate("city", values={"most": "max(n)"}))
>>> join = flow.place(eu.join("city"))
>>> _ = spool >> join["left"], most >> join["right"], join >> eu.sort("n") >> eu.collect()
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Ur'], 'n': [2, 5], 'most': [5, 5]}"#,
    outputs: PortNames::Many,
    memory: MemoryDemand::Adaptive,
    has_own_paces: true,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Spool))
    },
    ..ModuleSpec::USUAL
};

/// The most batches that are read before the fastest output has put them.
const AHEAD_BATCHES_MAX: usize = 16;

/// Fewer bytes are not written to a file of their own.
const SPILL_BYTES_MIN: usize = 4 * BATCH_BYTES_TARGET;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {}

struct Spool;

impl Configure for Spool {
    fn interface(&self) -> Interface {
        let needs = Needs::PassedOn(ColumnNames::default());
        Interface { needs, rows: NeededRows::PassedOn, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let instance = |_: &Setup| -> Result<Box<dyn Module>> { Ok(Box::new(run)) };
        let bytes_expected = inputs.bytes[0];
        Ok(Bound { bytes_expected, ..Bound::new([inputs.schemas[0].clone()], instance) })
    }
}

fn run(ports: &mut Ports) -> Result<()> {
    let mut outputs: Vec<Option<Ports>> = ports.take_outputs().into_iter().map(Some).collect();
    let backlog = SpoolBacklog::new(ports.setup(), outputs.len());
    let result = thread::scope(|scope| {
        let numbered = outputs.iter_mut().enumerate();
        let threads = numbered.map(|(number, output)| {
            let backlog = &backlog;
            scope.spawn(move || backlog.serve(number, output))
        });
        let threads: Vec<_> = threads.collect();
        let filled = backlog.fill(ports);
        backlog.end(filled.is_ok());
        let _state = ports.metrics().enter(InstanceState::Blocked);
        let served = threads.into_iter().map(|thread| thread.join().expect("panics are caught"));
        // Every thread is joined, also behind one that has failed.
        let served: Vec<Result<()>> = served.collect();
        served.into_iter().collect::<Result<()>>().and(filled)
    });
    // Outputs end after the flow has been cancelled.
    ports.return_outputs(outputs.into_iter().flatten());
    result
}

/// The batches that some output has not put yet.
struct SpoolBacklog {
    state: Mutex<BacklogState>,
    /// A batch has come, or has been put, or an output has ended.
    changed: Condvar,
    setup: Arc<Setup>,
    scratch: Scratch,
    reservation: MemoryReservation,
    /// The thread that takes the input.
    taker: Thread,
}

struct BacklogState {
    /// In the order of the batches; those in memory are the last.
    pieces: VecDeque<BacklogPiece>,
    taken: usize,
    /// Bytes of batches in memory.
    held_bytes: usize,
    /// For each output, the number of the batch that it puts next; `None` if it takes no more.
    next: Vec<Option<usize>>,
    is_ended: bool,
    has_failed: bool,
}

impl BacklogState {
    /// The number of the first batch that is still wanted.
    fn first_wanted(&self) -> usize {
        self.next.iter().flatten().copied().min().unwrap_or(self.taken)
    }

    fn is_over(&self) -> bool {
        self.has_failed || self.next.iter().all(Option::is_none)
    }

    /// How far the fastest output is behind.
    fn ahead(&self) -> usize {
        self.next.iter().flatten().map(|next| self.taken - next).min().unwrap_or(0)
    }

    fn release(&mut self) {
        let wanted = self.first_wanted();
        while let Some(piece) = self.pieces.front().filter(|piece| piece.end() <= wanted) {
            if let PieceRows::Held(batch) = &piece.rows {
                self.held_bytes = self.held_bytes.saturating_sub(batch_bytes(batch));
            }
            self.pieces.pop_front();
        }
    }
}

/// A batch, or several that were written together.
#[derive(Clone)]
struct BacklogPiece {
    /// The number of its first batch.
    first: usize,
    rows: PieceRows,
}

#[derive(Clone)]
enum PieceRows {
    Held(RecordBatch),
    Written(Arc<Segment>),
}

impl BacklogPiece {
    /// The number of the first batch behind it.
    fn end(&self) -> usize {
        match &self.rows {
            PieceRows::Held(_) => self.first + 1,
            PieceRows::Written(segment) => self.first + segment.blocks().len(),
        }
    }
}

impl SpoolBacklog {
    fn new(setup: &Arc<Setup>, outputs: usize) -> SpoolBacklog {
        let state = BacklogState {
            pieces: VecDeque::new(),
            taken: 0,
            held_bytes: 0,
            next: vec![Some(0); outputs],
            is_ended: false,
            has_failed: false,
        };
        SpoolBacklog {
            state: Mutex::new(state),
            changed: Condvar::new(),
            scratch: Scratch::new(setup),
            reservation: setup.memory.reservation(),
            setup: setup.clone(),
            taker: thread::current(),
        }
    }

    /// Takes the input to its end. Fails with `Closed` if no output takes more.
    fn fill(&self, ports: &mut Ports) -> Result<()> {
        while self.wait_for_room(ports)?
            && ports.select_unless(&[0], &|| self.state.lock().is_over())?.is_some()
        {
            match ports.get_in_runs(0)? {
                Taken::Batch(parcel) => {
                    for batch in split_batch(parcel.batch) {
                        let written = self.push(batch)?;
                        ports.metrics().spilled(written);
                    }
                }
                Taken::RunEnd(_) | Taken::Empty => {}
                Taken::End => return Ok(()),
            }
        }
        Err(Error::closed())
    }

    /// Waits until the fastest output is near the end; returns whether any takes more.
    fn wait_for_room(&self, ports: &Ports) -> Result<bool> {
        let mut state = self.state.lock();
        let mut waits = None;
        while !state.is_over() && state.ahead() >= AHEAD_BATCHES_MAX {
            waits.get_or_insert_with(|| ports.metrics().enter(InstanceState::Blocked));
            self.wait(&mut state)?;
        }
        Ok(!state.is_over())
    }

    fn wait(&self, state: &mut MutexGuard<BacklogState>) -> Result<()> {
        self.changed.wait_for(state, CANCEL_POLL_INTERVAL);
        self.setup.cancel.check()
    }

    /// Adds a batch; returns the bytes that were written to scratch.
    fn push(&self, batch: RecordBatch) -> Result<usize> {
        let mut state = self.state.lock();
        state.held_bytes += batch_bytes(&batch);
        let (first, rows) = (state.taken, PieceRows::Held(batch));
        state.pieces.push_back(BacklogPiece { first, rows });
        state.taken += 1;
        let held_bytes = state.held_bytes;
        self.reservation.resize(held_bytes);
        drop(state);
        self.changed.notify_all();
        match held_bytes > self.setup.memory.share_bytes().max(SPILL_BYTES_MIN) {
            true => self.spill(),
            false => Ok(0),
        }
    }

    /// Writes all batches in memory to scratch, while outputs go on; returns the bytes written.
    fn spill(&self) -> Result<usize> {
        let (first, batches) = {
            let state = self.state.lock();
            let held = state.pieces.iter().filter_map(|piece| match &piece.rows {
                PieceRows::Held(batch) => Some((piece.first, batch.clone())),
                PieceRows::Written(_) => None,
            });
            let (numbers, batches): (Vec<usize>, Vec<RecordBatch>) = held.unzip();
            (numbers.first().copied().unwrap_or(state.taken), batches)
        };
        let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(0) };
        let bytes = batches.iter().map(batch_bytes).sum();
        let write = |disk: &Disk, path: &Path| self.written((disk, path), &schema, &batches);
        let segment = self.scratch.write("spool", bytes, write)?;
        let bytes = segment.bytes() as usize;
        let mut state = self.state.lock();
        state.pieces.retain(|piece| matches!(piece.rows, PieceRows::Written(_)));
        state.held_bytes = 0;
        state.pieces.push_back(BacklogPiece { first, rows: PieceRows::Written(Arc::new(segment)) });
        state.release();
        self.reservation.resize(0);
        Ok(bytes)
    }

    fn written(
        &self,
        (disk, path): (&Disk, &Path),
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<Segment, Unwritten> {
        let options = SegmentOptions { compression: None, scratch: true };
        let writer = SegmentWriter::create(disk, path, schema, options);
        let mut writer = writer.map_err(Unwritten::Disk)?;
        for batch in batches {
            self.setup.cancel.check()?;
            writer.append(batch).map_err(Unwritten::Disk)?;
        }
        writer.finish().map_err(Unwritten::Disk)
    }

    /// The input has ended, whole or not.
    fn end(&self, is_whole: bool) {
        let mut state = self.state.lock();
        state.is_ended = true;
        state.has_failed |= !is_whole;
        drop(state);
        self.changed.notify_all();
    }

    /// Puts all batches on an output, and drops its ports, unless something fails: what is not
    /// whole must not end before the flow is cancelled.
    fn serve(&self, number: usize, output: &mut Option<Ports>) -> Result<()> {
        let Some(ports) = output else { return Ok(()) };
        self.setup.cancel.register_thread();
        let served = catch_unwind(AssertUnwindSafe(|| self.put_all(number, ports)));
        let served = match served {
            Ok(Err(error)) if error.kind() == Kind::Closed => Ok(true),
            Ok(served) => served,
            Err(_) => Err(Error::failed("an output of the spool panicked")),
        };
        if let Ok(true) = served {
            *output = None;
        }
        let mut state = self.state.lock();
        state.next[number] = None;
        state.has_failed |= served.is_err();
        state.release();
        self.reservation.resize(state.held_bytes);
        drop(state);
        self.changed.notify_all();
        self.taker.unpark();
        served.map(drop)
    }

    /// Puts all batches on an output; returns whether these are all.
    fn put_all(&self, number: usize, ports: &mut Ports) -> Result<bool> {
        let mut next = 0;
        while let Some(piece) = self.piece(next)? {
            match piece.rows {
                PieceRows::Held(batch) => {
                    ports.put(0, batch)?;
                    next += 1;
                }
                PieceRows::Written(segment) => {
                    let mut blocks = segment.read(next - piece.first..segment.blocks().len());
                    while let Some(block) = blocks.next_block()? {
                        ports.put(0, block.batch)?;
                        next += 1;
                        self.has_put(number, next);
                    }
                }
            }
            self.has_put(number, next);
        }
        Ok(!self.state.lock().has_failed)
    }

    /// The piece with a batch, when it is there; none at the end.
    fn piece(&self, batch: usize) -> Result<Option<BacklogPiece>> {
        let mut state = self.state.lock();
        while batch >= state.taken && !state.is_ended && !state.has_failed {
            self.wait(&mut state)?;
        }
        if state.has_failed {
            return Ok(None);
        }
        self.setup.cancel.check()?;
        let behind = state.pieces.partition_point(|piece| piece.first <= batch);
        let found = behind.checked_sub(1).map(|at| state.pieces[at].clone());
        Ok(found.filter(|piece| batch < piece.end()))
    }

    fn has_put(&self, number: usize, next: usize) {
        let mut state = self.state.lock();
        state.next[number] = Some(next);
        state.release();
        self.reservation.resize(state.held_bytes);
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, integers, rows, setup};
    use arrow::compute::concat_batches;
    use euphrates_flow::MemoryAccount;
    use serde_json::json;

    #[test]
    fn every_output_gets_every_row() {
        let input: Vec<_> = (0..100).map(|at| integers(at * 10..(at + 1) * 10)).collect();
        let harness = Harness::new(&MODULE, json!({})).input(input[0].schema(), &input);
        let (outputs, outcome) = harness.run();
        outcome.unwrap();
        for output in &outputs {
            assert_eq!(rows(output, input[0].schema()), integers(0..1000));
        }
    }

    #[test]
    fn an_output_that_closes_does_not_stop_the_others() {
        let input: Vec<_> = (0..100).map(|at| integers(at * 10..(at + 1) * 10)).collect();
        let harness = Harness::new(&MODULE, json!({})).input(input[0].schema(), &input);
        let (outputs, outcome) = harness.leaves(0, 1).run();
        outcome.unwrap();
        assert_eq!(rows(&outputs[1], input[0].schema()), integers(0..1000));
    }

    #[test]
    fn ends_without_its_input_when_all_outputs_close() {
        let input: Vec<_> = (0..9).map(|at| integers([at])).collect();
        let harness = Harness::new(&MODULE, json!({})).input(input[0].schema(), &input).silent();
        let (outputs, outcome) = harness.leaves(0, 1).leaves(1, 2).run();
        outcome.unwrap();
        assert_eq!(outputs.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    }

    /// The rows that an output gets from a number of batch on.
    fn read(backlog: &SpoolBacklog, mut next: usize) -> RecordBatch {
        let mut batches = vec![];
        while let Some(piece) = backlog.piece(next).unwrap() {
            let (first, end) = (piece.first, piece.end());
            match piece.rows {
                PieceRows::Held(batch) => batches.push(batch),
                PieceRows::Written(segment) => {
                    let mut blocks = segment.read(next - first..segment.blocks().len());
                    while let Some(block) = blocks.next_block().unwrap() {
                        batches.push(block.batch);
                    }
                }
            }
            next = end;
        }
        concat_batches(integers([]).schema_ref(), &batches).unwrap()
    }

    #[test]
    fn what_the_slower_output_lags_behind_goes_to_scratch() {
        let folder = tempfile::tempdir().unwrap();
        let (scratch, memory) = (vec![folder.path().into()], MemoryAccount::alone(0));
        let setup = Arc::new(Setup { scratch, memory, ..setup() });
        let backlog = SpoolBacklog::new(&setup, 2);
        let size = (BATCH_BYTES_TARGET / 8) as i64;
        let mut written = 0;
        for at in 0..12 {
            written += backlog.push(integers(at * size..(at + 1) * size)).unwrap();
            backlog.has_put(0, at as usize + 1);
        }
        backlog.end(true);
        assert!(written > 8 * BATCH_BYTES_TARGET, "{written}");
        assert!(backlog.reservation.bytes() <= SPILL_BYTES_MIN);
        assert_eq!(read(&backlog, 0), integers(0..12 * size));
        assert_eq!(read(&backlog, 7), integers(7 * size..12 * size), "within a file");
        backlog.has_put(1, 12);
        assert!(backlog.state.lock().pieces.is_empty());
    }
}
