//! The receiving half of a link: verifies frames and reads their bodies into pooled memory.

use std::io::{ErrorKind, IoSliceMut, Read};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_device::buffer::{SLAB_BYTES_MAX, pool};
use euphrates_flow::{Error, Result};

use crate::frame::{Caps, HEADER_BYTES, Header, HeaderRefused, checksum};

/// Bytes read ahead with the same system call. They hold the next frames if those are messages, or
/// the beginning of a batch, which is copied.
const AHEAD_BYTES: usize = 8 << 10;
/// The lowest rate at which a frame may arrive; a slower sender counts as lost (slow-loris).
const SLOWEST_BYTES_PER_SECOND: u64 = 4 << 10;

/// A received frame, with a verified header.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The decoded and verified header.
    pub header: Header,
    /// The meta, which describes the body.
    pub meta: Vec<u8>,
    /// The data, possibly empty. Of messages and batches its checksum is not verified yet.
    pub body: Buffer,
}

/// The receiving half of a connection.
///
/// ```
/// use arrow::buffer::Buffer;
/// use euphrates_wire::{Caps, FrameKind, FrameReceiver, FrameSender, Header};
///
/// let mut bytes = vec![];
/// let header = Header { flow: 7, ..Header::of(FrameKind::Control) };
/// FrameSender::new(&mut bytes).send(header, b"meta", &[Buffer::from(b"body")])?;
/// let mut receiver = FrameReceiver::new(&bytes[..], Caps::KNOWN);
/// let frame = receiver.receive()?.expect("one frame");
/// assert_eq!((frame.header.flow, frame.header.sequence, &frame.body[..]), (7, 0, &b"body"[..]));
/// assert!(receiver.receive()?.is_none(), "the other end has closed");
/// assert!(FrameReceiver::new(&bytes[..20], Caps::KNOWN).receive().is_err(), "cut off");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FrameReceiver<R> {
    stream: R,
    caps: Caps,
    sequence: u64,
    ahead: Ahead,
    /// Whether more than the current frame may be read. Not before the other end is authenticated:
    /// the next frame may pass files, which only a reader that takes them must meet.
    reads_ahead: bool,
    received_bytes: u64,
    pace: Option<ArrivalRate>,
}

/// The rate at which the current frame arrives.
#[derive(Debug)]
struct ArrivalRate {
    /// The interval at which the rate is checked.
    each: Duration,
    since: Instant,
    /// The bytes received at the last check.
    bytes: u64,
    /// Whether the rate was too low at the last check. Once may be the reader's own lack of a
    /// processor.
    was_slow: bool,
}

fn expect_whole(header: &Header, meta: &[u8], body: &[u8]) -> Result<()> {
    match checksum(header.kind, meta, [body].into_iter()) == header.crc {
        true => Ok(()),
        false => Err(Error::corrupt("a frame was damaged on its way")),
    }
}

impl<R: Read> FrameReceiver<R> {
    /// Wraps a stream from which nothing has been read yet.
    pub fn new(stream: R, caps: Caps) -> FrameReceiver<R> {
        let ahead = Ahead { bytes: vec![0; AHEAD_BYTES].into(), start: 0, end: 0 };
        let (sequence, received_bytes, pace) = (0, 0, None);
        let reads_ahead = caps != Caps::UNKNOWN;
        FrameReceiver { stream, caps, sequence, ahead, reads_ahead, received_bytes, pace }
    }

    /// Raises the caps once the other end is authenticated.
    pub fn allow(&mut self, caps: Caps) {
        self.caps = caps;
        self.reads_ahead = true;
    }

    /// Makes `receive` fail if a frame that has begun arrives at less than 4 KiB per second in two
    /// consecutive intervals.
    pub(crate) fn watch_pace(&mut self, each: Duration) {
        let (since, bytes) = (Instant::now(), self.received_bytes);
        self.pace = Some(ArrivalRate { each, since, bytes, was_slow: false });
    }

    /// The wrapped stream, for changing its options.
    pub(crate) fn stream_mut(&mut self) -> &mut R {
        &mut self.stream
    }

    /// Whether bytes of the next frame have been read already. Then the stream need not become
    /// readable for `receive` to return.
    pub fn has_buffered(&self) -> bool {
        self.ahead.start < self.ahead.end
    }

    /// The next frame; `None` if the other end has closed the connection between two frames.
    pub fn receive(&mut self) -> Result<Option<Frame>> {
        let Some((header, meta)) = self.receive_head()? else { return Ok(None) };
        let body = match usize::try_from(header.body_bytes).map_err(Error::resource)? {
            0 => Buffer::from(&[][..]),
            bytes => self.body(bytes)?,
        };
        expect_whole(&header, &meta, &body)?;
        Ok(Some(Frame { header, meta, body }))
    }

    /// The beginning of the next frame: its header and meta. The caller receives the body, whose
    /// length the header has, before the next frame.
    pub(crate) fn receive_head(&mut self) -> Result<Option<(Header, Vec<u8>)>> {
        let mut head = [0; HEADER_BYTES];
        // Frames may be any time apart, but one that has begun must go on.
        match self.fill_some(&mut head[..1])? {
            0 => return Ok(None),
            _ => self.begin_pace(),
        }
        self.fill(&mut head[1..])?;
        let header = Header::decode(&head, self.caps).map_err(refused)?;
        if header.sequence != self.sequence {
            let message = format!("frame {} where {} was due", header.sequence, self.sequence);
            return Err(Error::corrupt(message));
        }
        self.sequence += 1;
        let mut meta = vec![0; header.meta_bytes as usize];
        self.fill(&mut meta)?;
        Ok(Some((header, meta)))
    }

    /// Receives the body of a frame into memory of its length.
    pub(crate) fn receive_body(
        &mut self,
        (header, meta): &(Header, Vec<u8>),
        body: &mut [u8],
    ) -> Result<()> {
        debug_assert_eq!(header.body_bytes, body.len() as u64);
        self.fill(body)?;
        expect_whole(header, meta, body)
    }

    /// Receives a body. A large one gets memory as it arrives, doubled each time, so that an
    /// announced length costs nothing before the bytes are sent.
    fn body(&mut self, bytes: usize) -> Result<Buffer> {
        let mut slab = pool().take(bytes.min(SLAB_BYTES_MAX))?;
        self.fill(&mut slab)?;
        while slab.len() < bytes {
            let filled = slab.len();
            let mut larger = pool().take(bytes.min(2 * filled))?;
            larger[..filled].copy_from_slice(&slab);
            self.fill(&mut larger[filled..])?;
            slab = larger;
        }
        Ok(slab.into_arrow())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        if self.fill_some(bytes)? == bytes.len() {
            return Ok(());
        }
        Err(lost(ErrorKind::UnexpectedEof.into()))
    }

    /// Fills `bytes` and returns how many were received; fewer only if the stream has ended.
    fn fill_some(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut filled = self.ahead.take(bytes);
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            let wanted = rest.len();
            let ahead: &mut [u8] = if self.reads_ahead { &mut self.ahead.bytes } else { &mut [] };
            let mut slices = [IoSliceMut::new(rest), IoSliceMut::new(ahead)];
            match self.stream.read_vectored(&mut slices) {
                Ok(0) => break,
                Ok(read) => {
                    filled += read.min(wanted);
                    (self.ahead.start, self.ahead.end) = (0, read.saturating_sub(wanted));
                    self.received_bytes += read as u64;
                    self.check_pace()?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(filled)
    }

    fn begin_pace(&mut self) {
        if let Some(pace) = &mut self.pace {
            *pace = ArrivalRate {
                since: Instant::now(),
                bytes: self.received_bytes,
                was_slow: false,
                ..*pace
            };
        }
    }

    fn check_pace(&mut self) -> Result<()> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        let took = pace.since.elapsed();
        if took < pace.each {
            return Ok(());
        }
        let came = self.received_bytes - pace.bytes;
        let is_slow = came < (took.as_secs_f64() * SLOWEST_BYTES_PER_SECOND as f64) as u64;
        let was_slow = std::mem::replace(&mut pace.was_slow, is_slow);
        (pace.since, pace.bytes) = (Instant::now(), self.received_bytes);
        if !is_slow || !was_slow {
            return Ok(());
        }
        let seconds = took.as_secs_f64();
        Err(Error::resource(format!("{came} bytes of a frame came in {seconds:.1} s"))
            .remedy("look at the load of the other end, and at the network between"))
    }
}

/// Bytes that were read ahead.
#[derive(Debug)]
struct Ahead {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Ahead {
    fn take(&mut self, out: &mut [u8]) -> usize {
        let taken = out.len().min(self.end - self.start);
        out[..taken].copy_from_slice(&self.bytes[self.start..][..taken]);
        self.start += taken;
        taken
    }
}

fn refused(why: HeaderRefused) -> Error {
    let error = Error::corrupt(why);
    match why {
        HeaderRefused::Version(_) => {
            error.remedy("install the same version of Euphrates on every machine")
        }
        HeaderRefused::Magic => {
            error.remedy("look whether the address is that of a worker of Euphrates")
        }
        HeaderRefused::TooLarge { .. } => {
            error.remedy("make batches smaller, or let both ends allow more")
        }
        HeaderRefused::Header | HeaderRefused::Kind(_) => error,
    }
}

/// Converts an error of the stream; one that wraps an `Error` is unwrapped.
pub(crate) fn lost(error: std::io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| {
        Error::resource(format!("the connection was lost in the middle of a frame: {error}"))
    })
}
