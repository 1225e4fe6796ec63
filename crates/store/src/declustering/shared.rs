//! The state that the readers of a collection and its disks share: a policy for each segment, the
//! blocks that have arrived, and the waiting readers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::Thread;
use std::time::Instant;

use arrow::buffer::Buffer;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};
use euphrates_policy::declustering::ToReader;
use euphrates_policy::declustering::reader::{NoCopy, SegmentReader as Policy, ToDisks};

use super::declustered_segment::DeclusteredSegment;
use super::disk::{BlockRefused, OpenCopy, Requester};
use super::faults::Faults;
use super::remote_readers::RemoteReaders;
use super::{MirrorPolicy, ReaderAssignment, Sequence};
use crate::segment::{BlockDecoder, Damage};

/// The state that readers and disks share.
pub(super) struct Shared {
    pub parts: Vec<DeclusteredSegment>,
    pub among: Arc<ReaderAssignment>,
    pub mirrors: MirrorPolicy,
    pub serving: RemoteReaders,
    pub decoder: BlockDecoder,
    pub sequence: Option<Sequence>,
    pub began: Instant,
    pub state: Mutex<State>,
}

pub(super) struct State {
    pub policies: Vec<Policy>,
    /// The open copies, until their disks receive them.
    pub sources: Vec<Vec<Option<OpenCopy>>>,
    pub has_started: bool,
    pub arrived: BTreeMap<(usize, u32), Buffer>,
    /// The segments whose readers are in this process.
    pub own: Vec<usize>,
    /// The blocks of these segments that no reader has taken.
    pub left: usize,
    /// The number of readers among which they are divided so far.
    pub readers: usize,
    /// The segment to check next, when there is no order.
    pub turn: usize,
    pub stream: RunsInProgress,
    pub failed: Option<(usize, u32)>,
    pub is_given_up: bool,
    pub waiting: Vec<Thread>,
    pub faults: Faults,
    pub bytes: BTreeMap<String, u64>,
}

/// The runs of a stream that are in progress.
#[derive(Default)]
pub(super) struct RunsInProgress {
    /// The first run that no reader has begun.
    pub next_run: u64,
    /// The position of the first block that has not been assigned to a run.
    pub next_block: usize,
    pub dealt: BTreeMap<u64, VecDeque<ArrivedBlock>>,
}

/// A block that has arrived.
pub(super) struct ArrivedBlock {
    pub segment: usize,
    pub block: u32,
    pub bytes: Buffer,
}

impl Shared {
    /// Handles a message of a disk's policy.
    pub fn on_disk_message(&self, (segment, copy): (usize, usize), message: ToReader) {
        let mut state = self.state.lock();
        self.with(&mut state, segment, |policy, now_ns, out| {
            policy.on_message(copy, message, now_ns, out);
            Ok(())
        });
        if state.failed.is_some() || state.policies[segment].wake_at_ns().is_some() {
            state.wake();
        }
    }

    /// Handles a block that a disk has read, or has failed to read.
    pub fn on_read(
        &self,
        (segment, copy): (usize, usize),
        block: u32,
        read: Result<Buffer, BlockRefused>,
    ) {
        let mut state = self.state.lock();
        let disk = &self.parts[segment].disks[copy];
        match read {
            Ok(bytes) => {
                state.faults.on_device(segment, copy, false);
                let mut is_first = false;
                self.with(&mut state, segment, |policy, now_ns, out| {
                    is_first = policy.on_done(copy, block, now_ns, out);
                    Ok(())
                });
                if is_first {
                    *state.bytes.entry(disk.clone()).or_default() += bytes.len() as u64;
                    state.arrived.insert((segment, block), bytes);
                }
            }
            Err(BlockRefused { what, is_damaged }) => {
                let path = self.parts[segment].path.clone().into();
                let block_at = self.parts[segment].toc.index_in_segment(block);
                let (disk, block_at) = (disk.clone(), Some(block_at as usize));
                state.faults.on_block(Damage { disk, path, block: block_at, what });
                let is_lost = !is_damaged && state.faults.on_device(segment, copy, true);
                self.with(&mut state, segment, |policy, now_ns, out| match is_lost {
                    true => policy.on_lost(copy, now_ns, out),
                    false => policy.on_failed(copy, block, now_ns, out),
                });
            }
        }
        state.wake();
    }

    /// Handles the loss of a copy that another process was to read.
    pub fn on_lost(&self, (segment, copy): (usize, usize), what: String) {
        let mut state = self.state.lock();
        let DeclusteredSegment { path, disks, .. } = &self.parts[segment];
        let (disk, path) = (disks[copy].clone(), path.clone().into());
        state.faults.on_copy(Damage { disk, path, block: None, what });
        self.with(&mut state, segment, |policy, now_ns, out| policy.on_lost(copy, now_ns, out));
        state.wake();
    }

    /// Handles the end of a disk's endpoint before the end of the reading.
    pub fn give_up(&self) {
        let mut state = self.state.lock();
        state.is_given_up = true;
        state.wake();
    }

    /// Announces the readers to the disks, and makes the first claims.
    pub fn start(self: &Arc<Self>, state: &mut State) {
        if std::mem::replace(&mut state.has_started, true) {
            return;
        }
        let sources = std::mem::take(&mut state.sources);
        for (segment, (part, sources)) in self.parts.iter().zip(sources).enumerate() {
            part.join(sources, &self.among, |copy| {
                Box::new(LocalReader { shared: Arc::downgrade(self), of: (segment, copy) })
            });
        }
        for segment in state.own.clone() {
            let part = &self.parts[segment];
            self.with(state, segment, |policy, now_ns, out| {
                part.lost().try_for_each(|copy| policy.on_lost(copy, now_ns, out))?;
                policy.start(now_ns, out);
                Ok(())
            });
        }
    }

    /// Calls the policy of a segment, and posts the messages that it returns.
    fn with(
        &self,
        state: &mut State,
        segment: usize,
        ask: impl FnOnce(&mut Policy, u64, &mut ToDisks) -> Result<(), NoCopy>,
    ) {
        if state.failed.is_some() {
            return;
        }
        let mut out = ToDisks::new();
        let answer = ask(&mut state.policies[segment], self.now_ns(), &mut out);
        if let Err(NoCopy { block }) = answer {
            state.failed = Some((segment, block));
            return self.parts.iter().for_each(|part| part.leave(&self.among));
        }
        for (copy, message) in out {
            self.parts[segment].say(copy, message, &self.among);
        }
        if state.policies[segment].is_done() {
            self.parts[segment].leave(&self.among);
        }
    }

    /// Any block that has arrived, from these segments in round-robin order.
    pub fn take_any(&self, state: &mut State, own: &[usize]) -> Option<ArrivedBlock> {
        let (before, later) = own.split_at(own.partition_point(|segment| *segment < state.turn));
        for segment in later.iter().chain(before).copied() {
            if let Some(got) = self.take_block(state, segment) {
                state.turn = segment + 1;
                return Some(got);
            }
        }
        None
    }

    /// Assigns the next blocks of the stream to the runs that readers have begun.
    pub fn assign_blocks(&self, sequence: &Sequence, state: &mut State) {
        let mut dealt = false;
        while let Some(segment) = sequence.segment(state.stream.next_block) {
            let run = sequence.run_of(state.stream.next_block);
            if run >= state.stream.next_run {
                break;
            }
            let Some(got) = self.take_block(state, segment) else { break };
            state.stream.next_block += 1;
            state.stream.dealt.entry(run).or_default().push_back(got);
            dealt = true;
        }
        if dealt {
            // Some of them may belong to other readers.
            state.wake();
        }
    }

    fn take_block(&self, state: &mut State, segment: usize) -> Option<ArrivedBlock> {
        let mut block = None;
        self.with(state, segment, |policy, now_ns, out| {
            block = policy.take(now_ns, out);
            Ok(())
        });
        let block = block?;
        state.left -= 1;
        if state.left == 0 {
            state.wake();
        }
        let bytes = state.arrived.remove(&(segment, block)).expect("it has arrived");
        Some(ArrivedBlock { segment, block, bytes })
    }

    /// Calls the policies whose timers have expired.
    pub fn wake_due(&self) {
        let (mut state, now_ns) = (self.state.lock(), self.now_ns());
        for segment in 0..self.parts.len() {
            if state.policies[segment].wake_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                self.with(&mut state, segment, |policy, now_ns, out| {
                    policy.on_wake(now_ns, out);
                    Ok(())
                });
            }
        }
    }

    pub fn error(&self, state: &State, segment: usize, block: u32) -> Error {
        let part = &self.parts[segment];
        state.faults.error(part.toc.index_in_segment(block), &part.path, &part.disks)
    }

    pub fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.parts.iter().for_each(|part| part.leave(&self.among));
    }
}

impl State {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(|thread| thread.unpark());
    }
}

/// The readers of this process, as the disk of a copy answers them.
struct LocalReader {
    shared: Weak<Shared>,
    /// The segment and the copy.
    of: (usize, usize),
}

impl Requester for LocalReader {
    fn on_disk_message(&self, message: ToReader) {
        self.shared.upgrade().iter().for_each(|to| to.on_disk_message(self.of, message));
    }

    fn on_read(&self, block: u32, read: Result<Buffer, BlockRefused>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.on_read(self.of, block, read);
        }
    }

    fn give_up(&self) {
        self.shared.upgrade().iter().for_each(|shared| shared.give_up());
    }
}
