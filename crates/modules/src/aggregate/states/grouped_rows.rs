//! Collected rows by group, and what lies between two values of a group.

use arrow::array::{ArrayRef, StructArray, UInt32Array};
use arrow::compute::take;
use euphrates_flow::Result;

/// Rows by group.
pub(crate) struct GroupedRows {
    /// The value, and the columns by which rows are ordered.
    pub(crate) rows: StructArray,
    /// The end of each group.
    pub(crate) ends: Vec<usize>,
}

impl GroupedRows {
    /// The rows of each group.
    pub(super) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start..*end)
    }

    /// The values of one row of each group, null for groups without rows.
    pub(super) fn chosen(
        &self,
        row_of: impl Fn(std::ops::Range<usize>) -> usize,
    ) -> Result<ArrayRef> {
        let rows = self.ranges().map(|rows| (!rows.is_empty()).then(|| row_of(rows) as u32));
        Ok(take(self.rows.column(0), &rows.collect::<UInt32Array>(), None)?)
    }
}

/// The values on both sides of a quantile, and its distance from the lower one; `None` of no
/// values.
pub(super) fn around<T: Copy>(
    values: &mut [T],
    fraction: f64,
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Option<(T, T, f64)> {
    let place = values.len().checked_sub(1)? as f64 * fraction;
    let (_, low, above) = values.select_nth_unstable_by(place as usize, &compare);
    let high = above.iter().copied().min_by(&compare).unwrap_or(*low);
    Some((*low, high, place.fract()))
}

/// The instant that lies between two others by a share of their distance.
pub(super) fn between_instants(low: i64, high: i64, share: f64) -> i64 {
    let apart = i128::from(high) - i128::from(low);
    (i128::from(low) + (apart as f64 * share).round() as i128) as i64
}

/// The number that lies between two others by a share of their distance.
pub(super) fn between_numbers(low: f64, high: f64, share: f64) -> f64 {
    // Infinities have no distance.
    match (high - low).is_finite() {
        _ if low == high || share == 0.0 => low,
        true => low + (high - low) * share,
        false => low * (1.0 - share) + high * share,
    }
}
