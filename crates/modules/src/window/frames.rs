//! Frames: which rows of its partition a row's window function sees.

use std::ops::Range;

use arrow::array::{ArrayRef, make_comparator};
use arrow::compute::{CastOptions, SortOptions, cast_with_options, partition};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};

use crate::canonical_floats::canonical_floats;
use crate::expression::Expression;
use crate::sort::keys::key_layout::KeyColumn;

/// The most digits of a decimal.
const DECIMAL_DIGITS: i16 = 38;

/// The rows from one bound to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowFrame {
    pub(crate) units: FrameUnits,
    pub(crate) start: FrameBound,
    pub(crate) end: FrameBound,
    pub(crate) exclusion: Option<FrameExclusion>,
}

/// The rows within its bounds that a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameExclusion {
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

/// The rows of a frame: up to three ranges, in their order.
pub(crate) type FramePieces = [Range<usize>; 3];

/// What the offsets of bounds count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameUnits {
    /// Rows.
    Rows,
    /// Differences of the order column.
    Range,
    /// Groups of rows with equal order columns.
    Groups,
}

/// A bound, with the text of its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrameBound {
    /// The first row of the partition for a start, the last one for an end.
    Unbounded,
    Preceding(String),
    CurrentRow,
    Following(String),
}

impl FrameBound {
    /// Its place among the kinds of bounds, to tell whether a frame ends before it starts.
    pub(crate) fn place(&self, is_start: bool) -> u8 {
        match self {
            FrameBound::Unbounded if is_start => 0,
            FrameBound::Preceding(_) => 1,
            FrameBound::CurrentRow => 2,
            FrameBound::Following(_) => 3,
            FrameBound::Unbounded => 4,
        }
    }

    fn offset(&self) -> Option<&str> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            _ => None,
        }
    }
}

impl FrameExclusion {
    fn pieces(self, frame: &Range<usize>, row: usize, peers: &Range<usize>) -> FramePieces {
        let within = |from: usize, to: usize| {
            let from = from.clamp(frame.start, frame.end);
            from..to.clamp(from, frame.end)
        };
        let out = match self {
            FrameExclusion::CurrentRow => row..row + 1,
            FrameExclusion::Group | FrameExclusion::Ties => peers.clone(),
        };
        let kept = if self == FrameExclusion::Ties { row..row + 1 } else { row..row };
        [within(0, out.start), within(kept.start, kept.end), within(out.end, usize::MAX)]
    }
}

/// The rows of a batch that belong together. The batch is sorted by partition and order.
pub(crate) struct WindowRows {
    /// The partitions.
    pub(crate) partitions: Vec<Range<usize>>,
    /// For each partition, its rows with equal order columns; all, without an order.
    pub(crate) peers: Vec<Vec<Range<usize>>>,
}

impl WindowRows {
    /// Finds the rows of a sorted batch that belong together.
    pub(crate) fn of(
        batch: &RecordBatch,
        partition_by: &[usize],
        order_by: &[KeyColumn],
    ) -> Result<WindowRows> {
        let column = |at: usize| canonical_floats(batch.column(at));
        let mut keys: Vec<ArrayRef> = partition_by.iter().map(|at| column(*at)).collect();
        let partitions = equal_ranges(&keys, batch.num_rows())?;
        keys.extend(order_by.iter().map(|key| column(key.column)));
        let all = match order_by.is_empty() {
            true => partitions.clone(),
            false => equal_ranges(&keys, batch.num_rows())?,
        };
        let mut rest = all.into_iter().peekable();
        let mut peers = vec![];
        for whole in &partitions {
            let mut inside = vec![];
            while let Some(range) = rest.next_if(|range| range.end <= whole.end) {
                inside.push(range);
            }
            peers.push(inside);
        }
        Ok(WindowRows { partitions, peers })
    }
}

fn equal_ranges(keys: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
    match (keys.is_empty(), rows) {
        (_, 0) => Ok(vec![]),
        (true, _) => Ok(std::iter::once(0..rows).collect()),
        _ => Ok(partition(keys)?.ranges()),
    }
}

/// A frame over the columns of a schema.
#[derive(Debug)]
pub(crate) struct PlannedFrame {
    units: FrameUnits,
    start: PlannedBound,
    end: PlannedBound,
    /// The order column, in a type that offsets can be added to.
    key: Option<(Expression, SortOptions)>,
    exclusion: Option<FrameExclusion>,
}

#[derive(Debug)]
enum PlannedBound {
    First,
    Before(u64),
    Current,
    After(u64),
    Last,
    /// The row whose order column has this value.
    AtValue(Expression),
}

impl PlannedFrame {
    /// The frame of a call, or the usual one.
    pub(crate) fn new(
        frame: Option<&RowFrame>,
        schema: &Schema,
        order_by: &[KeyColumn],
    ) -> Result<PlannedFrame> {
        let usual = RowFrame {
            units: FrameUnits::Range,
            start: FrameBound::Unbounded,
            end: match order_by.is_empty() {
                true => FrameBound::Unbounded,
                false => FrameBound::CurrentRow,
            },
            exclusion: None,
        };
        let RowFrame { units, start, end, exclusion } = frame.unwrap_or(&usual);
        let has_offset = start.offset().or_else(|| end.offset()).is_some();
        let key = match (*units == FrameUnits::Range && has_offset, order_by) {
            (false, _) => None,
            (true, [key]) => Some(key),
            (true, _) => {
                let error = Error::usage("a `range` frame with an offset needs one order column");
                return Err(error.remedy("order by one column, or use `rows` or `groups`"));
            }
        };
        let text = key.map(|key| key_text(schema, key)).transpose()?;
        let descending = key.is_some_and(|key| key.descending);
        let bound = |bound: &FrameBound, is_start: bool| -> Result<PlannedBound> {
            let (offset, is_before) = match bound {
                FrameBound::Unbounded if is_start => return Ok(PlannedBound::First),
                FrameBound::Unbounded => return Ok(PlannedBound::Last),
                FrameBound::CurrentRow => return Ok(PlannedBound::Current),
                FrameBound::Preceding(offset) => (offset, true),
                FrameBound::Following(offset) => (offset, false),
            };
            if let Some(text) = &text {
                let sign = if is_before == descending { '+' } else { '-' };
                let value = format!("{text} {sign} ({offset})");
                return Ok(PlannedBound::AtValue(Expression::parse(&value, schema)?));
            }
            let rows = offset.parse().map_err(|_| {
                let error = Error::usage(format!("the offset `{offset}` is not a number of rows"));
                error.remedy("write a whole number, as in `2 preceding`")
            })?;
            Ok(if is_before { PlannedBound::Before(rows) } else { PlannedBound::After(rows) })
        };
        let (start, end) = (bound(start, true)?, bound(end, false)?);
        let key = match (key, &text) {
            (Some(key), Some(text)) => {
                let (descending, nulls_first) = (key.descending, key.nulls_first);
                let options = SortOptions { descending, nulls_first };
                Some((Expression::parse(text, schema)?, options))
            }
            _ => None,
        };
        Ok(PlannedFrame { units: *units, start, end, key, exclusion: *exclusion })
    }

    /// The rows that each row sees, if some within the bounds are left out.
    pub(crate) fn pieces(
        &self,
        batch: &RecordBatch,
        rows: &WindowRows,
    ) -> Result<Option<Vec<FramePieces>>> {
        let Some(exclusion) = self.exclusion else { return Ok(None) };
        let frames = self.bounds(batch, rows)?;
        let peers = rows.peers.iter().flatten();
        let peers = peers.flat_map(|peers| std::iter::repeat_n(peers, peers.len()));
        let pieces = frames.iter().zip(peers).enumerate();
        Ok(Some(pieces.map(|(row, (frame, peers))| exclusion.pieces(frame, row, peers)).collect()))
    }

    /// The rows that each row sees.
    pub(crate) fn bounds(
        &self,
        batch: &RecordBatch,
        rows: &WindowRows,
    ) -> Result<Vec<Range<usize>>> {
        let mut starts = vec![0; batch.num_rows()];
        let mut ends = vec![0; batch.num_rows()];
        self.fill(&self.start, true, batch, rows, &mut starts)?;
        self.fill(&self.end, false, batch, rows, &mut ends)?;
        Ok(starts.into_iter().zip(ends).map(|(start, end)| start..end.max(start)).collect())
    }

    /// The starts, or the ends, of all frames.
    fn fill(
        &self,
        bound: &PlannedBound,
        is_start: bool,
        batch: &RecordBatch,
        rows: &WindowRows,
        places: &mut [usize],
    ) -> Result<()> {
        if let (PlannedBound::AtValue(value), Some((key, options))) = (bound, &self.key) {
            return at_values(value, key, *options, is_start, batch, rows, places);
        }
        for (whole, peers) in rows.partitions.iter().zip(&rows.peers) {
            for (group, peer) in peers.iter().enumerate() {
                for row in peer.clone() {
                    places[row] = match self.units {
                        FrameUnits::Rows => row_place(bound, is_start, row, whole),
                        _ => group_place(bound, is_start, group, peers, whole),
                    };
                }
            }
        }
        Ok(())
    }
}

/// A bound in rows.
fn row_place(bound: &PlannedBound, is_start: bool, row: usize, whole: &Range<usize>) -> usize {
    let offset = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    // An end is the place behind its row.
    let behind = usize::from(!is_start);
    let place = match bound {
        PlannedBound::First => whole.start,
        PlannedBound::Last => whole.end,
        PlannedBound::Before(rows) => (row + behind).saturating_sub(offset(*rows)),
        PlannedBound::After(rows) => (row + behind).saturating_add(offset(*rows)),
        PlannedBound::Current | PlannedBound::AtValue(_) => row + behind,
    };
    place.clamp(whole.start, whole.end)
}

/// A bound in groups of peers.
fn group_place(
    bound: &PlannedBound,
    is_start: bool,
    group: usize,
    peers: &[Range<usize>],
    whole: &Range<usize>,
) -> usize {
    let offset = |groups: u64| usize::try_from(groups).unwrap_or(usize::MAX);
    let side = |group: usize| if is_start { peers[group].start } else { peers[group].end };
    match bound {
        PlannedBound::First => whole.start,
        PlannedBound::Last => whole.end,
        PlannedBound::Before(groups) => match group.checked_sub(offset(*groups)) {
            Some(group) => side(group),
            None => whole.start,
        },
        PlannedBound::After(groups) => match group.saturating_add(offset(*groups)) {
            group if group < peers.len() => side(group),
            _ => whole.end,
        },
        PlannedBound::Current | PlannedBound::AtValue(_) => side(group),
    }
}

/// Bounds at values of the order column. A row whose order column is null sees its peers.
fn at_values(
    value: &Expression,
    key: &Expression,
    options: SortOptions,
    is_start: bool,
    batch: &RecordBatch,
    rows: &WindowRows,
    places: &mut [usize],
) -> Result<()> {
    let all = 0..batch.num_rows();
    let keys = canonical_floats(&key.evaluate_rows(batch, all.clone())?);
    // A bound that the type of the keys lacks must not become null.
    let strict = CastOptions { safe: false, ..Default::default() };
    let values = value.evaluate_rows(batch, all)?;
    let values = cast_with_options(&values, keys.data_type(), &strict)?;
    let values = canonical_floats(&values);
    let compare = make_comparator(&values, &keys, options)?;
    for (whole, peers) in rows.partitions.iter().zip(&rows.peers) {
        let mut place = whole.start;
        for peer in peers {
            if keys.is_null(peer.start) {
                places[peer.clone()].fill(if is_start { peer.start } else { peer.end });
                place = place.max(peer.end);
                continue;
            }
            let row = peer.start;
            // The order of keys is the order of their bounds, so the place only moves on.
            while place < whole.end
                && !keys.is_null(place)
                && match is_start {
                    true => compare(row, place).is_gt(),
                    false => compare(row, place).is_ge(),
                }
            {
                place += 1;
            }
            places[peer.clone()].fill(place);
        }
    }
    Ok(())
}

/// The text of the order column in a type that offsets can be added to.
fn key_text(schema: &Schema, key: &KeyColumn) -> Result<String> {
    let field = schema.field(key.column);
    let name = format!("\"{}\"", field.name().replace('"', "\"\""));
    Ok(match field.data_type() {
        // Offsets may have a fraction, and must not overflow.
        data_type if data_type.is_integer() => format!("cast({name} as decimal(38, 9))"),
        data_type if data_type.is_floating() => format!("cast({name} as double)"),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale) => {
            // One digit more before the point, and room for a fraction behind it.
            let whole = i16::from(*digits) - i16::from(*scale) + 1;
            let scale = (DECIMAL_DIGITS - whole).min(9).max(i16::from(*scale));
            format!("cast({name} as decimal({DECIMAL_DIGITS}, {scale}))")
        }
        DataType::Date32 | DataType::Timestamp(..) => name,
        other => {
            let error = Error::usage(format!("a `range` frame has no offsets in {other}"));
            return Err(error.remedy("use `rows` or `groups`"));
        }
    })
}
