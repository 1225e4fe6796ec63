//! Keys that outlive their batches: splitters between ranges, and the first keys of blocks on disk.
//!
//! There is one for each range or block, so long keys are not kept whole. Any value between two
//! neighbouring keys separates them, so the shortest useful prefix that is greater than the key
//! before it is kept (Bayer and Unterauer, "Prefix B-trees", TODS 1977). Keys with a common prefix
//! share one copy of it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Keys up to this length are kept whole.
const WHOLE_BYTES_MAX: usize = 64;

/// Bytes kept beyond the first that differs from the key before, to distinguish it from most other
/// keys too.
const BEYOND_BYTES: usize = 16;

/// Minimum length of a shared prefix. A key for which no memory is left keeps at least this many
/// bytes.
const SHARED_BYTES_MIN: usize = 256;

/// Maximum prefixes compared with a new key.
const KNOWN_MAX: usize = 64;

/// A key, or a prefix of one.
#[derive(Clone, Debug)]
pub(crate) struct OwnedKey {
    /// The key bits above the row id.
    pub(crate) bits: u128,
    /// Whether it is a whole key, or is exact in its bits.
    pub(crate) is_whole: bool,
    /// A shared prefix, and the number of its bytes in use.
    shared: (Arc<[u8]>, usize),
    /// The bytes behind the prefix.
    rest: Box<[u8]>,
}

impl OwnedKey {
    /// A whole key that shares nothing.
    pub(crate) fn whole(bits: u128, key: &[u8]) -> OwnedKey {
        OwnedKey { bits, is_whole: true, shared: (Arc::default(), 0), rest: key.into() }
    }

    /// A key that consists of a shared prefix and `rest`.
    pub(crate) fn of_parts(
        bits: u128,
        is_whole: bool,
        shared: (Arc<[u8]>, usize),
        rest: &[u8],
    ) -> Self {
        OwnedKey { bits, is_whole, shared, rest: rest.into() }
    }

    /// The shared prefix, its length, and the rest.
    pub(crate) fn parts(&self) -> (&Arc<[u8]>, usize, &[u8]) {
        (&self.shared.0, self.shared.1, &self.rest)
    }

    /// Compares a whole key with this one.
    pub(crate) fn compare_whole(&self, bits: u128, key: &[u8]) -> Ordering {
        let by_bits = bits.cmp(&self.bits);
        by_bits.then_with(|| {
            let (begin, end) = key.split_at(key.len().min(self.shared.1));
            begin.cmp(self.shared()).then_with(|| end.cmp(&self.rest))
        })
    }

    /// Whether a whole key with the same bits is less than this one.
    pub(crate) fn is_behind(&self, key: &[u8]) -> bool {
        self.compare_whole(self.bits, key) == Ordering::Less
    }

    /// Whether all keys with this prefix are less than `other`.
    pub(crate) fn precedes(&self, other: &OwnedKey) -> bool {
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

/// Compares two texts of two parts each.
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

/// Keeps keys, and shares their common prefixes.
pub(crate) struct KeyInterner {
    known: VecDeque<Arc<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl KeyInterner {
    /// An interner whose shared prefixes have about `bytes_max` bytes; one prefix is always
    /// allowed.
    pub(crate) fn new(bytes_max: usize) -> KeyInterner {
        KeyInterner { known: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Keeps `key`, or a prefix of it that separates it from `before`; whole if both are equal, so
    /// that the position can separate them. If the memory for prefixes is used up, the prefix may
    /// be too short to separate them.
    pub(crate) fn intern(&mut self, bits: u128, key: &[u8], before: Option<&[u8]>) -> OwnedKey {
        if key.len() <= WHOLE_BYTES_MAX {
            return OwnedKey::whole(bits, key);
        }
        let known = self.known.iter().map(|known| (common_bytes(known, key), known));
        let (shared, known) = match known.max_by_key(|(shared, _)| *shared) {
            Some((shared, known)) if shared >= SHARED_BYTES_MIN => (shared, known.clone()),
            _ => (0, Arc::default()),
        };
        // Keys of other runs probably share the prefix too. The first key of a run has nothing else
        // to compare with, and a run of very long records has one record.
        let common_length =
            before.map_or(key.len(), |before| common_bytes(before, key)).max(shared);
        let wanted = (common_length + 1 + BEYOND_BYTES).max(WHOLE_BYTES_MAX).min(key.len());
        let (kept, is_whole) = (&key[..wanted], wanted == key.len());
        if kept.len() - shared <= SHARED_BYTES_MIN {
            return OwnedKey::of_parts(bits, is_whole, (known, shared), &kept[shared..]);
        }
        if self.bytes + kept.len() > self.bytes_max.max(kept.len()) {
            // Separates fewer keys, but none wrongly.
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

/// The length of the common prefix of two texts.
pub(in crate::sort) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = size_of::<u128>();
    let (steps_a, steps_b) = (a.as_chunks::<STEP>().0, b.as_chunks::<STEP>().0);
    for (step, (a, b)) in steps_a.iter().zip(steps_b).enumerate() {
        let differs = u128::from_le_bytes(*a) ^ u128::from_le_bytes(*b);
        if differs != 0 {
            return step * STEP + differs.trailing_zeros() as usize / 8;
        }
    }
    let equal = steps_a.len().min(steps_b.len()) * STEP;
    let bytes = a[equal..].iter().zip(&b[equal..]);
    equal + bytes.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts with common prefixes, often long ones.
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
        fn interned_key_separates_key_from_predecessors(
            mut keys in texts(),
            bytes_max in prop_oneof![Just(0usize), Just(1 << 20)],
        ) {
            keys.sort();
            let mut interner = KeyInterner::new(bytes_max);
            let mut before: Option<&Vec<u8>> = None;
            let mut kept = vec![];
            for key in &keys {
                let own = interner.intern(bits(key), key, before.map(Vec::as_slice));
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
    fn common_bytes_end_at_the_first_difference_or_the_shorter_text() {
        let text: Vec<u8> = (0..100).collect();
        for length in 0..100 {
            let mut other = text.clone();
            other[length] ^= 0x80;
            assert_eq!(common_bytes(&text, &other), length);
            assert_eq!(common_bytes(&text[..length], &text), length);
        }
    }

    #[test]
    fn common_prefixes_are_shared() {
        let mut interner = KeyInterner::new(1 << 20);
        let keys: Vec<Vec<u8>> = (0..1000)
            .map(|number| [vec![b'x'; 100_000], format!("{number:06}").into_bytes()].concat())
            .collect();
        let mut own = 0;
        for (at, key) in keys.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| keys[before].as_slice());
            own += interner.intern(bits(key), key, before).rest.len();
        }
        assert!(interner.bytes < 200_000 && own < 20_000, "{} and {own}", interner.bytes);
    }
}
