//! Interns values as dictionary codes, in order of first appearance.
//!
//! One hash table of codes with open addressing is at most half full, and a small one at most an
//! eighth, so the common case is one multiplication and two loads that do not depend on those of
//! the previous value. Hash seeds are random, so input cannot be crafted to collide. Codes do not
//! depend on the seeds.

use std::hash::{BuildHasher, RandomState};

use super::values::LENGTH_BYTES;

/// Marks a free slot; no code has this value.
const FREE: u32 = u32::MAX;

const SLOTS_MIN_BITS: u32 = 10;

/// Up to this size (16 KiB, so that the first cache keeps it) a table is at most an eighth full.
/// Values that collide are found by a second comparison, which costs a mispredicted branch: in a
/// table of 256 slots, 100 values took 1.6 times as long.
const SPARSE_BITS_MAX: u32 = 12;

/// A hash table of codes, with open addressing.
struct CodeTable {
    slots: Vec<u32>,
    bits: u32,
    used: usize,
}

impl CodeTable {
    fn new() -> CodeTable {
        CodeTable { slots: vec![FREE; 1 << SLOTS_MIN_BITS], bits: SLOTS_MIN_BITS, used: 0 }
    }

    fn held_bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    /// The code with this hash for which `is` holds, or the free slot for it.
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

    /// Stores the next code in a slot that `find` returned; `hash_of` gives the hash of any code
    /// when the table grows.
    fn put(&mut self, slot: usize, hash_of: impl Fn(usize) -> u64) -> u32 {
        let code = self.used as u32;
        self.slots[slot] = code;
        self.used += 1;
        let slots_per_code = if self.bits < SPARSE_BITS_MAX { 8 } else { 2 };
        if self.used * slots_per_code > self.slots.len() {
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

/// Random hash seeds, which input cannot depend on.
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

/// Bits of a number, as dictionaries tell them apart.
pub trait NumberBits: Copy + Eq {
    /// The difference of two numbers, wrapping at the width; the greatest there is if it is larger.
    fn distance(self, from: Self) -> usize;

    /// The low and the high half of the number as 128 bits.
    fn halves(self) -> [u64; 2];
}

impl NumberBits for u32 {
    fn distance(self, from: u32) -> usize {
        self.wrapping_sub(from) as usize
    }

    fn halves(self) -> [u64; 2] {
        [self.into(), 0]
    }
}

impl NumberBits for u64 {
    fn distance(self, from: u64) -> usize {
        self.wrapping_sub(from) as usize
    }

    fn halves(self) -> [u64; 2] {
        [self, 0]
    }
}

impl NumberBits for u128 {
    fn distance(self, from: u128) -> usize {
        // Half the range is added to it, and it must not wrap to a small one.
        usize::try_from(self.wrapping_sub(from))
            .map_or(usize::MAX / 2, |near| near.min(usize::MAX / 2))
    }

    fn halves(self) -> [u64; 2] {
        [self as u64, (self >> 64) as u64]
    }
}

/// Interns numbers of one width by their bits.
pub struct NumberInterner<T> {
    values: Vec<T>,
    table: CodeTable,
    seeds: Seeds,
    /// The codes of numbers near the first one, by distance from it; empty at first.
    near: Vec<u32>,
}

/// Integers of a range of this size have their codes in an array, half on each side of the first:
/// one load in place of a hash and two.
const NEAR_NUMBERS: usize = 1 << 13;
/// The array is made if this number of values comes at a time.
const NEAR_VALUES_MIN: usize = 1 << 10;

impl<T: NumberBits> NumberInterner<T> {
    pub fn new() -> NumberInterner<T> {
        let (table, seeds) = (CodeTable::new(), Seeds::new());
        NumberInterner { values: vec![], table, seeds, near: vec![] }
    }

    /// The distinct values; the index is the code.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Memory it holds in bytes, including the hash table.
    pub fn held_bytes(&self) -> usize {
        let near = self.near.len() * size_of::<u32>();
        self.values.capacity() * size_of::<T>() + self.table.held_bytes() + near
    }

    /// The distinct values in code order.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }

    /// Appends the codes of values until the distinct values would exceed `bytes_max`; returns the
    /// number of values that have a code.
    pub fn intern(&mut self, values: &[T], bytes_max: usize, codes: &mut Vec<u32>) -> usize {
        let Some(&first) = self.values.first().or(values.first()) else { return 0 };
        if self.near.is_empty() && values.len() >= NEAR_VALUES_MIN {
            self.near = vec![FREE; NEAR_NUMBERS];
        }
        let begin = codes.len();
        codes.resize(begin + values.len(), FREE);
        for (at, (&value, place)) in values.iter().zip(&mut codes[begin..]).enumerate() {
            let near = value.distance(first).wrapping_add(NEAR_NUMBERS / 2);
            let code = match self.near.get(near) {
                Some(&code) if code != FREE => code,
                _ => {
                    let Some(code) = self.intern_one(value, bytes_max) else {
                        codes.truncate(begin + at);
                        return at;
                    };
                    if let Some(known) = self.near.get_mut(near) {
                        *known = code;
                    }
                    code
                }
            };
            *place = code;
        }
        values.len()
    }

    /// The code of a value; `None` if it is new and the distinct values would exceed `bytes_max`.
    #[inline(always)]
    fn intern_one(&mut self, value: T, bytes_max: usize) -> Option<u32> {
        let seeds = self.seeds;
        // Where the second input is constant, the seed it is combined with still keeps the hash
        // unpredictable.
        let hash = |value: T| {
            let [low, high] = value.halves();
            seeds.hash(low, high)
        };
        let known = &self.values;
        match self.table.find(hash(value), |code| known[code] == value) {
            Ok(code) => Some(code),
            Err(_) if self.values.len() >= bytes_max / size_of::<T>() => None,
            Err(slot) => {
                self.values.push(value);
                let known = &self.values;
                Some(self.table.put(slot, |code| hash(known[code])))
            }
        }
    }
}

/// Interns byte strings, stored as in a dictionary page: each after its length.
pub struct Strings {
    page: Vec<u8>,
    entries: Vec<CodeEntry>,
    table: CodeTable,
    seeds: Seeds,
}

struct CodeEntry {
    hash: u64,
    head: [u64; 2],
    /// Offset of the string in the page.
    begin: u32,
    length: u32,
}

/// Bytes of a string that are compared without a load from the page.
const HEAD_BYTES: usize = 16;

impl Strings {
    pub fn new() -> Strings {
        Strings { page: vec![], entries: vec![], table: CodeTable::new(), seeds: Seeds::new() }
    }

    /// Number of distinct strings.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the page before compression.
    pub fn bytes(&self) -> usize {
        self.page.len()
    }

    /// Memory it holds in bytes, including the hash table.
    pub fn held_bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<CodeEntry>();
        self.page.capacity() + entries + self.table.held_bytes()
    }

    /// The distinct strings in code order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &self.page[entry.range()])
    }

    /// The dictionary page, in plain encoding.
    pub fn into_page(self) -> Vec<u8> {
        self.page
    }

    /// Appends the codes of the strings of `data` between consecutive offsets, until the page would
    /// exceed `bytes_max`; returns the number of strings that have a code.
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
                let entry: &CodeEntry = &entries[code];
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
                    self.entries.push(CodeEntry {
                        hash,
                        head,
                        begin: start,
                        length: length as u32,
                    });
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

impl CodeEntry {
    fn range(&self) -> std::ops::Range<usize> {
        let begin = self.begin as usize;
        begin..begin + self.length as usize
    }
}

/// The first bytes of a string, padded with zeros. Where more bytes follow the string, this is one
/// load: a branch on the length would be mispredicted.
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
    // Shifts by half the bits twice, as a shift by the full width is an overflow.
    let keep = |bytes: usize| !(u64::MAX << (4 * bytes) << (4 * bytes));
    let (ahead, behind) = (length.min(8), length.clamp(8, HEAD_BYTES) - 8);
    [low & keep(ahead), high & keep(behind)]
}

/// The rest of the data, padded with zeros.
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
            is_near: bool,
            shift in any::<u64>(),
        ) {
            let number = |value: &u64| match is_near {
                true => (value & 0xffff).wrapping_sub(shift),
                false => value ^ shift,
            };
            let values: Vec<u64> = values.iter().map(number).collect();
            let (mut numbers, mut codes) = (NumberInterner::new(), vec![]);
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
    fn full_dictionary_accepts_known_values_only() {
        let (mut numbers, mut codes) = (NumberInterner::new(), vec![]);
        assert_eq!(numbers.intern(&[1u32, 2, 1, 2, 3, 1], 11, &mut codes), 4);
        assert_eq!(codes, [0, 1, 0, 1]);
        let (mut strings, mut codes) = (Strings::new(), vec![]);
        assert_eq!(strings.intern(&[0, 2, 4, 7], b"ababcde", 12, &mut codes), 2);
        assert_eq!((codes, strings.bytes()), (vec![0, 0], 6));
    }
}
