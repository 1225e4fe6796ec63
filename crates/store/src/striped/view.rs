//! Nested-strided views: parts of a file that lie at regular distances, as one array of bytes.
//!
//! A view is described once; then requests are ranges of it. This is the view of Clusterfile
//! (Isaila and Tichy, nested FALLS): a row, repeated to a plane, repeated to a block.

use euphrates_flow::{Error, Result};

/// Pieces of a length, repeated at a stride, which is repeated, and so on.
///
/// ```
/// use euphrates_store::striped::StridedView;
///
/// // The second half of each of three rows of 10 bytes.
/// let view = StridedView::new(5, 5, &[(10, 3)])?;
/// assert_eq!((view.bytes(), view.end()), (15, 30));
/// let pieces: Vec<(u64, u64)> = view.pieces(3, 5).collect();
/// assert_eq!(pieces, [(8, 2), (15, 3)]);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StridedView {
    start: u64,
    /// The length of a piece.
    length: u64,
    /// Stride and count of each repetition, the innermost first.
    levels: Vec<(u64, u64)>,
    bytes: u64,
    end: u64,
}

impl StridedView {
    /// The pieces of `length` bytes from `start` on, repeated `count` times at distances of
    /// `stride` for each pair of these, of which the first is the innermost. Fails if pieces
    /// overlap.
    pub fn new(start: u64, length: u64, levels: &[(u64, u64)]) -> Result<StridedView> {
        let wrong = |message: String| {
            Error::usage(message).remedy("give view(start, length, stride, count, …)")
        };
        if length == 0 {
            return Err(wrong("a view has pieces of at least 1 byte".into()));
        }
        let too_long = || wrong("a view of more than 2^64 bytes".into());
        let (mut bytes, mut extent, mut piece) = (length, length, length);
        let mut kept: Vec<(u64, u64)> = vec![];
        for &(stride, count) in levels {
            if count == 0 {
                return Err(wrong("a view repeats its pieces at least once".into()));
            }
            if count == 1 {
                continue;
            }
            if stride < extent {
                return Err(wrong(format!(
                    "pieces of the view overlap: what has {extent} bytes is repeated after {stride}"
                )));
            }
            let before = stride.checked_mul(count - 1).ok_or_else(too_long)?;
            extent = extent.checked_add(before).ok_or_else(too_long)?;
            bytes = bytes.checked_mul(count).ok_or_else(too_long)?;
            // Pieces that touch are one.
            match kept.is_empty() && stride == piece {
                true => piece = extent,
                false => kept.push((stride, count)),
            }
        }
        let end = start.checked_add(extent).ok_or_else(too_long)?;
        Ok(StridedView { start, length: piece, levels: kept, bytes, end })
    }

    /// The length of the view in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The offset in the file where its last piece ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Offset and length in the file of the pieces of a range of the view, in ascending order. The
    /// range must be in the view.
    pub fn pieces(&self, at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
        let (mut at, end) = (at, at + bytes);
        std::iter::from_fn(move || {
            let within = at % self.length;
            let count = (self.length - within).min(end - at);
            let offset = self.offset(at / self.length) + within;
            at += count;
            (count > 0).then_some((offset, count))
        })
    }

    /// The pieces of a range of the view as stripe, offset in the stripe, and length.
    pub(super) fn parts(
        &self,
        at: u64,
        bytes: u64,
        stripe_bytes: u64,
    ) -> impl Iterator<Item = (usize, usize, usize)> + Clone {
        self.pieces(at, bytes).flat_map(move |(offset, count)| {
            let (mut offset, end) = (offset, offset + count);
            std::iter::from_fn(move || {
                let at = offset % stripe_bytes;
                let count = (stripe_bytes - at).min(end - offset);
                let stripe = offset / stripe_bytes;
                offset += count;
                (count > 0).then_some((stripe as usize, at as usize, count as usize))
            })
        })
    }

    /// The offset of a piece by its number.
    fn offset(&self, piece: u64) -> u64 {
        let (mut offset, mut number) = (self.start, piece);
        for (stride, count) in &self.levels {
            offset += stride * (number % count);
            number /= count;
        }
        offset
    }

    /// Fails if a request is not within the view.
    pub fn check(&self, at: u64, bytes: usize) -> Result<()> {
        match at.checked_add(bytes as u64) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::usage(format!(
                "bytes {at}..+{bytes} of a view that has {}: the request ends behind it",
                self.bytes
            ))
            .remedy("ask for a range within the view")),
        }
    }

    /// Fails if the view ends behind a file of this length.
    pub fn expect_within(&self, file_bytes: u64) -> Result<()> {
        match self.end <= file_bytes {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "the view ends at byte {}, behind the end of the file at {file_bytes}",
                self.end
            ))
            .remedy("give a view within the file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A view, and the offset of each of its bytes by nested loops.
    fn views() -> impl Strategy<Value = (StridedView, Vec<u64>)> {
        let level = (0u64..5, 1u64..4);
        (0u64..20, 1u64..6, proptest::collection::vec(level, 0..4)).prop_map(
            |(start, length, all)| {
                let (mut extent, mut levels) = (length, vec![]);
                let mut offsets: Vec<u64> = (start..start + length).collect();
                for (gap, count) in all {
                    let stride = extent + gap;
                    levels.push((stride, count));
                    let repeated = |time| offsets.iter().map(move |offset| offset + stride * time);
                    offsets = (0..count).flat_map(repeated).collect();
                    extent += stride * (count - 1);
                }
                (StridedView::new(start, length, &levels).unwrap(), offsets)
            },
        )
    }

    proptest! {
        #[test]
        fn pieces_are_the_offsets_of_nested_loops(
            (view, offsets) in views(), at in 0usize..200, count in 0usize..200, stripe in 1u64..30
        ) {
            prop_assert_eq!(view.bytes(), offsets.len() as u64);
            prop_assert_eq!(view.end(), offsets.last().unwrap() + 1);
            let at = at.min(offsets.len());
            let count = count.min(offsets.len() - at);
            let pieces = view.pieces(at as u64, count as u64);
            let read = pieces.flat_map(|(offset, count)| offset..offset + count);
            let read: Vec<u64> = read.collect();
            prop_assert_eq!(&read, &offsets[at..at + count]);
            let parts = view.parts(at as u64, count as u64, stripe).map(|(number, at, count)| {
                let start = number as u64 * stripe + at as u64;
                start..start + count as u64
            });
            prop_assert_eq!(parts.flatten().collect::<Vec<u64>>(), read);
        }
    }

    #[test]
    fn wrong_descriptions_and_requests_are_usage_errors() {
        for (length, levels) in [
            (0, &[][..]),
            (5, &[(4, 2)]),
            (5, &[(5, 0)]),
            (5, &[(10, 2), (14, 2)]),
            (1, &[(u64::MAX, 3)]),
        ] {
            let error = StridedView::new(1, length, levels).unwrap_err();
            assert_eq!(error.kind(), euphrates_flow::Kind::Usage, "{error}");
        }
        let view = StridedView::new(0, 5, &[(10, 2)]).unwrap();
        assert!(view.check(5, 5).is_ok() && view.check(5, 6).is_err());
        assert!(view.check(u64::MAX, 5).is_err());
        assert!(view.expect_within(15).is_ok() && view.expect_within(14).is_err());
    }
}
