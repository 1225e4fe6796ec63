//! The resources of this machine: processors, memory, folders, CPU clocks.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use euphrates_device::memory_level;
pub use euphrates_device::read_cache::clear as clear_cache;
use euphrates_flow::brake::ProcessorTimes;
pub use euphrates_launch::host::machine_name as name;
pub use euphrates_wire::shared_memory::refusal as shared_memory_refusal;
use rustix::time::{ClockId, clock_gettime};

/// Processors this process may use.
///
/// ```
/// use euphrates_engine::machine::cores;
///
/// assert!(cores() >= 1);
/// ```
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory this process may use: the machine's, or its control group's if that is less.
///
/// ```
/// use euphrates_engine::machine::memory_bytes;
///
/// assert!(memory_bytes() > 1 << 20, "in bytes");
/// ```
pub fn memory_bytes() -> u64 {
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits =
        groups.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    let info = rustix::system::sysinfo();
    let machine = info.totalram as u64 * u64::from(info.mem_unit.max(1));
    limits.fold(machine, u64::min)
}

/// The process that started this one, or has adopted it.
pub fn parent() -> Option<u32> {
    rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned())
}

/// Identifies this machine: equal for all its processes, different on others. `$EUPHRATES_HOST`
/// gives it another identity, where parts of a machine have memory and disks of their own.
///
/// ```
/// use euphrates_engine::machine::{host, run_id};
///
/// assert_eq!(host(), host(), "one machine");
/// assert_ne!(run_id(), run_id(), "two runs");
/// ```
pub fn host() -> String {
    if let Some(named) = env::var("EUPHRATES_HOST").ok().filter(|name| !name.is_empty()) {
        return named;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map_or_else(|_| "unknown".to_string(), |id| id.trim().to_string())
}

/// Where collections, their catalog and scratch live: `$EUPHRATES_HOME`, or `~/.euphrates`.
pub fn home() -> PathBuf {
    let default = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/tmp".into()));
    env::var_os("EUPHRATES_HOME").map_or_else(|| default().join(".euphrates"), PathBuf::from)
}

/// Folders for spilled data: `$EUPHRATES_SCRATCH` (several with `:` between), or `scratch` under
/// the home.
///
/// ```
/// use std::path::Path;
/// use euphrates_engine::machine::scratch;
///
/// if std::env::var_os("EUPHRATES_SCRATCH").is_none() {
///     assert_eq!(scratch(Path::new("/data")), [Path::new("/data/scratch")]);
/// }
/// ```
pub fn scratch(home: &Path) -> Vec<PathBuf> {
    match env::var_os("EUPHRATES_SCRATCH").filter(|list| !list.is_empty()) {
        Some(list) => env::split_paths(&list).collect(),
        None => vec![home.join("scratch")],
    }
}

/// A unique name for a run: time, process, and a counter.
pub fn run_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::time::{SystemTime, UNIX_EPOCH};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
    format!("{now:x}-{:x}-{:x}", std::process::id(), NUMBER.fetch_add(1, Relaxed))
}

/// Bytes of memory still available, including the page cache.
pub(crate) fn memory_available_bytes() -> u64 {
    memory_level::memory_available_bytes().min(memory_bytes())
}

/// The operating system's number of the calling thread.
pub(crate) fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// The CPU time and the scheduling delay of a thread of this process; `None` once it has ended, or
/// where the kernel does not report them.
pub(crate) fn thread_times(thread: u32) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().map(Duration::from_nanos);
    Some((next()?, next()?))
}

/// The calling thread's use of processors so far, as reported by the kernel.
pub(crate) fn processor_times() -> ProcessorTimes {
    let delayed = thread_times(thread_id()).map_or(Duration::ZERO, |(_, delayed)| delayed);
    // SAFETY: numbers may be zero, and the call writes nothing but these.
    let waits = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw.cast_unsigned()
    };
    ProcessorTimes { computed: time_of(ClockId::ThreadCPUTime), delayed, waits, stolen: stolen() }
}

/// CPU time that the hypervisor has withheld from all processors.
fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(STEAL)?.parse().ok());
    let ticks: u64 = ticks.unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The position of `steal` in: cpu, user, nice, system, idle, iowait, irq, softirq, steal.
const STEAL: usize = 8;

/// CPU time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// CPU time of all programs on this machine; `None` where the kernel does not report it, or counts
/// other processors than the `cores` of this process.
pub(crate) fn machine_time(cores: usize) -> Option<Duration> {
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
