//! The frame format: a fixed header with checksums and length limits, then meta and body.
//!
//! A frame is a header of fixed size, `meta_bytes` whose content the kind defines, and `body_bytes`
//! of data. The header has its own checksum, so that lengths are verified before memory is
//! allocated for them, and the caps that both ends agreed on limit them. A second checksum covers
//! the rest; for batches and messages it leaves out the body, which has an end-to-end checksum that
//! is compared where the data is used. Checksums guard against accidents; TLS guards against
//! adversaries.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

/// Bytes of an encoded header; unused ones are zero.
pub const HEADER_BYTES: usize = 64;
/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"EUPH";
/// The version of this layout, and of the messages within.
pub const VERSION: u16 = 1;
/// Memory that an end allocates for an unauthenticated peer, at most, in all.
pub const UNKNOWN_BYTES_MAX: usize = 64 << 10;
/// The largest greeting accepted from an unauthenticated peer. It is small since the decoded
/// greeting takes more memory than its text.
pub(crate) const GREETING_BYTES_MAX: u32 = 4 << 10;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The first frame of a connection: the caller's name, caps and abilities.
    Hello = 1,
    /// The answer to a Hello.
    Welcome = 2,
    /// A message between two endpoints of a queue.
    Message = 3,
    /// A message with the batch that it gives.
    Batch = 4,
    /// A request of the control protocol, or its answer, in JSON.
    Control = 5,
    /// A heartbeat, with the timeout that its sender needs.
    Beat = 6,
    /// The last frame of a connection.
    Bye = 7,
    /// A request of the launch protocol, or its answer, in JSON; the body is output of a program.
    Launch = 8,
    /// A request for a served folder, or its answer, in JSON; the body is content of a file.
    Files = 9,
    /// A message, a batch or an active message whose body is in shared memory; the meta ends with
    /// where it is.
    Placed = 10,
    /// Offers a slab of shared memory, whose files are passed with the frame.
    Slab = 11,
    /// An active message, an acknowledgement of some, or the return of one.
    Active = 12,
}

impl FrameKind {
    fn of(number: u8) -> Option<FrameKind> {
        [
            FrameKind::Hello,
            FrameKind::Welcome,
            FrameKind::Message,
            FrameKind::Batch,
            FrameKind::Control,
            FrameKind::Beat,
            FrameKind::Bye,
            FrameKind::Launch,
            FrameKind::Files,
            FrameKind::Placed,
            FrameKind::Slab,
            FrameKind::Active,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == number)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of frame, which defines meta and body.
    pub kind: FrameKind,
    /// The flow it belongs to; 0 for none.
    pub flow: u64,
    /// The attempt at that flow; frames of older attempts are dropped.
    pub epoch: u32,
    /// The queue, by its index in the flow.
    pub queue: u32,
    /// The endpoint on the queue's producing side, sender or receiver.
    pub producer: u32,
    /// The endpoint on the queue's consuming side, sender or receiver.
    pub consumer: u32,
    /// Counts the frames of a connection, from 0.
    pub sequence: u64,
    /// Bytes of meta, which follow the header and describe the body.
    pub meta_bytes: u32,
    /// Bytes of data, which follow the meta.
    pub body_bytes: u64,
    /// CRC-32C of what follows the header; see [`checksum`].
    pub crc: u32,
}

/// Limits on the size of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// The largest meta accepted, in bytes.
    pub meta_bytes_max: u32,
    /// The largest body accepted, in bytes.
    pub body_bytes_max: u64,
}

impl Caps {
    /// The caps of an unauthenticated peer.
    pub const UNKNOWN: Caps = Caps { meta_bytes_max: GREETING_BYTES_MAX, body_bytes_max: 0 };
    /// The caps of an authenticated peer. A batch is about a megabyte, but one value may be larger.
    pub const KNOWN: Caps = Caps { meta_bytes_max: 16 << 20, body_bytes_max: 4 << 30 };

    /// The smaller of both ends' caps, which both accept.
    ///
    /// ```
    /// use euphrates_wire::Caps;
    ///
    /// assert_eq!(Caps::KNOWN.both(Caps::UNKNOWN), Caps::UNKNOWN, "the smaller one");
    /// ```
    pub fn both(self, other: Caps) -> Caps {
        Caps {
            meta_bytes_max: self.meta_bytes_max.min(other.meta_bytes_max),
            body_bytes_max: self.body_bytes_max.min(other.body_bytes_max),
        }
    }
}

/// The reason for which a header is refused.
///
/// ```
/// use euphrates_wire::frame::HeaderRefused;
/// use euphrates_wire::{Caps, FrameKind, Header};
///
/// let mut bytes = Header { meta_bytes: 100_000, ..Header::of(FrameKind::Hello) }.encode();
/// assert!(Header::decode(&bytes, Caps::KNOWN).is_ok());
/// let above = Header::decode(&bytes, Caps::UNKNOWN);
/// assert!(matches!(above, Err(HeaderRefused::TooLarge { .. })));
/// bytes[20] ^= 1;
/// assert!(Header::decode(&bytes, Caps::KNOWN).is_err(), "a bit has changed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderRefused {
    /// It does not begin with the magic number.
    Magic,
    /// It has another protocol version.
    Version(u16),
    /// Its checksum does not match, or a reserved field is not zero.
    Header,
    /// A kind that this version does not know.
    Kind(u8),
    /// It announces a meta or body above the caps.
    TooLarge {
        /// The length that the header announces.
        bytes: u64,
        /// The cap on it.
        bytes_max: u64,
    },
}

impl fmt::Display for HeaderRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderRefused::Magic => write!(f, "what came is no frame of Euphrates"),
            HeaderRefused::Version(version) => {
                write!(f, "the other end speaks version {version} of the protocol, this {VERSION}")
            }
            HeaderRefused::Header => write!(f, "the header of a frame was damaged on its way"),
            HeaderRefused::Kind(kind) => write!(f, "a frame of the unknown kind {kind}"),
            HeaderRefused::TooLarge { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes, where {bytes_max} are allowed")
            }
        }
    }
}

impl Header {
    /// A header of this kind that belongs to no flow, with all other fields 0.
    pub fn of(kind: FrameKind) -> Header {
        Header {
            kind,
            flow: 0,
            epoch: 0,
            queue: 0,
            producer: 0,
            consumer: 0,
            sequence: 0,
            meta_bytes: 0,
            body_bytes: 0,
            crc: 0,
        }
    }

    /// Encodes the header: little-endian fields in a fixed order, the header's own checksum last.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut fields = HeaderCursor { bytes: [0; HEADER_BYTES], at: 0 };
        fields.put(&MAGIC);
        fields.put(&VERSION.to_le_bytes());
        fields.put(&[self.kind as u8, 0]);
        fields.put(&self.flow.to_le_bytes());
        fields.put(&self.epoch.to_le_bytes());
        fields.put(&self.queue.to_le_bytes());
        fields.put(&self.producer.to_le_bytes());
        fields.put(&self.consumer.to_le_bytes());
        fields.put(&self.sequence.to_le_bytes());
        fields.put(&self.body_bytes.to_le_bytes());
        fields.put(&self.meta_bytes.to_le_bytes());
        fields.put(&self.crc.to_le_bytes());
        let crc = crc32c(&fields.bytes[..HEADER_BYTES - 4]);
        fields.bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        fields.bytes
    }

    /// Decodes a header; fails if it is damaged, of another version or kind, or above `caps`.
    pub fn decode(bytes: &[u8; HEADER_BYTES], caps: Caps) -> Result<Header, HeaderRefused> {
        let mut fields = HeaderCursor { bytes: *bytes, at: 0 };
        if fields.take::<4>() != MAGIC {
            return Err(HeaderRefused::Magic);
        }
        let version = u16::from_le_bytes(fields.take());
        let [kind, spare] = fields.take();
        let (body, crc) = bytes.split_at(HEADER_BYTES - 4);
        // Another version may have its checksum elsewhere.
        if version != VERSION {
            return Err(HeaderRefused::Version(version));
        }
        if crc != crc32c(body).to_le_bytes() {
            return Err(HeaderRefused::Header);
        }
        let header = Header {
            kind: FrameKind::of(kind).ok_or(HeaderRefused::Kind(kind))?,
            flow: u64::from_le_bytes(fields.take()),
            epoch: u32::from_le_bytes(fields.take()),
            queue: u32::from_le_bytes(fields.take()),
            producer: u32::from_le_bytes(fields.take()),
            consumer: u32::from_le_bytes(fields.take()),
            sequence: u64::from_le_bytes(fields.take()),
            body_bytes: u64::from_le_bytes(fields.take()),
            meta_bytes: u32::from_le_bytes(fields.take()),
            crc: u32::from_le_bytes(fields.take()),
        };
        // Every header has one encoding, so reserved bytes must be zero.
        if spare != 0 || fields.take() != [0; 4] {
            return Err(HeaderRefused::Header);
        }
        header.check(caps)?;
        Ok(header)
    }

    fn check(&self, caps: Caps) -> Result<(), HeaderRefused> {
        let meta = (u64::from(self.meta_bytes), u64::from(caps.meta_bytes_max));
        let body = (self.body_bytes, caps.body_bytes_max);
        match [meta, body].into_iter().find(|(bytes, bytes_max)| bytes > bytes_max) {
            Some((bytes, bytes_max)) => Err(HeaderRefused::TooLarge { bytes, bytes_max }),
            None => Ok(()),
        }
    }
}

/// CRC-32C, for which processors have instructions.
///
/// ```
/// use euphrates_wire::frame::crc32c;
///
/// assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of CRC-32C");
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of meta and body; of a message or batch, of its meta only.
pub fn checksum<'a>(kind: FrameKind, meta: &[u8], body: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(meta);
    if !matches!(kind, FrameKind::Message | FrameKind::Batch) {
        body.for_each(|part| digest.update(part));
    }
    digest.finalize() as u32
}

/// A cursor that encodes or decodes a header field by field.
struct HeaderCursor {
    bytes: [u8; HEADER_BYTES],
    at: usize,
}

impl HeaderCursor {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.bytes[self.at..self.at + N].try_into().expect("a field of its length");
        self.at += N;
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: Caps = Caps { meta_bytes_max: u32::MAX, body_bytes_max: u64::MAX };

    fn header() -> impl Strategy<Value = Header> {
        let ends = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
        let kinds = (1..=12_u8).prop_map(|number| FrameKind::of(number).expect("a kind"));
        (kinds, any::<u64>(), ends, any::<u64>(), any::<(u32, u64, u32)>()).prop_map(
            |(kind, flow, (epoch, queue, producer, consumer), sequence, lengths)| {
                let (meta_bytes, body_bytes, crc) = lengths;
                Header {
                    kind,
                    flow,
                    epoch,
                    queue,
                    producer,
                    consumer,
                    sequence,
                    meta_bytes,
                    body_bytes,
                    crc,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn headers_roundtrip(header in header()) {
            prop_assert_eq!(Header::decode(&header.encode(), ANY), Ok(header));
        }

        #[test]
        fn any_flipped_bit_is_detected(header in header(), bit in 0..HEADER_BYTES * 8) {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&bytes, ANY).is_err());
        }

        #[test]
        fn lengths_above_the_caps_are_refused(header in header()) {
            let caps = Caps { meta_bytes_max: 100, body_bytes_max: 1000 };
            let allowed = header.meta_bytes <= 100 && header.body_bytes <= 1000;
            prop_assert_eq!(Header::decode(&header.encode(), caps).is_ok(), allowed);
        }
    }

    #[test]
    fn refusals_name_their_reason() {
        let known = Header { flow: 1, queue: 2, body_bytes: 1, ..Header::of(FrameKind::Batch) };
        let decode = |bytes: [u8; HEADER_BYTES]| Header::decode(&bytes, Caps::UNKNOWN).unwrap_err();
        assert_eq!(
            decode(known.encode()),
            HeaderRefused::TooLarge { bytes: 1, bytes_max: 0 },
            "no data from an unauthenticated peer"
        );
        assert_eq!(decode([b'G'; HEADER_BYTES]), HeaderRefused::Magic);
        let mut newer = known.encode();
        newer[4] = 9;
        assert_eq!(decode(newer), HeaderRefused::Version(9));
    }
}
