//! CPU time and memory of process groups, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The resources used by a process group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time of its processes, and of their children that have ended.
    pub cpu: Duration,
    /// Resident memory; shared pages count for each process.
    pub memory_bytes: u64,
}

/// The usage of every process group of this machine.
pub fn usage_by_group() -> BTreeMap<u32, Usage> {
    let mut groups: BTreeMap<u32, Usage> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path().join("stat")) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let Some((group, usage)) = usage_of(&text) else { continue };
        let sum = groups.entry(group).or_default();
        sum.cpu += usage.cpu;
        sum.memory_bytes += usage.memory_bytes;
    }
    groups
}

/// Parses `/proc/PID/stat`, in which the program's name may contain anything.
fn usage_of(stat: &str) -> Option<(u32, Usage)> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
    let ticks = (11..15).map(number).sum::<Option<u64>>()?;
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let memory_bytes = number(21)? * rustix::param::page_size() as u64;
    let usage = Usage { cpu: Duration::from_secs_f64(seconds), memory_bytes };
    Some((u32::try_from(number(2)?).ok()?, usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_may_contain_anything() {
        let numbers = "S 1 77 77 0 -1 4194560 9 9 9 9 100 50 25 25 20 0 1 0 5 999 3 18446744073";
        let (group, usage) = usage_of(&format!("5 (a) b ) {numbers}")).unwrap();
        assert_eq!(group, 77);
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(usage.cpu, Duration::from_secs_f64(200.0 / ticks as f64));
        assert_eq!(usage.memory_bytes, 3 * rustix::param::page_size() as u64);
        assert!(usage_of("").is_none() && usage_of("5 (a) S 1").is_none());
    }

    #[test]
    fn own_process_group_is_listed() {
        let own = rustix::process::getpgrp().as_raw_nonzero().get().cast_unsigned();
        assert!(usage_by_group()[&own].memory_bytes > 0);
        assert!(!crate::host::user_name().is_empty());
    }
}
