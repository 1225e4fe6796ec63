//! Any aggregate function over frames, by the states that also aggregate groups: each frame is a
//! group. Frames that overlap share their work where the function allows it.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array, make_comparator};
use arrow::compute::{SortColumn, SortOptions, cast, concat, lexsort_to_indices, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};

use super::aggregates::sums_of;
use super::folds::{FoldedRows, fold_frames};
use super::frames::{FramePieces, WindowRows};
use super::ranked_rows::{RankedRows, quantile_places};
use super::state_tree::{StateTree, without_values};
use crate::aggregate::functions::{AggregateFunction, Finish, Keep, RowCollection};
use crate::aggregate::group_keys::plain;
use crate::aggregate::plan::ArgumentEvaluator;
use crate::aggregate::states::{FunctionKind, interpolated};
use crate::canonical_floats::canonical_floats;

/// Rows that are added to states at once, for frames that share no work.
const ROWS_AT_ONCE: usize = 1 << 18;

/// An aggregate function over frames.
pub(crate) struct FrameAggregate {
    kind: FunctionKind,
    source: ArgumentEvaluator,
    text: String,
}

impl FrameAggregate {
    /// The function of a call, over columns of this schema.
    pub(crate) fn new(text: &str, schema: &SchemaRef) -> Result<FrameAggregate> {
        let (source, kind) = ArgumentEvaluator::of_call(text, schema)?;
        Ok(FrameAggregate { kind, source, text: text.into() })
    }

    pub(crate) fn output(&self) -> DataType {
        self.kind.output()
    }

    /// The value of each row's frame. Fails if lists of them would exceed `bytes_max`.
    pub(crate) fn evaluate(
        &self,
        sorted: &RecordBatch,
        rows: &WindowRows,
        frames: &[Range<usize>],
        bytes_max: usize,
    ) -> Result<ArrayRef> {
        let values = self.source.values(sorted, 0..sorted.num_rows())?.pop().flatten();
        // Peers, and all rows of a partition, often have the same frame.
        let mut distinct: Vec<Range<usize>> = vec![];
        let mut numbers = Vec::with_capacity(frames.len());
        for frame in frames {
            if distinct.last() != Some(frame) {
                distinct.push(frame.clone());
            }
            numbers.push(distinct.len() as u32 - 1);
        }
        if self.makes_lists() {
            self.check_size(values.as_ref(), frames, bytes_max)?;
        }
        let found = match self.kind.function {
            AggregateFunction::CountDistinct => counted(values.as_ref(), rows, &distinct)?,
            _ => self.of_distinct(values.as_ref(), rows, &distinct)?,
        };
        Ok(take(&found, &UInt32Array::from(numbers), None)?)
    }

    fn of_distinct(
        &self,
        values: Option<&ArrayRef>,
        rows: &WindowRows,
        frames: &[Range<usize>],
    ) -> Result<ArrayRef> {
        let total: usize = frames.iter().map(ExactSizeIterator::len).sum();
        let count = rows.partitions.last().map_or(0, |last| last.end);
        if total <= 4 * count {
            return self.one_by_one(values, &whole(frames));
        }
        let collection = match (&self.kind.function, values) {
            (AggregateFunction::Collected(collection), Some(_)) => collection,
            _ => return StateTree::new(&self.kind, values, count)?.of_frames(&whole(frames)),
        };
        let values = values.expect("a collection is of something");
        match (&collection.finish, collection.keep) {
            (Finish::Quantile(_) | Finish::QuantileDisc { .. }, Keep::All) => {
                self.quantiles(&collection.finish, values.as_struct().column(0), frames)
            }
            (Finish::Value, Keep::First | Keep::Last) => {
                first_or_last(collection, values, rows, frames)
            }
            (Finish::Function(inner), Keep::Distinct) if share_start(rows, frames) => {
                // Of equal values only the first one of a partition is left, as if it came alone.
                let column = values.as_struct().column(0);
                let before = previous_equal(column, &rows.partitions)?;
                let alone =
                    (0..count as u32).map(|row| before[row as usize].is_none().then_some(row));
                let alone = take(column, &alone.collect::<UInt32Array>(), None)?;
                let of = column.data_type().clone();
                let kind = FunctionKind { function: *inner.clone(), of };
                StateTree::new(&kind, Some(&alone), count)?.of_frames(&whole(frames))
            }
            (Finish::Function(inner), Keep::Distinct)
                if is_sum(inner) && !collection.is_filtered =>
            {
                let column = plain(values.as_struct().column(0))?;
                let before = previous_equal(&column, &rows.partitions)?;
                let counts = match inner.as_ref() {
                    AggregateFunction::Avg => Some(counted(Some(&column), rows, frames)?),
                    _ => None,
                };
                let folded = FoldedRows::Distinct(&before);
                let sums = sums_of(&column, frames, &folded, counts.as_ref())?;
                Ok(cast(&sums, &self.output())?)
            }
            _ => self.one_by_one(Some(values), &whole(frames)),
        }
    }

    /// The value of each row's frame, which may leave out rows between others.
    pub(crate) fn of_pieces(
        &self,
        sorted: &RecordBatch,
        frames: &[FramePieces],
        bytes_max: usize,
    ) -> Result<ArrayRef> {
        let values = self.source.values(sorted, 0..sorted.num_rows())?.pop().flatten();
        let values = values.as_ref();
        match &self.kind.function {
            AggregateFunction::CountDistinct => counted_one_by_one(values, frames),
            AggregateFunction::Collected(_) => {
                if self.makes_lists() {
                    self.check_size(values, &frames.concat(), bytes_max)?;
                }
                self.one_by_one(values, frames)
            }
            _ => StateTree::new(&self.kind, values, sorted.num_rows())?.of_frames(frames),
        }
    }

    /// The values of frames whose rows are added to a state each.
    fn one_by_one<const N: usize>(
        &self,
        values: Option<&ArrayRef>,
        frames: &[[Range<usize>; N]],
    ) -> Result<ArrayRef> {
        let mut parts: Vec<ArrayRef> = vec![];
        let mut rest = frames;
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = |frame: &&[Range<usize>; N]| {
                rows += frame_rows(*frame);
                rows <= ROWS_AT_ONCE
            };
            let (these, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let places = these.iter().flatten();
            let places = places.flat_map(|piece| piece.start as u32..piece.end as u32);
            let places = UInt32Array::from_iter_values(places);
            let groups = these.iter().enumerate();
            let groups: Vec<u32> = groups
                .flat_map(|(group, frame)| std::iter::repeat_n(group as u32, frame_rows(frame)))
                .collect();
            let of = values.map(|values| take(values, &places, None)).transpose()?;
            let mut state = match these.iter().any(|frame| frame_rows(frame) == 0) {
                true => without_values(&self.kind, &self.text, these.len())?,
                false => self.kind.start(&self.text),
            };
            state.grow(these.len());
            state.add(of.as_ref(), &groups)?;
            parts.push(state.finish()?);
            rest = others;
        }
        match &parts[..] {
            [] => Ok(arrow::array::new_empty_array(&self.output())),
            parts => Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        }
    }

    /// Quantiles of frames, which take logarithmic time each.
    fn quantiles(
        &self,
        finish: &Finish,
        values: &ArrayRef,
        frames: &[Range<usize>],
    ) -> Result<ArrayRef> {
        let ranked = RankedRows::new(values)?;
        let places = frames.iter().map(|frame| {
            let within = ranked.within(frame);
            let (low, high, share) = quantile_places(finish, within.len())?;
            let row = |place| ranked.nth(&within, place) as u32;
            Some((row(low), row(if high < within.len() { high } else { low }), share))
        });
        let places: Vec<Option<(u32, u32, f64)>> = places.collect();
        let of = |row: fn(&(u32, u32, f64)) -> u32| -> Result<ArrayRef> {
            let rows: UInt32Array = places.iter().map(|place| place.as_ref().map(row)).collect();
            Ok(take(values, &rows, None)?)
        };
        let low = of(|(low, ..)| *low)?;
        if matches!(finish, Finish::QuantileDisc { .. }) {
            return Ok(low);
        }
        let shares: Vec<f64> =
            places.iter().map(|place| place.map_or(0.0, |(.., share)| share)).collect();
        interpolated(&low, &of(|(_, high, _)| *high)?, &shares, &self.output())
    }

    fn makes_lists(&self) -> bool {
        match &self.kind.function {
            AggregateFunction::Collected(collection) => collection.finish.is_long(),
            _ => false,
        }
    }

    /// Fails if the rows of all frames, one after the other, exceed the memory.
    fn check_size(
        &self,
        values: Option<&ArrayRef>,
        frames: &[Range<usize>],
        bytes_max: usize,
    ) -> Result<()> {
        let Some(values) = values.filter(|values| !values.is_empty()) else { return Ok(()) };
        let each = values.get_array_memory_size().div_ceil(values.len());
        let rows: usize = frames.iter().map(ExactSizeIterator::len).sum();
        let bytes_max = bytes_max.min(i32::MAX as usize);
        match rows.saturating_mul(each) > bytes_max {
            false => Ok(()),
            true => {
                let error =
                    Error::resource(format!("the lists of `{}` exceed the memory", self.text));
                Err(error.remedy("choose a smaller frame, or partition by more columns"))
            }
        }
    }
}

fn is_sum(function: &AggregateFunction) -> bool {
    matches!(function, AggregateFunction::Sum | AggregateFunction::Avg)
}

fn frame_rows(frame: &[Range<usize>]) -> usize {
    frame.iter().map(ExactSizeIterator::len).sum()
}

/// Frames of one piece each.
fn whole(frames: &[Range<usize>]) -> Vec<[Range<usize>; 1]> {
    frames.iter().map(|frame| [frame.clone()]).collect()
}

/// Whether all frames of a partition begin at its first row.
fn share_start(rows: &WindowRows, frames: &[Range<usize>]) -> bool {
    let is_start =
        |start: usize| rows.partitions.binary_search_by_key(&start, |it| it.start).is_ok();
    frames.iter().all(|frame| frame.is_empty() || is_start(frame.start))
}

/// The value of the first, or the last, row of each frame by the order of a collection.
fn first_or_last(
    collection: &RowCollection,
    values: &ArrayRef,
    rows: &WindowRows,
    frames: &[Range<usize>],
) -> Result<ArrayRef> {
    let columns = values.as_struct().columns();
    let last = columns.len() - 1;
    let condition = collection.is_filtered.then(|| columns[last].as_boolean().clone());
    let needed = columns[..collection.skips_nulls].iter();
    let needed: Vec<_> = needed.filter_map(|column| column.logical_nulls()).collect();
    let is_kept = |row: usize| {
        condition.as_ref().is_none_or(|holds| holds.is_valid(row) && holds.value(row))
            && needed.iter().all(|nulls| nulls.is_valid(row))
    };
    let keys = collection.order.iter().zip(&columns[1..]);
    let keys = keys.map(|(options, column)| {
        let column = canonical_floats(column);
        Ok(make_comparator(&column, &column, *options)?)
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let is_last = collection.keep == Keep::Last;
    let first = |a: u32, b: u32| {
        let compared = keys.iter().map(|compare| compare(b as usize, a as usize));
        let compared = compared.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
        let takes_later = if is_last { compared.is_ge() } else { compared.is_lt() };
        if takes_later { b } else { a }
    };
    let value = |row: usize| is_kept(row).then_some(row as u32);
    let whole = rows.partitions.last().map_or(0, |last| last.end);
    let everything = 0..whole;
    let places = match frames.len() == whole {
        true => fold_frames(frames, &rows.partitions, value, first),
        // Frames are fewer than rows: those of all partitions are looked up in one tree.
        false => super::folds::fold_any(frames, &everything, value, first),
    };
    Ok(take(&columns[0], &UInt32Array::from(places), None)?)
}

/// For each row, the last row of its partition before it with an equal value.
fn previous_equal(values: &ArrayRef, partitions: &[Range<usize>]) -> Result<Vec<Option<usize>>> {
    let values = canonical_floats(&plain(values)?);
    let rows: ArrayRef = std::sync::Arc::new(UInt32Array::from_iter_values(0..values.len() as u32));
    let column = |values: &ArrayRef| SortColumn { values: values.clone(), options: None };
    let sorted = lexsort_to_indices(&[column(&values), column(&rows)], None)?;
    let equal = make_comparator(&values, &values, SortOptions::default())?;
    let mut starts = vec![0; values.len()];
    partitions.iter().for_each(|whole| starts[whole.clone()].fill(whole.start));
    let mut before = vec![None; values.len()];
    for pair in sorted.values().windows(2) {
        let (one, next) = (pair[0] as usize, pair[1] as usize);
        if starts[one] == starts[next] && equal(one, next).is_eq() {
            before[next] = Some(one);
        }
    }
    Ok(before)
}

/// The number of distinct values of each frame: of those without an equal one before them in it.
fn counted(
    values: Option<&ArrayRef>,
    rows: &WindowRows,
    frames: &[Range<usize>],
) -> Result<ArrayRef> {
    let values = values.expect("distinct values are of something");
    let before = previous_equal(values, &rows.partitions)?;
    let nulls = values.logical_nulls();
    let mut by_end: Vec<usize> = (0..frames.len()).collect();
    by_end.sort_unstable_by_key(|at| frames[*at].end);
    // A value counts at its last row so far (Fenwick, 1994).
    let mut latest = PrefixSums::new(values.len());
    let mut counts = vec![0; frames.len()];
    let mut added = 0;
    for at in by_end {
        let frame = &frames[at];
        for row in added..frame.end {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            if let Some(before) = before[row] {
                latest.add(before, -1);
            }
            latest.add(row, 1);
        }
        added = added.max(frame.end);
        counts[at] = latest.before(frame.end) - latest.before(frame.start);
    }
    Ok(std::sync::Arc::new(Int64Array::from(counts)))
}

/// The number of distinct values of frames that need not be in one piece, from the rows of each.
fn counted_one_by_one(values: Option<&ArrayRef>, frames: &[FramePieces]) -> Result<ArrayRef> {
    let values = values.expect("distinct values are of something");
    let all = std::iter::once(0..values.len()).collect::<Vec<_>>();
    let before = previous_equal(values, &all)?;
    // Equal values have one number, that of their first row.
    let mut numbers: Vec<usize> = Vec::with_capacity(before.len());
    for (row, before) in before.iter().enumerate() {
        numbers.push(before.map_or(row, |before| numbers[before]));
    }
    let nulls = values.logical_nulls();
    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let mut seen_in = vec![usize::MAX; values.len()];
    let counts = frames.iter().enumerate().map(|(frame, pieces)| {
        let mut count = 0;
        for row in pieces.iter().flat_map(Clone::clone).filter(|row| !is_null(*row)) {
            let seen = &mut seen_in[numbers[row]];
            count += i64::from(*seen != frame);
            *seen = frame;
        }
        count
    });
    Ok(std::sync::Arc::new(Int64Array::from_iter_values(counts)))
}

/// Numbers whose sums up to a place are found in logarithmic time.
struct PrefixSums(Vec<i64>);

impl PrefixSums {
    fn new(len: usize) -> PrefixSums {
        PrefixSums(vec![0; len + 1])
    }

    fn add(&mut self, at: usize, number: i64) {
        let mut at = at + 1;
        while at < self.0.len() {
            self.0[at] += number;
            at += at & at.wrapping_neg();
        }
    }

    fn before(&self, end: usize) -> i64 {
        let (mut at, mut sum) = (end, 0);
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}
