//! Functions of a row's place in its partition.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};

use super::frames::WindowRows;

/// The number of each row within its partition, from 1.
pub(crate) fn row_numbers(rows: &WindowRows) -> ArrayRef {
    let numbers = rows.partitions.iter().flat_map(|whole| 1..=whole.len() as i64);
    Arc::new(Int64Array::from_iter_values(numbers))
}

/// The number of rows before the peers of each row, plus 1.
pub(crate) fn ranks(rows: &WindowRows) -> ArrayRef {
    integers(rows, |whole, _, peer| (peer.start - whole.start + 1) as i64)
}

/// The number of groups of peers up to that of each row.
pub(crate) fn dense_ranks(rows: &WindowRows) -> ArrayRef {
    integers(rows, |_, group, _| group as i64 + 1)
}

/// The share of the other rows that come before the peers of each row.
pub(crate) fn percent_ranks(rows: &WindowRows) -> ArrayRef {
    floats(rows, |whole, peer| match whole.len() {
        1 => 0.0,
        rows => (peer.start - whole.start) as f64 / (rows - 1) as f64,
    })
}

/// The share of rows that come before or with each row.
pub(crate) fn cume_dists(rows: &WindowRows) -> ArrayRef {
    floats(rows, |whole, peer| (peer.end - whole.start) as f64 / whole.len() as f64)
}

/// The number of each row's bucket, of `buckets` of the same size, the first ones by one row
/// larger.
pub(crate) fn ntiles(rows: &WindowRows, buckets: u64) -> ArrayRef {
    let numbers = rows.partitions.iter().flat_map(|whole| {
        let count = whole.len() as u64;
        let (size, larger) = (count / buckets, count % buckets);
        (0..count).map(move |row| {
            let in_larger = larger * (size + 1);
            let bucket = match row < in_larger {
                true => row / (size + 1),
                false => larger + (row - in_larger) / size.max(1),
            };
            bucket as i64 + 1
        })
    });
    Arc::new(Int64Array::from_iter_values(numbers))
}

fn integers(
    rows: &WindowRows,
    value: impl Fn(&Range<usize>, usize, &Range<usize>) -> i64,
) -> ArrayRef {
    let mut values = vec![];
    for (whole, peers) in rows.partitions.iter().zip(&rows.peers) {
        for (group, peer) in peers.iter().enumerate() {
            values.resize(values.len() + peer.len(), value(whole, group, peer));
        }
    }
    Arc::new(Int64Array::from(values))
}

fn floats(rows: &WindowRows, value: impl Fn(&Range<usize>, &Range<usize>) -> f64) -> ArrayRef {
    let mut values = vec![];
    for (whole, peers) in rows.partitions.iter().zip(&rows.peers) {
        for peer in peers {
            values.resize(values.len() + peer.len(), value(whole, peer));
        }
    }
    Arc::new(Float64Array::from(values))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn buckets_differ_by_one_row() {
        let tiles = |count: usize, buckets: u64| {
            let whole: Vec<_> = std::iter::once(0..count).collect();
            let rows = WindowRows { partitions: whole.clone(), peers: vec![whole] };
            ntiles(&rows, buckets).as_primitive::<Int64Type>().values().to_vec()
        };
        assert_eq!(tiles(7, 3), [1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(tiles(2, 5), [1, 2]);
        assert_eq!(tiles(4, 4), [1, 2, 3, 4]);
    }
}
