//! A throttled instance does exactly the work that its reduced speeds allow.

use euphrates_policy::slowdown::{Pattern, Slowing, Throttle};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn patterns() -> impl Strategy<Value = Pattern> {
    let every = prop_oneof![Just(None), (1_u64..2000).prop_map(Some)];
    (0_u64..3000, prop_oneof![Just(None), (1_u64..2000).prop_map(Some)], every).prop_map(
        |(after, lasts, pause)| Pattern {
            after_ns: after * MS,
            lasts_ns: lasts.map(|lasts| lasts * MS),
            every_ns: lasts.zip(pause).map(|(lasts, pause)| (lasts + pause) * MS),
        },
    )
}

fn slowings() -> impl Strategy<Value = Vec<Slowing>> {
    let one = (patterns(), 0_u8..10).prop_map(|(pattern, left)| {
        // Every pause ends, or no work would ever be done.
        let left = if pattern.lasts_ns.is_none() { left.max(1) } else { left };
        Slowing { pattern, speed_left: f64::from(left) / 10.0 }
    });
    prop::collection::vec(one, 0..4)
}

/// The work that can be done until `end`, in nanoseconds at full speed, by summation.
fn allowed(slowings: &[Slowing], end_ns: u64) -> f64 {
    let speed = |at: u64| -> f64 {
        let on = slowings.iter().filter(|slowing| slowing.pattern.is_on(at));
        on.map(|slowing| slowing.speed_left).product()
    };
    let whole: f64 = (0..end_ns / MS).map(|at| speed(at * MS) * MS as f64).sum();
    whole + speed(end_ns / MS * MS) * (end_ns % MS) as f64
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn work_is_done_at_the_speeds_that_are_set(
        slowings in slowings(),
        stretches in prop::collection::vec(1_u64..400, 1..60),
    ) {
        let mut throttle = Throttle::new(slowings.clone());
        let (mut now, mut work) = (0, 0.0);
        for stretch in stretches {
            now += stretch * MS;
            work += (stretch * MS) as f64;
            let mut until = throttle.on_busy(now, stretch * MS);
            prop_assert!(until >= now);
            // Changes of speed beyond the bound are left for the next call.
            while until > now {
                now = until;
                until = throttle.on_busy(now, 0);
            }
            let allowed = allowed(&slowings, now);
            // A pause may hold it beyond its work, but no work is allowed in a pause.
            prop_assert!((allowed - work).abs() < 1e5, "{allowed} of {work} at {now}");
        }
    }

    #[test]
    fn who_waits_for_others_owes_nothing(slowings in slowings(), at in 0_u64..10_000) {
        let paused = |at: u64| {
            slowings.iter().any(|slowing| slowing.speed_left == 0.0 && slowing.pattern.is_on(at))
        };
        let until = Throttle::new(slowings.clone()).on_busy(at * MS, 0);
        prop_assert!(!paused(until) && (until == at * MS || paused(at * MS)));
    }
}
