//! Benchmark tables of the distributed queue's policies: `bench/results/*-sim-queues.txt`.
//!
//! `cargo run --release -p euphrates-sim --example queues` prints them; they are the same on every
//! machine. With `quick`, the largest clusters are left out.

use std::io::{Result, Write};

use euphrates_sim::queue::{
    PolicyName, QueueScenario, QueueSide, Share, Slowdown, When, clairvoyant,
};
use euphrates_sim::{QueueReport, Scenario, run};

const SEED: u64 = 1;

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "quick");
    let out = &mut std::io::stdout().lock();
    writeln!(out, "cargo run --release -p euphrates-sim --example queues      (seed {SEED})\n")?;
    baselines(out)?;
    held_by_the_stuck(out)?;
    late_binding(out, quick)?;
    beside_each_other(out)
}

fn simulated(scenario: QueueScenario) -> QueueReport {
    let scenario = Scenario::Queue(scenario);
    scenario.check().expect("a sound scenario");
    run(&scenario, SEED)
}

fn slow(share: Share, slower: f64, when: When) -> Vec<Slowdown> {
    vec![Slowdown { side: QueueSide::Consumers, share, slower, when }]
}

/// The tables of the first measurements: same model, same policies.
fn baselines(out: &mut impl Write) -> Result<()> {
    writeln!(out, "1. Fluid bound by completion; balanced, one consumer 10 times slower.\n")?;
    let policies = [
        ("static", PolicyName::Static { credit_max: 2 }),
        ("round robin", PolicyName::RoundRobin { credit_max: 2 }),
        ("shortest of 4", PolicyName::ShortestOf { k: 4, credit_max: 2 }),
        ("credit 1", PolicyName::Credit { credit_max: 1 }),
        ("credit 2", PolicyName::Credit { credit_max: 2 }),
        ("credit 8", PolicyName::Credit { credit_max: 8 }),
        ("sparrow 1/2", PolicyName::Sparrow { reservations: 1, slots_max: 2 }),
        ("sparrow 2/2", PolicyName::Sparrow { reservations: 2, slots_max: 2 }),
        ("sparrow 4/4", PolicyName::Sparrow { reservations: 4, slots_max: 4 }),
        ("late binding", PolicyName::LateBinding {}),
    ];
    let shapes = [(4, 4, 1000), (32, 32, 500), (300, 300, 200), (1000, 1000, 100), (1000, 50, 100)];
    write!(out, "{:14}", "")?;
    for (m, n, batches) in shapes {
        write!(out, "{:>17}", format!("{m}x{n} ({batches})"))?;
    }
    writeln!(out, "      in brackets: the most pieces one consumer held")?;
    for (name, policy) in policies {
        write!(out, "{name:14}")?;
        for (producers, consumers, batches) in shapes {
            let perturbations = slow(Share::Count(1), 10.0, When::Always);
            let base = QueueScenario::default();
            let report = simulated(QueueScenario {
                policy,
                producers,
                consumers,
                batches,
                perturbations,
                ..base
            });
            let cell = format!("{:.3} [{}]", report.fraction, report.held_pieces_max);
            write!(out, "{cell:>17}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// One consumer that stops in the middle, with growing numbers of producers.
fn held_by_the_stuck(out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "2. One of 32 consumers stops for a minute: the most bytes one consumer held.\n"
    )?;
    let policies = [
        ("credit 2", PolicyName::Credit { credit_max: 2 }),
        ("late binding", PolicyName::LateBinding {}),
    ];
    for (name, policy) in policies {
        write!(out, "{name:14}")?;
        for producers in [10, 100, 1000, 10_000] {
            let when = When::Between { from_ms: 100.0, until_ms: 60_000.0 };
            let report = simulated(QueueScenario {
                policy,
                producers,
                consumers: 32,
                batches: 20,
                // Each consumer needs 10 ms for a batch, however many produce.
                consumer_speed: 32.0 / f64::from(producers),
                perturbations: slow(Share::Count(1), 0.0, when),
                ..QueueScenario::default()
            });
            let mib = report.held_bytes_max as f64 / f64::from(1 << 20);
            write!(out, "{:>30}", format!("{producers} producers: {mib:.1} MiB"))?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// The perturbations of consumers.
fn perturbed() -> [(&'static str, Vec<Slowdown>); 5] {
    let during = When::Between { from_ms: 700.0, until_ms: 2000.0 };
    [
        ("none slow", vec![]),
        ("one 10x", slow(Share::Count(1), 10.0, When::Always)),
        ("quarter 4x", slow(Share::Part(0.25), 4.0, When::Always)),
        ("quarter 10x 0.7-2 s", slow(Share::Part(0.25), 10.0, during)),
        ("half 4x, wandering", slow(Share::Part(0.5), 4.0, When::Wandering { every_ms: 500.0 })),
    ]
}

/// Late binding in all settings, against the bound plus one batch of the slowest consumer plus five
/// round trips.
fn late_binding(out: &mut impl Write, quick: bool) -> Result<()> {
    writeln!(out, "3. Late binding. ms over: completion less fluid bound; of: one batch of the")?;
    writeln!(
        out,
        "slowest and five round trips; * where it is more. greedy: the same of a greedy"
    )?;
    writeln!(
        out,
        "schedule of whole batches that knows everything. runs: of the slowest's batches."
    )?;
    writeln!(out)?;
    let head = ["cluster", "load", "perturbation", "fraction", "ms over", "of", "greedy", "runs"];
    let widths = [22, 6, 20, 9, 9, 9, 8, 7];
    for (name, width) in head.into_iter().zip(widths) {
        write!(out, "{name:>width$}")?;
    }
    writeln!(out, "{:>10}{:>7}{:>7}", "messages", "held", "idle")?;
    let mut shapes = vec![
        (4, 4, 500),
        (32, 32, 500),
        (300, 300, 500),
        (1000, 50, 500),
        (50, 1000, 10_000),
        (1000, 1000, 100),
        (1000, 1000, 500),
    ];
    if !quick {
        shapes.push((10_000, 10_000, 100));
    }
    for (producers, consumers, batches) in shapes {
        for consumer_speed in [1.0, 0.5] {
            for (name, perturbations) in perturbed() {
                let scenario = QueueScenario {
                    producers,
                    consumers,
                    batches,
                    consumer_speed,
                    perturbations,
                    ..QueueScenario::default()
                };
                let report = simulated(scenario.clone());
                let greedy_ns =
                    clairvoyant::done_at(&scenario, SEED, (report.bound_ms * 1e6) as u64);
                let greedy_ms = greedy_ns as f64 / 1e6 - report.bound_ms;
                let over_ms = report.completed_ms - report.bound_ms;
                let allowed_ms = report.slowest_batch_ms + 1.0;
                let mark = if over_ms > allowed_ms { "*" } else { " " };
                let runs = report.bound_ms / report.slowest_batch_ms;
                let cluster = format!("{producers}x{consumers} ({batches})");
                write!(out, "{cluster:>22}{consumer_speed:>6}{name:>20}{:>9.3}", report.fraction)?;
                write!(out, "{over_ms:>8.0}{mark}{allowed_ms:>9.0}{greedy_ms:>8.0}{runs:>7.0}")?;
                let (messages, held) = (report.messages_per_batch, report.held_pieces_max);
                writeln!(out, "{messages:>10.2}{held:>7}{:>6.1}%", report.idle * 100.0)?;
                out.flush()?;
            }
        }
    }
    writeln!(out)
}

/// All policies on the same work with all kinds of unevenness at once.
fn beside_each_other(out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "4. 300x300 (500), consumers the bottleneck at 0.8; batches of a tenth to the whole"
    )?;
    writeln!(
        out,
        "size, work of a byte from 0.5 to 1.5, half of the consumers wandering 4 times slower.\n"
    )?;
    let policies = [
        ("credit 2", PolicyName::Credit { credit_max: 2 }, true),
        ("shortest of 4", PolicyName::ShortestOf { k: 4, credit_max: 2 }, true),
        ("sparrow 2/2", PolicyName::Sparrow { reservations: 2, slots_max: 2 }, true),
        ("late binding, left unknown", PolicyName::LateBinding {}, false),
        ("late binding", PolicyName::LateBinding {}, true),
    ];
    for (name, policy, knows_left) in policies {
        let when = When::Wandering { every_ms: 500.0 };
        let report = simulated(QueueScenario {
            policy,
            producers: 300,
            consumers: 300,
            consumer_speed: 0.8,
            batch_spread: 0.9,
            work_spread: 0.5,
            knows_left,
            perturbations: slow(Share::Part(0.5), 4.0, when),
            ..QueueScenario::default()
        });
        writeln!(
            out,
            "{name:28}{:.3}   {:.2} messages a batch, {} pieces held at most",
            report.fraction, report.messages_per_batch, report.held_pieces_max
        )?;
    }
    Ok(())
}
