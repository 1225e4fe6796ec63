//! The simulation loop of striped reading: delivers events to readers and disks.

use std::collections::BTreeMap;

use euphrates_policy::declustering::disk::DiskPolicy;
use euphrates_policy::declustering::{ToDisk, ToReader};
use euphrates_policy::striping::reader::{StripeReader, TooFewBlocks};

use super::{StripedReading, StripedReport};
use crate::events::EventQueue;
use crate::random::Random;
use crate::speed::SECOND_NS;

#[derive(Clone, Copy, Debug)]
enum StripeEvent {
    /// A disk learns of a reader.
    Join {
        reader: usize,
        disk: usize,
    },
    Start {
        reader: usize,
    },
    ToDisk {
        reader: usize,
        disk: usize,
        message: ToDisk,
    },
    ToReader {
        reader: usize,
        disk: usize,
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
        stripe: u32,
    },
    Data {
        disk: usize,
        reader: usize,
        stripe: u32,
    },
    Wake {
        reader: usize,
    },
    Lost {
        reader: usize,
        disk: usize,
    },
}

struct StripeSimulation<'a> {
    reading: &'a StripedReading,
    events: EventQueue<StripeEvent>,
    random: Random,
    readers: Vec<StripeReader>,
    disks: Vec<DiskPolicy>,
    /// When each disk has served its queue, and the block that would follow without a seek.
    queues: Vec<(u64, Option<(usize, u32)>)>,
    /// When the last message between two ends arrives, by reader, disk and direction.
    links: BTreeMap<(usize, usize, bool), u64>,
    /// The pending wake-up of each reader.
    wakes: Vec<Option<u64>>,
    delivered: Vec<Vec<bool>>,
    handed: Vec<u32>,
    report: StripedReport,
}

/// Events between two full checks of a reader's invariants.
const CHECK_EVERY: u64 = 4099;
/// Events at the start of a run that are all followed by a full check, which covers small runs.
const CHECKS_FIRST: u64 = 500;
/// Events per block, at most. A run needs far fewer; one with more is a livelock.
const EVENTS_PER_BLOCK_MAX: u64 = 1000;

/// Runs until everything is read. Panics if a stripe is delivered twice, out of order, or never.
pub fn run(reading: &StripedReading, seed: u64) -> StripedReport {
    let mut simulation = StripeSimulation::new(reading, seed);
    let stripes = reading.files.iter().flat_map(|file| &file.stripes);
    let blocks: usize = stripes.map(|stripe| stripe.disks.len()).sum();
    let events_max = EVENTS_PER_BLOCK_MAX * (blocks + 100 * reading.files.len()) as u64;
    let mut count = 0;
    while let Some(event) = simulation.events.pop() {
        simulation.on(event);
        count += 1;
        assert!(count < events_max, "it goes in circles");
        if count % CHECK_EVERY == 0 || count < CHECKS_FIRST {
            simulation.check(count as usize % reading.files.len());
        }
    }
    simulation.finish()
}

impl<'a> StripeSimulation<'a> {
    fn new(reading: &'a StripedReading, seed: u64) -> StripeSimulation<'a> {
        let disk = || DiskPolicy::new(reading.order.clone(), reading.depth_max);
        let disks: Vec<DiskPolicy> = reading.disks.iter().map(|_| disk()).collect();
        let mut events = EventQueue::default();
        for reader in 0..reading.files.len() {
            // Announced to one disk after the other: an idle one answers before the next one knows.
            events.push(disks.len() as u64, StripeEvent::Start { reader });
            for at in 0..disks.len() {
                events.push(at as u64, StripeEvent::Join { reader, disk: at });
                if let Some(dies_ns) = reading.disks[at].dies_ns {
                    let lost = StripeEvent::Lost { reader, disk: at };
                    events.push(dies_ns + reading.notice_ns, lost);
                }
            }
        }
        let of = |file: &super::StripedFile| {
            let mut it =
                StripeReader::new(reading.settings, file.stripes.clone(), reading.disks.len());
            for (at, disk) in reading.disks.iter().enumerate().filter(|_| reading.knows_paces) {
                it.on_pace(at, (1 << 20) * SECOND_NS / disk.speed.first().max(1));
            }
            it
        };
        let files = &reading.files;
        StripeSimulation {
            reading,
            events,
            random: Random::new(seed),
            readers: files.iter().map(of).collect(),
            disks,
            queues: vec![(0, None); reading.disks.len()],
            links: BTreeMap::new(),
            wakes: vec![None; files.len()],
            delivered: files.iter().map(|file| vec![false; file.stripes.len()]).collect(),
            handed: vec![0; files.len()],
            report: StripedReport {
                ends_ns: vec![0; files.len()],
                read: vec![0; reading.disks.len()],
                ..StripedReport::default()
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

    fn on(&mut self, event: StripeEvent) {
        let now_ns = self.events.now_ns();
        match event {
            StripeEvent::Join { reader, disk } => {
                self.disks[disk].on_reader(reader as u32, 0);
                self.begin(disk);
            }
            StripeEvent::Start { reader } => {
                self.with(reader, |it, out| it.start(now_ns, out));
            }
            StripeEvent::ToReader { reader, disk, message } => {
                self.with(reader, |it, out| it.on_message(disk, message, now_ns, out));
            }
            StripeEvent::Wake { reader } => {
                if self.wakes[reader] == Some(now_ns) {
                    self.wakes[reader] = None;
                    self.with(reader, |it, out| it.on_wake(now_ns, out));
                }
            }
            StripeEvent::Lost { reader, disk } => {
                self.with(reader, |it, out| it.on_lost(disk, now_ns, out));
            }
            StripeEvent::Data { disk, reader, stripe } => self.on_data(disk, reader, stripe),
            StripeEvent::ToDisk { reader, disk, message } => {
                if !self.is_dead(disk) {
                    let mut out = Vec::new();
                    self.disks[disk].on_message(reader as u32, message, &mut out);
                    self.send_to_readers(disk, out);
                    self.begin(disk);
                }
            }
            StripeEvent::Free { disk, hops: 0 } => self.begin(disk),
            StripeEvent::Free { disk, hops } => {
                self.events.push(now_ns, StripeEvent::Free { disk, hops: hops - 1 });
            }
            StripeEvent::Read { disk, reader, stripe } => self.on_read(disk, reader, stripe),
        }
    }

    /// Lets a reader act, takes the stripes that it delivers, and sends its messages.
    fn with(
        &mut self,
        reader: usize,
        act: impl FnOnce(&mut StripeReader, &mut Vec<(usize, ToDisk)>) -> Result<(), TooFewBlocks>,
    ) {
        if self.has_failed(reader) {
            return;
        }
        let mut out = Vec::new();
        let acted = act(&mut self.readers[reader], &mut out);
        let taken = acted.and_then(|()| self.take(reader, &mut out));
        let now_ns = self.events.now_ns();
        if let Err(error) = taken {
            self.report.failed.push((reader, error));
            self.report.ends_ns[reader] = now_ns;
            self.disks.iter_mut().for_each(|disk| disk.on_gone(reader as u32));
            return;
        }
        let it = &self.readers[reader];
        if self.report.ends_ns[reader] == 0 && it.is_done() {
            self.report.ends_ns[reader] = now_ns.max(1);
        }
        let wake_ns = it.wake_at_ns();
        if let Some(at_ns) = wake_ns.filter(|_| self.wakes[reader] != wake_ns) {
            self.events.push(at_ns, StripeEvent::Wake { reader });
        }
        self.wakes[reader] = wake_ns;
        self.report.messages += out.len() as u64;
        for (disk, message) in out {
            let at_ns = self.arrives((reader, disk, true));
            self.events.push(at_ns, StripeEvent::ToDisk { reader, disk, message });
        }
    }

    fn take(&mut self, reader: usize, out: &mut Vec<(usize, ToDisk)>) -> Result<(), TooFewBlocks> {
        let now_ns = self.events.now_ns();
        while let Some(done) = self.readers[reader].take(now_ns, out)? {
            let at = done.stripe as usize;
            let order = !self.reading.settings.is_stream || done.stripe == self.handed[reader];
            assert!(order, "stripe {at} of {reader} came out of order");
            let twice = std::mem::replace(&mut self.delivered[reader][at], true);
            assert!(!twice, "stripe {at} of {reader} came twice");
            let needed = self.reading.files[reader].stripes[at].needed;
            assert_eq!(done.places.len(), needed, "stripe {at} of {reader}");
            self.handed[reader] += 1;
            self.report.stripes += 1;
        }
        Ok(())
    }

    fn on_data(&mut self, disk: usize, reader: usize, stripe: u32) {
        let now_ns = self.events.now_ns();
        let is_bad = self.reading.files[reader].bad.contains(&(disk, stripe));
        let mut is_new = is_bad;
        self.with(reader, |it, out| {
            if is_bad {
                return it.on_failed(disk, stripe, now_ns, out);
            }
            is_new = it.on_done(disk, stripe, now_ns, out)?;
            Ok(())
        });
        self.report.wasted += u64::from(!is_new);
    }

    fn is_dead(&self, disk: usize) -> bool {
        self.reading.disks[disk].dies_ns.is_some_and(|at_ns| at_ns <= self.events.now_ns())
    }

    fn begin(&mut self, disk: usize) {
        if self.is_dead(disk) {
            return;
        }
        let (now_ns, mut out) = (self.events.now_ns(), Vec::new());
        let device = &self.reading.disks[disk];
        while let Some(begin) = self.disks[disk].next(now_ns, &mut out) {
            let (reader, stripe) = (begin.reader as usize, begin.block);
            let (free_ns, follows) = self.queues[disk];
            let mut start_ns = free_ns.max(now_ns + device.overhead_ns);
            if follows != Some((reader, stripe)) {
                start_ns = start_ns.saturating_add(device.seek_ns);
            }
            let end_ns = device.speed.done_at(start_ns, begin.bytes);
            self.queues[disk] = (end_ns.unwrap_or(u64::MAX), Some((reader, stripe + 1)));
            if let Some(end_ns) = end_ns {
                self.events.push(end_ns, StripeEvent::Read { disk, reader, stripe });
            }
        }
        self.send_to_readers(disk, out);
    }

    fn on_read(&mut self, disk: usize, reader: usize, stripe: u32) {
        if self.is_dead(disk) {
            return;
        }
        let now_ns = self.events.now_ns();
        self.report.read[disk] += 1;
        if self.disks[disk].on_done(reader as u32, stripe, now_ns) {
            let at_ns = self.arrives((reader, disk, false));
            self.events.push(at_ns, StripeEvent::Data { disk, reader, stripe });
        } else {
            self.report.wasted += 1;
        }
        // Without latency, the reader's next claim must arrive before the disk decides.
        let hops = if self.reading.latency_ns == 0 { 2 } else { 0 };
        self.events.push(now_ns, StripeEvent::Free { disk, hops });
    }

    fn send_to_readers(&mut self, disk: usize, out: Vec<(u32, ToReader)>) {
        self.report.messages += out.len() as u64;
        for (reader, message) in out {
            let reader = reader as usize;
            let at_ns = self.arrives((reader, disk, false));
            self.events.push(at_ns, StripeEvent::ToReader { reader, disk, message });
        }
    }

    /// The arrival time of a message sent now, not before that of an earlier one on the link.
    fn arrives(&mut self, link: (usize, usize, bool)) -> u64 {
        let reading = self.reading;
        let at_ns = self.events.now_ns() + reading.latency_ns;
        if reading.latency_spread_ns == 0 {
            return at_ns;
        }
        let last_ns = self.links.entry(link).or_default();
        *last_ns = (at_ns + self.random.below(reading.latency_spread_ns)).max(*last_ns);
        *last_ns
    }

    fn finish(mut self) -> StripedReport {
        for (reader, it) in self.readers.iter().enumerate() {
            if !self.has_failed(reader) {
                it.check_all();
                assert!(it.is_done(), "reader {reader} never ended");
                self.report.again += it.again() as u64;
            }
        }
        self.report
    }
}
