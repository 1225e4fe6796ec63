//! Puts perturbations upon a running flow: brakes on instances, holds on disks, memory taken.

use std::path::Path;
use std::time::Instant;

use euphrates_flow::brake::Brake;
use euphrates_flow::check::Checked;
use euphrates_flow::perturbation::{Perturbations, Workers};
use euphrates_flow::{Error, Perturbation, Result};
use euphrates_io::disk::{Disk, named_disk, named_disks};
use euphrates_policy::throttle::{Pattern, Throttle, held_rate};

use crate::machine;

/// Memory touched at one look, so that looks stay frequent.
const CHUNK_BYTES: usize = 64 << 20;

/// What is done to one flow. What it holds, it lets go when it is dropped.
#[derive(Default)]
pub(crate) struct Perturber {
    all: Perturbations,
    disks: Vec<HeldDisk>,
    memory: Vec<Hog>,
}

struct HeldDisk {
    disk: Disk,
    holds: Vec<(Pattern, u64)>,
}

struct Hog {
    pattern: Pattern,
    bytes: usize,
    chunks: Vec<Vec<u8>>,
}

impl Perturber {
    /// Checks the perturbations against a flow; nothing is done yet.
    pub fn new(
        list: &[Perturbation],
        flow: &Checked,
        workers: Workers<'_>,
        home: &Path,
    ) -> Result<Perturber> {
        if list.is_empty() {
            return Ok(Perturber::default());
        }
        let names: Vec<String> = named_disks(home)?.into_iter().map(|disk| disk.name).collect();
        let all = Perturbations::new(list, flow, &workers, &names)?;
        let mut disks: Vec<HeldDisk> = vec![];
        for (name, pattern, rate) in &all.disks {
            match disks.iter_mut().find(|held| held.disk.name() == name) {
                Some(held) => held.holds.push((*pattern, *rate)),
                None => {
                    let disk = named_disk(home, Some(name))?;
                    disks.push(HeldDisk { disk, holds: vec![(*pattern, *rate)] });
                }
            }
        }
        let wanted: u64 = all.memory.iter().map(|(_, bytes)| bytes).sum();
        let available = machine::memory_available_bytes();
        if wanted > available {
            let message = format!("{wanted} bytes of memory are to be held, {available} are there");
            return Err(Error::usage(message).remedy("hold less"));
        }
        let hog = |(pattern, bytes): &(Pattern, u64)| Hog {
            pattern: *pattern,
            bytes: *bytes as usize,
            chunks: vec![],
        };
        let memory = all.memory.iter().map(hog).collect();
        Ok(Perturber { all, disks, memory })
    }

    /// The same for one of several processes. Memory is held by the first alone.
    pub fn of_part(
        list: &[Perturbation],
        flow: &Checked,
        workers: Workers<'_>,
        home: &Path,
        me: usize,
    ) -> Result<Perturber> {
        let mut perturber = Perturber::new(list, flow, workers, home)?;
        if me != 0 {
            perturber.memory.clear();
        }
        Ok(perturber)
    }

    /// The brake of an instance, if it has one; `epoch` is the start of the flow.
    pub fn brake(&self, node: usize, instance: usize, epoch: Instant) -> Option<Brake> {
        let slowings = self.all.slowings.get(&(node, instance))?;
        Some(Brake::new(Throttle::new(slowings.clone()), epoch, machine::thread_delay))
    }

    /// Does what is to be done to disks and memory at this time of the flow.
    pub fn on_look(&mut self, now_ns: u64) {
        for held in &self.disks {
            held.disk.hold(held_rate(&held.holds, now_ns));
        }
        self.memory.iter_mut().for_each(|hog| hog.on_look(now_ns));
    }
}

impl Hog {
    /// Takes a chunk more, or gives everything back.
    fn on_look(&mut self, now_ns: u64) {
        if !self.pattern.is_on(now_ns) {
            self.chunks = vec![];
            return;
        }
        let held: usize = self.chunks.iter().map(Vec::len).sum();
        let chunk = CHUNK_BYTES.min(self.bytes - held);
        if chunk > 0 {
            // Not zeros: those would be pages that nobody has touched.
            self.chunks.push(vec![1; chunk]);
        }
    }
}

impl Drop for Perturber {
    fn drop(&mut self) {
        self.disks.iter().for_each(|held| held.disk.hold(None));
    }
}
