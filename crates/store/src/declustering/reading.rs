//! The readers' side of graduated declustering.
//!
//! A reader waits by parking its thread, as in the engine's queues: it registers under the lock, so
//! no wake-up between its check and its parking is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Cancel, Error, Result};
use euphrates_policy::declustering::reader::{ReaderSettings, SegmentReader as Policy};

use super::declustered_segment::DeclusteredSegment;
use super::faults::Faults;
use super::remote_readers::RemoteReaders;
use super::shared::{ArrivedBlock, RunsInProgress, Shared, State};
use super::{ReaderAssignment, Sequence};
use crate::collection::{CollectionReadOptions, SegmentCopies};
use crate::segment::{Block, BlockDecoder, ReadBlock, Segment};

/// The bytes that a segment may claim, read ahead and hold in any case, even if its share is less.
const SEGMENT_WINDOW_BYTES_MIN: u64 = 4 << 20;
const SEGMENT_WINDOW_BYTES_MAX: u64 = 64 << 20;

/// A collection on several disks that is being read.
pub struct Declustered(Arc<Shared>);

/// One of its readers. The caller must not use it after an error.
pub struct MirrorReader {
    shared: Arc<Shared>,
    cancel: Arc<Cancel>,
    /// The segments whose blocks it takes, if there is no order.
    own: Vec<usize>,
    /// Of a stream: its current run, and the number of blocks of the run still to come.
    run: Option<(u64, usize)>,
}

impl Declustered {
    /// Prepares the reading; no block is read before a reader asks. With a sequence, the blocks
    /// form its stream.
    pub fn new(
        segments: &[SegmentCopies],
        schema: &SchemaRef,
        sequence: Option<Sequence>,
        (how, among): (CollectionReadOptions, ReaderAssignment),
    ) -> Result<Arc<Declustered>> {
        let mirrors = how.mirrors;
        let own: Vec<usize> = (0..segments.len()).filter(|at| among.is_read_here(*at)).collect();
        let window_bytes = (how.window_bytes_max as u64 / own.len().max(1) as u64)
            .clamp(SEGMENT_WINDOW_BYTES_MIN, SEGMENT_WINDOW_BYTES_MAX);
        let (mut parts, mut policies, mut sources) = (vec![], vec![], vec![]);
        let mut faults = Faults::default();
        for (at, copies) in segments.iter().enumerate() {
            let (part, sources_of) =
                DeclusteredSegment::new(copies, (at, &among), mirrors, &mut faults)?;
            let rate = |copy: &Option<Arc<Segment>>| match copy {
                Some(copy) => copy.disk().rate(),
                None => Some(0),
            };
            let rates: Vec<Option<u64>> = copies.copies.iter().map(rate).collect();
            let settings = ReaderSettings {
                claiming: mirrors.claiming(at, &rates),
                is_stream: sequence.is_some(),
                window_bytes_max: window_bytes,
                ..ReaderSettings::default()
            };
            let sizes: Vec<u64> = part.toc.blocks.iter().map(|block| block.bytes).collect();
            policies.push(Policy::new(settings, &sizes, part.disks.len()));
            parts.push(part);
            sources.push(sources_of);
        }
        let state = State {
            policies,
            sources,
            has_started: false,
            arrived: BTreeMap::new(),
            left: own.iter().map(|at| parts[*at].toc.blocks.len()).sum(),
            own,
            readers: 0,
            turn: 0,
            stream: RunsInProgress::default(),
            failed: None,
            is_given_up: false,
            waiting: vec![],
            faults,
            bytes: BTreeMap::new(),
        };
        let decoder = BlockDecoder::new(schema, how.options.columns);
        let (began, state) = (Instant::now(), Mutex::new(state));
        let (serving, among) = (RemoteReaders::default(), Arc::new(among));
        let shared = Shared { parts, among, mirrors, serving, decoder, sequence, began, state };
        Ok(Arc::new(Declustered(Arc::new(shared))))
    }

    /// Handles a message of another process that reads the collection. A malformed one is an error.
    pub fn on_message(&self, process: usize, bytes: &[u8], body: &Buffer) -> Result<()> {
        self.0.on_message(process, bytes, body)
    }

    /// A reader for one thread, which the end of the flow unparks.
    pub fn reader(&self, cancel: &Arc<Cancel>) -> MirrorReader {
        let own = self.0.state.lock().own.clone();
        MirrorReader { shared: self.0.clone(), cancel: cancel.clone(), own, run: None }
    }

    /// The next of `readers` readers of this process, among which its segments are divided in
    /// advance: an unordered reader gets no block of the others' segments, a stream is not divided.
    pub fn reader_of(&self, cancel: &Arc<Cancel>, readers: usize) -> MirrorReader {
        let mut state = self.0.state.lock();
        let own = state.own.iter().skip(state.readers).step_by(readers).copied().collect();
        state.readers += 1;
        MirrorReader { shared: self.0.clone(), cancel: cancel.clone(), own, run: None }
    }

    /// A remark for the report: the bytes from each disk, and the damages.
    pub fn remark(&self) -> Option<String> {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let bytes = self.bytes_by_disk();
        let disks: Vec<String> = bytes
            .iter()
            .map(|(disk, bytes)| format!("{:.1} MiB from {disk}", mebibytes(*bytes)))
            .collect();
        let told = (!disks.is_empty()).then(|| disks.join(", "));
        let faults = self.0.state.lock().faults.remark();
        let all: Vec<String> = told.into_iter().chain(faults).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The bytes from each disk, by its name.
    pub fn bytes_by_disk(&self) -> Vec<(String, u64)> {
        self.0.state.lock().bytes.iter().map(|(disk, bytes)| (disk.clone(), *bytes)).collect()
    }
}

impl MirrorReader {
    /// The next block, `None` after the last. The blocks of a stream come in runs.
    pub fn next_block(&mut self) -> Result<Option<ReadBlock>> {
        let shared = self.shared.clone();
        let Some((got, run, last)) = self.next_bytes(&shared)? else { return Ok(None) };
        let part = &shared.parts[got.segment];
        let block: &Block = &part.toc.blocks[got.block as usize];
        let batch = shared.decoder.decode(block, &got.bytes).map_err(|error| {
            error.at(format!("block {}", part.toc.index_in_segment(got.block))).at(&part.path)
        })?;
        Ok(Some(ReadBlock { batch, bytes: block.bytes, run, last }))
    }

    /// The next block of this reader, its run, and whether it is the last of the run.
    fn next_bytes(&mut self, shared: &Arc<Shared>) -> Result<Option<(ArrivedBlock, u64, bool)>> {
        loop {
            let mut state = shared.state.lock();
            shared.start(&mut state);
            if let Some((segment, block)) = state.failed {
                return Err(shared.error(&state, segment, block));
            }
            if state.is_given_up {
                return Err(Error::failed("a disk's thread has panicked")
                    .remedy("this is a bug in Euphrates; please report it with the flow"));
            }
            self.cancel.check()?;
            let found = match &shared.sequence {
                Some(sequence) => match self.next_of_run(shared, sequence, &mut state) {
                    None => return Ok(None),
                    Some(found) => found,
                },
                None if self.own.iter().all(|own| state.policies[*own].is_done()) => {
                    return Ok(None);
                }
                None => shared.take_any(&mut state, &self.own).map(|got| (got, 0, false)),
            };
            if found.is_some() {
                return Ok(found);
            }
            let wake_ns = state.policies.iter().filter_map(Policy::wake_at_ns).min();
            state.waiting.push(thread::current());
            drop(state);
            match wake_ns.map(|at_ns| at_ns.saturating_sub(shared.now_ns())) {
                None => thread::park(),
                Some(ns) => {
                    thread::park_timeout(Duration::from_nanos(ns));
                    shared.wake_due();
                }
            }
        }
    }

    /// Returns the next block of the reader's run, `Some(None)` if it has not arrived, or `None` if
    /// no run is left.
    #[allow(clippy::option_option, reason = "no run left, or a run whose block is not there yet")]
    fn next_of_run(
        &mut self,
        shared: &Shared,
        sequence: &Sequence,
        state: &mut State,
    ) -> Option<Option<(ArrivedBlock, u64, bool)>> {
        let (run, left) = match self.run {
            Some(run) => run,
            None if state.stream.next_run == sequence.runs() => return None,
            None => {
                let run = state.stream.next_run;
                state.stream.next_run += 1;
                (run, sequence.run(run).len())
            }
        };
        shared.assign_blocks(sequence, state);
        self.run = Some((run, left));
        let dealt = state.stream.dealt.get_mut(&run).and_then(VecDeque::pop_front);
        let Some(got) = dealt else { return Some(None) };
        let last = left == 1;
        if last {
            state.stream.dealt.remove(&run);
        }
        self.run = (!last).then_some((run, left - 1));
        Some(Some((got, run, last)))
    }
}
