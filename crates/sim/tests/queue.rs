//! Guarantees of the distributed queue on small clusters; `examples/queues.rs` has large ones.
//!
//! Time is virtual, so the numbers are the same on every machine.

use euphrates_sim::queue::{Death, PolicyName, QueueScenario, QueueSide, Share, Slowdown, When};
use euphrates_sim::{QueueReport, Scenario, run};

fn simulated(scenario: &QueueScenario) -> QueueReport {
    let scenario = Scenario::Queue(scenario.clone());
    scenario.check().expect("a sound scenario");
    run(&scenario, 1)
}

fn slow(share: Share, slower: f64, when: When) -> Vec<Slowdown> {
    vec![Slowdown { side: QueueSide::Consumers, share, slower, when }]
}

#[test]
fn late_binding_is_near_the_bound_under_every_perturbation() {
    let wandering = When::Wandering { every_ms: 300.0 };
    let perturbed = [
        vec![],
        slow(Share::Count(1), 10.0, When::Always),
        slow(Share::Part(0.25), 4.0, When::Always),
        slow(Share::Part(0.5), 4.0, wandering),
    ];
    for (producers, consumers, batches) in [(4, 4, 500), (60, 60, 500), (100, 10, 200)] {
        for (consumer_speed, perturbations) in
            [1.0, 0.5].into_iter().flat_map(|load| perturbed.clone().map(|slow| (load, slow)))
        {
            let scenario = QueueScenario {
                producers,
                consumers,
                batches,
                consumer_speed,
                perturbations,
                ..QueueScenario::default()
            };
            let report = simulated(&scenario);
            assert!(report.fraction >= 0.95, "{scenario:?}: {report:?}");
            assert!(report.messages_per_batch <= 8.0, "{scenario:?}: {report:?}");
            assert!(report.held_pieces_max <= 3, "{scenario:?}: {report:?}");
        }
    }
}

#[test]
fn stuck_consumer_holds_a_bounded_number_of_pieces() {
    let held = |policy, producers: u32| {
        let when = When::Between { from_ms: 100.0, until_ms: 20_000.0 };
        let report = simulated(&QueueScenario {
            policy,
            producers,
            consumers: 8,
            batches: 20,
            consumer_speed: 8.0 / f64::from(producers),
            perturbations: slow(Share::Count(1), 0.0, when),
            ..QueueScenario::default()
        });
        report.held_pieces_max
    };
    assert!([8, 80, 800].into_iter().all(|m| held(PolicyName::LateBinding {}, m) <= 2));
    assert!(
        held(PolicyName::Credit { credit_max: 2 }, 800) >= 1000,
        "the paper's policy is unbounded"
    );
}

#[test]
fn slots_adapt_to_the_latency_of_a_consumer() {
    let text = include_str!("../scenarios/far.json");
    let Ok(Scenario::Queue(far)) = Scenario::parse(text) else { panic!("a sound queue") };
    let report = simulated(&far);
    assert!(report.fraction >= 0.9 && report.held_pieces_max > 8, "{report:?}");
    let near = QueueScenario { links: Vec::new(), ..far };
    assert!(simulated(&near).held_pieces_max <= 3);
}

#[test]
fn limited_links_slow_the_queue_by_at_most_half() {
    // Each node has a link of 32 MiB/s in front of a disk of 100 MiB/s. The links need 2 s if no
    // two transfers share one. The policy measures speeds but does not know links.
    let scenario = QueueScenario {
        producers: 8,
        consumers: 8,
        batches: 64,
        link_bytes_per_second: Some(32 << 20),
        ..QueueScenario::default()
    };
    let report = simulated(&scenario);
    assert!((2000.0..3000.0).contains(&report.completed_ms), "{report:?}");
}

#[test]
fn dead_consumer_loses_only_unfinished_pieces() {
    for seed_at_ms in [5.0, 55.5, 300.0] {
        let deaths = (1..8).map(|node| Death {
            side: QueueSide::Consumers,
            node,
            at_ms: seed_at_ms + f64::from(node) * 7.0,
        });
        let scenario = QueueScenario {
            producers: 12,
            consumers: 9,
            batches: 80,
            batch_spread: 0.8,
            work_spread: 0.5,
            deaths: deaths.collect(),
            ..QueueScenario::default()
        };
        // The run itself asserts that every share was finished once.
        let report = simulated(&scenario);
        assert!(report.messages_per_batch <= 8.0, "{report:?}");
    }
}
