//! Keys that outlive their batches: borders between ranges, and the first keys of blocks on disk.
//!
//! There are as many of them as of ranges or blocks, so long keys are not kept whole. Whatever lies
//! between two neighbouring keys separates them, so the beginning of a key is kept that is greater
//! than the key before it (Bayer and Unterauer, "Prefix B-trees", TODS 1977). Keys that begin alike
//! share one copy of what they have in common.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Keys that are not longer are kept whole.
const WHOLE_BYTES_MAX: usize = 64;

/// What is kept of a key beyond the byte that distinguishes it from the key before it, so that it
/// is told from most others as well.
const BEYOND_BYTES: usize = 16;

/// A shorter common beginning is not worth sharing, and of a key that cannot be kept, this is.
const SHARED_BYTES_MIN: usize = 256;

/// How many beginnings are tried for a new key.
const KNOWN_MAX: usize = 64;

/// A key, or the beginning of one.
#[derive(Clone, Debug)]
pub struct OwnedKey {
    /// The bits above the row number.
    pub bits: u128,
    /// Whether it is a whole key, or has none besides the bits.
    pub is_whole: bool,
    /// What it shares with others, and how much of that.
    shared: (Arc<[u8]>, usize),
    /// What follows.
    rest: Box<[u8]>,
}

impl OwnedKey {
    /// A whole key of its own.
    pub fn whole(bits: u128, key: &[u8]) -> OwnedKey {
        OwnedKey { bits, is_whole: true, shared: (Arc::default(), 0), rest: key.into() }
    }

    /// One that begins like `shared`, and goes on like `rest`.
    pub fn of_parts(bits: u128, is_whole: bool, shared: (Arc<[u8]>, usize), rest: &[u8]) -> Self {
        OwnedKey { bits, is_whole, shared, rest: rest.into() }
    }

    /// What it shares with others, how much of that, and what follows.
    pub fn parts(&self) -> (&Arc<[u8]>, usize, &[u8]) {
        (&self.shared.0, self.shared.1, &self.rest)
    }

    /// The order of a whole key and this one.
    pub fn compare_whole(&self, bits: u128, key: &[u8]) -> Ordering {
        let by_bits = bits.cmp(&self.bits);
        by_bits.then_with(|| {
            let (begin, end) = key.split_at(key.len().min(self.shared.1));
            begin.cmp(self.shared()).then_with(|| end.cmp(&self.rest))
        })
    }

    /// Whether a whole key with the same bits comes before this one.
    pub fn is_behind(&self, key: &[u8]) -> bool {
        self.compare_whole(self.bits, key) == Ordering::Less
    }

    /// Whether all keys that begin like this one come before the other.
    pub fn precedes(&self, other: &OwnedKey) -> bool {
        self < other && !other.begins_with(self)
    }

    fn begins_with(&self, other: &OwnedKey) -> bool {
        let mut own = self.shared().iter().chain(&self.rest[..]);
        other.shared().iter().chain(&other.rest[..]).all(|byte| own.next() == Some(byte))
    }

    fn shared(&self) -> &[u8] {
        &self.shared.0[..self.shared.1]
    }
}

impl PartialEq for OwnedKey {
    fn eq(&self, other: &OwnedKey) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OwnedKey {}

impl PartialOrd for OwnedKey {
    fn partial_cmp(&self, other: &OwnedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OwnedKey {
    fn cmp(&self, other: &OwnedKey) -> Ordering {
        let by_bits = self.bits.cmp(&other.bits);
        by_bits.then_with(|| {
            let equal = match Arc::ptr_eq(&self.shared.0, &other.shared.0) {
                true => self.shared.1.min(other.shared.1),
                false => 0,
            };
            let (own, its) = (&self.shared()[equal..], &other.shared()[equal..]);
            compare_chained([own, &self.rest], [its, &other.rest])
        })
    }
}

/// The order of two texts of two parts each.
fn compare_chained(a: [&[u8]; 2], b: [&[u8]; 2]) -> Ordering {
    let [mut a, a_next] = a;
    let [mut b, b_next] = b;
    let (mut a_next, mut b_next) = (Some(a_next), Some(b_next));
    loop {
        if a.is_empty()
            && let Some(next) = a_next.take()
        {
            a = next;
        }
        if b.is_empty()
            && let Some(next) = b_next.take()
        {
            b = next;
        }
        let length = a.len().min(b.len());
        if length == 0 {
            return a.len().cmp(&b.len());
        }
        match a[..length].cmp(&b[..length]) {
            Ordering::Equal => (a, b) = (&a[length..], &b[length..]),
            unequal => return unequal,
        }
    }
}

/// Keeps keys, and knows the beginnings they share.
pub struct KeyKeeper {
    known: VecDeque<Arc<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl KeyKeeper {
    /// Its shared beginnings have about `bytes_max` bytes at most; there may always be one.
    pub fn new(bytes_max: usize) -> KeyKeeper {
        KeyKeeper { known: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// A key to keep that separates `key` from what is before it: whole, if `before` is equal to
    /// it, so that the place can separate them.
    pub fn keep(&mut self, bits: u128, key: &[u8], before: Option<&[u8]>) -> OwnedKey {
        if key.len() <= WHOLE_BYTES_MAX {
            return OwnedKey::whole(bits, key);
        }
        let known = self.known.iter().map(|known| (common(known, key), known));
        let (shared, known) = match known.max_by_key(|(shared, _)| *shared) {
            Some((shared, known)) if shared >= SHARED_BYTES_MIN => (shared, known.clone()),
            _ => (0, Arc::default()),
        };
        // Keys of other runs are likely to begin so, too. The first of a run has only those to be
        // told from, and a run of very long records is one record.
        let alike = before.map_or(key.len(), |before| common(before, key)).max(shared);
        let wanted = (alike + 1 + BEYOND_BYTES).max(WHOLE_BYTES_MAX).min(key.len());
        let (kept, is_whole) = (&key[..wanted], wanted == key.len());
        if kept.len() - shared <= SHARED_BYTES_MIN {
            return OwnedKey::of_parts(bits, is_whole, (known, shared), &kept[shared..]);
        }
        if self.bytes + kept.len() > self.bytes_max.max(kept.len()) {
            // Separated from less, but not wrongly.
            let kept = &kept[..shared.max(SHARED_BYTES_MIN)];
            return OwnedKey::of_parts(bits, false, (known, shared), &kept[shared..]);
        }
        let fresh: Arc<[u8]> = kept.into();
        self.bytes += kept.len();
        self.known.push_front(fresh.clone());
        self.known.truncate(KNOWN_MAX);
        OwnedKey::of_parts(bits, is_whole, (fresh, kept.len()), &[])
    }
}

/// How many bytes two texts begin with in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 128;
    let steps = a.chunks_exact(STEP).zip(b.chunks_exact(STEP));
    let equal = steps.take_while(|(a, b)| a == b).count() * STEP;
    let bytes = a[equal..].iter().zip(&b[equal..]);
    equal + bytes.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts that begin alike, often for long.
    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let text = (0usize..3, 0usize..700, prop::collection::vec(0u8..3, 0..90));
        let text = text.prop_map(|(letter, repeated, end)| {
            let mut text = vec![b"abc"[letter]; repeated];
            text.extend(end);
            text
        });
        prop::collection::vec(text, 1..40)
    }

    fn bits(key: &[u8]) -> u128 {
        key.iter().chain(std::iter::repeat(&0)).take(12).fold(0, |all, b| (all << 8) | *b as u128)
    }

    proptest! {
        #[test]
        fn a_kept_key_separates_a_key_from_those_before_it(
            mut keys in texts(),
            bytes_max in prop_oneof![Just(0usize), Just(1 << 20)],
        ) {
            keys.sort();
            let mut keeper = KeyKeeper::new(bytes_max);
            let mut before: Option<&Vec<u8>> = None;
            let mut kept = vec![];
            for key in &keys {
                let own = keeper.keep(bits(key), key, before.map(Vec::as_slice));
                prop_assert_ne!(own.compare_whole(bits(key), key), Ordering::Less);
                if let Some(before) = before.filter(|before| bytes_max > 0 && *before != key) {
                    prop_assert_eq!(own.compare_whole(bits(before), before), Ordering::Less);
                }
                kept.push(own);
                before = Some(key);
            }
            for (a, own) in keys.iter().zip(&kept) {
                for (b, other) in keys.iter().zip(&kept) {
                    if own.precedes(other) {
                        prop_assert!(a < b);
                    }
                    if own.is_whole && other.is_whole {
                        prop_assert_eq!(own.cmp(other), a.cmp(b));
                    }
                }
            }
        }
    }

    #[test]
    fn long_keys_that_begin_alike_are_kept_once() {
        let mut keeper = KeyKeeper::new(1 << 20);
        let keys: Vec<Vec<u8>> = (0..1000)
            .map(|number| [vec![b'x'; 100_000], format!("{number:06}").into_bytes()].concat())
            .collect();
        let mut own = 0;
        for (at, key) in keys.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| keys[before].as_slice());
            own += keeper.keep(bits(key), key, before).rest.len();
        }
        assert!(keeper.bytes < 200_000 && own < 20_000, "{} and {own}", keeper.bytes);
    }
}
