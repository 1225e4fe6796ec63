//! Splitters between ranges of keys, as in sample sort: chosen among samples of all runs.

use euphrates_policy::sort::{RangeSizes, cut};

use super::keys::owned_keys::OwnedKey;

/// A splitter between two ranges: a key, and a position among the records with that key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Splitter {
    pub(crate) key: OwnedKey,
    /// The run of the record it precedes.
    pub(crate) run: usize,
    /// The record's position in that run.
    pub(crate) position: usize,
}

impl Splitter {
    /// The splitter before a record of a run. A prefix is the key of no record, and has no
    /// position.
    pub(crate) fn before(key: OwnedKey, (run, position): (usize, usize)) -> Splitter {
        let (run, position) = if key.is_whole { (run, position) } else { (0, 0) };
        Splitter { key, run, position }
    }
}

/// Where ranges may be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitPolicy {
    /// Anywhere, so that ranges have the wanted sizes.
    Anywhere,
    /// Only between different keys.
    BetweenKeys,
}

/// A candidate for a splitter, and the number of records it stands for.
pub(crate) type SplitterCandidate = (Splitter, usize);

/// Chooses splitters among samples, so that ranges have about these sizes.
pub(crate) fn choose_splitters(
    mut samples: Vec<SplitterCandidate>,
    sizes: RangeSizes,
    row_bytes: usize,
    split_policy: SplitPolicy,
) -> Vec<Splitter> {
    samples.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let rows: Vec<usize> = samples.iter().map(|(_, rows)| *rows).collect();
    let cuts = cut(&rows, sizes, row_bytes);
    let splitters = cuts.into_iter().map(|position| samples[position].0.clone());
    match split_policy {
        SplitPolicy::Anywhere => splitters.collect(),
        SplitPolicy::BetweenKeys => {
            // The first record of a key is behind the splitter, in any run.
            let firsts = splitters.map(|splitter| Splitter { run: 0, position: 0, ..splitter });
            let mut firsts: Vec<Splitter> = firsts.collect();
            firsts.dedup();
            firsts
        }
    }
}
