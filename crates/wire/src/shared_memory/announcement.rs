//! Encoding of what a frame says about shared memory: a slab that is offered, or where a body is.

use euphrates_flow::{Error, Result};

use crate::frame::FrameKind;

/// Bytes of an encoded [`PlacedBody`], with which the meta of its frame ends.
pub const PLACED_BYTES: usize = 28;

/// Where the body of a frame is; follows the meta of the frame.
///
/// ```
/// use euphrates_wire::FrameKind;
/// use euphrates_wire::shared_memory::announcement::PlacedBody;
///
/// let placed =
///     PlacedBody { kind: FrameKind::Batch, slab: 1, offset: 4096, bytes: 20_000, ticket: 7 };
/// let mut meta = b"letter".to_vec();
/// placed.write(&mut meta);
/// assert_eq!(PlacedBody::read(&meta)?, (&b"letter"[..], placed));
/// assert!(PlacedBody::read(&meta[1..7]).is_err());
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBody {
    /// The kind of the frame whose body it is: a message, a batch or an active message.
    pub kind: FrameKind,
    /// The number of the slab, in the order of offers.
    pub slab: u32,
    /// Where the body begins in the slab, in bytes.
    pub offset: u64,
    /// The length of the body.
    pub bytes: u64,
    /// What to write to the extent's return word.
    pub ticket: u32,
}

impl PlacedBody {
    /// Appends it to the meta of a frame.
    pub fn write(&self, meta: &mut Vec<u8>) {
        meta.extend([self.kind as u8, 0, 0, 0]);
        meta.extend(self.slab.to_le_bytes());
        meta.extend(self.offset.to_le_bytes());
        meta.extend(self.bytes.to_le_bytes());
        meta.extend(self.ticket.to_le_bytes());
    }

    /// Splits it from the end of a meta. The values may be any: the receiver of the slab checks
    /// them.
    pub fn read(meta: &[u8]) -> Result<(&[u8], PlacedBody)> {
        let (rest, bytes) = meta.split_last_chunk::<PLACED_BYTES>().ok_or_else(malformed)?;
        let kind = match bytes[..4] {
            [kind, 0, 0, 0] => [FrameKind::Message, FrameKind::Batch, FrameKind::Active]
                .into_iter()
                .find(|known| *known as u8 == kind)
                .ok_or_else(malformed)?,
            _ => return Err(malformed()),
        };
        let u32_at = |at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (slab, offset, bytes, ticket) = (u32_at(4), u64_at(8), u64_at(16), u32_at(24));
        Ok((rest, PlacedBody { kind, slab, offset, bytes, ticket }))
    }
}

/// The meta of a frame that offers a slab of this many bytes.
pub(super) fn write_offer(bytes: u64) -> Vec<u8> {
    bytes.to_le_bytes().to_vec()
}

/// The size of the slab that is offered.
pub(super) fn read_offer(meta: &[u8]) -> Result<u64> {
    meta.try_into().map(u64::from_le_bytes).map_err(|_| malformed())
}

/// The error for a frame about shared memory that makes no sense.
pub(super) fn malformed() -> Error {
    Error::corrupt("a frame about shared memory that cannot be read")
}
