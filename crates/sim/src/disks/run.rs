//! The simulation loop of mirrored reading: delivers events to readers and disks.

use std::collections::BTreeMap;

use euphrates_policy::declustering::disk::DiskPolicy;
use euphrates_policy::declustering::reader::{NoCopy, SegmentReader};
use euphrates_policy::declustering::{Claiming, ToDisk, ToReader};

use super::{MirroredReading, SimulatedDiskReport};
use crate::events::EventQueue;
use crate::random::Random;

#[derive(Clone, Copy, Debug)]
enum DiskEvent {
    Start {
        reader: usize,
    },
    ToDisk {
        reader: usize,
        copy: usize,
        message: ToDisk,
    },
    ToReader {
        reader: usize,
        copy: usize,
        message: ToReader,
    },
    /// The disk is free, after all other events of this time; `hops` defers it further.
    Free {
        disk: usize,
        hops: u8,
    },
    Read {
        disk: usize,
        reader: usize,
        block: u32,
    },
    Data {
        reader: usize,
        copy: usize,
        block: u32,
    },
    Wake {
        reader: usize,
    },
    Lost {
        reader: usize,
        copy: usize,
    },
}

struct Simulation<'a> {
    mirrors: &'a MirroredReading,
    events: EventQueue<DiskEvent>,
    random: Random,
    readers: Vec<SegmentReader>,
    disks: Vec<DiskPolicy>,
    /// When each disk has served its queue, and the block that would follow without a seek.
    queues: Vec<(u64, Option<(usize, u32)>)>,
    /// When the last message between two ends arrives, by reader, copy and direction.
    links: BTreeMap<(usize, usize, bool), u64>,
    /// The pending wake-up of each reader.
    wakes: Vec<Option<u64>>,
    delivered: Vec<Vec<bool>>,
    handed: Vec<u32>,
    report: SimulatedDiskReport,
}

/// Events between two full checks of a reader's invariants.
const CHECK_EVERY: u64 = 4099;
/// Events at the start of a run that are all followed by a full check, which covers small runs.
const CHECKS_FIRST: u64 = 2000;
/// Events per block, at most. A run needs far fewer; one with more is a livelock.
const EVENTS_PER_BLOCK_MAX: u64 = 1000;

/// Runs until everything is read. Panics if a block is delivered twice, out of order, or never.
pub fn run(mirrors: &MirroredReading, seed: u64) -> SimulatedDiskReport {
    let mut simulation = Simulation::new(mirrors, seed);
    let blocks: usize = mirrors.segments.iter().map(|segment| segment.sizes.len()).sum();
    let events_max = EVENTS_PER_BLOCK_MAX * (blocks + 100 * mirrors.segments.len()) as u64;
    let mut count = 0;
    while let Some(event) = simulation.events.pop() {
        simulation.on(event);
        count += 1;
        assert!(count < events_max, "it goes in circles");
        if count % CHECK_EVERY == 0 || count < CHECKS_FIRST {
            simulation.check(count as usize % mirrors.segments.len());
        }
    }
    simulation.finish()
}

impl<'a> Simulation<'a> {
    fn new(mirrors: &'a MirroredReading, seed: u64) -> Simulation<'a> {
        let disk = || DiskPolicy::new(mirrors.order.clone(), mirrors.depth_max);
        let mut disks: Vec<DiskPolicy> = mirrors.disks.iter().map(|_| disk()).collect();
        let mut events = EventQueue::default();
        for (reader, segment) in mirrors.segments.iter().enumerate() {
            events.push(segment.from_ns, DiskEvent::Start { reader });
            for (rank, &at) in segment.copies.iter().enumerate() {
                disks[at].on_reader(reader as u32, rank);
                if let Some(dies_ns) = mirrors.disks[at].dies_ns {
                    let lost = DiskEvent::Lost { reader, copy: rank };
                    events.push(dies_ns.max(segment.from_ns) + mirrors.notice_ns, lost);
                }
            }
        }
        let of = |(reader, segment): (usize, &super::SimulatedSegment)| {
            let mut settings = mirrors.settings;
            if let Claiming::Random(seed) = &mut settings.claiming {
                // With equal seeds all readers would draw the same copies and share the disks
                // evenly.
                *seed = Random::new(*seed + reader as u64).next_u64();
            }
            SegmentReader::new(settings, &segment.sizes, segment.copies.len())
        };
        let blocks = |segment: &super::SimulatedSegment| vec![false; segment.sizes.len()];
        let segments = &mirrors.segments;
        Simulation {
            mirrors,
            events,
            random: Random::new(seed),
            readers: segments.iter().enumerate().map(of).collect(),
            disks,
            queues: vec![(0, None); mirrors.disks.len()],
            links: BTreeMap::new(),
            wakes: vec![None; segments.len()],
            delivered: segments.iter().map(blocks).collect(),
            handed: vec![0; segments.len()],
            report: SimulatedDiskReport {
                ends_ns: vec![0; segments.len()],
                ..SimulatedDiskReport::default()
            },
        }
    }

    fn has_failed(&self, reader: usize) -> bool {
        self.report.failed.iter().any(|&(failed, _)| failed == reader)
    }

    fn check(&self, reader: usize) {
        if !self.has_failed(reader) {
            self.readers[reader].check_all();
        }
    }

    fn on(&mut self, event: DiskEvent) {
        let now_ns = self.events.now_ns();
        match event {
            DiskEvent::Start { reader } => self.with(reader, |it, out| {
                it.start(now_ns, out);
                Ok(())
            }),
            DiskEvent::ToReader { reader, copy, message } => {
                self.with(reader, |it, out| {
                    it.on_message(copy, message, now_ns, out);
                    Ok(())
                });
            }
            DiskEvent::Wake { reader } => {
                if self.wakes[reader] == Some(now_ns) {
                    self.wakes[reader] = None;
                    self.with(reader, |it, out| {
                        it.on_wake(now_ns, out);
                        Ok(())
                    });
                }
            }
            DiskEvent::Lost { reader, copy } => {
                self.with(reader, |it, out| it.on_lost(copy, now_ns, out));
            }
            DiskEvent::Data { reader, copy, block } => self.on_data(reader, copy, block),
            DiskEvent::ToDisk { reader, copy, message } => {
                let disk = self.mirrors.segments[reader].copies[copy];
                if !self.is_dead(disk) {
                    let mut out = Vec::new();
                    self.disks[disk].on_message(reader as u32, message, &mut out);
                    self.send_to_readers(disk, out);
                    self.begin(disk);
                }
            }
            DiskEvent::Free { disk, hops: 0 } => self.begin(disk),
            DiskEvent::Free { disk, hops } => {
                self.events.push(now_ns, DiskEvent::Free { disk, hops: hops - 1 });
            }
            DiskEvent::Read { disk, reader, block } => self.on_read(disk, reader, block),
        }
    }

    /// Lets a reader act, sends its messages, and takes the blocks that it delivers.
    fn with(
        &mut self,
        reader: usize,
        act: impl FnOnce(&mut SegmentReader, &mut Vec<(usize, ToDisk)>) -> Result<(), NoCopy>,
    ) {
        if self.has_failed(reader) {
            return;
        }
        let (now_ns, mut out) = (self.events.now_ns(), Vec::new());
        let it = &mut self.readers[reader];
        if let Err(error) = act(it, &mut out) {
            self.report.failed.push((reader, error));
            self.report.ends_ns[reader] = now_ns;
            let copies = &self.mirrors.segments[reader].copies;
            copies.iter().for_each(|&disk| self.disks[disk].on_gone(reader as u32));
            return;
        }
        self.report.held_bytes = self.report.held_bytes.max(it.held_bytes());
        while let Some(block) = it.take(now_ns, &mut out) {
            let order = !self.mirrors.settings.is_stream || block == self.handed[reader];
            assert!(order, "block {block} of {reader} came out of order");
            let twice = core::mem::replace(&mut self.delivered[reader][block as usize], true);
            assert!(!twice, "block {block} of {reader} came twice");
            self.handed[reader] += 1;
            self.report.blocks += 1;
        }
        if self.report.ends_ns[reader] == 0 && it.is_done() {
            self.report.ends_ns[reader] = now_ns.max(1);
        }
        let wake_ns = it.wake_at_ns();
        if let Some(at_ns) = wake_ns.filter(|_| self.wakes[reader] != wake_ns) {
            self.events.push(at_ns, DiskEvent::Wake { reader });
        }
        self.wakes[reader] = wake_ns;
        self.report.messages += out.len() as u64;
        for (copy, message) in out {
            let at_ns = self.arrives((reader, copy, true));
            self.events.push(at_ns, DiskEvent::ToDisk { reader, copy, message });
        }
    }

    fn on_data(&mut self, reader: usize, copy: usize, block: u32) {
        let now_ns = self.events.now_ns();
        let is_bad = self.mirrors.segments[reader].bad.contains(&(copy, block));
        let mut is_new = is_bad;
        self.with(reader, |it, out| {
            if is_bad {
                return it.on_failed(copy, block, now_ns, out);
            }
            is_new = it.on_done(copy, block, now_ns, out);
            Ok(())
        });
        self.report.wasted += u64::from(!is_new);
    }

    fn is_dead(&self, disk: usize) -> bool {
        self.mirrors.disks[disk].dies_ns.is_some_and(|at_ns| at_ns <= self.events.now_ns())
    }

    fn begin(&mut self, disk: usize) {
        if self.is_dead(disk) {
            return;
        }
        let (now_ns, mut out) = (self.events.now_ns(), Vec::new());
        let device = &self.mirrors.disks[disk];
        while let Some(begin) = self.disks[disk].next(now_ns, &mut out) {
            let (free_ns, follows) = self.queues[disk];
            let mut start_ns = free_ns.max(now_ns + device.overhead_ns);
            if follows != Some((begin.reader as usize, begin.block)) {
                start_ns = start_ns.saturating_add(device.seek_ns);
                self.report.seeks += 1;
            }
            let end_ns = device.speed.done_at(start_ns, begin.bytes);
            let after = (begin.reader as usize, begin.block + 1);
            self.queues[disk] = (end_ns.unwrap_or(u64::MAX), Some(after));
            if let Some(end_ns) = end_ns {
                let reader = begin.reader as usize;
                self.events.push(end_ns, DiskEvent::Read { disk, reader, block: begin.block });
            }
        }
        self.send_to_readers(disk, out);
    }

    fn on_read(&mut self, disk: usize, reader: usize, block: u32) {
        if self.is_dead(disk) {
            return;
        }
        let now_ns = self.events.now_ns();
        if self.disks[disk].on_done(reader as u32, block, now_ns) {
            let copy = self.copy_at(reader, disk);
            let at_ns = self.arrives((reader, copy, false));
            self.events.push(at_ns, DiskEvent::Data { reader, copy, block });
        } else {
            self.report.wasted += 1;
        }
        // Without latency, the reader's next claim must arrive before the disk decides.
        let hops = if self.mirrors.latency_ns == 0 { 2 } else { 0 };
        self.events.push(now_ns, DiskEvent::Free { disk, hops });
    }

    fn send_to_readers(&mut self, disk: usize, out: Vec<(u32, ToReader)>) {
        self.report.messages += out.len() as u64;
        for (reader, message) in out {
            let reader = reader as usize;
            let copy = self.copy_at(reader, disk);
            let at_ns = self.arrives((reader, copy, false));
            self.events.push(at_ns, DiskEvent::ToReader { reader, copy, message });
        }
    }

    fn copy_at(&self, reader: usize, disk: usize) -> usize {
        let copies = &self.mirrors.segments[reader].copies;
        copies.iter().position(|&at| at == disk).expect("a copy on this disk")
    }

    /// The arrival time of a message sent now, not before that of an earlier one on the link.
    fn arrives(&mut self, link: (usize, usize, bool)) -> u64 {
        let mirrors = self.mirrors;
        let at_ns = self.events.now_ns() + mirrors.latency_ns;
        if mirrors.latency_spread_ns == 0 {
            return at_ns;
        }
        let last_ns = self.links.entry(link).or_default();
        *last_ns = (at_ns + self.random.below(mirrors.latency_spread_ns)).max(*last_ns);
        *last_ns
    }

    fn finish(mut self) -> SimulatedDiskReport {
        for (reader, it) in self.readers.iter().enumerate() {
            if !self.has_failed(reader) {
                it.check_all();
                assert!(it.is_done(), "reader {reader} never ended");
                self.report.again += it.again() as u64;
            }
        }
        self.report.events = self.events.count();
        self.report
    }
}
