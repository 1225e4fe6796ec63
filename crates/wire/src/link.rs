//! Frame I/O: sends and receives frames over any byte stream, without copying batches.
//!
//! Frames are sent from the batch's own buffers, many per system call, and received into a slab of
//! the buffer pool, aligned as Arrow requires. Only the kernel copies a batch.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_io::buffer::{SLAB_BYTES_MAX, pool};

use crate::frame::{Caps, HEADER_BYTES, Header, Refused, checksum};

/// Buffers per system call, at most: the kernel's limit (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;
/// Bytes read ahead with the same system call. They hold the next frames if those are messages, or
/// the beginning of a batch, which is copied.
const AHEAD_BYTES: usize = 8 << 10;
/// The lowest rate at which a frame may arrive; a slower sender counts as lost (slow-loris).
const SLOWEST_BYTES_PER_SECOND: u64 = 4 << 10;

/// A received frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The decoded and verified header.
    pub header: Header,
    /// The meta, which describes the body.
    pub meta: Vec<u8>,
    /// The data, possibly empty. Of messages and batches its checksum is not verified yet.
    pub body: Buffer,
}

/// A frame to send; sending fills in lengths, sequence number and checksum of its header.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The header without lengths, sequence number and checksum.
    pub header: Header,
    /// The meta, which describes the body.
    pub meta: Vec<u8>,
    /// The data, in consecutive buffers.
    pub body: Vec<Buffer>,
}

impl Outgoing {
    /// The encoded length, header included.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.meta.len() + self.body.iter().map(Buffer::len).sum::<usize>()
    }
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct Sender<W> {
    out: W,
    sequence: u64,
}

impl<W: Write> Sender<W> {
    /// Wraps a stream on which nothing has been sent yet.
    pub fn new(out: W) -> Sender<W> {
        Sender { out, sequence: 0 }
    }

    /// Sends a frame; lengths, sequence number and checksum of the header are filled in.
    pub fn send(&mut self, header: Header, meta: &[u8], body: &[Buffer]) -> io::Result<()> {
        let frame = Outgoing { header, meta: meta.to_vec(), body: body.to_vec() };
        let mut sending = self.begin(vec![frame])?;
        match self.go_on(&mut sending)? {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Encodes the headers of frames that are sent together, in one system call if they are small.
    pub(crate) fn begin(&mut self, frames: Vec<Outgoing>) -> io::Result<Sending> {
        let heads = frames.iter().map(|frame| self.head(frame)).collect::<io::Result<_>>()?;
        Ok(Sending { heads, frames, sent: 0 })
    }

    /// Sends the rest of some frames; false if the stream would block.
    pub(crate) fn go_on(&mut self, sending: &mut Sending) -> io::Result<bool> {
        let Sending { heads, frames, sent } = sending;
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

    /// The wrapped stream.
    pub fn stream(&self) -> &W {
        &self.out
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
pub(crate) struct Sending {
    heads: Vec<[u8; HEADER_BYTES]>,
    frames: Vec<Outgoing>,
    sent: usize,
}

impl Sending {
    /// The encoded length of all frames.
    pub fn bytes(&self) -> usize {
        self.frames.iter().map(Outgoing::bytes).sum()
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Receiver<R> {
    stream: R,
    caps: Caps,
    sequence: u64,
    ahead: Ahead,
    received_bytes: u64,
    pace: Option<Pace>,
}

/// The rate at which the current frame arrives.
#[derive(Debug)]
struct Pace {
    /// The interval at which the rate is checked.
    each: Duration,
    since: Instant,
    /// The bytes received at the last check.
    bytes: u64,
    /// Whether the rate was too low at the last check. Once may be the reader's own lack of a
    /// processor.
    was_slow: bool,
}

impl<R: Read> Receiver<R> {
    /// Wraps a stream from which nothing has been read yet.
    pub fn new(stream: R, caps: Caps) -> Receiver<R> {
        let ahead = Ahead { bytes: vec![0; AHEAD_BYTES].into(), start: 0, end: 0 };
        Receiver { stream, caps, sequence: 0, ahead, received_bytes: 0, pace: None }
    }

    /// Raises the caps once the other end is authenticated.
    pub fn allow(&mut self, caps: Caps) {
        self.caps = caps;
    }

    /// Makes `receive` fail if a frame that has begun arrives at less than 4 KiB per second in two
    /// consecutive intervals.
    pub(crate) fn watch_pace(&mut self, each: Duration) {
        let (since, bytes) = (Instant::now(), self.received_bytes);
        self.pace = Some(Pace { each, since, bytes, was_slow: false });
    }

    /// The wrapped stream, for changing its options.
    pub(crate) fn stream_mut(&mut self) -> &mut R {
        &mut self.stream
    }

    /// Bytes received so far.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Whether bytes of the next frame have been read already. Then the stream need not become
    /// readable for `receive` to return.
    pub fn has_buffered(&self) -> bool {
        self.ahead.start < self.ahead.end
    }

    /// The next frame; `None` if the other end has closed the connection between two frames.
    pub fn receive(&mut self) -> Result<Option<Frame>> {
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
        let body = match usize::try_from(header.body_bytes).map_err(Error::resource)? {
            0 => Buffer::from(&[][..]),
            bytes => self.body(bytes)?,
        };
        if checksum(header.kind, &meta, [body.as_slice()].into_iter()) != header.crc {
            return Err(Error::corrupt("a frame was damaged on its way"));
        }
        Ok(Some(Frame { header, meta, body }))
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
            let mut slices = [IoSliceMut::new(rest), IoSliceMut::new(&mut self.ahead.bytes)];
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
            *pace = Pace {
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

fn refused(why: Refused) -> Error {
    let error = Error::corrupt(why);
    match why {
        Refused::Version(_) => {
            error.remedy("install the same version of Euphrates on every machine")
        }
        Refused::Magic => error.remedy("look whether the address is that of a worker of Euphrates"),
        Refused::TooLarge { .. } => {
            error.remedy("make batches smaller, or let both ends allow more")
        }
        Refused::Header | Refused::Kind(_) => error,
    }
}

/// Converts an error of the stream; one that wraps an `Error` is unwrapped.
pub(crate) fn lost(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| {
        Error::resource(format!("the connection was lost in the middle of a frame: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use crate::frame::Kind;

    fn header(kind: Kind) -> Header {
        Header { flow: 7, epoch: 1, queue: 2, producer: 3, consumer: 4, ..Header::of(kind) }
    }

    /// Both ends of a connected pair, for every kind of socket.
    fn carriers() -> Vec<(Box<dyn Write + Send>, Box<dyn Read>)> {
        let (one, other) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let there = listener.accept().unwrap().0;
        vec![(Box::new(one), Box::new(other)), (Box::new(here), Box::new(there))]
    }

    #[test]
    fn frames_roundtrip_over_every_socket_kind() {
        for (out, stream) in carriers() {
            // More buffers than one system call takes, and more bytes than a socket holds.
            let parts: Vec<Buffer> =
                (0..3000_usize).map(|n| Buffer::from(vec![n as u8; n % 7 * 500])).collect();
            let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            let sending = thread::spawn(move || {
                let mut sender = Sender::new(out);
                sender.send(header(Kind::Hello), b"me", &[]).unwrap();
                sender.send(header(Kind::Batch), b"", &parts).unwrap();
                sender.send(header(Kind::Bye), b"", &[]).unwrap();
            });
            let mut receiver = Receiver::new(stream, Caps::KNOWN);
            let hello = receiver.receive().unwrap().unwrap();
            assert_eq!((hello.header.kind, hello.meta.as_slice()), (Kind::Hello, &b"me"[..]));
            let batch = receiver.receive().unwrap().unwrap();
            assert_eq!(batch.header.sequence, 1);
            assert!(batch.body.as_slice() == all);
            assert_eq!(batch.body.as_ptr() as usize % 64, 0, "aligned as Arrow wants it");
            assert_eq!(receiver.receive().unwrap().unwrap().header.kind, Kind::Bye);
            assert!(receiver.receive().unwrap().is_none());
            sending.join().unwrap();
        }
    }

    #[test]
    fn frame_read_ahead_is_reported_as_buffered() {
        let mut both = vec![];
        let mut sender = Sender::new(&mut both);
        sender.send(header(Kind::Control), b"one", &[]).unwrap();
        sender.send(header(Kind::Control), b"two", &[]).unwrap();
        let mut receiver = Receiver::new(&both[..], Caps::KNOWN);
        assert!(!receiver.has_buffered());
        receiver.receive().unwrap().unwrap();
        assert!(receiver.has_buffered());
        receiver.receive().unwrap().unwrap();
        assert!(!receiver.has_buffered());
    }

    fn sent(kind: Kind, meta: &[u8], body: &[Buffer]) -> Vec<u8> {
        let mut bytes = vec![];
        Sender::new(&mut bytes).send(header(kind), meta, body).unwrap();
        bytes
    }

    #[test]
    fn end_of_stream_is_an_error_only_within_a_frame() {
        let whole = sent(Kind::Batch, b"meta", &[Buffer::from(vec![1; 100])]);
        for cut in 1..whole.len() {
            let mut receiver = Receiver::new(&whole[..cut], Caps::KNOWN);
            let error = receiver.receive().unwrap_err();
            assert!(error.to_string().contains("lost in the middle"), "{cut}: {error}");
        }
        assert!(Receiver::new(&whole[..0], Caps::KNOWN).receive().unwrap().is_none());
    }

    /// A reader that returns eight bytes after each pause, then the rest.
    struct Pauses<'a>(&'a [u8], usize);

    impl Read for Pauses<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let paused = self.1 > 0;
            if paused {
                thread::sleep(Duration::from_millis(20));
                self.1 -= 1;
            }
            let count = out.len().min(if paused { 8 } else { self.0.len() });
            self.0.read(&mut out[..count])
        }
    }

    #[test]
    fn frame_may_pause_once_but_not_arrive_slowly() {
        let whole = sent(Kind::Batch, b"meta", &[Buffer::from(vec![1; 100])]);
        for (pauses, comes) in [(2, true), (9, false)] {
            let mut receiver = Receiver::new(Pauses(&whole, pauses), Caps::KNOWN);
            receiver.watch_pace(Duration::from_millis(10));
            // Eight bytes in 20 ms are 400 a second.
            assert_eq!(receiver.receive().is_ok(), comes, "{pauses}");
        }
    }

    #[test]
    fn damaged_repeated_and_oversized_frames_are_refused() {
        let mut damaged = sent(Kind::Message, b"letter", &[]);
        *damaged.last_mut().unwrap() ^= 1;
        let refused = |bytes: &[u8], caps| {
            let mut receiver = Receiver::new(bytes, caps);
            loop {
                match receiver.receive() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("accepted"),
                    Err(error) => return error.to_string(),
                }
            }
        };
        assert!(refused(&damaged, Caps::KNOWN).contains("damaged"));
        let message = sent(Kind::Message, b"letter", &[]);
        assert!(refused(&message.repeat(2), Caps::KNOWN).contains("frame 0 where 1 was due"));
        let large = sent(Kind::Hello, &vec![0; 70_000], &[]);
        assert!(refused(&large, Caps::UNKNOWN).contains("4096 are allowed"));
    }
}
