//! Fuzz targets: everything that decodes bytes of unauthenticated peers.
//!
//! Run by cargo-fuzz, and without it by `tests/fuzz.rs`. No target may panic, hang, or accept
//! invalid input.

use std::io::sink;

use euphrates_policy::distributed::{ToConsumer, ToProducer};
use euphrates_wire::active::ActiveMeta;
use euphrates_wire::frame::HEADER_BYTES;
use euphrates_wire::message::Message;
use euphrates_wire::shared_memory::announcement::PlacedBody;
use euphrates_wire::{
    Address, Caps, FrameKind, FrameReceiver, FrameSender, Greeting, Header, Secret, block,
    handshake,
};

/// A stream of frames: accepted frames encode to the bytes they were decoded from.
pub fn frame(data: &[u8]) {
    let caps = Caps { meta_bytes_max: 1 << 16, body_bytes_max: 1 << 16 };
    for bytes in [data.to_vec(), mended(data)] {
        let mut receiver = FrameReceiver::new(&bytes[..], caps);
        let (mut again, mut at) = (vec![], 0);
        let mut sender = FrameSender::new(&mut again);
        while let Ok(Some(frame)) = receiver.receive() {
            at += HEADER_BYTES + frame.meta.len() + frame.body.len();
            sender.send(frame.header, &frame.meta, &[frame.body]).expect("a vector takes all");
        }
        assert_eq!(again, bytes[..at], "another frame came");
    }
}

/// The same bytes with a valid checksum in the first header, so that more than checksums is tested.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if let Some(header) = bytes.first_chunk_mut::<HEADER_BYTES>() {
        header[..4].copy_from_slice(b"EUPH");
        header[4..6].copy_from_slice(&euphrates_wire::frame::VERSION.to_le_bytes());
        let crc = euphrates_wire::frame::crc32c(&header[..HEADER_BYTES - 4]);
        header[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// A message of a queue: read, it is written as it was.
pub fn message(data: &[u8]) {
    fn check<M: Message>(data: &[u8]) {
        if let Ok(message) = M::read(data) {
            let mut again = vec![];
            message.write(&mut again);
            assert_eq!(again, data);
        }
    }
    check::<ToConsumer>(data);
    check::<ToProducer>(data);
}

/// A block's description: accepted offsets lie within the body.
pub fn block(data: &[u8]) {
    let Some((length, meta)) = data.split_first_chunk() else { return };
    let body_bytes = u64::from_le_bytes(*length);
    if let Ok((block, rest)) = block::read(meta, body_bytes) {
        assert_eq!(block.bytes, body_bytes);
        assert!(u64::from(block.batch_at) + u64::from(block.meta_bytes) <= body_bytes);
        let mut again = vec![];
        block::write(&block, &mut again);
        again.extend(rest);
        assert_eq!(again, meta);
    }
}

/// Where a body is in shared memory: read, it is written as it was.
pub fn placed_body(data: &[u8]) {
    if let Ok((meta, placed)) = PlacedBody::read(data) {
        let mut again = meta.to_vec();
        placed.write(&mut again);
        assert_eq!(again, data);
    }
}

/// What a frame says of active messages: read, it is written as it was.
pub fn active(data: &[u8]) {
    for body_bytes in [0, 1, u64::MAX] {
        if let Ok(meta) = ActiveMeta::read(data, body_bytes) {
            assert_eq!(meta.encode(), data);
        }
    }
}

/// Greetings, addresses and secrets: accepted ones roundtrip.
pub fn greeting(data: &[u8]) {
    if let Ok(greeting) = Greeting::decode(data) {
        let again = greeting.encode().expect("what was read can be said");
        assert_eq!(Greeting::decode(&again).expect("and read again"), greeting);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(address) = text.parse::<Address>() {
            assert_eq!(address.to_string(), text);
        }
        if let Ok(secret) = Secret::parse(text) {
            assert_eq!(secret.to_text(), text.to_ascii_lowercase());
        }
    }
}

/// A handshake with a peer that does not know the secret fails on either side.
pub fn handshake(data: &[u8]) {
    let secret = Secret::parse(&"5".repeat(64)).expect("a secret");
    let me = Greeting {
        name: "w1".into(),
        purpose: "batches".into(),
        flow: 7,
        epoch: 1,
        lane: 0,
        program: "0.1.0".into(),
        silence_ms: 0,
        caps: Caps::KNOWN,
        abilities: vec!["a".into()],
    };
    for bytes in [data.to_vec(), mended(data), framed(data)] {
        let receiver = || FrameReceiver::new(&bytes[..], Caps::UNKNOWN);
        let (keys, vouch) = (|_| Some(secret.clone()), |_: &Greeting| Ok(()));
        let mut sender = FrameSender::new(sink());
        let answered = handshake::answer(&mut sender, &mut receiver(), &me, keys, vouch);
        assert!(answered.is_err(), "a stranger was let in");
        let mut sender = FrameSender::new(sink());
        let called = handshake::call(&mut sender, &mut receiver(), &me, &secret, vouch);
        assert!(called.is_err(), "a stranger was believed");
    }
}

/// Valid frames made from bytes: one byte for the kind, one for a quarter of the length, then the
/// content.
fn framed(mut data: &[u8]) -> Vec<u8> {
    let kinds = [
        FrameKind::Hello,
        FrameKind::Welcome,
        FrameKind::Bye,
        FrameKind::Control,
        FrameKind::Batch,
    ];
    let mut bytes = vec![];
    let mut sender = FrameSender::new(&mut bytes);
    while let [kind, length, rest @ ..] = data {
        let (meta, rest) = rest.split_at(rest.len().min(4 * usize::from(*length)));
        let header = Header::of(kinds[usize::from(*kind) % kinds.len()]);
        sender.send(header, meta, &[]).expect("a vector takes all");
        data = rest;
    }
    bytes
}
