//! Benchmark tables of mirrored reading: `cargo run --release -p euphrates-sim --example mirrors`.
//!
//! Every figure is the bound (maximal flow over the copies' disks, `disks::bound`) divided by the
//! simulated time; 1.000 is ideal. An argument selects the tables whose name contains it.

use std::io::{Write, stdout};

use euphrates_policy::declustering::reader::ReaderSettings;
use euphrates_policy::declustering::{
    Arrival, Claiming, DiskShares, Laggard, LaggardIntegral, ServiceOrder,
};
use euphrates_policy::placement::{chained, spread};
use euphrates_sim::disks::{MirroredReading, SimulatedDisk, SimulatedSegment, run};
use euphrates_sim::random::Random;
use euphrates_sim::speed::{SECOND_NS, SpeedChange, SpeedCurve};

const MEGABYTE: u64 = 1 << 20;
/// The default speed of a disk.
const FAST: u64 = 100 * MEGABYTE;
const BLOCKS: usize = 500;

/// A named policy of reading.
type Way = (&'static str, fn(&mut MirroredReading));
/// A table by name, with the function that prints it.
type NamedTable = (&'static str, fn() -> std::io::Result<()>);

fn main() -> std::io::Result<()> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let tables: [NamedTable; 9] = [
        ("reproduced", reproduced),
        ("slow", slow),
        ("design", design),
        ("changing", changing),
        ("competing", competing),
        ("deaths", deaths),
        ("seeks", seeks),
        ("streams", streams),
        ("gain", gain),
    ];
    for (_, table) in tables.iter().filter(|(name, _)| name.contains(&wanted)) {
        table()?;
    }
    Ok(())
}

fn late(mirrors: &mut MirroredReading, order: ServiceOrder) {
    (mirrors.settings.claiming, mirrors.order) = (Claiming::Late, order);
}

fn early(mirrors: &mut MirroredReading, claiming: Claiming, order: ServiceOrder) {
    (mirrors.settings.claiming, mirrors.order) = (claiming, order);
}

fn ours(mirrors: &mut MirroredReading) {
    late(mirrors, ServiceOrder::LaggardIntegral(LaggardIntegral::default()));
}

fn fastest(mirrors: &mut MirroredReading) {
    let disks = &mirrors.disks;
    for segment in &mut mirrors.segments {
        segment.copies.sort_by_key(|&disk| std::cmp::Reverse(disks[disk].speed.first()));
    }
    early(mirrors, Claiming::One(0), ServiceOrder::Arrival(Arrival));
}

const PRIMARY: Way = ("primary", |m| early(m, Claiming::One(0), ServiceOrder::Arrival(Arrival)));
const RANDOM: Way = ("random", |m| early(m, Claiming::Random(1), ServiceOrder::Arrival(Arrival)));
const EVEN: Way = ("even", |m| early(m, Claiming::Alternate, ServiceOrder::Arrival(Arrival)));
const FASTEST: Way = ("fastest", fastest);
const FIFO: Way = ("fifo 2", |m| early(m, Claiming::Room(2), ServiceOrder::Arrival(Arrival)));
const LAGGARD_1: Way =
    ("laggard 1", |m| early(m, Claiming::Room(1), ServiceOrder::Laggard(Laggard)));
const LAGGARD_2: Way =
    ("laggard 2", |m| early(m, Claiming::Room(2), ServiceOrder::Laggard(Laggard)));
const LAGGARD_4: Way =
    ("laggard 4", |m| early(m, Claiming::Room(4), ServiceOrder::Laggard(Laggard)));
const RIVER: Way = ("river", |m| late(m, ServiceOrder::Shares(DiskShares::new(8, 50))));
const OURS: Way = ("graduated", ours);

/// Disks of one speed, each on its own worker, with chained copies.
fn ring(disks: usize, copies: usize, blocks: usize) -> MirroredReading {
    let workers: Vec<u32> = (0..disks as u32).collect();
    let placed = chained(&workers, 1, copies).expect("enough disks");
    placed_on(disks, placed.segments, blocks)
}

fn placed_on(disks: usize, segments: Vec<Vec<usize>>, blocks: usize) -> MirroredReading {
    let segment = |copies| SimulatedSegment {
        copies,
        sizes: vec![MEGABYTE; blocks],
        from_ns: 0,
        bad: Vec::new(),
    };
    MirroredReading {
        disks: vec![SimulatedDisk::constant(FAST); disks],
        segments: segments.into_iter().map(segment).collect(),
        settings: ReaderSettings::default(),
        order: ServiceOrder::LaggardIntegral(LaggardIntegral::default()),
        depth_max: 1,
        latency_ns: 0,
        latency_spread_ns: 0,
        notice_ns: 0,
    }
}

/// The latency of a cluster, and disks that need several requests in flight.
fn real(mirrors: &mut MirroredReading) {
    mirrors.latency_ns = 500_000;
    mirrors.latency_spread_ns = 500_000;
    mirrors.depth_max = 3;
    mirrors.disks.iter_mut().for_each(|disk| disk.overhead_ns = 2_000_000);
}

fn slow_down(mirrors: &mut MirroredReading, slow: usize, divisor: u64) {
    for disk in &mut mirrors.disks[..slow] {
        disk.speed = SpeedCurve::constant(FAST / divisor);
    }
}

fn heading(text: &str, ways: &[Way]) -> std::io::Result<()> {
    let names: String = ways.iter().map(|(name, _)| format!("{name:>10}")).collect();
    writeln!(stdout(), "\n{text}\n{:40}{names}{:>10}{:>8}", "", "messages", "twice")
}

/// Prints one line: the figure of each policy, and of the last one messages per block and blocks
/// read twice.
fn line(name: &str, mirrors: &MirroredReading, ways: &[Way]) -> std::io::Result<f64> {
    let bound_ns = mirrors.bound_ns().unwrap_or(0) as f64;
    line_of(name, mirrors, ways, bound_ns)
}

fn line_of(
    name: &str,
    mirrors: &MirroredReading,
    ways: &[Way],
    ideal_ns: f64,
) -> std::io::Result<f64> {
    write!(stdout(), "{name:40}")?;
    let mut last = (0.0, 0.0, 0);
    for (_, set) in ways {
        let mut mirrors = mirrors.clone();
        set(&mut mirrors);
        let report = run(&mirrors, 1);
        assert!(report.failed.is_empty());
        let messages = report.messages as f64 / report.blocks as f64;
        last = (ideal_ns / report.end_ns() as f64, messages, report.wasted);
        write!(stdout(), "{:10.3}", last.0)?;
        stdout().flush()?;
    }
    writeln!(stdout(), "{:10.1}{:8}", last.1, last.2)?;
    Ok(last.0)
}

fn worst(figures: &[f64]) -> std::io::Result<()> {
    let worst = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let below = figures.iter().filter(|&&figure| figure < 0.97).count();
    writeln!(
        stdout(),
        "worst of the last column {worst:.3}; {below} of {} below 0.97",
        figures.len()
    )
}

fn reproduced() -> std::io::Result<()> {
    let ways = [PRIMARY, RANDOM, EVEN, FASTEST, FIFO, LAGGARD_1, LAGGARD_2, LAGGARD_4, OURS];
    heading("The first measurements' table: no latency, one request in flight, no seeks", &ways)?;
    for (disks, copies, slow, divisor) in [
        (4, 2, 1, 2),
        (4, 2, 1, 10),
        (16, 2, 1, 2),
        (16, 2, 1, 10),
        (16, 3, 2, 10),
        (100, 2, 1, 2),
        (100, 2, 50, 2),
        (16, 2, 0, 1),
    ] {
        let mut mirrors = ring(disks, copies, BLOCKS);
        slow_down(&mut mirrors, slow, divisor);
        line(&case(disks, copies, slow, divisor), &mirrors, &ways)?;
    }
    Ok(())
}

fn case(disks: usize, copies: usize, slow: usize, divisor: u64) -> String {
    format!("{disks} disks, {copies} copies, {slow} at 1/{divisor}")
}

fn slow() -> std::io::Result<()> {
    let ways = [EVEN, FIFO, LAGGARD_1, RIVER, OURS];
    for (text, is_real) in [
        ("Slow disks: latency 0.1 ms, one request in flight", false),
        ("Slow disks: latency 0.5-1 ms, three requests in flight, 2 ms before each", true),
    ] {
        heading(text, &ways)?;
        let mut figures = Vec::new();
        for disks in [4, 16, 100, 1000] {
            for copies in [2, 3] {
                for slow in [0, 1, 2, disks / 2, disks] {
                    for divisor in if slow == 0 { [1].as_slice() } else { &[2, 10] } {
                        let mut mirrors = ring(disks, copies, BLOCKS);
                        mirrors.latency_ns = 100_000;
                        slow_down(&mut mirrors, slow, *divisor);
                        if is_real {
                            real(&mut mirrors);
                        }
                        let name = case(disks, copies, slow, *divisor);
                        figures.push(line(&name, &mirrors, &ways)?);
                    }
                }
            }
        }
        worst(&figures)?;
    }
    Ok(())
}

fn design() -> std::io::Result<()> {
    let ways = [EVEN, FIFO, LAGGARD_1, RIVER, OURS];
    heading("A block design: several segments a disk; latency 0.5-1 ms, three in flight", &ways)?;
    let mut figures = Vec::new();
    for (disks, each) in [(4, 3), (16, 15), (100, 8)] {
        for copies in [2, 3] {
            for (slow, divisor) in [(0, 1), (1, 2), (1, 10), (disks / 2, 2), (disks / 2, 10)] {
                let workers: Vec<u32> = (0..disks as u32).collect();
                let placed = spread(&workers, each, copies).expect("enough disks");
                let mut mirrors = placed_on(disks, placed.segments, BLOCKS / each);
                slow_down(&mut mirrors, slow, divisor);
                real(&mut mirrors);
                let name = format!("{}, {each} each", case(disks, copies, slow, divisor));
                figures.push(line(&name, &mirrors, &ways)?);
            }
        }
    }
    worst(&figures)
}

/// The default policy in the fluid limit: small blocks, no latency, one request in flight.
const FINE: Way = ("fine", |m| {
    ours(m);
    (m.latency_ns, m.latency_spread_ns, m.depth_max) = (0, 0, 1);
    m.disks.iter_mut().for_each(|disk| disk.overhead_ns = 0);
    for segment in &mut m.segments {
        segment.sizes = vec![MEGABYTE / 8; segment.sizes.len() * 8];
    }
});

/// Speeds that change about every second, independently, to full, half or a tenth.
fn change(mirrors: &mut MirroredReading, disks: usize, seed: u64) {
    let mut random = Random::new(seed);
    for disk in &mut mirrors.disks[..disks] {
        let mut steps = Vec::new();
        let mut at_ns = random.below(SECOND_NS);
        while at_ns < 60 * SECOND_NS {
            let bytes_per_second = FAST / [1, 2, 10][random.below(3) as usize];
            steps.push(SpeedChange { from_ns: at_ns, bytes_per_second });
            at_ns += random.between(SECOND_NS / 2, 2 * SECOND_NS);
        }
        disk.speed = SpeedCurve::changing(FAST, &steps);
    }
}

fn changing() -> std::io::Result<()> {
    let ways = [EVEN, FIFO, LAGGARD_1, RIVER, FINE, OURS];
    heading("Speeds that change: latency 0.5-1 ms, three in flight", &ways)?;
    let mut figures = Vec::new();
    for disks in [4, 16, 100] {
        for copies in [2, 3] {
            for (changed, name) in [(1, "one"), (disks / 2, "half"), (disks, "all")] {
                let mut mirrors = ring(disks, copies, 2 * BLOCKS);
                change(&mut mirrors, changed, disks as u64);
                real(&mut mirrors);
                let name = format!("{disks} disks, {copies} copies, {name} change");
                figures.push(line(&name, &mirrors, &ways)?);
            }
            let mut mirrors = ring(disks, copies, BLOCKS);
            let step = SpeedChange { from_ns: 2 * SECOND_NS, bytes_per_second: FAST / 10 };
            mirrors.disks[0].speed = SpeedCurve::changing(FAST, &[step]);
            real(&mut mirrors);
            let name = format!("{disks} disks, {copies} copies, one at 1/10 from 2 s");
            figures.push(line(&name, &mirrors, &ways)?);
        }
    }
    worst(&figures)
}

fn competing() -> std::io::Result<()> {
    let ways = [EVEN, FIFO, LAGGARD_1, RIVER, OURS];
    heading("Several collections, unequal segments: latency 0.5-1 ms, three in flight", &ways)?;
    let mut figures = Vec::new();
    for disks in [4, 16, 100, 1000] {
        for slow in [0, 1] {
            let mut two = ring(disks, 2, BLOCKS);
            let mut second = ring(disks, 2, BLOCKS / 2).segments;
            second.iter_mut().for_each(|segment| segment.from_ns = 2 * SECOND_NS);
            two.segments.extend(second);
            slow_down(&mut two, slow, 10);
            real(&mut two);
            let name = format!("{disks} disks, a second from 2 s, {slow} at 1/10");
            figures.push(line(&name, &two, &ways)?);

            let mut unequal = ring(disks, 2, BLOCKS);
            let mut random = Random::new(5);
            for segment in &mut unequal.segments {
                let blocks = random.between(BLOCKS as u64 / 2, 2 * BLOCKS as u64) as usize;
                segment.sizes = (0..blocks).map(|_| MEGABYTE / random.between(1, 4)).collect();
            }
            slow_down(&mut unequal, slow, 10);
            real(&mut unequal);
            let name = format!("{disks} disks, unequal segments, {slow} at 1/10");
            figures.push(line(&name, &unequal, &ways)?);
        }
    }
    worst(&figures)
}

fn deaths() -> std::io::Result<()> {
    let ways = [FIFO, LAGGARD_1, RIVER, OURS];
    heading("A disk dies after 2 s, noticed 0.1 s or 2 s later, or hangs for 20 s", &ways)?;
    let mut figures = Vec::new();
    for disks in [4, 16, 100, 1000] {
        for copies in [2, 3] {
            for notice_ns in [SECOND_NS / 10, 2 * SECOND_NS] {
                let mut mirrors = ring(disks, copies, BLOCKS);
                mirrors.disks[0].dies_ns = Some(2 * SECOND_NS);
                mirrors.notice_ns = notice_ns;
                real(&mut mirrors);
                let noticed = notice_ns as f64 / SECOND_NS as f64;
                let name = format!("{disks} disks, {copies} copies, noticed {noticed} s later");
                figures.push(line(&name, &mirrors, &ways)?);
            }
            let mut mirrors = ring(disks, copies, BLOCKS);
            let stands = SpeedChange { from_ns: 2 * SECOND_NS, bytes_per_second: 0 };
            let moves = SpeedChange { from_ns: 22 * SECOND_NS, bytes_per_second: FAST };
            mirrors.disks[0].speed = SpeedCurve::changing(FAST, &[stands, moves]);
            real(&mut mirrors);
            let name = format!("{disks} disks, {copies} copies, hangs");
            figures.push(line(&name, &mirrors, &ways)?);
        }
    }
    worst(&figures)
}

const TURN_0: Way = ("turn 0", |m| turn(m, 0));
const TURN_32: Way = ("turn 32", |m| turn(m, 32));
const TURN_8: Way = ("turn 8", |m| turn(m, 8));
const TURN_16: Way = ("turn 16", |m| turn(m, 16));

fn turn(mirrors: &mut MirroredReading, blocks: u64) {
    let graduated = LaggardIntegral { turn_bytes: blocks * MEGABYTE, ..LaggardIntegral::default() };
    late(mirrors, ServiceOrder::LaggardIntegral(graduated));
}

fn seeks() -> std::io::Result<()> {
    let ways = [PRIMARY, EVEN, FIFO, LAGGARD_1, TURN_0, TURN_16, TURN_32, TURN_8];
    let text =
        "Seeks of 8 ms beside blocks of 10 ms, three in flight; all equal: against unmirrored";
    heading(text, &ways)?;
    let mut figures = Vec::new();
    for disks in [4, 16, 100] {
        for (copies, slow, divisor) in [(2, 0, 1), (3, 0, 1), (2, 1, 2), (2, 1, 10), (3, 1, 10)] {
            let mut mirrors = ring(disks, copies, 2 * BLOCKS);
            slow_down(&mut mirrors, slow, divisor);
            real(&mut mirrors);
            mirrors.disks.iter_mut().for_each(|disk| disk.seek_ns = 8_000_000);
            let name = case(disks, copies, slow, divisor);
            if slow == 0 {
                let mut unmirrored = mirrors.clone();
                unmirrored.segments.iter_mut().for_each(|segment| segment.copies.truncate(1));
                (PRIMARY.1)(&mut unmirrored);
                let ideal_ns = run(&unmirrored, 1).end_ns() as f64;
                figures.push(line_of(&name, &mirrors, &ways, ideal_ns)?);
            } else {
                line(&name, &mirrors, &ways)?;
            }
        }
    }
    worst(&figures)
}

fn streams() -> std::io::Result<()> {
    let ways = [EVEN, FIFO, LAGGARD_1, RIVER, OURS];
    heading("Streams: blocks in order; latency 0.5-1 ms, three in flight", &ways)?;
    let mut figures = Vec::new();
    for window in [32, 64, 128] {
        for (disks, copies) in [(4, 2), (4, 3), (16, 2), (100, 2), (100, 3), (1000, 2)] {
            for (slow, divisor) in [(0, 1), (1, 2), (1, 10), (disks / 2, 2)] {
                let mut mirrors = ring(disks, copies, BLOCKS);
                mirrors.settings.is_stream = true;
                mirrors.settings.window_bytes_max = window * MEGABYTE;
                slow_down(&mut mirrors, slow, divisor);
                real(&mut mirrors);
                let name = format!("{}, {window} MiB", case(disks, copies, slow, divisor));
                figures.push(line(&name, &mirrors, &ways)?);
            }
        }
    }
    worst(&figures)
}

const GAIN_0: Way = ("gain 0", |m| gained(m, 0));
const GAIN_16: Way = ("gain 16", |m| gained(m, 16));
const GAIN_32: Way = ("gain 32", |m| gained(m, 32));
const GAIN_64: Way = ("gain 64", |m| gained(m, 64));
const GAIN_256: Way = ("gain 256", |m| gained(m, 256));

fn gained(mirrors: &mut MirroredReading, memory_gain: u32) {
    late(
        mirrors,
        ServiceOrder::LaggardIntegral(LaggardIntegral {
            integral_gain: memory_gain,
            ..LaggardIntegral::default()
        }),
    );
}

fn gain() -> std::io::Result<()> {
    let ways = [GAIN_0, GAIN_16, GAIN_64, GAIN_256, GAIN_32];
    heading("What a disk's memory brings: latency 0.5-1 ms, three in flight", &ways)?;
    for blocks in [200, BLOCKS, 4 * BLOCKS] {
        for (disks, copies, slow, divisor) in
            [(16, 2, 1, 10), (100, 2, 1, 10), (100, 3, 2, 10), (1000, 2, 1, 10), (1000, 3, 2, 10)]
        {
            let mut mirrors = ring(disks, copies, blocks);
            slow_down(&mut mirrors, slow, divisor);
            real(&mut mirrors);
            let name = format!("{}, {blocks} blocks", case(disks, copies, slow, divisor));
            line(&name, &mirrors, &ways)?;
        }
    }
    Ok(())
}
