//! The CPU quota that control groups (versions 1 and 2) set for this process.

use std::fs;
use std::path::Path;

/// The smallest quota of all control groups that this process is in, in processors; `None` without
/// a quota. Files are read below `root`.
pub fn processors(root: &Path) -> Option<f64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().filter_map(|line| of_group(root, line)).reduce(f64::min)
}

/// Parses a line of `/proc/self/cgroup`: number, controllers (none in version 2) and group, with
/// colons between.
fn of_group(root: &Path, line: &str) -> Option<f64> {
    let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
    let (tree, limit): (_, fn(&Path) -> Option<f64>) = match controllers {
        "" => ("", version_2),
        some if some.split(',').any(|name| name == "cpu") => ("cpu", version_1),
        _ => return None,
    };
    let tree = root.join("sys/fs/cgroup").join(tree);
    // A container may see only a part of the tree.
    let folders = Path::new(group.trim_start_matches('/')).ancestors();
    folders.filter_map(|folder| limit(&tree.join(folder))).reduce(f64::min)
}

fn version_1(folder: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    ratio(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
}

fn version_2(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let (quota, period) = text.split_once(' ')?;
    ratio(quota, period)
}

/// Quota over period; `None` without a limit, where the quota is -1 or "max".
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.trim().parse().ok().filter(|quota| *quota > 0.0)?;
    Some(quota / period.trim().parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<f64> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        processors(root.path())
    }

    #[test]
    fn smallest_quota_of_a_group_and_its_ancestors_counts_in_both_versions() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let (above, own) = ("sys/fs/cgroup/a/cpu.max", "sys/fs/cgroup/a/b/cpu.max");
        assert_eq!(found(&[group, (above, "20000 100000\n"), (own, "50000 100000\n")]), Some(0.2));
        assert_eq!(found(&[group, (above, "max 100000\n"), (own, "150000 100000\n")]), Some(1.5));
        assert_eq!(found(&[group, (above, "max 100000\n")]), None);

        let group = ("proc/self/cgroup", "3:memory:/m\n1:cpu,cpuacct:/a\n0::/\n");
        let own = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            .map(|file| format!("sys/fs/cgroup/cpu/a/{file}"));
        assert_eq!(found(&[group, (&own[0], "1000\n"), (&own[1], "10000\n")]), Some(0.1));
        assert_eq!(found(&[group, (&own[0], "-1\n"), (&own[1], "10000\n")]), None);
    }

    #[test]
    fn container_reads_the_visible_part_of_the_tree_and_no_file_means_no_limit() {
        let group = ("proc/self/cgroup", "0::/not/seen/here\n");
        assert_eq!(found(&[group, ("sys/fs/cgroup/cpu.max", "12000 100000\n")]), Some(0.12));
        assert_eq!(found(&[group]), None);
        assert_eq!(found(&[]), None);
    }
}
