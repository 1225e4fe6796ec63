//! Random cases of striped reading, drawn from a seed.

use euphrates_policy::declustering::{Proportional, ServiceOrder};
use euphrates_policy::striping::reader::{StripeBlocks, StripeSettings};

use super::{StripedFile, StripedReading};
use crate::disks::SimulatedDisk;
use crate::random::Random;

const BLOCK_BYTES: u64 = 1 << 20;
/// Bytes per second of the fastest disks.
const FAST: u64 = 100 << 20;
/// A random case: up to 100 disks of any speeds, and files of any `k` and `m`.
///
/// One to four files are striped over all disks, over neighbours on a ring, or over random disks.
/// Speeds are all equal, of two kinds, or spread; readers learn them as they read. In the mean a
/// disk reads `blocks_each` blocks, times the slowness of the slowest disks, so a run is at least
/// as long as the slowest need for `blocks_each`. Messages take up to a millisecond; the fastest
/// disks need ten for a block.
///
/// ```
/// use euphrates_sim::stripes::{random_reading, run};
///
/// let reading = random_reading(1, 100);
/// let done = run(&reading, 1);
/// assert!(reading.fraction(&done) >= 0.97);
/// ```
pub fn random_reading(seed: u64, blocks_each: u64) -> StripedReading {
    let mut random = Random::new(seed);
    // Small numbers of disks are as frequent as large ones.
    let most = [4, 10, 30, 100][random.below(4) as usize];
    let disks = random.between(1, most);
    let speeds = random.below(3);
    // Fewer disks may be slower, since reading takes longer then.
    let slower = random.between(1, (300 / disks).clamp(10, 100));
    let device = |random: &mut Random| {
        let divisor = match speeds {
            0 => 1,
            1 if random.chance(300) => slower,
            1 => 1,
            _ => {
                let most = random.between(1, slower);
                random.between(1, most)
            }
        };
        SimulatedDisk::constant(FAST / divisor)
    };
    let devices: Vec<SimulatedDisk> = (0..disks).map(|_| device(&mut random)).collect();
    let files = random.between(1, 4);
    let blocks = blocks_each * if speeds == 0 { 1 } else { slower } * disks / files;
    let file = |random: &mut Random| {
        let widest = disks.min([6, 12, 100][random.below(3) as usize]);
        let width = random.between(1, widest);
        let needed = random.between(1, width);
        let stripes = blocks / needed + 1;
        let layout = random.below(3);
        let mut all: Vec<usize> = (0..disks as usize).collect();
        random.shuffle(&mut all);
        let mut stripe = |at: u64, random: &mut Random| {
            let start = (at * width) as usize;
            let disks = match layout {
                0 => all[..width as usize].to_vec(),
                1 => (start..start + width as usize).map(|at| all[at % all.len()]).collect(),
                _ => {
                    random.shuffle(&mut all);
                    all[..width as usize].to_vec()
                }
            };
            StripeBlocks { needed: needed as usize, block_bytes: BLOCK_BYTES, disks }
        };
        let stripes = (0..stripes).map(|at| stripe(at, random)).collect();
        StripedFile { stripes, bad: Vec::new() }
    };
    let files = (0..files).map(|_| file(&mut random)).collect();
    StripedReading {
        disks: devices,
        files,
        settings: StripeSettings::default(),
        order: ServiceOrder::Proportional(Proportional),
        knows_paces: false,
        depth_max: 1 + random.below(2) as usize,
        latency_ns: random.below(2) * random.below(500_000),
        latency_spread_ns: random.below(2) * random.below(500_000),
        notice_ns: 0,
    }
}
