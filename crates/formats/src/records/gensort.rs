//! Generates the records of the sort benchmark: 100 bytes, of which the first 10 are the key.
//!
//! Written from the published description of gensort and valsort 1.5; the tests hold its vectors.
//! Record *n* is a function of *n* alone, so any range can be generated anywhere.

/// Bytes of a record: key and payload.
pub const RECORD_BYTES: usize = 100;
/// Bytes of the key, which begins the record.
pub const KEY_BYTES: usize = 10;

/// Multiplier and increment of the linear congruential generator modulo 2^128.
const A: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
const C: u128 = 0x4a69_6d47_7261_7952_4950_2020_2020_2001;

/// The top 80 bits of the mask that is exclusive-ored into each ten-byte group of a binary record.
const MASKS: [u128; 10] = [
    0,
    0xF0E8_E4E2_E1D8_D4D2_D1CC,
    0xCAC9_C6C5_C3B8_B4B2_B1AC,
    0xAAA9_A6A5_A39C_9A99_9695,
    0x938E_8D8B_8778_7472_716C,
    0x6A69_6665_635C_5A59_5655,
    0x534E_4D4B_473C_3A39_3635,
    0x332E_2D2B_271E_1D1B_170F,
    0xC8C4_C2C1_9894_9291_8CE0,
    0x170F_332E_2D2B_271E_1D1B,
];

/// Which form of records to generate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordForm {
    /// Printable records (gensort `-a`).
    pub ascii: bool,
    /// Skewed keys (gensort `-s`).
    pub skewed: bool,
}

/// Generates consecutive records from a given number on.
///
/// ```
/// use euphrates_formats::gensort::{Generator, RECORD_BYTES, RecordForm};
///
/// let ascii = RecordForm { ascii: true, skewed: false };
/// let mut two = [0; 2 * RECORD_BYTES];
/// Generator::new(ascii, 0).fill(&mut two);
/// let mut second = [0; RECORD_BYTES];
/// Generator::new(ascii, 1).fill(&mut second);
/// assert_eq!(two[RECORD_BYTES..], second, "any part can be generated alone");
/// assert!(second.is_ascii());
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    form: RecordForm,
    number: u128,
    /// `R(number)`, …, `R(number + 9)`; printable records use only the first.
    window: [u128; 10],
}

impl Generator {
    /// A generator whose first record has the number `first`.
    pub fn new(form: RecordForm, first: u128) -> Generator {
        let mut random = random_at(first);
        let window = std::array::from_fn(|_| {
            let here = random;
            random = step(random);
            here
        });
        Generator { form, number: first, window }
    }

    /// Fills `records`, whose length is a multiple of 100 bytes, with the next records.
    ///
    /// ```
    /// use euphrates_formats::gensort::{Generator, RECORD_BYTES, RecordForm};
    ///
    /// let mut generator = Generator::new(RecordForm { ascii: true, skewed: false }, 0);
    /// let mut records = [0; 3 * RECORD_BYTES];
    /// generator.fill(&mut records);
    /// assert!(records.chunks(RECORD_BYTES).all(|record| record.ends_with(b"\r\n")));
    /// ```
    pub fn fill(&mut self, records: &mut [u8]) {
        debug_assert!(records.len().is_multiple_of(RECORD_BYTES));
        for record in records.chunks_exact_mut(RECORD_BYTES) {
            self.record(record.try_into().expect("a record"));
        }
    }

    fn record(&mut self, record: &mut [u8; RECORD_BYTES]) {
        if self.form.ascii {
            ascii(self.number, self.window[0], record);
        } else {
            binary(&self.window, record);
        }
        if self.form.skewed {
            self.skew(record);
        }
        self.number += 1;
        self.window.copy_within(1.., 0);
        self.window[9] = step(self.window[8]);
    }

    /// Gives most keys one of 129 prefixes: the first six bytes of the record whose number is the
    /// bit length of this record's number.
    fn skew(&self, record: &mut [u8; RECORD_BYTES]) {
        let low = (self.window[0] >> 32) as u64;
        let shared = match self.form.ascii {
            true => Some(low & 7).filter(|bytes| *bytes <= 6).unwrap_or(0) as u32 * 8,
            false => Some(low & 63).filter(|bits| *bits <= 48).unwrap_or(0) as u32,
        };
        if shared == 0 {
            return;
        }
        let model = u128::from(128 - self.number.leading_zeros());
        let mut other = [0; RECORD_BYTES];
        Generator::new(RecordForm { skewed: false, ..self.form }, model).record(&mut other);
        let first = |record: &[u8]| {
            record[..6].iter().fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte))
        };
        let keep = (1u64 << (48 - shared)) - 1;
        let key = (first(&other) & !keep) | (first(record) & keep);
        record[..6].copy_from_slice(&key.to_be_bytes()[2..]);
    }
}

fn step(random: u128) -> u128 {
    random.wrapping_mul(A).wrapping_add(C)
}

/// `R(n)`: the generator's state after n + 1 steps from 0, by repeated squaring of the affine map.
fn random_at(number: u128) -> u128 {
    let (mut a, mut c) = (A, C);
    let mut state = 0u128;
    let mut steps = number.wrapping_add(1);
    while steps > 0 {
        if steps & 1 == 1 {
            state = state.wrapping_mul(a).wrapping_add(c);
        }
        c = a.wrapping_mul(c).wrapping_add(c);
        a = a.wrapping_mul(a);
        steps >>= 1;
    }
    state
}

fn binary(window: &[u128; 10], record: &mut [u8; RECORD_BYTES]) {
    let groups = record.chunks_exact_mut(10).zip(window).zip(MASKS);
    for ((group, random), mask) in groups {
        let bits = (random ^ (mask << 48)).to_be_bytes();
        group.copy_from_slice(&bits[..10]);
    }
}

fn ascii(number: u128, random: u128, record: &mut [u8; RECORD_BYTES]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let (mut high, mut low) = ((random >> 64) as u64, random as u64);
    let nibbles = low;
    let printable = |word: &mut u64| {
        let byte = 32 + (*word % 95) as u8;
        *word /= 95;
        byte
    };
    record[..8].fill_with(|| printable(&mut high));
    record[8..10].fill_with(|| printable(&mut low));
    record[10..12].fill(b' ');
    for (position, digit) in record[12..44].iter_mut().enumerate() {
        *digit = HEX[(number >> (124 - 4 * position)) as usize & 15];
    }
    record[44..46].fill(b' ');
    for (group, bytes) in record[46..98].chunks_exact_mut(4).enumerate() {
        bytes.fill(HEX[(nibbles >> (48 - 4 * group)) as usize & 15]);
    }
    record[98..].copy_from_slice(b"\r\n");
}

/// The sum of the CRC-32 of all records, as gensort `-c` and valsort print it.
///
/// ```
/// use euphrates_formats::gensort::{Generator, RECORD_BYTES, RecordForm, checksum};
///
/// let mut records = [0; 2 * RECORD_BYTES];
/// Generator::new(RecordForm::default(), 0).fill(&mut records);
/// let (one, two) = records.split_at(RECORD_BYTES);
/// assert_eq!(checksum(&[two, one].concat()), checksum(&records), "in any order");
/// ```
pub fn checksum(records: &[u8]) -> u128 {
    let sums = records.chunks_exact(RECORD_BYTES).map(crc32fast::hash);
    sums.map(u128::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(form: RecordForm, first: u128, count: usize) -> Vec<u8> {
        let mut records = vec![0; count * RECORD_BYTES];
        Generator::new(form, first).fill(&mut records);
        records
    }

    const BINARY: RecordForm = RecordForm { ascii: false, skewed: false };
    const ASCII: RecordForm = RecordForm { ascii: true, skewed: false };

    #[test]
    fn published_checksums_are_reproduced() {
        let skewed = |form: RecordForm| RecordForm { skewed: true, ..form };
        for (form, first, count, expected) in [
            (BINARY, 0, 5_000, 0x9b91b450ebc),
            (ASCII, 0, 5_000, 0x9cd3d5adb67),
            (skewed(BINARY), 0, 5_000, 0x9af2661b1da),
            (skewed(ASCII), 0, 5_000, 0x9bda2a78512),
            (BINARY, 2_000, 1_000, 0x1f3bc308515),
            (BINARY, 0, 1_000_000, 0x7a0e0d4868cd4),
            (ASCII, 0, 1_000_000, 0x7a19cff467438),
            (skewed(BINARY), 0, 1_000_000, 0x79f9a7e6de673u128),
        ] {
            let sum = checksum(&records(form, first, count));
            assert_eq!(sum, expected, "{form:?} from {first}: {sum:x}");
        }
    }

    #[test]
    fn published_records_are_reproduced() {
        let binary = records(BINARY, 0, 1);
        assert_eq!(&binary[..10], b"JimGrayRIP");
        assert_eq!(binary[10..20], [0x65, 0x08, 0x00, 0x60, 0x83, 0x6b, 0x39, 0x2c, 0xd5, 0x8b]);
        assert_eq!(records(BINARY, 999_999, 1)[..3], [0x92, 0xb1, 0xd9]);
        let ascii = "AsfAGHM5om  00000000000000000000000000000000  \
                     0000222200002222000022220000222200002222000000001111\r\n";
        assert_eq!(records(ASCII, 0, 1), ascii.as_bytes());
    }

    #[test]
    fn records_do_not_depend_on_where_a_range_begins() {
        let whole = records(BINARY, 0, 100);
        assert_eq!(records(BINARY, 37, 63), whole[3_700..]);
    }
}
