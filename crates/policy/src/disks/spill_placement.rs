//! Spill placement: which scratch folder receives the next file of spilled data. Memory that
//! another worker lends is one more folder, whose disk is the link to that worker.
//!
//! A file goes where the expected wait is shortest: the bytes under way at the speed of the
//! folder's disk. A slow disk therefore receives fewer bytes, in proportion to its speed if there
//! are more writers than disks, and an idle disk receives a file unless that would take many times
//! as long as elsewhere. Unlike a block of a collection, a file never waits for room: its writer is
//! blocked by its writes.

use crate::block_assignment::Backlog;

/// Bytes of a block, the unit in which speeds and what is under way are counted.
const BLOCK_BYTES: u64 = 1 << 20;
/// Written bytes after which former ones count half.
const WINDOW_BYTES: u64 = 256 << 20;
/// A disk that has not been written for this long may have become faster: its measured time counts
/// half, so that it is tried again in the end.
const FORGETTING_NS: u64 = 30_000_000_000;
/// How many times as long as elsewhere a file may take: the flow waits for its last file.
const DELAY_FACTOR_MAX: u64 = 8;
/// Free bytes that spilled files leave to others, and the part of the disk that they leave,
/// whichever is less.
const RESERVE_BYTES_MAX: u64 = 256 << 20;
const RESERVE_DIVISOR: u64 = 50;

/// A scratch folder, or the lent memory of a worker, that may receive a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpillFolder {
    /// What is under way to its disk.
    pub backlog: Backlog,
    /// Bytes of all files that it has received, of this process.
    pub assigned_bytes: u64,
    /// Free bytes of its disk, and all; `None` if unknown.
    pub space: Option<(u64, u64)>,
    /// Whether it is memory that another worker lends, behind a link.
    pub is_lent: bool,
    /// Whether a write to it has failed.
    pub has_failed: bool,
}

impl SpillFolder {
    /// Whether its disk has room for a file of this size, besides what is under way and the
    /// reserve.
    ///
    /// ```
    /// use euphrates_policy::spill_placement::SpillFolder;
    ///
    /// let of = |free| SpillFolder { space: Some((free, 1 << 40)), ..SpillFolder::default() };
    /// assert_eq!([300, 200].map(|free| of(free << 20).has_space(10 << 20)), [true, false]);
    /// ```
    pub fn has_space(&self, bytes: u64) -> bool {
        let Some((free, all)) = self.space else { return true };
        let reserve = RESERVE_BYTES_MAX.min(all / RESERVE_DIVISOR);
        free >= bytes.saturating_add(self.backlog.bytes).saturating_add(reserve)
    }
}

/// The folder for a file of about `bytes` bytes, among those that `may` take it; `None` if there is
/// none. Until the first link to a lender is measured, one file at a time goes to lenders; then an
/// unmeasured link is expected to be as slow as the slowest. Folders that are full or have failed
/// are chosen if there is no other: a file that was smaller than expected may fit, and a disk may
/// have recovered.
///
/// ```
/// use euphrates_policy::block_assignment::Backlog;
/// use euphrates_policy::spill_placement::{SpillFolder, backlog, choose_folder};
///
/// let of = |under_way: u64, interval_ns| SpillFolder {
///     backlog: backlog(under_way << 20, interval_ns),
///     ..SpillFolder::default()
/// };
/// let folders = [of(100, 10_000_000), of(30, 40_000_000), of(90, 10_000_000)];
/// assert_eq!(choose_folder(&folders, 64 << 20, |_| true), Some(2));
/// assert_eq!(choose_folder(&folders, 64 << 20, |at| at != 2), Some(0));
/// ```
pub fn choose_folder(
    folders: &[SpillFolder],
    bytes: u64,
    may: impl Fn(usize) -> bool,
) -> Option<usize> {
    // A disk that was not measured yet is expected to be as fast as the fastest.
    let known = folders.iter().map(|folder| folder.backlog.interval_ns).filter(|ns| *ns > 0);
    let fastest_ns = known.min().unwrap_or(1);
    // Links are mostly alike, so that one file measures them all.
    let links = || folders.iter().filter(|folder| folder.is_lent);
    let slowest_link_ns = links().map(|link| link.backlog.interval_ns).max().filter(|ns| *ns > 0);
    let is_unmeasured = |folder: &SpillFolder| folder.is_lent && folder.backlog.interval_ns == 0;
    let is_measuring = slowest_link_ns.is_none()
        && links().any(|link| is_unmeasured(link) && link.backlog.bytes > 0);
    let wait_ns = |folder: &SpillFolder, bytes: u64| {
        let interval_ns = match folder.backlog.interval_ns {
            0 if folder.is_lent => slowest_link_ns.unwrap_or(fastest_ns),
            0 => fastest_ns,
            known => known,
        };
        backlog(folder.backlog.bytes.saturating_add(bytes), interval_ns).wait_ns()
    };
    let is_excluded = |folder: &SpillFolder| {
        folder.has_failed || !folder.has_space(bytes) || is_measuring && is_unmeasured(folder)
    };
    let usable = || folders.iter().enumerate().filter(|(at, _)| may(*at));
    let least_ns = usable()
        .filter(|(_, folder)| !is_excluded(folder))
        .map(|(_, folder)| wait_ns(folder, bytes))
        .min();
    let longest_ns = least_ns.map_or(u64::MAX, |ns| ns.saturating_mul(DELAY_FACTOR_MAX));
    let keys = usable().map(|(at, folder)| {
        let is_too_slow = wait_ns(folder, bytes) > longest_ns;
        let waits = (wait_ns(folder, 0), wait_ns(folder, bytes));
        (is_excluded(folder), is_too_slow, waits, folder.assigned_bytes, at)
    });
    keys.min().map(|(.., at)| at)
}

/// The backlog of a disk with these bytes under way, which takes `interval_ns` for a block.
pub fn backlog(bytes: u64, interval_ns: u64) -> Backlog {
    let blocks = u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX);
    Backlog { bytes, blocks, interval_ns }
}

/// The speed of a disk, from what it has written lately.
///
/// ```
/// use euphrates_policy::spill_placement::WriteSpeed;
///
/// let mut speed = WriteSpeed::default();
/// assert_eq!(speed.interval_ns(0), 0, "not known yet");
/// speed.on_written(100 << 20, 1_000_000_000, 0);
/// assert_eq!(speed.interval_ns(0), 10_000_000, "a MiB in 10 ms");
/// assert_eq!(speed.interval_ns(60_000_000_000), 2_500_000, "a minute ago");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSpeed {
    bytes: u64,
    busy_ns: u64,
}

impl WriteSpeed {
    /// Records bytes that were written in this time with requests in progress. What was written
    /// before a long pause, which ended `idle_ns` after it, counts no longer.
    pub fn on_written(&mut self, bytes: u64, busy_ns: u64, idle_ns: u64) {
        if idle_ns > FORGETTING_NS {
            *self = WriteSpeed::default();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.busy_ns = self.busy_ns.saturating_add(busy_ns);
        while self.bytes > 2 * WINDOW_BYTES {
            self.bytes /= 2;
            self.busy_ns /= 2;
        }
    }

    /// The time for a block, in nanoseconds; 0 before anything was written. `idle_ns` is the time
    /// since something was written.
    pub fn interval_ns(&self, idle_ns: u64) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        let interval = u128::from(self.busy_ns) * u128::from(BLOCK_BYTES) / u128::from(self.bytes);
        let halvings = (idle_ns / FORGETTING_NS).min(63);
        (u64::try_from(interval).unwrap_or(u64::MAX) >> halvings).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A disk of a simulation, which serves its files at once, each at an equal share.
    struct Disk {
        bytes_per_ms: u64,
        /// Bytes left of each file under way, with its writer.
        files: Vec<(u64, usize)>,
        written: u64,
        speed: WriteSpeed,
        space: Option<(u64, u64)>,
        is_lent: bool,
        has_failed: bool,
        files_begun: usize,
        last_ms: u64,
    }

    fn disk(bytes_per_ms: u64) -> Disk {
        Disk {
            bytes_per_ms,
            files: vec![],
            written: 0,
            speed: WriteSpeed::default(),
            space: None,
            is_lent: false,
            has_failed: false,
            files_begun: 0,
            last_ms: 0,
        }
    }

    fn folders(disks: &[Disk], now_ms: u64) -> Vec<SpillFolder> {
        let folder = |disk: &Disk| SpillFolder {
            backlog: backlog(
                disk.files.iter().map(|(left, _)| left).sum(),
                disk.speed.interval_ns((now_ms - disk.last_ms) * 1_000_000),
            ),
            assigned_bytes: disk.written,
            space: disk.space.map(|(free, all)| (free - disk.written.min(free), all)),
            is_lent: disk.is_lent,
            has_failed: disk.has_failed,
        };
        disks.iter().map(folder).collect()
    }

    /// Writers that write one file after the other for `ms` milliseconds.
    fn run(disks: &mut [Disk], writers: usize, sizes: impl Fn(usize) -> u64, ms: u64) {
        let mut begun = 0;
        let mut idle: Vec<usize> = (0..writers).collect();
        for now_ms in 0..ms {
            for writer in idle.drain(..) {
                let bytes = sizes(begun);
                begun += 1;
                let at = choose_folder(&folders(disks, now_ms), bytes, |_| true);
                let at = at.expect("no writer is left without a folder");
                disks[at].files.push((bytes, writer));
                disks[at].files_begun += 1;
            }
            for disk in disks.iter_mut().filter(|disk| !disk.files.is_empty()) {
                let share = disk.bytes_per_ms / disk.files.len() as u64;
                let mut moved = 0;
                for (left, _) in &mut disk.files {
                    let more = share.min(*left);
                    *left -= more;
                    moved += more;
                }
                disk.written += moved;
                let idle_ms = now_ms.saturating_sub(disk.last_ms);
                disk.speed.on_written(moved, 1_000_000, idle_ms * 1_000_000);
                disk.last_ms = now_ms;
                idle.extend(disk.files.iter().filter(|(left, _)| *left == 0).map(|(_, w)| *w));
                disk.files.retain(|(left, _)| *left > 0);
            }
        }
    }

    const SIZE: u64 = 32 << 20;

    #[test]
    fn bytes_follow_the_speeds_of_unequal_disks() {
        for (speeds, writers) in [
            (vec![400 << 10, 400 << 10, 100 << 10], 8),
            (vec![100 << 10, 400 << 10, 400 << 10, 50 << 10], 16),
            (vec![300 << 10, 200 << 10], 6),
            (vec![200 << 10, 200 << 10, 200 << 10], 3),
        ] {
            let mut disks: Vec<Disk> = speeds.iter().map(|speed| disk(*speed)).collect();
            let ms = 120_000;
            run(&mut disks, writers, |number| SIZE + (number as u64 % 5) * (SIZE / 4), ms);
            let all: u64 = speeds.iter().sum::<u64>() * ms;
            let written: u64 = disks.iter().map(|disk| disk.written).sum();
            assert!(written as f64 > 0.95 * all as f64, "{speeds:?}: {written} of {all}");
            for disk in &disks {
                let share = disk.written as f64 / written as f64;
                let fair = disk.bytes_per_ms as f64 * ms as f64 / all as f64;
                assert!((share - fair).abs() < 0.05, "{speeds:?}: {share} of {fair}");
            }
        }
    }

    #[test]
    fn few_writers_leave_a_slow_disk_out_rather_than_wait_for_it() {
        let mut disks = [400 << 10, 400 << 10, 100 << 10].map(disk);
        run(&mut disks, 2, |_| SIZE, 60_000);
        let written: u64 = disks.iter().map(|disk| disk.written).sum();
        // In turn, each writer waits for the slow disk with every third file: 2/3 of this.
        assert!(written > 60_000 * (760 << 10), "{written}");
        assert!(disks[2].files_begun > 0, "its speed was measured");
    }

    #[test]
    fn full_disk_and_failing_disk_receive_nothing_while_there_are_others() {
        let mut disks = [400 << 10, 400 << 10, 400 << 10].map(disk);
        disks[0].space = Some((100 << 20, 1 << 40));
        disks[1].has_failed = true;
        run(&mut disks, 4, |_| SIZE, 10_000);
        assert_eq!((disks[0].files_begun, disks[1].files_begun), (0, 0));
        assert!(disks[2].files_begun > 10);
        disks[2].has_failed = true;
        let folders = folders(&disks, 10_000);
        assert!(choose_folder(&folders, SIZE, |_| true).is_some(), "one is tried nevertheless");
        assert_eq!(choose_folder(&folders, SIZE, |_| false), None);
    }

    #[test]
    fn disk_fills_up_to_the_reserve() {
        let mut disks = [400 << 10, 100 << 10].map(disk);
        disks[0].space = Some((1 << 30, 1 << 40));
        run(&mut disks, 4, |_| SIZE, 60_000);
        let left = (1 << 30) - disks[0].written;
        assert!((RESERVE_BYTES_MAX..RESERVE_BYTES_MAX + 2 * SIZE).contains(&left), "{left}");
        assert!(disks[1].written > 0);
    }

    #[test]
    fn disk_that_has_become_fast_is_used_again() {
        let mut disks = [400 << 10, 10 << 10].map(disk);
        run(&mut disks, 2, |_| SIZE, 30_000);
        disks[1].bytes_per_ms = 400 << 10;
        let before = disks[1].written;
        disks.iter_mut().for_each(|disk| disk.last_ms = 0);
        run(&mut disks, 2, |_| SIZE, 400_000);
        let share = (disks[1].written - before) as f64 / (400_000_u64 * (400 << 10)) as f64;
        assert!(share > 0.4, "{share}");
    }

    /// Disks, and the links to workers that lend memory, of these speeds.
    fn mixed(disks: &[u64], links: &[u64], lent: u64) -> Vec<Disk> {
        let link = |speed: &u64| Disk { space: Some((lent, lent)), is_lent: true, ..disk(*speed) };
        disks.iter().map(|speed| disk(*speed)).chain(links.iter().map(link)).collect()
    }

    #[test]
    fn link_slower_than_the_disk_receives_no_more_than_its_share() {
        for (disk_speed, link_speed, writers) in
            [(400, 100, 8), (400, 200, 4), (400, 40, 8), (200, 100, 6), (400, 300, 16)]
        {
            let mut disks = mixed(&[disk_speed << 10], &[link_speed << 10], 1 << 40);
            let ms = 120_000;
            run(&mut disks, writers, |number| SIZE + (number as u64 % 7) * (SIZE / 8), ms);
            let written: u64 = disks.iter().map(|disk| disk.written).sum();
            let share = disks[1].written as f64 / written as f64;
            let fair = link_speed as f64 / (link_speed + disk_speed) as f64;
            assert!(share < fair + 0.05, "{link_speed} of {disk_speed}: {share} of {fair}");
            let of_disk_alone = written as f64 / (ms * (disk_speed << 10)) as f64;
            assert!(of_disk_alone > 0.95, "{link_speed} of {disk_speed}: {of_disk_alone}");
        }
    }

    #[test]
    fn slow_links_that_were_not_measured_receive_one_file() {
        for (disk_speed, links, writers) in [(400, 3, 2), (100, 8, 4), (200, 5, 1), (400, 8, 8)] {
            let slow = vec![(disk_speed << 10) / 100; links];
            let mut disks = mixed(&[disk_speed << 10], &slow, 1 << 40);
            // In the time in which the disk writes eight files, and links none.
            run(&mut disks, writers, |_| SIZE, 8 * SIZE / (disk_speed << 10));
            let used = disks[1..].iter().filter(|link| link.files_begun > 0).count();
            assert!(used <= 1, "{used} of {links} links, {writers} writers");
        }
    }

    #[test]
    fn fast_links_are_all_used_once_one_is_measured() {
        let mut disks = mixed(&[100 << 10], &[400 << 10; 3], 1 << 40);
        run(&mut disks, 8, |_| SIZE, 60_000);
        assert!(disks[1..].iter().all(|link| link.written > 10 * SIZE));
    }

    #[test]
    fn no_writer_waits_for_lent_memory_that_is_full() {
        for lent in [0, SIZE / 2, 4 * SIZE, 1 << 30] {
            let mut disks = mixed(&[100 << 10], &[400 << 10, 400 << 10], lent);
            run(&mut disks, 4, |_| SIZE, 60_000);
            let [on_disk, one, other] = [0, 1, 2].map(|at: usize| disks[at].written);
            assert!(one <= lent && other <= lent, "{one} and {other} of {lent}");
            // The disk is never idle once the memory is full.
            let fills_ms = 2 * lent / (800 << 10) + 2000;
            assert!(on_disk >= (60_000 - fills_ms) * (95 << 10), "{on_disk} with {lent}");
            // What is lent is used up to the reserve and the last files.
            let used_up = lent.saturating_sub(RESERVE_BYTES_MAX.min(lent / 50) + SIZE);
            assert!(one >= used_up && other >= used_up, "{one} and {other} of {lent}");
        }
    }
}
