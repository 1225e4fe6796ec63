//! The table of decision 0085, and what holds for any memory and scheme.

use euphrates_policy::caching::cooperative::Scheme;

use super::*;

const BLOCKS: u64 = 800;
const SCHEMES: [Scheme; 8] = [
    Scheme::None,
    Scheme::Lru,
    Scheme::Greedy,
    Scheme::NChance,
    Scheme::Pinned,
    Scheme::PinnedForwarding,
    Scheme::Homes,
    Scheme::Clairvoyant,
];
const DEALINGS: [Dealing; 4] = [Dealing::Late, Dealing::Held, Dealing::Hashed, Dealing::Home];
/// What flows on several workers do.
const ENGINE: (Scheme, Dealing) = (Scheme::Homes, Dealing::Home);

/// The mean shares of origin, peers and own memory in these epochs, from 0.
fn shares(
    (scheme, dealing): (Scheme, Dealing),
    percent: &[usize],
    (from, epochs): (usize, usize),
) -> [f64; 3] {
    let mut all = EpochReads::default();
    for seed in 1..3 {
        let memory = percent.iter().map(|percent| percent * BLOCKS as usize / 100).collect();
        let given = CachedEpochs { scheme, dealing, blocks: BLOCKS, memory, epochs, seed };
        for reads in &run(&given)[from..] {
            all.origin += reads.origin;
            all.peer += reads.peer;
            all.local += reads.local;
        }
    }
    all.shares()
}

/// Origin, peers, own memory in epochs 16 to 20, in per cent.
type Row = ([usize; 4], Scheme, Dealing, [i32; 3]);

/// Decision 0085 has this table.
const STEADY: [Row; 21] = [
    ([20; 4], Scheme::Lru, Dealing::Late, [91, 0, 9]),
    ([20; 4], Scheme::Greedy, Dealing::Late, [66, 25, 9]),
    ([20; 4], Scheme::NChance, Dealing::Late, [46, 41, 13]),
    ([20; 4], Scheme::Pinned, Dealing::Late, [20, 61, 19]),
    ([20; 4], Scheme::Pinned, Dealing::Held, [20, 0, 80]),
    ([20; 4], Scheme::NChance, Dealing::Held, [20, 0, 80]),
    ([20; 4], Scheme::Homes, Dealing::Home, [20, 0, 80]),
    ([30; 4], Scheme::Lru, Dealing::Late, [80, 0, 20]),
    ([30; 4], Scheme::Greedy, Dealing::Late, [25, 55, 20]),
    ([30; 4], Scheme::NChance, Dealing::Late, [0, 74, 26]),
    ([30; 4], Scheme::Pinned, Dealing::Late, [0, 76, 24]),
    ([30; 4], Scheme::Pinned, Dealing::Held, [0, 3, 97]),
    ([30; 4], Scheme::NChance, Dealing::Held, [0, 1, 99]),
    ([30; 4], Scheme::Homes, Dealing::Home, [0, 3, 97]),
    ([5, 5, 10, 75], Scheme::Lru, Dealing::Late, [82, 0, 18]),
    ([5, 5, 10, 75], Scheme::Greedy, Dealing::Late, [28, 54, 18]),
    ([5, 5, 10, 75], Scheme::NChance, Dealing::Late, [15, 64, 21]),
    ([5, 5, 10, 75], Scheme::Pinned, Dealing::Late, [5, 72, 23]),
    ([5, 5, 10, 75], Scheme::Pinned, Dealing::Held, [52, 3, 45]),
    ([5, 5, 10, 75], Scheme::NChance, Dealing::Held, [13, 43, 44]),
    ([5, 5, 10, 75], Scheme::Homes, Dealing::Home, [5, 52, 43]),
];

#[test]
fn schemes_read_the_shares_of_the_table() {
    for (percent, scheme, dealing, expected) in STEADY {
        let found = shares((scheme, dealing), &percent, (15, 20));
        for (found, expected) in found.iter().zip(expected) {
            let difference = found * 100.0 - f64::from(expected);
            assert!(difference.abs() <= 4.0, "{percent:?} {scheme:?} {dealing:?}: {found:.3}");
        }
    }
}

#[test]
fn engine_reads_from_the_origin_only_what_fits_no_memory() {
    for percent in [[20; 4], [30; 4], [5, 5, 10, 75], [0, 0, 0, 40], [10, 20, 30, 40]] {
        let left = (1.0 - percent.iter().sum::<usize>() as f64 / 100.0).max(0.0);
        let [origin, ..] = shares(ENGINE, &percent, (1, 5));
        assert!(origin <= left + 0.03, "{percent:?}: {origin:.3} of {left:.3}");
        let [bound, ..] = shares((Scheme::Clairvoyant, Dealing::Late), &percent, (1, 5));
        assert!((origin - bound).abs() <= 0.03, "{percent:?}: {origin:.3}, bound {bound:.3}");
    }
}

#[test]
fn held_blocks_are_not_sent_between_equal_workers() {
    for percent in [[20; 4], [25; 4]] {
        let [_, peer, _] = shares(ENGINE, &percent, (1, 5));
        assert!(peer <= 0.05, "{percent:?}: {peer:.3}");
    }
}

#[test]
fn forwarding_spares_the_origin_if_memory_is_uneven() {
    let origin = |scheme| shares((scheme, Dealing::Held), &[5, 5, 10, 75], (1, 5))[0];
    let pinned = origin(Scheme::Pinned);
    for scheme in [Scheme::NChance, Scheme::PinnedForwarding] {
        assert!(2.0 * origin(scheme) <= pinned, "{scheme:?}: {:.3}, {pinned:.3}", origin(scheme));
    }
    let homes = shares(ENGINE, &[5, 5, 10, 75], (1, 5))[0];
    assert!(8.0 * homes <= pinned, "{homes:.3}, {pinned:.3}");
}

#[test]
fn every_read_is_counted_once_and_no_scheme_beats_the_bound() {
    let mut random = Random::new(85);
    for case in 0..60 {
        let blocks = random.between(1, 120);
        let workers = random.between(1, 5);
        let memory: Vec<usize> = (0..workers).map(|_| random.below(60) as usize).collect();
        let all: u64 = memory.iter().map(|&held| held as u64).sum();
        let dealing = DEALINGS[random.below(4) as usize];
        for scheme in SCHEMES {
            let memory = memory.clone();
            let given = CachedEpochs { scheme, dealing, blocks, memory, epochs: 3, seed: case };
            for reads in run(&given) {
                assert_eq!(reads.origin + reads.peer + reads.local, blocks);
            }
            // Only what was kept before the epoch or is read in it can be found.
            let last = run(&given)[2];
            let least = blocks.saturating_sub(all);
            assert!(last.origin + (blocks / 4 + 4) >= least, "{scheme:?}: {last:?} of {least}");
        }
    }
}
