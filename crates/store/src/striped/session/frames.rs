//! What writers of a session send to the owners of stripes, over sockets of one machine.
//!
//! A sender greets with the identifier of the session, its number and its incarnation; the owner
//! answers with its own. Then each frame has pieces of one stripe, and is answered by one byte. A
//! frame has a bound, and a checksum.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"EUPIECE1";
/// Bytes of a session's identifier, at most.
const SESSION_BYTES_MAX: usize = 4096;
/// Pieces of a frame, at most.
pub(super) const FRAME_PIECES_MAX: usize = 64 << 10;
const HEAD_BYTES: usize = 12;
const PIECE_BYTES: usize = 8;

/// A writer that is open: an incarnation is never used again.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(super) struct Incarnation {
    pub writer: usize,
    pub random: u64,
}

impl Incarnation {
    /// A new one of a writer.
    pub fn new(writer: usize) -> euphrates_flow::Result<Incarnation> {
        let mut random = [0; 8];
        getrandom::getrandom(&mut random)
            .map_err(|error| euphrates_flow::Error::failed(format!("no random number: {error}")))?;
        Ok(Incarnation { writer, random: u64::from_le_bytes(random) })
    }
}

/// The answer of an owner to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceAnswer {
    /// The pieces are in the memory of the owner, which is responsible for them.
    Taken,
    /// The owner takes no more pieces of this stripe.
    Refused,
    /// The owner has no memory for them.
    Full,
    /// The owner takes no pieces any more.
    Closed,
}

/// Pieces of one stripe.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PieceFrame<'a> {
    pub stripe: usize,
    /// Offsets in the stripe.
    pub ranges: Vec<Range<usize>>,
    /// The bytes of the pieces, one after the other.
    pub bytes: &'a [u8],
}

/// Greets an owner, and returns its incarnation.
pub(super) fn greet(
    stream: &mut (impl Read + Write),
    session: &str,
    sender: Incarnation,
) -> Result<Incarnation> {
    let mut greeting = MAGIC.to_vec();
    greeting.extend((session.len() as u32).to_le_bytes());
    greeting.extend(session.as_bytes());
    greeting.extend(encode(sender));
    stream.write_all(&greeting)?;
    read_magic(stream)?;
    read_incarnation(stream)
}

/// Receives the greeting of a sender, and answers it. Fails if it is of another session.
pub(super) fn on_greeting(
    stream: &mut (impl Read + Write),
    session: &str,
    owner: Incarnation,
) -> Result<Incarnation> {
    read_magic(stream)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > SESSION_BYTES_MAX || length != session.len() {
        return Err(invalid("another session"));
    }
    let mut named = vec![0; length];
    stream.read_exact(&mut named)?;
    if named != session.as_bytes() {
        return Err(invalid("another session"));
    }
    let sender = read_incarnation(stream)?;
    stream.write_all(&[&MAGIC[..], &encode(owner)].concat())?;
    Ok(sender)
}

fn encode(Incarnation { writer, random }: Incarnation) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(writer as u64).to_le_bytes());
    bytes[8..].copy_from_slice(&random.to_le_bytes());
    bytes
}

fn read_incarnation(stream: &mut impl Read) -> Result<Incarnation> {
    let mut bytes = [[0; 8]; 2];
    stream.read_exact(bytes.as_flattened_mut())?;
    let [writer, random] = bytes.map(u64::from_le_bytes);
    Ok(Incarnation { writer: writer as usize, random })
}

fn read_magic(stream: &mut impl Read) -> Result<()> {
    let mut magic = [0; 8];
    stream.read_exact(&mut magic)?;
    if &magic != MAGIC { Err(invalid("no greeting")) } else { Ok(()) }
}

impl PieceFrame<'_> {
    /// Sends the frame. It must have at most `FRAME_PIECES_MAX` pieces.
    pub fn send(&self, stream: &mut impl Write) -> Result<()> {
        let mut head = vec![0; 8];
        head.extend((self.stripe as u64).to_le_bytes());
        head.extend((self.ranges.len() as u32).to_le_bytes());
        for range in &self.ranges {
            head.extend((range.start as u32).to_le_bytes());
            head.extend((range.len() as u32).to_le_bytes());
        }
        let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        crc.update(&head[8..]);
        crc.update(self.bytes);
        let length = (head.len() - 8 + self.bytes.len()) as u32;
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&(crc.finalize() as u32).to_le_bytes());
        stream.write_all(&head)?;
        stream.write_all(self.bytes)
    }

    /// Receives a frame into a buffer. Fails if it is longer than a stripe allows, damaged, or has
    /// pieces that end behind a stripe.
    pub fn receive<'a>(
        stream: &mut impl Read,
        stripe_bytes: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<PieceFrame<'a>> {
        let mut head = [[0; 4]; 2];
        stream.read_exact(head.as_flattened_mut())?;
        let [length, crc] = head.map(u32::from_le_bytes);
        let length = length as usize;
        if length > HEAD_BYTES + FRAME_PIECES_MAX * PIECE_BYTES + stripe_bytes {
            return Err(invalid("a frame that is too long"));
        }
        buffer.clear();
        // Grows with what arrives, not with what is announced.
        if stream.take(length as u64).read_to_end(buffer)? < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if crc_fast::crc32_iscsi(buffer) != crc {
            return Err(invalid("a damaged frame"));
        }
        PieceFrame::decode(buffer, stripe_bytes).ok_or_else(|| invalid("a malformed frame"))
    }

    fn decode(body: &[u8], stripe_bytes: usize) -> Option<PieceFrame<'_>> {
        let (stripe, body) = body.split_first_chunk::<8>()?;
        let (count, body) = body.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (table, bytes) = body.split_at_checked(count.checked_mul(PIECE_BYTES)?)?;
        let mut ranges = Vec::with_capacity(count);
        let mut sum = 0;
        for [start, length] in table.as_chunks::<4>().0.as_chunks::<2>().0 {
            let (start, length) = (u32::from_le_bytes(*start), u32::from_le_bytes(*length));
            let range = start as usize..start as usize + length as usize;
            if range.is_empty() || range.end > stripe_bytes {
                return None;
            }
            sum += range.len();
            ranges.push(range);
        }
        let stripe = usize::try_from(u64::from_le_bytes(*stripe)).ok()?;
        (sum == bytes.len()).then_some(PieceFrame { stripe, ranges, bytes })
    }

    /// The pieces, each with its bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut rest = self.bytes;
        self.ranges.iter().map(move |range| {
            let (now, later) = rest.split_at(range.len());
            rest = later;
            (range.start, now)
        })
    }
}

impl PieceAnswer {
    const ALL: [PieceAnswer; 4] =
        [PieceAnswer::Taken, PieceAnswer::Refused, PieceAnswer::Full, PieceAnswer::Closed];

    pub fn send(self, stream: &mut impl Write) -> Result<()> {
        let code = PieceAnswer::ALL.iter().position(|&it| it == self).expect("it is listed");
        stream.write_all(&[code as u8])
    }

    pub fn receive(stream: &mut impl Read) -> Result<PieceAnswer> {
        let mut code = [0];
        stream.read_exact(&mut code)?;
        let answer = PieceAnswer::ALL.get(usize::from(code[0]));
        answer.copied().ok_or_else(|| invalid("an unknown answer"))
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::os::unix::net::UnixStream;

    fn sent() -> Vec<u8> {
        let frame = PieceFrame { stripe: 7, ranges: vec![3..5, 20..30], bytes: b"abcdefghijkl" };
        let mut bytes = vec![];
        frame.send(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn frame_is_received_as_it_was_sent() {
        let (sent, mut buffer) = (sent(), vec![9; 5]);
        let frame = PieceFrame::receive(&mut &sent[..], 30, &mut buffer).unwrap();
        assert_eq!((frame.stripe, &frame.ranges[..]), (7, &[3..5, 20..30][..]));
        let pieces: Vec<(usize, &[u8])> = frame.pieces().collect();
        assert_eq!(pieces, [(3, &b"ab"[..]), (20, b"cdefghijkl")]);
        assert!(PieceFrame::receive(&mut &sent[..], 29, &mut vec![]).is_err(), "behind a stripe");
    }

    #[test]
    fn damaged_and_long_frames_are_refused() {
        let good = sent();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(
                    PieceFrame::receive(&mut &bad[..], 30, &mut vec![]).is_err(),
                    "{at}, {bit}"
                );
            }
            assert!(PieceFrame::receive(&mut &good[..at], 30, &mut vec![]).is_err(), "cut at {at}");
        }
        let mut buffer = vec![];
        let announced = [u32::MAX.to_le_bytes(), [0; 4]];
        assert!(PieceFrame::receive(&mut announced.as_flattened(), 30, &mut buffer).is_err());
        assert_eq!(buffer.capacity(), 0, "nothing is allocated for it");
    }

    #[test]
    fn malformed_frame_with_a_good_checksum_is_refused() {
        for body in [&[][..], &[0; 11], &[[0u8; 8], [255; 8]].concat()] {
            let mut frame = (body.len() as u32).to_le_bytes().to_vec();
            frame.extend(crc_fast::crc32_iscsi(body).to_le_bytes());
            frame.extend(body);
            assert!(PieceFrame::receive(&mut &frame[..], 30, &mut vec![]).is_err(), "{body:?}");
        }
    }

    #[test]
    fn owner_answers_senders_of_its_session_alone() {
        let [sender, owner] = [3, 4].map(|writer| Incarnation { writer, random: 1 << writer });
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let greeted = std::thread::spawn(move || greet(&mut there, "session-1", sender));
        assert_eq!(on_greeting(&mut here, "session-1", owner).unwrap(), sender);
        assert_eq!(greeted.join().unwrap().unwrap(), owner);
        let mut greeting = MAGIC.to_vec();
        greeting.extend(9u32.to_le_bytes());
        greeting.extend(b"session-2");
        greeting.extend(encode(sender));
        for wrong in [&greeting[..], b"EUPIECE0", b"EUPIECE1\xff\xff\xff\xff", b""] {
            assert!(on_greeting(&mut Cursor::new(wrong.to_vec()), "session-1", owner).is_err());
        }
    }
}
