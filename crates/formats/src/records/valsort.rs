//! Checks that benchmark records are sorted, and summarizes them (valsort 1.5).

use super::gensort::{KEY_BYTES, RECORD_BYTES, checksum};

/// Bytes of an entry in a summary file.
pub const SUMMARY_BYTES: usize = 5 * 16 + 2 * RECORD_BYTES;

/// The summary of consecutive records. Summaries of adjacent parts can be joined.
///
/// ```
/// use euphrates_formats::valsort::{Rules, Summary};
///
/// let record = |key: u8| [key; 100];
/// let (rules, part) = (Rules::default(), [record(1), record(1)].concat());
/// let mut all = Summary::of(&part, rules);
/// assert_eq!((all.records, all.duplicates, all.unordered), (2, 1, 0));
/// all.join(&Summary::of(&record(0), rules), rules);
/// assert_eq!((all.records, all.first_unordered, all.unordered), (3, 2, 1));
/// assert_eq!(Summary::from_bytes(all.to_bytes()[..].try_into()?), all);
/// # Ok::<(), std::array::TryFromSliceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of the first record that is smaller than the one before it; 0 if there is none.
    pub first_unordered: u128,
    /// Number of records that are smaller than the one before.
    pub unordered: u128,
    /// Number of records in the part.
    pub records: u128,
    /// Number of records whose key equals that of the one before.
    pub duplicates: u128,
    /// Sum of the CRC-32 of all records.
    pub checksum: u128,
    first: [u8; RECORD_BYTES],
    last: [u8; RECORD_BYTES],
}

/// The order in which keys must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Treats ASCII letters of either case as equal (valsort `-i`).
    pub ignore_case: bool,
}

impl Rules {
    fn compare(self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let (a, b) = (&a[..KEY_BYTES], &b[..KEY_BYTES]);
        match self.ignore_case {
            false => a.cmp(b),
            true => a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()),
        }
    }
}

impl Summary {
    /// The summary of no records, which is neutral in `join`.
    pub fn empty() -> Summary {
        Summary {
            first_unordered: 0,
            unordered: 0,
            records: 0,
            duplicates: 0,
            checksum: 0,
            first: [0; RECORD_BYTES],
            last: [0; RECORD_BYTES],
        }
    }

    /// Summarizes consecutive records; the length of `records` is a multiple of 100 bytes.
    pub fn of(records: &[u8], rules: Rules) -> Summary {
        let mut summary = Summary::empty();
        let mut all = records.chunks_exact(RECORD_BYTES);
        let Some(first) = all.next() else { return summary };
        summary.first.copy_from_slice(first);
        let mut before = first;
        let mut number = 1;
        for record in all {
            summary.compare(before, record, number, rules);
            before = record;
            number += 1;
        }
        summary.last.copy_from_slice(before);
        summary.records = number;
        summary.checksum = checksum(records);
        summary
    }

    fn compare(&mut self, before: &[u8], record: &[u8], number: u128, rules: Rules) {
        match rules.compare(before, record) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => self.duplicates += 1,
            std::cmp::Ordering::Greater => {
                if self.first_unordered == 0 {
                    self.first_unordered = number;
                }
                self.unordered += 1;
            }
        }
    }

    /// Appends the summary of the records that follow.
    ///
    /// ```
    /// use euphrates_formats::gensort::RECORD_BYTES;
    /// use euphrates_formats::valsort::{Rules, Summary};
    ///
    /// let rules = Rules::default();
    /// let part = |key: u8| Summary::of(&[key; RECORD_BYTES], rules);
    /// let mut whole = part(2);
    /// whole.join(&part(1), rules);
    /// assert_eq!((whole.records, whole.unordered), (2, 1), "the second record is smaller");
    /// ```
    pub fn join(&mut self, next: &Summary, rules: Rules) {
        if next.records == 0 {
            return;
        }
        if self.records == 0 {
            *self = next.clone();
            return;
        }
        let before = self.last;
        self.compare(&before, &next.first, self.records, rules);
        if self.first_unordered == 0 && next.first_unordered != 0 {
            self.first_unordered = self.records + next.first_unordered;
        }
        self.unordered += next.unordered;
        self.records += next.records;
        self.duplicates += next.duplicates;
        self.checksum += next.checksum;
        self.last = next.last;
    }

    /// Encodes an entry of a summary file: five numbers, high half first, then the first and the
    /// last record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers =
            [self.first_unordered, self.unordered, self.records, self.duplicates, self.checksum];
        let halves = numbers.iter().flat_map(|n| [(n >> 64) as u64, *n as u64]);
        let mut bytes: Vec<u8> = halves.flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(&self.first);
        bytes.extend_from_slice(&self.last);
        bytes
    }

    /// Decodes an entry of a summary file.
    pub fn from_bytes(bytes: &[u8; SUMMARY_BYTES]) -> Summary {
        let half = |at: usize| {
            u128::from(u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")))
        };
        let number = |index: usize| (half(index * 16) << 64) | half(index * 16 + 8);
        let record = |at: usize| bytes[at..at + RECORD_BYTES].try_into().expect("a record");
        Summary {
            first_unordered: number(0),
            unordered: number(1),
            records: number(2),
            duplicates: number(3),
            checksum: number(4),
            first: record(80),
            last: record(80 + RECORD_BYTES),
        }
    }

    /// The lines that valsort prints.
    ///
    /// ```
    /// use euphrates_formats::valsort::Summary;
    ///
    /// let text = Summary::empty().text();
    /// assert!(text.ends_with("SUCCESS - all records are in order\n"), "{text}");
    /// ```
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.unordered > 0 {
            text += &format!("First unordered record is record {}\n", self.first_unordered);
        }
        text += &format!("Records: {}\nChecksum: {:x}\n", self.records, self.checksum);
        match self.unordered {
            0 => {
                text += &format!("Duplicate keys: {}\n", self.duplicates);
                text + "SUCCESS - all records are in order\n"
            }
            unordered => text + &format!("ERROR - there are {unordered} unordered records\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::gensort::{Generator, RecordForm};

    #[test]
    fn joined_summaries_equal_that_of_the_whole() {
        let mut records = vec![0; 1000 * RECORD_BYTES];
        Generator::new(RecordForm { ascii: false, skewed: true }, 0).fill(&mut records);
        let rules = Rules::default();
        let whole = Summary::of(&records, rules);
        assert!(whole.unordered > 0 && whole.text().contains("ERROR"));
        for cut in [0, 1, 499, 1000] {
            let (left, right) = records.split_at(cut * RECORD_BYTES);
            let mut joined = Summary::of(left, rules);
            let entry = Summary::of(right, rules).to_bytes();
            joined.join(&Summary::from_bytes(&entry.try_into().unwrap()), rules);
            assert_eq!(joined, whole, "cut at {cut}");
        }
    }

    #[test]
    fn sorted_records_succeed_and_equal_keys_are_counted() {
        let mut records = vec![0; 300 * RECORD_BYTES];
        Generator::new(RecordForm::default(), 0).fill(&mut records);
        let mut sorted: Vec<&[u8]> = records.chunks(RECORD_BYTES).collect();
        sorted.push(&records[..RECORD_BYTES]);
        sorted.sort();
        let summary = Summary::of(&sorted.concat(), Rules::default());
        assert_eq!((summary.unordered, summary.duplicates, summary.records), (0, 1, 301));
        assert!(summary.text().ends_with("SUCCESS - all records are in order\n"));
    }

    #[test]
    fn case_can_be_ignored() {
        let record = |key: &[u8; 10]| [&key[..], &[0; 90]].concat();
        let records = [record(b"aaaaaaaaaa"), record(b"BBBBBBBBBB")].concat();
        assert_eq!(Summary::of(&records, Rules { ignore_case: true }).unordered, 0);
        assert_eq!(Summary::of(&records, Rules { ignore_case: false }).unordered, 1);
    }
}
