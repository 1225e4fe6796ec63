//! What this machine has: cores, memory, folders.

use std::path::PathBuf;
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
