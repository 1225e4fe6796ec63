//! Processor time of a flow's processes, and what others on their machines have used meanwhile.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::machine;

/// What a process knows of its processors, since they were started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessClock {
    /// Which machine it is on.
    pub host: String,
    /// Processors of the machine that it may use.
    pub cores: usize,
    /// How long all of its threads have computed.
    pub process: Duration,
    /// How long the machine's processors have worked for anybody, if that is known.
    pub machine: Option<Duration>,
}

impl ProcessClock {
    /// Of this process.
    pub fn read() -> ProcessClock {
        // To ask the kernel takes longer than all the rest, and the answer is always the same.
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

/// Between two looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Had {
    /// Seconds that the flow's processes have computed.
    pub used_seconds: f64,
    /// Processors that others have kept busy.
    pub others: f64,
    /// Processors there are.
    pub cores: f64,
}

/// The clocks at the last look.
#[derive(Debug)]
pub struct Processors {
    own: ProcessClock,
    away: BTreeMap<String, ProcessClock>,
}

impl Default for Processors {
    fn default() -> Processors {
        Processors { own: ProcessClock::read(), away: BTreeMap::new() }
    }
}

/// What one machine did between two looks.
#[derive(Default)]
struct Machine {
    cores: usize,
    used: f64,
    all: Option<f64>,
}

impl Processors {
    /// Looks at this process's clock, and at those that others have told last.
    pub fn look<'a>(
        &mut self,
        away: impl Iterator<Item = (&'a str, &'a ProcessClock)>,
        wall_seconds: f64,
    ) -> Had {
        let mut machines: BTreeMap<String, Machine> = BTreeMap::new();
        let own = ProcessClock::read();
        add(&mut machines, Some(&self.own), &own);
        self.own = own;
        for (name, clock) in away {
            let before = self.away.insert(name.to_string(), clock.clone());
            add(&mut machines, before.as_ref(), clock);
        }
        let mut had = Had { used_seconds: 0.0, others: 0.0, cores: 0.0 };
        for Machine { cores, used, all } in machines.into_values() {
            had.used_seconds += used;
            had.others += all.map_or(0.0, |all| (all - used).max(0.0) / wall_seconds);
            had.cores += cores as f64;
        }
        had
    }
}

/// What a process did counts at its machine. What the machine did is known by each of its
/// processes: the one that saw most has looked last.
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
    fn processes_of_one_machine_share_its_processors_and_others_have_their_own() {
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
