//! Frame I/O: sends and receives frames over any byte stream, without copying batches.
//!
//! Frames are sent from the batch's own buffers, many per system call, and received into a slab of
//! the buffer pool, aligned as Arrow requires. Only the kernel copies a batch.

mod receiving;
mod sending;

pub(crate) use receiving::lost;
pub use receiving::{Frame, FrameReceiver};
pub use sending::{FrameSender, Outgoing};
pub(crate) use sending::{FramesInFlight, SharedPart};

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use arrow::buffer::Buffer;

    use super::*;
    use crate::frame::{Caps, FrameKind, Header};

    fn header(kind: FrameKind) -> Header {
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
                let mut sender = FrameSender::new(out);
                sender.send(header(FrameKind::Hello), b"me", &[]).unwrap();
                sender.send(header(FrameKind::Batch), b"", &parts).unwrap();
                sender.send(header(FrameKind::Bye), b"", &[]).unwrap();
            });
            let mut receiver = FrameReceiver::new(stream, Caps::KNOWN);
            let hello = receiver.receive().unwrap().unwrap();
            assert_eq!((hello.header.kind, hello.meta.as_slice()), (FrameKind::Hello, &b"me"[..]));
            let batch = receiver.receive().unwrap().unwrap();
            assert_eq!(batch.header.sequence, 1);
            assert!(batch.body.as_slice() == all);
            assert_eq!(batch.body.as_ptr() as usize % 64, 0, "aligned as Arrow wants it");
            assert_eq!(receiver.receive().unwrap().unwrap().header.kind, FrameKind::Bye);
            assert!(receiver.receive().unwrap().is_none());
            sending.join().unwrap();
        }
    }

    #[test]
    fn frame_read_ahead_is_reported_as_buffered() {
        let mut both = vec![];
        let mut sender = FrameSender::new(&mut both);
        sender.send(header(FrameKind::Control), b"one", &[]).unwrap();
        sender.send(header(FrameKind::Control), b"two", &[]).unwrap();
        let mut receiver = FrameReceiver::new(&both[..], Caps::KNOWN);
        assert!(!receiver.has_buffered());
        receiver.receive().unwrap().unwrap();
        assert!(receiver.has_buffered());
        receiver.receive().unwrap().unwrap();
        assert!(!receiver.has_buffered());
    }

    fn sent(kind: FrameKind, meta: &[u8], body: &[Buffer]) -> Vec<u8> {
        let mut bytes = vec![];
        FrameSender::new(&mut bytes).send(header(kind), meta, body).unwrap();
        bytes
    }

    #[test]
    fn end_of_stream_is_an_error_only_within_a_frame() {
        let whole = sent(FrameKind::Batch, b"meta", &[Buffer::from(vec![1; 100])]);
        for cut in 1..whole.len() {
            let mut receiver = FrameReceiver::new(&whole[..cut], Caps::KNOWN);
            let error = receiver.receive().unwrap_err();
            assert!(error.to_string().contains("lost in the middle"), "{cut}: {error}");
        }
        assert!(FrameReceiver::new(&whole[..0], Caps::KNOWN).receive().unwrap().is_none());
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
        let whole = sent(FrameKind::Batch, b"meta", &[Buffer::from(vec![1; 100])]);
        for (pauses, comes) in [(2, true), (9, false)] {
            let mut receiver = FrameReceiver::new(Pauses(&whole, pauses), Caps::KNOWN);
            receiver.watch_pace(Duration::from_millis(10));
            // Eight bytes in 20 ms are 400 a second.
            assert_eq!(receiver.receive().is_ok(), comes, "{pauses}");
        }
    }

    #[test]
    fn damaged_repeated_and_oversized_frames_are_refused() {
        let mut damaged = sent(FrameKind::Message, b"letter", &[]);
        *damaged.last_mut().unwrap() ^= 1;
        let refused = |bytes: &[u8], caps| {
            let mut receiver = FrameReceiver::new(bytes, caps);
            loop {
                match receiver.receive() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("accepted"),
                    Err(error) => return error.to_string(),
                }
            }
        };
        assert!(refused(&damaged, Caps::KNOWN).contains("damaged"));
        let message = sent(FrameKind::Message, b"letter", &[]);
        assert!(refused(&message.repeat(2), Caps::KNOWN).contains("frame 0 where 1 was due"));
        let large = sent(FrameKind::Hello, &vec![0; 70_000], &[]);
        assert!(refused(&large, Caps::UNKNOWN).contains("4096 are allowed"));
    }
}
