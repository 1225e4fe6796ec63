//! Simulation of striped writing: a writer that is faster than all disks, and late placement.

use euphrates_policy::block_assignment::Backlog;
use euphrates_policy::striping::{StripeDisk, choose_disks};

use crate::events::EventQueue;

/// Disks, and how stripes are written to them.
#[derive(Clone, Debug)]
pub struct StripedWriting {
    /// The time in which each disk writes a block.
    pub block_ns: Vec<u64>,
    /// Blocks of a stripe, data and parity.
    pub width: usize,
    /// Stripes to write.
    pub stripes: u64,
    /// Whether disks are chosen late; if not, stripe by stripe in turn (the baseline).
    pub is_late: bool,
}

/// Blocks in flight to a disk, at most, where disks are not chosen late.
const FIXED_BLOCKS_MAX: u32 = 4;

/// The time in which all stripes are written.
///
/// ```
/// use euphrates_sim::stripes::{StripedWriting, write};
///
/// let writing = StripedWriting { block_ns: vec![10; 3], width: 3, stripes: 5, is_late: true };
/// assert_eq!(write(&writing), 50);
/// ```
pub fn write(writing: &StripedWriting) -> u64 {
    let disks = writing.block_ns.len();
    let mut events = EventQueue::default();
    let mut backlogs = vec![Backlog::default(); disks];
    let mut busy_from_ns = vec![0; disks];
    let mut stripe = 0;
    loop {
        while stripe < writing.stripes {
            let Some(chosen) = choose(writing, &backlogs, stripe) else { break };
            for disk in chosen {
                backlogs[disk].blocks += 1;
                backlogs[disk].bytes += 1 << 20;
                if backlogs[disk].blocks == 1 {
                    busy_from_ns[disk] = events.now_ns();
                    events.push(events.now_ns() + writing.block_ns[disk], disk);
                }
            }
            stripe += 1;
        }
        let Some(disk) = events.pop() else { break };
        let now_ns = events.now_ns();
        let backlog = &mut backlogs[disk];
        let took_ns = now_ns - busy_from_ns[disk];
        backlog.interval_ns = match backlog.interval_ns {
            0 => took_ns,
            before_ns => before_ns / 2 + took_ns / 2,
        };
        backlog.blocks -= 1;
        backlog.bytes -= 1 << 20;
        busy_from_ns[disk] = now_ns;
        if backlog.blocks > 0 {
            events.push(now_ns + writing.block_ns[disk], disk);
        }
    }
    assert_eq!(stripe, writing.stripes, "a stripe was never written");
    events.now_ns()
}

fn choose(writing: &StripedWriting, backlogs: &[Backlog], stripe: u64) -> Option<Vec<usize>> {
    let disks = backlogs.len();
    if writing.is_late {
        let of = |(worker, &backlog): (usize, &Backlog)| StripeDisk {
            worker: worker as u32,
            backlog,
            is_usable: true,
        };
        let disks: Vec<StripeDisk> = backlogs.iter().enumerate().map(of).collect();
        return choose_disks(&disks, writing.width, stripe).expect("enough disks");
    }
    let turn = (stripe % disks as u64) as usize;
    let chosen: Vec<usize> = (turn..turn + writing.width).map(|at| at % disks).collect();
    chosen.iter().all(|&disk| backlogs[disk].blocks < FIXED_BLOCKS_MAX).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const MS: u64 = 1_000_000;

    /// Blocks in the time of one block of a fast disk.
    fn rate(block_ns: &[u64], width: usize, is_late: bool) -> f64 {
        let stripes = 2000;
        let writing = StripedWriting { block_ns: block_ns.to_vec(), width, stripes, is_late };
        (stripes * width as u64 * 10 * MS) as f64 / write(&writing) as f64
    }

    #[test]
    fn late_placement_writes_at_the_rate_of_all_disks_if_there_is_one_more() {
        for slower in [1, 2, 4, 10, 100] {
            let mut disks = vec![10 * MS; 6];
            disks[0] *= slower;
            let all = 5.0 + 1.0 / slower as f64;
            let late = rate(&disks, 5, true);
            assert!(late >= 0.95 * all, "{late} of {all}, 1/{slower}");
            let fixed = rate(&disks, 5, false);
            assert!(fixed <= 1.05 * 6.0 / slower as f64, "{fixed} in turn, 1/{slower}");
        }
        let mut disks = vec![10 * MS; 5];
        disks[0] *= 4;
        let exactly = rate(&disks, 5, true);
        assert!(exactly <= 1.3, "{exactly}: as many disks as blocks run at the slowest's pace");
    }

    #[test]
    fn every_stripe_is_written_whatever_the_disks() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let disks = random.between(1, 20);
            let block_ns = (0..disks).map(|_| random.between(MS, 1000 * MS)).collect();
            let width = random.between(1, disks) as usize;
            let is_late = random.chance(700);
            // It asserts that none is left.
            write(&StripedWriting { block_ns, width, stripes: 200, is_late });
        }
    }
}
