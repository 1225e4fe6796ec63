//! The footers that were decoded last. A query opens its files to be planned, to be checked and to
//! run, and decoding the footer of a wide table takes longer than all else of a short query.
//!
//! They are found by all of their bytes, so a file that has changed is not taken for what it was.

use std::collections::VecDeque;

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

/// The most bytes of all encoded footers that are kept; decoded they take about five times as many.
const BYTES_MAX: usize = 2 << 20;

/// Latest first.
static KNOWN: Mutex<VecDeque<KnownFooter>> = Mutex::new(VecDeque::new());

struct KnownFooter {
    encoded: Box<[u8]>,
    /// Where it lies in its file, against which it was checked.
    offset: u64,
    decoded: ArrowReaderMetadata,
}

/// The decoded form of a footer at this offset of a file, if it is kept.
pub(super) fn find(encoded: &[u8], offset: u64) -> Option<ArrowReaderMetadata> {
    let mut known = KNOWN.lock();
    let is_same = |it: &KnownFooter| it.offset == offset && *it.encoded == *encoded;
    let at = known.iter().position(is_same)?;
    let found = known.remove(at)?;
    let decoded = found.decoded.clone();
    known.push_front(found);
    Some(decoded)
}

/// Keeps a footer, and forgets those not used for longest.
pub(super) fn keep(encoded: &[u8], offset: u64, decoded: &ArrowReaderMetadata) {
    if encoded.len() > BYTES_MAX {
        return;
    }
    let mut known = KNOWN.lock();
    known.push_front(KnownFooter { encoded: encoded.into(), offset, decoded: decoded.clone() });
    let mut bytes = 0;
    known.retain(|it| {
        bytes += it.encoded.len();
        bytes <= BYTES_MAX
    });
}
