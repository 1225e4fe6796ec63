//! The lower bound on the time of reading striped files, by maximal flow.
//!
//! By a time T a disk has delivered at most as many whole blocks as the integral of its speed
//! holds. All stripes can have been read by T only if a flow carries `k` blocks from every stripe
//! to its disks, at most one to each; the earliest T is found by bisection. Stripes with the same
//! disks are one node. The bound knows the future, and has no latency.

use std::collections::BTreeMap;

use euphrates_policy::striping::reader::StripeBlocks;

use crate::disks::SimulatedDisk;
use crate::disks::bound::MaxFlow;
use crate::speed::SECOND_NS;

/// Stripes with the same disks, data blocks and sizes.
struct Class<'a> {
    stripe: &'a StripeBlocks,
    count: u64,
}

/// The earliest time at which all stripes can have been read, to a millionth; `None` if never.
///
/// Blocks of one size are indivisible; where sizes differ, disks may split blocks.
pub fn read_at<'a>(
    disks: &[SimulatedDisk],
    stripes: impl Iterator<Item = &'a StripeBlocks>,
) -> Option<u64> {
    let mut classes: BTreeMap<_, Class<'a>> = BTreeMap::new();
    for stripe in stripes {
        let mut sorted = stripe.disks.clone();
        sorted.sort_unstable();
        let key = (sorted, stripe.needed, stripe.block_bytes);
        classes.entry(key).or_insert(Class { stripe, count: 0 }).count += 1;
    }
    let classes: Vec<Class<'_>> = classes.into_values().collect();
    let mut sizes: Vec<u64> = classes.iter().map(|class| class.stripe.block_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let unit = if let [one] = sizes[..] { one.max(1) } else { 1 };
    let (mut low, mut high) = (0, 1 << 20);
    while !can_read_by(disks, &classes, unit, high) {
        low = high;
        high = high.checked_mul(2).filter(|&ns| ns < 1 << 60)?;
    }
    while high - low > 1 + high / 1_000_000 {
        let middle = low + (high - low) / 2;
        if can_read_by(disks, &classes, unit, middle) { high = middle } else { low = middle }
    }
    // The last time that is known to be too early is the bound.
    Some(low)
}

/// Whether all stripes can have been read by a time, with disks that deliver whole units of bytes.
fn can_read_by(disks: &[SimulatedDisk], classes: &[Class<'_>], unit: u64, until_ns: u64) -> bool {
    let mut flow = MaxFlow::new(2 + classes.len() + disks.len());
    let mut wanted = 0;
    for (at, disk) in disks.iter().enumerate() {
        let speed = disk.speed_alive();
        let bytes = speed.work_between(0, until_ns) / u128::from(SECOND_NS);
        let units = bytes / u128::from(unit);
        flow.edge(2 + classes.len() + at, 1, u64::try_from(units).unwrap_or(u64::MAX >> 8));
    }
    for (at, Class { stripe, count }) in classes.iter().enumerate() {
        let units = count * (stripe.block_bytes / unit);
        wanted += units * stripe.needed as u64;
        flow.edge(0, 2 + at, units * stripe.needed as u64);
        for &disk in &stripe.disks {
            flow.edge(2 + at, 2 + classes.len() + disk, units);
        }
    }
    flow.run() == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound in seconds for stripes over all disks; a block takes a second at speed 1000.
    fn seconds(speeds: &[u64], needed: usize, stripes: usize) -> f64 {
        let disks: Vec<_> = speeds.iter().map(|&speed| SimulatedDisk::constant(speed)).collect();
        let all = (0..speeds.len()).collect();
        let stripe = StripeBlocks { needed, block_bytes: 1000, disks: all };
        let bound = read_at(&disks, vec![stripe; stripes].iter());
        bound.map_or(f64::INFINITY, |ns| ns as f64 / SECOND_NS as f64)
    }

    #[test]
    fn scan_has_the_bandwidth_of_all_disks_but_a_block_of_each_stripe_at_most() {
        let near = |a: f64, b: f64| (a - b).abs() < b * 0.01;
        assert!(near(seconds(&[1000, 1000, 1000, 1000, 250], 4, 1700), 1600.0));
        assert!(near(seconds(&[1000; 5], 4, 1000), 800.0));
        assert!(near(seconds(&[10_000, 1000, 1000], 2, 1000), 500.0), "one disk has one block");
        assert!(near(seconds(&[1000, 250], 2, 100), 400.0), "without parity");
        assert!(near(seconds(&[1000, 250], 1, 100), 80.0), "replication");
        assert_eq!(seconds(&[1000, 1000, 0], 3, 1), f64::INFINITY);
    }

    #[test]
    fn blocks_are_indivisible() {
        assert!((seconds(&[1000, 1000, 1000], 2, 1) - 1.0).abs() < 0.01);
        assert!((seconds(&[1000, 10, 1000], 2, 4) - 4.0).abs() < 0.01, "the slow disk ends none");
    }
}
