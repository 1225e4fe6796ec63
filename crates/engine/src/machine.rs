//! What this machine has: cores, memory, folders.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, thread};

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

/// Where collections, their catalog and scratch live: `$EUPHRATES_HOME`, or `~/.euphrates`.
pub fn home() -> PathBuf {
    let default = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/tmp".into()));
    env::var_os("EUPHRATES_HOME").map_or_else(|| default().join(".euphrates"), PathBuf::from)
}

/// Folders for what does not fit the memory: `$EUPHRATES_SCRATCH` (several with `:` between), or
/// `scratch` under the home.
pub fn scratch(home: &std::path::Path) -> Vec<PathBuf> {
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
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().map(Duration::from_nanos);
    Some((next()?, next()?))
}

/// How long all threads of this process have computed.
pub fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
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
