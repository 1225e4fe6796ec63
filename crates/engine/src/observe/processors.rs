//! CPU time of a flow's processes, and CPU use of other programs on their machines.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::machine;

/// CPU clocks of a process and of its machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessClock {
    /// Identifies the machine: equal for its processes.
    pub host: String,
    /// Processors of the machine that it may use.
    pub cores: usize,
    /// CPU time of all threads of the process.
    pub process: Duration,
    /// CPU time of all programs on the machine, if known.
    pub machine: Option<Duration>,
}

impl ProcessClock {
    /// The clocks of this process.
    pub fn read() -> ProcessClock {
        // Reading these from the kernel takes longer than all the rest, and they do not change.
        static MACHINE: LazyLock<(String, usize)> =
            LazyLock::new(|| (machine::host(), machine::cores()));
        let (host, cores) = MACHINE.clone();
        ProcessClock {
            host,
            cores,
            process: machine::process_time(),
            machine: machine::machine_time(cores),
        }
    }
}

/// CPU use between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuUse {
    /// CPU seconds of the flow's processes.
    pub used_seconds: f64,
    /// Processors kept busy by other programs.
    pub others: f64,
    /// Processors of all machines.
    pub cores: f64,
}

/// The clocks at the last sample.
#[derive(Debug)]
pub struct Processors {
    own: ProcessClock,
    others: BTreeMap<String, ProcessClock>,
}

impl Default for Processors {
    fn default() -> Processors {
        Processors { own: ProcessClock::read(), others: BTreeMap::new() }
    }
}

/// CPU use of one machine between two samples.
#[derive(Default)]
struct Machine {
    cores: usize,
    used: f64,
    all: Option<f64>,
}

impl Processors {
    /// Samples the clock of this process, and the latest clocks reported by the others.
    pub fn sample<'a>(
        &mut self,
        others: impl Iterator<Item = (&'a str, &'a ProcessClock)>,
        wall_seconds: f64,
    ) -> CpuUse {
        let mut machines: BTreeMap<String, Machine> = BTreeMap::new();
        let own = ProcessClock::read();
        add(&mut machines, Some(&self.own), &own);
        self.own = own;
        for (name, clock) in others {
            let before = self.others.insert(name.to_string(), clock.clone());
            add(&mut machines, before.as_ref(), clock);
        }
        let mut cpu = CpuUse { used_seconds: 0.0, others: 0.0, cores: 0.0 };
        for Machine { cores, used, all } in machines.into_values() {
            cpu.used_seconds += used;
            cpu.others += all.map_or(0.0, |all| (all - used).max(0.0) / wall_seconds);
            cpu.cores += cores as f64;
        }
        cpu
    }
}

/// Adds the CPU use of one process to its machine. Each process reports the use of its whole
/// machine: the largest report is the latest.
fn add(
    machines: &mut BTreeMap<String, Machine>,
    before: Option<&ProcessClock>,
    now: &ProcessClock,
) {
    let machine = machines.entry(now.host.clone()).or_default();
    machine.cores = machine.cores.max(now.cores);
    let Some(before) = before else { return };
    let between = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
    machine.used += between(now.process, before.process);
    if let (Some(now), Some(then)) = (now.machine, before.machine) {
        let seen = between(now, then);
        machine.all = Some(machine.all.map_or(seen, |all| all.max(seen)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(host: &str, process: u64, machine: u64) -> ProcessClock {
        let (process, machine) = (Duration::from_secs(process), Duration::from_secs(machine));
        ProcessClock { host: host.into(), cores: 4, process, machine: Some(machine) }
    }

    #[test]
    fn processes_of_one_machine_share_its_processors() {
        let mut machines = BTreeMap::new();
        add(&mut machines, Some(&clock("a", 1, 10)), &clock("a", 3, 16));
        add(&mut machines, Some(&clock("a", 1, 10)), &clock("a", 2, 15));
        add(&mut machines, None, &clock("b", 2, 15));
        let a = &machines["a"];
        assert_eq!((a.cores, a.used, a.all), (4, 3.0, Some(6.0)));
        let b = &machines["b"];
        assert_eq!((b.cores, b.used, b.all), (4, 0.0, None));
    }
}
