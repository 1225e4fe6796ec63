//! The sending half of a link: numbers frames and writes them from their own buffers.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::OwnedFd;

use arrow::buffer::Buffer;

use crate::frame::{HEADER_BYTES, Header, checksum};

/// Buffers per system call, at most: the kernel's limit (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;
/// A frame to send; sending fills in lengths, sequence number and checksum of its header.
#[derive(Debug)]
pub struct Outgoing {
    /// The header without lengths, sequence number and checksum.
    pub header: Header,
    /// The meta, which describes the body.
    pub meta: Vec<u8>,
    /// The data, in consecutive buffers.
    pub body: Vec<Buffer>,
    pub(crate) shared: Option<SharedPart>,
}

/// What a frame says of shared memory.
#[derive(Debug)]
pub(crate) enum SharedPart {
    /// Its body, of this length, is in a slab.
    Body { bytes: usize },
    /// It offers a slab, whose files are passed with it.
    Slab([OwnedFd; 2]),
}

impl Outgoing {
    /// A frame whose body is sent with it.
    pub fn new(header: Header, meta: Vec<u8>, body: Vec<Buffer>) -> Outgoing {
        Outgoing { header, meta, body, shared: None }
    }

    /// The encoded length, header included, and that of a body in shared memory.
    pub fn bytes(&self) -> usize {
        let placed = match self.shared {
            Some(SharedPart::Body { bytes }) => bytes,
            Some(SharedPart::Slab(_)) | None => 0,
        };
        let body = self.body.iter().map(Buffer::len).sum::<usize>();
        HEADER_BYTES + self.meta.len() + body + placed
    }

    /// The files to pass with the frame.
    pub(crate) fn take_files(&mut self) -> Option<[OwnedFd; 2]> {
        match self.shared.take() {
            Some(SharedPart::Slab(files)) => Some(files),
            other => {
                self.shared = other;
                None
            }
        }
    }
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct FrameSender<W> {
    out: W,
    sequence: u64,
}

impl<W: Write> FrameSender<W> {
    /// Wraps a stream on which nothing has been sent yet.
    pub fn new(out: W) -> FrameSender<W> {
        FrameSender { out, sequence: 0 }
    }

    /// Sends a frame; lengths, sequence number and checksum of the header are filled in.
    pub fn send(&mut self, header: Header, meta: &[u8], body: &[Buffer]) -> io::Result<()> {
        let frame = Outgoing::new(header, meta.to_vec(), body.to_vec());
        let mut sending = self.begin(vec![frame])?;
        match self.go_on(&mut sending)? {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// As `send`, with a body that the caller keeps; waits until all is sent.
    pub(crate) fn send_borrowed(
        &mut self,
        header: Header,
        meta: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let header = Header {
            sequence: self.sequence,
            meta_bytes: u32::try_from(meta.len()).map_err(io::Error::other)?,
            body_bytes: body.len() as u64,
            crc: checksum(header.kind, meta, [body].into_iter()),
            ..header
        };
        self.sequence += 1;
        let head = header.encode();
        let mut parts = [&head[..], meta, body].map(IoSlice::new);
        let mut rest = &mut parts[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.out.write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.flush()
    }

    /// Encodes the headers of frames that are sent together, in one system call if they are small.
    pub(crate) fn begin(&mut self, frames: Vec<Outgoing>) -> io::Result<FramesInFlight> {
        let heads = frames.iter().map(|frame| self.head(frame)).collect::<io::Result<_>>()?;
        Ok(FramesInFlight { heads, frames, sent: 0 })
    }

    /// Sends the rest of some frames; false if the stream would block.
    pub(crate) fn go_on(&mut self, sending: &mut FramesInFlight) -> io::Result<bool> {
        let FramesInFlight { heads, frames, sent } = sending;
        let parts = heads.iter().zip(frames.iter()).flat_map(|(head, frame)| {
            let body = frame.body.iter().map(Buffer::as_slice);
            [&head[..], &frame.meta].into_iter().chain(body)
        });
        let mut slices: Vec<IoSlice<'_>> =
            parts.filter(|part| !part.is_empty()).map(IoSlice::new).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, *sent);
        loop {
            let now = rest.len().min(SLICES_MAX);
            let done = match now {
                0 => self.out.flush(),
                _ => self.out.write_vectored(&rest[..now]).and_then(|written| {
                    IoSlice::advance_slices(&mut rest, written);
                    *sent += written;
                    if written == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(()) }
                }),
            };
            match done {
                Ok(()) if now == 0 => return Ok(true),
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// The wrapped stream, for changing its options.
    pub(crate) fn stream_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn head(&mut self, frame: &Outgoing) -> io::Result<[u8; HEADER_BYTES]> {
        let header = Header {
            sequence: self.sequence,
            meta_bytes: u32::try_from(frame.meta.len()).map_err(io::Error::other)?,
            body_bytes: frame.body.iter().map(|part| part.len() as u64).sum(),
            crc: checksum(frame.header.kind, &frame.meta, frame.body.iter().map(Buffer::as_slice)),
            ..frame.header
        };
        self.sequence += 1;
        Ok(header.encode())
    }
}

/// Frames that are being sent, and how many bytes have been.
#[derive(Debug)]
pub(crate) struct FramesInFlight {
    heads: Vec<[u8; HEADER_BYTES]>,
    frames: Vec<Outgoing>,
    sent: usize,
}

impl FramesInFlight {
    /// The encoded length of all frames.
    pub fn bytes(&self) -> usize {
        self.frames.iter().map(Outgoing::bytes).sum()
    }
}
