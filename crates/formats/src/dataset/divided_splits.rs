//! Divides the splits of a table that has few, so that several instances read them.
//!
//! A row group is one split, and most programs write up to a million rows into one. So a table of
//! one row group, or a filter that leaves one of many, would be decoded by one thread. A part of a
//! row group is a range of its rows: its reader passes over the pages before it by their headers,
//! and decodes the dictionary of each column, as the readers of the other parts do.

use std::ops::Range;
use std::sync::OnceLock;

use super::{Dataset, Split};
use crate::format::{DivisibleRows, SplitPart};

/// A table of as many splits is not divided. The number does not depend on the machine, since all
/// processes of a flow must divide a table alike.
const SPLITS_ENOUGH: usize = 4;
/// Mean bytes of a column in a part, at least: the size of a page of most writers. A page that two
/// parts share is decompressed for both.
const COLUMN_BYTES_MIN: u64 = 1 << 20;
/// Larger parts begin at multiples of this number of rows: pages of numbers of eight bytes do.
const PAGE_ROWS: usize = 1 << 17;
/// Smaller parts begin at multiples of this one, and have at least as many rows.
const PART_ROWS_MIN: usize = 1 << 14;

impl Dataset {
    /// Number of splits in the files that are skipped.
    pub fn splits_skipped(&self) -> usize {
        self.splits_skipped
    }

    /// Whether a split begins one of the file's, so that it is the first of its parts.
    pub fn is_first_part(&self, split: usize) -> bool {
        self.splits[split].part.rows.as_ref().is_none_or(|rows| rows.start == 0)
    }

    /// The same table, whose splits are divided into ranges of rows if they are few.
    ///
    /// ```
    /// use euphrates_formats::{Dataset, ReadOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("towns.csv");
    /// std::fs::write(&path, "name\nMari\n")?;
    /// let towns = Dataset::open(&[path.to_string_lossy().into()], &ReadOptions::default())?;
    /// assert_eq!(towns.divided().splits(), 1, "only large row groups of Parquet are divided");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn divided(self) -> Dataset {
        match SPLITS_ENOUGH.div_ceil(self.splits.len().max(1)) {
            1 => self,
            wanted => self.divided_by(|divisible| ranges(divisible, wanted)),
        }
    }

    /// The same table, whose splits are divided into ranges of at most `rows` rows where they can
    /// be, whatever that costs.
    pub fn divided_every(self, rows: usize) -> Dataset {
        self.divided_by(|all| {
            let starts = (0..all.rows).step_by(rows.max(1));
            starts.map(|start| start..all.rows.min(start + rows.max(1))).collect()
        })
    }

    fn divided_by(self, ranges: impl Fn(DivisibleRows) -> Vec<Range<usize>>) -> Dataset {
        let splits = self.splits.iter().flat_map(|split| self.parts(split, &ranges)).collect();
        Dataset { splits, before: OnceLock::new(), ..self }
    }

    fn parts(
        &self,
        split: &Split,
        ranges: impl Fn(DivisibleRows) -> Vec<Range<usize>>,
    ) -> Vec<Split> {
        let (file, opened) = &self.files[split.file];
        let number = split.part.split;
        let statistics = opened.statistics().filter(|_| file.is_local());
        let divisible = statistics.and_then(|known| known.divisible_rows(number));
        let ranges = divisible.map_or(vec![], ranges);
        if ranges.len() < 2 {
            return vec![split.clone()];
        }
        let parts = ranges.len();
        let part = |rows| SplitPart { split: number, rows: Some(rows) };
        ranges.into_iter().map(|rows| Split { file: split.file, part: part(rows), parts }).collect()
    }
}

/// Up to `wanted` ranges of about as many rows each, which together are all rows.
fn ranges(DivisibleRows { rows, column_bytes }: DivisibleRows, wanted: usize) -> Vec<Range<usize>> {
    let by_bytes = usize::try_from(column_bytes / COLUMN_BYTES_MIN).unwrap_or(usize::MAX);
    let parts = wanted.min(by_bytes).min(rows / PART_ROWS_MIN);
    let step = if rows / parts.max(1) >= PAGE_ROWS { PAGE_ROWS } else { PART_ROWS_MIN };
    let start = |part: usize| (rows * part / parts.max(1) + step / 2) / step * step;
    let mut starts: Vec<usize> = (0..parts).map(start).filter(|start| *start < rows).collect();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([rows]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn large_row_groups_are_divided_at_pages_of_numbers() {
        let million = DivisibleRows { rows: 1 << 20, column_bytes: 8 << 20 };
        let starts: Vec<usize> = ranges(million, 4).iter().map(|range| range.start).collect();
        assert_eq!(starts, [0, 2, 4, 6].map(|pages| pages << 17));
        let small = DivisibleRows { rows: 1 << 17, column_bytes: 1 << 20 };
        assert!(ranges(small, 4).len() < 2, "a page of each column");
    }

    proptest! {
        #[test]
        fn ranges_have_each_row_once(
            rows in 0_usize..3_000_000, column_bytes in 0_u64..100 << 20, wanted in 1_usize..9,
        ) {
            let ranges = ranges(DivisibleRows { rows, column_bytes }, wanted);
            prop_assert!(ranges.len() <= wanted);
            let mut end = 0;
            for range in &ranges {
                prop_assert_eq!(range.start, end);
                prop_assert!(!range.is_empty());
                end = range.end;
            }
            prop_assert!(ranges.is_empty() || end == rows);
        }
    }
}
