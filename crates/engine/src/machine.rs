//! What this machine has: cores, memory, folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use euphrates_flow::brake::Had;
use rustix::time::{ClockId, clock_gettime};

/// Processors this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory this process may use: the machine's, or its control group's if that is less.
pub fn memory_bytes() -> u64 {
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits =
        groups.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    let info = rustix::system::sysinfo();
    let machine = info.totalram as u64 * u64::from(info.mem_unit.max(1));
    limits.fold(machine, u64::min)
}

/// What the machine is called.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The process that started this one, or took it over.
pub fn parent() -> Option<u32> {
    rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned())
}

/// Whose process this is: the name, or the number if nobody has given one.
pub fn user() -> String {
    let number = rustix::process::getuid().as_raw().to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = known.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2) == Some(&number.as_str()));
    found.map_or(number.clone(), |fields| fields[0].to_string())
}

/// What all processes of one machine share, and no process of another has.
pub fn host() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map_or_else(|_| "unknown".to_string(), |id| id.trim().to_string())
}

/// Where collections, their catalog and scratch live: `$EUPHRATES_HOME`, or `~/.euphrates`.
pub fn home() -> PathBuf {
    let default = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/tmp".into()));
    env::var_os("EUPHRATES_HOME").map_or_else(|| default().join(".euphrates"), PathBuf::from)
}

/// Folders for what does not fit the memory: `$EUPHRATES_SCRATCH` (several with `:` between), or
/// `scratch` under the home.
pub fn scratch(home: &Path) -> Vec<PathBuf> {
    match env::var_os("EUPHRATES_SCRATCH").filter(|list| !list.is_empty()) {
        Some(list) => env::split_paths(&list).collect(),
        None => vec![home.join("scratch")],
    }
}

/// A name no other run has: process, start of the process's clock, and a number.
pub fn run_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::time::{SystemTime, UNIX_EPOCH};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
    format!("{now:x}-{:x}-{:x}", std::process::id(), NUMBER.fetch_add(1, Relaxed))
}

/// Bytes of memory that could still be used, the page cache counted as usable.
pub fn memory_available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes << 10).min(memory_bytes())
}

/// The calling thread, as the operating system numbers it.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// How long a thread of this process has computed, and how long it could have but had to wait for
/// a processor; `None` once it has ended, or where the kernel does not say.
pub fn thread_times(thread: u32) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().map(Duration::from_nanos);
    Some((next()?, next()?))
}

/// What the calling thread has ever had of the processors, as far as the kernel says.
pub(crate) fn thread_had() -> Had {
    let delayed = thread_times(thread_id()).map_or(Duration::ZERO, |(_, delayed)| delayed);
    // SAFETY: numbers may be zero, and the call writes nothing but these.
    let waits = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw.cast_unsigned()
    };
    Had { computed: time_of(ClockId::ThreadCPUTime), delayed, waits, stolen: stolen() }
}

/// What the host of this machine has kept from all its processors, if it is a guest.
fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(STEAL)?.parse().ok());
    let ticks: u64 = ticks.unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// cpu, user, nice, system, idle, iowait, irq, softirq, steal
const STEAL: usize = 8;

/// How long all threads of this process have computed.
pub fn process_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// How long the machine's processors have worked for anybody; `None` where the kernel does not
/// say, or counts others than the `cores` that are ours.
pub fn machine_time(cores: usize) -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let is_processor = |line: &&str| {
        let number = line.strip_prefix("cpu");
        number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if text.lines().filter(is_processor).count() != cores {
        return None;
    }
    let all = text.lines().next()?.split_whitespace().skip(1);
    let ticks: Vec<u64> = all.map(|field| field.parse().unwrap_or(0)).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy: u64 = ticks.iter().take(8).sum::<u64>() - ticks.get(3)? - ticks.get(4)?;
    Some(Duration::from_secs_f64(busy as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// What the processes of a group have used, with those of theirs that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// How long they have computed.
    pub cpu: Duration,
    /// The memory they hold; what they share counts for each.
    pub memory_bytes: u64,
}

/// What every process group of this machine has used.
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

/// From a line of `/proc/PID/stat`; the name in it may hold anything.
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
    fn a_process_is_read_whatever_it_is_called() {
        let numbers = "S 1 77 77 0 -1 4194560 9 9 9 9 100 50 25 25 20 0 1 0 5 999 3 18446744073";
        let (group, usage) = usage_of(&format!("5 (a) b ) {numbers}")).unwrap();
        assert_eq!(group, 77);
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(usage.cpu, Duration::from_secs_f64(200.0 / ticks as f64));
        assert_eq!(usage.memory_bytes, 3 * rustix::param::page_size() as u64);
        assert!(usage_of("").is_none() && usage_of("5 (a) S 1").is_none());
    }

    #[test]
    fn the_processes_of_this_machine_are_found() {
        let own = rustix::process::getpgrp().as_raw_nonzero().get().cast_unsigned();
        assert!(usage_by_group()[&own].memory_bytes > 0);
        assert!(!user().is_empty());
    }
}
