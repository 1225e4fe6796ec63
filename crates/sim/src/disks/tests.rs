//! Random clusters, deaths and delays: every block is delivered once, in order in a stream.

use euphrates_policy::declustering::reader::ReaderSettings;
use euphrates_policy::declustering::{
    Arrival, Claiming, DiskShares, Laggard, LaggardIntegral, ServiceOrder,
};

use super::{MirroredReading, SimulatedDisk, SimulatedDiskReport, SimulatedSegment, run};
use crate::random::Random;
use crate::speed::{SpeedChange, SpeedCurve};

const MEGABYTE: u64 = 1 << 20;

fn random_disk(random: &mut Random) -> SimulatedDisk {
    let fast = 1000 * MEGABYTE / (1 + random.below(100));
    let change = |random: &mut Random| {
        let stands = random.chance(100);
        let bytes_per_second = if stands { 0 } else { 1000 * MEGABYTE / (1 + random.below(1000)) };
        SpeedChange { from_ns: random.below(2_000_000_000), bytes_per_second }
    };
    let mut steps: Vec<SpeedChange> = (0..random.below(4)).map(|_| change(random)).collect();
    // The disk recovers at the end, or a run might never end.
    steps.push(SpeedChange { from_ns: 2_000_000_000, bytes_per_second: fast });
    SimulatedDisk {
        speed: SpeedCurve::changing(fast, &steps),
        seek_ns: random.below(3) * 4_000_000,
        overhead_ns: random.below(2) * 1_000_000,
        dies_ns: None,
    }
}

fn random_segment(random: &mut Random, disks: usize) -> SimulatedSegment {
    let mut order: Vec<usize> = (0..disks).collect();
    random.shuffle(&mut order);
    let copies = random.between(1, 4.min(disks as u64)) as usize;
    let blocks = random.below(60);
    let even = random.chance(500);
    let size = |random: &mut Random| if even { MEGABYTE } else { random.below(4 * MEGABYTE) };
    let mut segment = SimulatedSegment {
        copies: order[..copies].to_vec(),
        sizes: (0..blocks).map(|_| size(random)).collect(),
        from_ns: random.below(2) * random.below(500_000_000),
        bad: Vec::new(),
    };
    if copies > 1 && random.chance(300) {
        let keeps = random.below(copies as u64) as usize;
        let bad = (0..blocks as u32).filter(|_| random.chance(200)).collect::<Vec<_>>();
        let places = bad.into_iter().map(|block| (random.below(copies as u64) as usize, block));
        segment.bad = places.filter(|&(copy, _)| copy != keeps).collect();
    }
    segment
}

fn random_mirrors(random: &mut Random) -> MirroredReading {
    let disks = random.between(1, 9) as usize;
    let orders = [
        ServiceOrder::Arrival(Arrival),
        ServiceOrder::Laggard(Laggard),
        ServiceOrder::Shares(DiskShares::new(8, 50)),
        ServiceOrder::LaggardIntegral(LaggardIntegral {
            turn_bytes: 4 * MEGABYTE,
            ..LaggardIntegral::default()
        }),
        ServiceOrder::LaggardIntegral(LaggardIntegral::default()),
    ];
    let claimings = [
        Claiming::One(random.below(3) as usize),
        Claiming::Random(random.next_u64() >> 1),
        Claiming::Alternate,
        Claiming::Room(random.between(1, 5) as usize),
    ];
    let late = random.chance(700);
    MirroredReading {
        disks: (0..disks).map(|_| random_disk(random)).collect(),
        segments: (0..random.between(1, 12)).map(|_| random_segment(random, disks)).collect(),
        settings: ReaderSettings {
            claiming: if late { Claiming::Late } else { claimings[random.below(4) as usize] },
            is_stream: random.chance(400),
            window_bytes_max: random.below(40 * MEGABYTE),
            claims_max: random.between(1, 16) as usize,
            again_max: random.below(9) as usize,
        },
        order: orders[random.below(5) as usize].clone(),
        depth_max: random.between(1, 4) as usize,
        latency_ns: random.below(3) * random.below(20_000_000),
        latency_spread_ns: random.below(2) * random.below(20_000_000),
        notice_ns: random.below(100_000_000),
    }
}

/// Runs seeds. The simulation itself asserts that each block is delivered once and in order, and
/// that readers end. A failing seed is printed.
fn try_seeds(
    seeds: std::ops::Range<u64>,
    check: fn(&MirroredReading, &SimulatedDiskReport),
    die: bool,
) {
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut mirrors = random_mirrors(&mut random);
        if die {
            for disk in &mut mirrors.disks {
                disk.dies_ns = random.chance(300).then(|| random.below(1_000_000_000));
            }
        }
        let outcome = std::panic::catch_unwind(|| check(&mirrors, &run(&mirrors, seed)));
        assert!(outcome.is_ok(), "seed {seed}: {mirrors:#?}");
    }
}

#[test]
fn every_block_is_delivered_once_and_in_order() {
    let check = |mirrors: &MirroredReading, report: &SimulatedDiskReport| {
        assert!(report.failed.is_empty());
        let blocks = |segment: &SimulatedSegment| segment.sizes.len() as u64;
        assert_eq!(report.blocks, mirrors.segments.iter().map(blocks).sum::<u64>());
        let again_max = mirrors.segments.len() * mirrors.settings.again_max;
        assert!(report.again <= again_max as u64 && report.wasted <= report.again);
        let bad: usize = mirrors.segments.iter().map(|segment| segment.bad.len()).sum();
        assert!(report.again == 0 || report.messages > 0 || bad > 0);
        let late = mirrors.settings.claiming == Claiming::Late;
        assert!(late || report.again == 0);
    };
    try_seeds(0..3000, check, false);
}

#[test]
fn reader_fails_only_if_no_copy_of_a_block_is_left() {
    let check = |mirrors: &MirroredReading, report: &SimulatedDiskReport| {
        for &(reader, error) in &report.failed {
            let segment = &mirrors.segments[reader];
            let is_gone = |(copy, &disk): (usize, &usize)| {
                mirrors.disks[disk].dies_ns.is_some() || segment.bad.contains(&(copy, error.block))
            };
            assert!(segment.copies.iter().enumerate().all(is_gone), "{error:?} of {reader}");
        }
    };
    try_seeds(10_000..13_000, check, true);
}

#[test]
fn held_bytes_stay_within_the_window() {
    let check = |mirrors: &MirroredReading, report: &SimulatedDiskReport| {
        let sizes = mirrors.segments.iter().flat_map(|segment| &segment.sizes);
        let largest = sizes.copied().max().unwrap_or(0);
        let held_max = mirrors.settings.window_bytes_max.max(largest);
        assert!(report.held_bytes <= held_max, "{} of {held_max}", report.held_bytes);
    };
    try_seeds(20_000..21_000, check, false);
}

/// A ring with some slow disks, the latency of a cluster, and disks that need several requests.
fn ring(disks: usize, copies: usize, slow: usize, divisor: u64) -> MirroredReading {
    let fast = 100 * MEGABYTE;
    let disk = |at: usize| SimulatedDisk {
        overhead_ns: 2_000_000,
        ..SimulatedDisk::constant(if at < slow { fast / divisor } else { fast })
    };
    let segment = |at: usize| SimulatedSegment {
        copies: (0..copies).map(|copy| (at + copy) % disks).collect(),
        sizes: vec![MEGABYTE; 500],
        from_ns: 0,
        bad: Vec::new(),
    };
    MirroredReading {
        disks: (0..disks).map(disk).collect(),
        segments: (0..disks).map(segment).collect(),
        settings: ReaderSettings::default(),
        order: ServiceOrder::LaggardIntegral(LaggardIntegral::default()),
        depth_max: 3,
        latency_ns: 500_000,
        latency_spread_ns: 500_000,
        notice_ns: 0,
    }
}

fn fraction(mirrors: &MirroredReading) -> f64 {
    mirrors.fraction(&run(mirrors, 1))
}

#[test]
fn load_of_a_slow_disk_spreads_round_the_ring() {
    for (disks, copies, slow) in [(4, 2, 1), (16, 2, 1), (16, 3, 2), (100, 2, 1), (100, 2, 50)] {
        for divisor in [2, 10] {
            let reached = fraction(&ring(disks, copies, slow, divisor));
            assert!(reached >= 0.97, "{disks}, {copies}, {slow} at 1/{divisor}: {reached}");
        }
    }
}

#[test]
fn stream_reaches_the_bound_with_a_window_of_32_blocks() {
    for divisor in [1, 2, 10] {
        let mut mirrors = ring(16, 2, 1, divisor);
        mirrors.settings.is_stream = true;
        mirrors.settings.window_bytes_max = 32 * MEGABYTE;
        let reached = fraction(&mirrors);
        assert!(reached >= 0.97, "1/{divisor}: {reached}");
    }
}

#[test]
fn mirroring_costs_little_on_even_disks_with_seeks() {
    let mut mirrors = ring(16, 2, 0, 1);
    mirrors.disks.iter_mut().for_each(|disk| disk.seek_ns = 8_000_000);
    let turn_bytes = 8 * MEGABYTE;
    mirrors.order =
        ServiceOrder::LaggardIntegral(LaggardIntegral { turn_bytes, ..LaggardIntegral::default() });
    let mirrored_ns = run(&mirrors, 1).end_ns();
    mirrors.segments.iter_mut().for_each(|segment| segment.copies.truncate(1));
    let plain_ns = run(&mirrors, 1).end_ns();
    assert!(plain_ns * 100 >= mirrored_ns * 97, "{plain_ns} and {mirrored_ns}");
}

#[test]
fn runs_are_deterministic() {
    let mirrors = ring(5, 2, 1, 10);
    assert_eq!(run(&mirrors, 3).ends_ns, run(&mirrors, 3).ends_ns);
}
