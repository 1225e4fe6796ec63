//! Completed units: which rows of a flow's output are durable, by the unit of input (a split) that
//! they come from, so that another attempt computes only the others.
//!
//! A writer receives the rows of a unit whole and in order, and writes them to files of a bounded
//! size. A file may therefore end within a unit. A `UnitRecorder` notes which rows of which units a
//! file holds, and the note is made durable after the file. The next attempt reads the notes of all
//! earlier ones. It adopts a file if the rows before its own, of each of its units, are in adopted
//! files too; a file whose predecessor is lost is dropped. Units that are not complete are computed
//! again, and the writer leaves out the rows that are durable: the rows of a unit are the same in
//! every attempt.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

/// The shortest time between two files of a writer that end early.
const FILE_INTERVAL_MIN: Duration = Duration::from_secs(2);
/// The part of the time since the start that an attempt which dies may lose.
const LOST_SHARE: u32 = 10;

/// Whether a writer ends its file although it is not full, at the end of a unit: it has written to
/// this file for this time, of the time since the attempt began. So a death costs a tenth of the
/// time at most, beside units that have not ended, while the number of files grows with the
/// logarithm of the time only.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::unit_ledger::ends_early;
///
/// let seconds = Duration::from_secs;
/// assert!(!ends_early(seconds(1), seconds(1)) && ends_early(seconds(2), seconds(2)));
/// assert!(!ends_early(seconds(5), seconds(60)) && ends_early(seconds(6), seconds(60)));
/// ```
pub fn ends_early(file: Duration, since_start: Duration) -> bool {
    file >= FILE_INTERVAL_MIN.max(since_start / LOST_SHARE)
}

/// Rows of one unit that a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRows {
    /// The number of the unit.
    pub unit: u64,
    /// How many rows of the unit are in files before.
    pub first: u64,
    /// The number of rows.
    pub rows: u64,
    /// Whether the unit has no further rows.
    pub is_last: bool,
}

/// Notes which rows the open file of one writer holds.
#[derive(Clone, Debug, Default)]
pub struct UnitRecorder {
    /// The unit whose rows are being written, and the row that comes next.
    current: Option<(u64, u64)>,
    /// What the open file holds, in the order written.
    open: Vec<UnitRows>,
}

impl UnitRecorder {
    /// Begins a unit, of which `durable_rows` rows are in files already.
    ///
    /// # Panics
    ///
    /// Panics if the unit before has not ended.
    pub fn begin(&mut self, unit: u64, durable_rows: u64) {
        assert!(self.current.is_none(), "a unit begins before the end of the one before");
        self.current = Some((unit, durable_rows));
    }

    /// The unit that has begun and not ended.
    pub fn current(&self) -> Option<u64> {
        self.current.map(|(unit, _)| unit)
    }

    /// Rows of the current unit go to the open file.
    ///
    /// # Panics
    ///
    /// Panics outside of a unit.
    pub fn push(&mut self, rows: u64) {
        let (unit, next) = self.current.as_mut().expect("rows belong to a unit");
        match self.open.last_mut().filter(|last| last.unit == *unit) {
            Some(last) => last.rows += rows,
            None => self.open.push(UnitRows { unit: *unit, first: *next, rows, is_last: false }),
        }
        *next += rows;
    }

    /// Ends the current unit.
    ///
    /// # Panics
    ///
    /// Panics outside of a unit.
    pub fn end(&mut self) {
        let (unit, next) = self.current.take().expect("a unit that ends has begun");
        match self.open.last_mut().filter(|last| last.unit == unit) {
            Some(last) => last.is_last = true,
            None => self.open.push(UnitRows { unit, first: next, rows: 0, is_last: true }),
        }
    }

    /// Ends the open file, and returns what it holds. Rows that follow are in the next one.
    pub fn end_file(&mut self) -> Vec<UnitRows> {
        core::mem::take(&mut self.open)
    }
}

/// Durable rows of one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    rows: u64,
    is_complete: bool,
}

/// The durable rows of all units of a flow.
///
/// ```
/// use euphrates_policy::unit_ledger::{UnitLedger, UnitRecorder};
///
/// let mut recorder = UnitRecorder::default();
/// recorder.begin(0, 0);
/// recorder.push(10);
/// recorder.end();
/// recorder.begin(2, 0);
/// recorder.push(4);
/// let file = recorder.end_file();
///
/// let mut ledger = UnitLedger::new(3);
/// assert_eq!(ledger.adopt(&[file]), [true]);
/// assert_eq!(ledger.left(), [1..3], "unit 2 has not ended");
/// assert_eq!(ledger.durable_rows().collect::<Vec<_>>(), [(2, 4)]);
/// ```
#[derive(Clone, Debug)]
pub struct UnitLedger {
    units: u64,
    progress: BTreeMap<u64, Progress>,
}

impl UnitLedger {
    /// No rows of these units are durable.
    pub fn new(units: u64) -> UnitLedger {
        UnitLedger { units, progress: BTreeMap::new() }
    }

    /// Adopts files by their notes, in any order. Returns for each file whether it is adopted: no
    /// row before its own is missing, and no file has its rows already.
    pub fn adopt(&mut self, files: &[Vec<UnitRows>]) -> Vec<bool> {
        let mut adopted = vec![false; files.len()];
        loop {
            let mut has_changed = false;
            for (file, is_adopted) in files.iter().zip(&mut adopted) {
                if !*is_adopted && self.adopt_file(file) {
                    (*is_adopted, has_changed) = (true, true);
                }
            }
            if !has_changed {
                return adopted;
            }
        }
    }

    fn adopt_file(&mut self, file: &[UnitRows]) -> bool {
        let mut progress: BTreeMap<u64, Progress> = BTreeMap::new();
        for rows in file {
            let before = progress.get(&rows.unit).or_else(|| self.progress.get(&rows.unit));
            let before = before.copied().unwrap_or_default();
            if rows.unit >= self.units || before.is_complete || before.rows != rows.first {
                return false;
            }
            let after = Progress { rows: before.rows + rows.rows, is_complete: rows.is_last };
            progress.insert(rows.unit, after);
        }
        self.progress.extend(progress);
        true
    }

    /// The units that are not complete, as ascending ranges.
    pub fn left(&self) -> Vec<Range<u64>> {
        let complete = self.progress.iter().filter(|(_, progress)| progress.is_complete);
        let ends = complete.map(|(unit, _)| *unit).chain([self.units]);
        let mut next = 0;
        let ranges = ends.map(|end| core::mem::replace(&mut next, end + 1)..end);
        ranges.filter(|range| !range.is_empty()).collect()
    }

    /// The units that are not complete, but have durable rows, and how many.
    pub fn durable_rows(&self) -> impl Iterator<Item = (u64, u64)> {
        let begun = self.progress.iter().filter(|(_, it)| !it.is_complete && it.rows > 0);
        begun.map(|(unit, progress)| (*unit, progress.rows))
    }

    /// The number of durable rows of all units.
    pub fn rows(&self) -> u64 {
        self.progress.values().map(|progress| progress.rows).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of numbers (xorshift), for schedules that a seed repeats.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    /// A file on a disk: the rows that it holds, its note, and the writer that has made it.
    struct WrittenFile {
        rows: Vec<(u64, u64)>,
        note: Vec<UnitRows>,
        writer: u64,
    }

    /// A writer, the rows in its open file, and the next row of its unit.
    type Writer = (UnitRecorder, Vec<(u64, u64)>, u64);

    /// One attempt of several writers, each of which takes whole units; it dies after some rows.
    fn attempt(
        ledger: &UnitLedger,
        sizes: &[u64],
        numbers: &mut Numbers,
        (attempt, dies_after): (u64, u64),
    ) -> Vec<WrittenFile> {
        let mut left: Vec<u64> = ledger.left().into_iter().flatten().rev().collect();
        let durable: BTreeMap<u64, u64> = ledger.durable_rows().collect();
        let mut files = vec![];
        let mut writers: Vec<Writer> = vec![Default::default(); 3];
        for _ in 0..dies_after {
            let number = numbers.below(3);
            let (recorder, open, next) = &mut writers[number as usize];
            match recorder.current() {
                None => {
                    let Some(unit) = left.pop() else { continue };
                    *next = durable.get(&unit).copied().unwrap_or(0);
                    recorder.begin(unit, *next);
                }
                Some(unit) if *next == sizes[unit as usize] => recorder.end(),
                Some(unit) => {
                    let rows = 1 + numbers.below(sizes[unit as usize] - *next);
                    recorder.push(rows);
                    open.extend((*next..*next + rows).map(|row| (unit, row)));
                    *next += rows;
                }
            }
            if numbers.below(4) == 0 {
                let (rows, note) = (core::mem::take(open), recorder.end_file());
                files.push(WrittenFile { rows, note, writer: 3 * attempt + number });
            }
        }
        files
    }

    #[test]
    fn every_row_is_in_one_adopted_file_after_any_deaths_and_lost_disks() {
        for seed in 1..2_000 {
            let numbers = &mut Numbers(seed * 0x9e37_79b9_7f4a_7c15);
            let units = 1 + numbers.below(12);
            let sizes: Vec<u64> = (0..units).map(|_| numbers.below(6)).collect();
            let mut files: Vec<WrittenFile> = vec![];
            for number in 0.. {
                let notes: Vec<Vec<UnitRows>> =
                    files.iter().map(|file| file.note.clone()).collect();
                let mut ledger = UnitLedger::new(units);
                let mut adopted = ledger.adopt(&notes).into_iter();
                files.retain(|_| adopted.next().unwrap());
                let mut rows: Vec<(u64, u64)> =
                    files.iter().flat_map(|file| &file.rows).copied().collect();
                rows.sort_unstable();
                assert_eq!(ledger.rows(), rows.len() as u64, "seed {seed}");
                assert!(rows.windows(2).all(|two| two[0] != two[1]), "seed {seed}: a row twice");
                if ledger.left().is_empty() {
                    let all = (0..units)
                        .flat_map(|unit| (0..sizes[unit as usize]).map(move |row| (unit, row)));
                    assert!(rows.into_iter().eq(all), "seed {seed}: a row is missing");
                    break;
                }
                assert!(number < 10_000, "seed {seed}: no progress");
                // The last attempts live longer, so that each history ends.
                let lives = numbers.below(40) + number;
                files.extend(attempt(&ledger, &sizes, numbers, (number, lives)));
                if numbers.below(4) == 0 {
                    let lost = numbers.below(3 * number + 3);
                    files.retain(|file| file.writer != lost);
                }
            }
        }
    }

    #[test]
    fn file_is_dropped_if_the_rows_before_its_own_are_lost() {
        let rows = |unit, first, rows, is_last| UnitRows { unit, first, rows, is_last };
        let first = vec![rows(0, 0, 5, false)];
        let second = vec![rows(0, 5, 2, true), rows(1, 0, 3, true)];
        let mut ledger = UnitLedger::new(2);
        assert_eq!(ledger.adopt(&[second.clone(), first]), [true, true], "in any order");
        assert!(ledger.left().is_empty());
        let mut ledger = UnitLedger::new(2);
        assert_eq!(ledger.adopt(&[second]), [false]);
        let left: Vec<u64> = ledger.left().into_iter().flatten().collect();
        assert_eq!((left, ledger.rows()), (vec![0, 1], 0), "unit 1 is dropped, too");
    }

    #[test]
    fn notes_of_another_input_are_dropped() {
        let mut ledger = UnitLedger::new(2);
        let beyond = vec![UnitRows { unit: 2, first: 0, rows: 1, is_last: true }];
        let twice = vec![UnitRows { unit: 0, first: 0, rows: 1, is_last: true }; 2];
        assert_eq!(ledger.adopt(&[beyond, twice]), [false, false]);
    }

    #[test]
    fn unit_without_rows_is_complete_when_it_ends() {
        let mut recorder = UnitRecorder::default();
        recorder.begin(1, 0);
        recorder.end();
        let mut ledger = UnitLedger::new(3);
        assert_eq!(ledger.adopt(&[recorder.end_file()]), [true]);
        assert_eq!(ledger.left(), [0..1, 2..3]);
    }
}
