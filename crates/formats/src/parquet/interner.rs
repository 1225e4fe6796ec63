//! Codes for values, in order of first appearance: what a dictionary is made of.
//!
//! One table of codes with open addressing, at most half full, so that the common case is one
//! multiplication and two loads that do not wait for those of the value before. Hashes have random
//! seeds: nobody can make up data that collides. Codes do not depend on them.

use std::hash::{BuildHasher, RandomState};

use super::values::LENGTH_BYTES;

/// No code: the slot is free.
const FREE: u32 = u32::MAX;

const SLOTS_MIN_BITS: u32 = 8;

/// Codes by hash.
struct Table {
    slots: Vec<u32>,
    bits: u32,
    used: usize,
}

impl Table {
    fn new() -> Table {
        Table { slots: vec![FREE; 1 << SLOTS_MIN_BITS], bits: SLOTS_MIN_BITS, used: 0 }
    }

    fn held_bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    /// The code of this hash for which `is` holds, or the slot where it would be.
    #[inline(always)]
    fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> (u64::BITS - self.bits)) as usize;
        loop {
            let code = self.slots[slot & mask];
            if code == FREE {
                return Err(slot & mask);
            }
            if is(code as usize) {
                return Ok(code);
            }
            slot += 1;
        }
    }

    /// Puts the next code to a slot `find` returned; `hash_of` are the hashes of all codes.
    fn put(&mut self, slot: usize, hash_of: impl Fn(usize) -> u64) -> u32 {
        let code = self.used as u32;
        self.slots[slot] = code;
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            self.bits += 1;
            self.slots = vec![FREE; 1 << self.bits];
            for code in 0..self.used {
                if let Err(slot) = self.find(hash_of(code), |_| false) {
                    self.slots[slot] = code as u32;
                }
            }
        }
        code
    }
}

/// Random numbers nobody knows.
#[derive(Clone, Copy)]
struct Seeds(u64, u64);

impl Seeds {
    fn new() -> Seeds {
        let random = RandomState::new();
        Seeds(random.hash_one(0), random.hash_one(1) | 1)
    }

    #[inline(always)]
    fn hash(self, one: u64, other: u64) -> u64 {
        let product = u128::from(one ^ self.0) * u128::from(other ^ self.1);
        product as u64 ^ (product >> 64) as u64
    }
}

/// Numbers of one width, by their bits.
pub struct Numbers<T> {
    values: Vec<T>,
    table: Table,
    seeds: Seeds,
}

impl<T: Copy + Eq + Into<u64>> Numbers<T> {
    pub fn new() -> Numbers<T> {
        Numbers { values: vec![], table: Table::new(), seeds: Seeds::new() }
    }

    /// The distinct values, by code.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The bytes it takes in memory.
    pub fn held_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>() + self.table.held_bytes()
    }

    /// The distinct values.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }

    /// Appends the codes of values until one would be the first beyond `bytes_max`; returns how
    /// many values have got theirs.
    pub fn intern(&mut self, values: &[T], bytes_max: usize, codes: &mut Vec<u32>) -> usize {
        let most = bytes_max / size_of::<T>();
        let seeds = self.seeds;
        // What matters of the second factor is that it is unknown.
        let hash = |value: T| seeds.hash(value.into(), 0);
        codes.reserve(values.len());
        for (at, &value) in values.iter().enumerate() {
            let known = &self.values;
            let code = match self.table.find(hash(value), |code| known[code] == value) {
                Ok(code) => code,
                Err(_) if self.values.len() >= most => return at,
                Err(slot) => {
                    self.values.push(value);
                    let known = &self.values;
                    self.table.put(slot, |code| hash(known[code]))
                }
            };
            codes.push(code);
        }
        values.len()
    }
}

/// Byte strings, kept as a dictionary page has them: each behind its length.
pub struct Strings {
    page: Vec<u8>,
    entries: Vec<Entry>,
    table: Table,
    seeds: Seeds,
}

struct Entry {
    hash: u64,
    head: [u64; 2],
    /// Where it begins in the page.
    begin: u32,
    length: u32,
}

/// The bytes that are compared without being looked up.
const HEAD_BYTES: usize = 16;

impl Strings {
    pub fn new() -> Strings {
        Strings { page: vec![], entries: vec![], table: Table::new(), seeds: Seeds::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of the page.
    pub fn bytes(&self) -> usize {
        self.page.len()
    }

    /// The bytes it takes in memory.
    pub fn held_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<Entry>();
        self.page.capacity() + entries + self.table.held_bytes()
    }

    /// The strings, by code.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &self.page[entry.range()])
    }

    /// The page.
    pub fn into_page(self) -> Vec<u8> {
        self.page
    }

    /// Appends the codes of the strings in `data` that lie between offsets, until one would be the
    /// first that makes the page longer than `bytes_max`; returns how many have got theirs.
    pub fn intern(
        &mut self,
        offsets: &[i32],
        data: &[u8],
        bytes_max: usize,
        codes: &mut Vec<u32>,
    ) -> usize {
        codes.reserve(offsets.len());
        for (at, ends) in offsets.windows(2).enumerate() {
            let (begin, end) = (ends[0] as usize, ends[1] as usize);
            let length = end - begin;
            let head = head(data, begin, length);
            let mut hash = self.seeds.hash(head[0] ^ length as u64, head[1]);
            if length > HEAD_BYTES {
                hash = self.hash_tail(data, begin, length, hash);
            }
            let (entries, page) = (&self.entries, &self.page);
            let is = |code: usize| {
                let entry: &Entry = &entries[code];
                (entry.hash, entry.head, entry.length) == (hash, head, length as u32)
                    && (length <= HEAD_BYTES
                        || page[entry.range()][HEAD_BYTES..] == data[begin + HEAD_BYTES..end])
            };
            let code = match self.table.find(hash, is) {
                Ok(code) => code,
                Err(_) if self.page.len() + LENGTH_BYTES + length > bytes_max => return at,
                Err(slot) => {
                    self.page.extend_from_slice(&(length as u32).to_le_bytes());
                    let start = self.page.len() as u32;
                    self.page.extend_from_slice(&data[begin..end]);
                    self.entries.push(Entry { hash, head, begin: start, length: length as u32 });
                    let entries = &self.entries;
                    self.table.put(slot, |code| entries[code].hash)
                }
            };
            codes.push(code);
        }
        offsets.len() - 1
    }

    fn hash_tail(&self, data: &[u8], begin: usize, length: usize, mut hash: u64) -> u64 {
        for from in (HEAD_BYTES..length).step_by(HEAD_BYTES) {
            let part = head(data, begin + from, length - from);
            hash = self.seeds.hash(part[0] ^ hash, part[1]);
        }
        hash
    }
}

impl Entry {
    fn range(&self) -> std::ops::Range<usize> {
        let begin = self.begin as usize;
        begin..begin + self.length as usize
    }
}

/// The first bytes of a string, zeros behind its end. One load wherever other strings follow: to
/// branch on the length would be to guess it.
#[inline(always)]
fn head(data: &[u8], begin: usize, length: usize) -> [u64; 2] {
    let window = match data.get(begin..begin + HEAD_BYTES) {
        Some(window) => *window.first_chunk().expect("as long as asked for"),
        None => last_window(data, begin, length),
    };
    let [low, high]: [u64; 2] = [
        u64::from_le_bytes(*window.first_chunk().expect("sixteen bytes")),
        u64::from_le_bytes(*window.last_chunk().expect("sixteen bytes")),
    ];
    // Twice a shift by less than the width: none by the width itself.
    let keep = |bytes: usize| !(u64::MAX << (4 * bytes) << (4 * bytes));
    let (ahead, behind) = (length.min(8), length.clamp(8, HEAD_BYTES) - 8);
    [low & keep(ahead), high & keep(behind)]
}

/// What is left of the data, filled up with zeros.
#[cold]
fn last_window(data: &[u8], begin: usize, length: usize) -> [u8; HEAD_BYTES] {
    let mut window = [0; HEAD_BYTES];
    let there = length.min(HEAD_BYTES);
    window[..there].copy_from_slice(&data[begin..begin + there]);
    window
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference<T: Clone + PartialEq>(values: &[T]) -> (Vec<T>, Vec<u32>) {
        let mut distinct: Vec<T> = vec![];
        let codes = values.iter().map(|value| {
            let known = distinct.iter().position(|known| known == value);
            known.unwrap_or_else(|| {
                distinct.push(value.clone());
                distinct.len() - 1
            }) as u32
        });
        let codes = codes.collect();
        (distinct, codes)
    }

    proptest! {
        #[test]
        fn numbers_get_codes_in_order_of_appearance(
            values in prop::collection::vec((0u64..2000).prop_map(|at| at << 40 | at), 0..3000),
        ) {
            let (mut numbers, mut codes) = (Numbers::new(), vec![]);
            let (first, second) = values.split_at(values.len() / 3);
            for part in [first, second] {
                prop_assert_eq!(numbers.intern(part, 1 << 20, &mut codes), part.len());
            }
            prop_assert_eq!((numbers.into_values(), codes), reference(&values));
        }

        #[test]
        fn strings_get_codes_in_order_of_appearance(
            values in prop::collection::vec("[ab\0]{0,3}|common prefix of all .{0,2}", 0..300),
        ) {
            let data: String = values.concat();
            let mut offsets = vec![0];
            for value in &values {
                offsets.push(offsets[offsets.len() - 1] + value.len() as i32);
            }
            let (mut strings, mut codes) = (Strings::new(), vec![]);
            let taken = strings.intern(&offsets, data.as_bytes(), 1 << 20, &mut codes);
            prop_assert_eq!(taken, values.len());
            let distinct: Vec<String> =
                strings.iter().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect();
            prop_assert_eq!((distinct, codes), reference(&values));
        }
    }

    #[test]
    fn a_full_dictionary_takes_what_it_knows_and_nothing_else() {
        let (mut numbers, mut codes) = (Numbers::new(), vec![]);
        assert_eq!(numbers.intern(&[1u32, 2, 1, 2, 3, 1], 11, &mut codes), 4);
        assert_eq!(codes, [0, 1, 0, 1]);
        let (mut strings, mut codes) = (Strings::new(), vec![]);
        assert_eq!(strings.intern(&[0, 2, 4, 7], b"ababcde", 12, &mut codes), 2);
        assert_eq!((codes, strings.bytes()), (vec![0, 0], 6));
    }
}
