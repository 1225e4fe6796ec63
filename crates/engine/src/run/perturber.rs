//! Applies perturbations to a running flow: slows instances, limits disks and links, holds memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use euphrates_device::disk::{Disk, Disks};
use euphrates_flow::brake::{Brake, Slowdowns};
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::perturbation::{Perturbations, Workers};
use euphrates_flow::{Error, Perturbation, Result};
use euphrates_policy::slowdown::{Pattern, Slowing, held_rate};

use crate::machine;
use crate::queue::network::Network;

/// Memory touched at one time: more would delay the next sample.
const CHUNK_BYTES: usize = 64 << 20;

/// The perturbations of one flow. Dropping it removes limits of disks and frees held memory;
/// slowdowns and limits of links end with the flow's instances and connections, or by `clear`.
#[derive(Default)]
pub(crate) struct Perturber {
    slowings: BTreeMap<(usize, usize), Vec<Slowing>>,
    /// Of the instances in this process.
    slowdowns: BTreeMap<(usize, usize), Arc<Slowdowns>>,
    disks: Vec<LimitedDisk>,
    memory: Vec<HeldMemory>,
    /// Limits from this process to other workers.
    links: BTreeMap<usize, Vec<(Pattern, u64)>>,
    /// Connections to other processes, if there are several.
    network: Option<Arc<Network>>,
    /// The names of the flow's workers.
    names: Vec<String>,
    of: Vec<Vec<usize>>,
    home: PathBuf,
}

struct LimitedDisk {
    disk: Disk,
    limits: Vec<(Pattern, u64)>,
}

struct HeldMemory {
    pattern: Pattern,
    bytes: usize,
    chunks: Vec<Vec<u8>>,
}

impl Perturber {
    /// Checks the perturbations against a flow; imposes none yet. The `network` is that of a flow
    /// in several processes.
    pub fn new(
        list: &[Perturbation],
        flow: &CheckedFlow,
        workers: Workers<'_>,
        home: &Path,
        network: Option<Arc<Network>>,
    ) -> Result<Perturber> {
        let mut perturber = Perturber {
            names: workers.names.to_vec(),
            of: workers.of.to_vec(),
            home: home.to_path_buf(),
            network,
            ..Perturber::default()
        };
        perturber.add(list, flow)?;
        Ok(perturber)
    }

    /// Adds perturbations; adds none if one is invalid.
    pub fn add(&mut self, list: &[Perturbation], flow: &CheckedFlow) -> Result<()> {
        if list.is_empty() {
            return Ok(());
        }
        if self.network.is_none() && list.iter().any(|one| one.link.is_some()) {
            return Err(Error::usage("the flow runs in one process, which has no links")
                .remedy("run it on a cluster, like \"processes:2\""));
        }
        let disks = Disks::of(&self.home)?;
        let workers = Workers { names: &self.names, of: &self.of };
        let all = Perturbations::new(list, flow, &workers, &disks.names())?;
        let wanted: u64 = all.memory.iter().map(|(_, bytes)| bytes).sum();
        let available = machine::memory_available_bytes();
        if wanted > available {
            let message = format!("{wanted} bytes of memory are to be held, {available} are there");
            return Err(Error::usage(message).remedy("hold less"));
        }
        for (name, pattern, rate) in &all.disks {
            let held = self.disks.iter_mut().find(|held| held.disk.name() == name);
            match held {
                Some(held) => held.limits.push((*pattern, *rate)),
                None => {
                    let disk = disks.open(name)?;
                    self.disks.push(LimitedDisk { disk, limits: vec![(*pattern, *rate)] });
                }
            }
        }
        let hog = |(pattern, bytes): &(Pattern, u64)| HeldMemory {
            pattern: *pattern,
            bytes: *bytes as usize,
            chunks: vec![],
        };
        // Of several processes only the first holds memory, and only the sender limits a link.
        let me = self.network.as_ref().map_or(0, |network| network.me());
        self.memory.extend(all.memory.iter().filter(|_| me == 0).map(hog));
        for ((_, to), pattern, rate) in all.links.iter().filter(|((from, _), ..)| *from == me) {
            self.links.entry(*to).or_default().push((*pattern, *rate));
        }
        for (instance, slowings) in all.slowings {
            let those = self.slowings.entry(instance).or_default();
            those.extend(slowings);
            if let Some(slowdowns) = self.slowdowns.get(&instance) {
                slowdowns.set(those.clone());
            }
        }
        Ok(())
    }

    /// The names of the flow's workers, and by module and instance the number of its worker.
    pub fn workers(&self) -> (Vec<String>, Vec<Vec<usize>>) {
        (self.names.clone(), self.of.clone())
    }

    /// Lifts all perturbations at once.
    pub fn clear(&mut self) {
        for instance in std::mem::take(&mut self.slowings).keys() {
            if let Some(slowdowns) = self.slowdowns.get(instance) {
                slowdowns.set(vec![]);
            }
        }
        (self.disks, self.memory) = (vec![], vec![]);
        if let Some(network) = &self.network {
            std::mem::take(&mut self.links).keys().for_each(|to| network.limit_rate(*to, None));
        }
    }

    /// The brake of an instance that is here; `epoch` is the start of the flow.
    pub fn brake(&mut self, node: usize, instance: usize, began: Instant) -> Brake {
        let slowdowns = self.slowdowns.entry((node, instance)).or_default();
        if let Some(slowings) = self.slowings.get(&(node, instance)) {
            slowdowns.set(slowings.clone());
        }
        Brake::new(slowdowns.clone(), began, machine::processor_times)
    }

    /// Applies the limits of disks and links, and the memory to be held, at this time of the flow.
    pub fn apply(&mut self, now_ns: u64) {
        for held in &self.disks {
            held.disk.limit_rate(held_rate(&held.limits, now_ns));
        }
        if let Some(network) = &self.network {
            self.links
                .iter()
                .for_each(|(to, holds)| network.limit_rate(*to, held_rate(holds, now_ns)));
        }
        self.memory.iter_mut().for_each(|hog| hog.apply(now_ns));
    }
}

/// Whether a perturbation applies to a part of the flow or one of its workers.
pub(crate) fn applies_to_flow(
    one: &Perturbation,
    flow: &CheckedFlow,
    workers: Workers<'_>,
    home: &Path,
) -> bool {
    let disks = Disks::of(home).map(|disks| disks.names()).unwrap_or_default();
    Perturbations::new(std::slice::from_ref(one), flow, &workers, &disks).is_ok()
}

/// The same perturbations, with times that count from this time of the flow.
pub(crate) fn from_now(list: &[Perturbation], seconds: f64) -> Vec<Perturbation> {
    let shifted = |one: &Perturbation| {
        let after = Some(one.after.unwrap_or(0.0) + seconds);
        Perturbation { after, ..one.clone() }
    };
    list.iter().map(shifted).collect()
}

impl HeldMemory {
    /// Takes another chunk, or returns all.
    fn apply(&mut self, now_ns: u64) {
        if !self.pattern.is_on(now_ns) {
            self.chunks = vec![];
            return;
        }
        let held: usize = self.chunks.iter().map(Vec::len).sum();
        let chunk = CHUNK_BYTES.min(self.bytes - held);
        if chunk > 0 {
            // Not zeros: the system would not back untouched zero pages.
            self.chunks.push(vec![1; chunk]);
        }
    }
}

impl Drop for LimitedDisk {
    fn drop(&mut self) {
        self.disk.limit_rate(None);
    }
}
