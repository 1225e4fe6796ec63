//! How much memory this process can still use: the machine's, or what its control groups (versions
//! 1 and 2) leave.

use std::fs;
use std::path::Path;

use euphrates_policy::caching::pressure::MemoryLevel;

/// The memory of the machine, or of the control group with least left.
///
/// ```
/// let memory = euphrates_device::memory_level::memory_level();
/// assert!(0 < memory.available && memory.available <= memory.total);
/// ```
pub fn memory_level() -> MemoryLevel {
    let info = rustix::system::sysinfo();
    let total = info.totalram as u64 * u64::from(info.mem_unit.max(1));
    let machine = MemoryLevel { total, available: memory_available_bytes().min(total) };
    let groups = groups(Path::new("/")).into_iter().filter(|group| group.total < total);
    groups.fold(machine, |least, group| match group.available < least.available {
        true => group,
        false => least,
    })
}

/// Memory that is still usable, with the page cache counted as usable; a large number without
/// `/proc`.
pub fn memory_available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes << 10)
}

/// The limited control groups that this process is in. Files are read below `root`.
fn groups(root: &Path) -> Vec<MemoryLevel> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut levels = vec![];
    for line in groups.lines() {
        let Some((controllers, group)) = line.split_once(':').and_then(|it| it.1.split_once(':'))
        else {
            continue;
        };
        let (tree, files) = match controllers {
            "" => ("", VERSION_2),
            some if some.split(',').any(|name| name == "memory") => ("memory", VERSION_1),
            _ => continue,
        };
        let tree = root.join("sys/fs/cgroup").join(tree);
        // A container may see only a part of the tree.
        let folders = Path::new(group.trim_start_matches('/')).ancestors();
        levels.extend(folders.filter_map(|folder| level(&tree.join(folder), &files)));
    }
    levels
}

/// The files with limit and use, and the words before the bytes of file pages in `memory.stat`.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    inactive: &'static str,
    active: &'static str,
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file ",
    active: "total_active_file ",
};
const VERSION_2: GroupFiles = GroupFiles {
    limit: "memory.max",
    used: "memory.current",
    inactive: "inactive_file ",
    active: "active_file ",
};

fn level(folder: &Path, files: &GroupFiles) -> Option<MemoryLevel> {
    let number = |file: &str| -> Option<u64> {
        fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    let (total, used) = (number(files.limit)?, number(files.used)?);
    let pages = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let of = |word: &str| -> u64 {
        let found = pages.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok());
        found.unwrap_or(0)
    };
    // As the kernel's estimate for the machine: half of the active pages of files will stay.
    let reclaimable = of(files.inactive) + of(files.active) / 2;
    let available = (total.saturating_sub(used) + reclaimable).min(total);
    Some(MemoryLevel { total, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_group_and_its_ancestors_count_without_pages_of_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("proc/self/cgroup", "4:memory:/b\n0::/a/job\n");
        write("sys/fs/cgroup/a/job/memory.max", "max\n");
        write("sys/fs/cgroup/a/job/memory.current", "70\n");
        write("sys/fs/cgroup/a/memory.max", "1000\n");
        write("sys/fs/cgroup/a/memory.current", "900\n");
        write("sys/fs/cgroup/a/memory.stat", "anon 500\ninactive_file 200\nactive_file 100\n");
        write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "2000\n");
        write("sys/fs/cgroup/memory/b/memory.usage_in_bytes", "1500\n");
        let found = groups(root.path());
        let level = |total, available| MemoryLevel { total, available };
        assert_eq!(found, [level(2000, 500), level(1000, 350)]);
    }
}
