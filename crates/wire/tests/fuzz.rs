//! Runs the fuzz targets without a fuzzer, over the corpus and random mutations of it.
//!
//! A failing run prints its seed; set `EUPHRATES_SEED` to repeat it.

mod common;
#[path = "../fuzz/targets.rs"]
mod targets;

use std::fs;
use std::path::PathBuf;

use common::random::Random;
use euphrates_policy::distributed::{Piece, Stock, ToConsumer, ToProducer};
use euphrates_store::segment::Block;
use euphrates_wire::active::{
    ActiveContent, ActiveMeta, DataKind, Envelope, RegionPlace, ReturnReason,
};
use euphrates_wire::message::Message;
use euphrates_wire::shared_memory::announcement::PlacedBody;
use euphrates_wire::{Caps, FrameKind, FrameSender, Greeting, Header, block};

/// Mutations of the corpus per target.
const ROUNDS: usize = 50_000;
type Target = (&'static str, fn(&[u8]));
const TARGETS: [Target; 7] = [
    ("frame", targets::frame),
    ("message", targets::message),
    ("block", targets::block),
    ("placed_body", targets::placed_body),
    ("active", targets::active),
    ("greeting", targets::greeting),
    ("handshake", targets::handshake),
];

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn no_mutation_of_the_corpus_breaks_a_target() {
    let seed = match std::env::var("EUPHRATES_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
    };
    eprintln!("EUPHRATES_SEED={seed}");
    let mut random = Random(seed);
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty());
        seeds.iter().for_each(|bytes| target(bytes));
        target(&[]);
        for _ in 0..ROUNDS {
            let mut bytes = random.of(&seeds).clone();
            for _ in 0..=random.below(4) {
                random.change(&mut bytes, &seeds);
            }
            target(&bytes);
        }
    }
}

impl Random {
    fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = *self.of(&[0, 1, 7, 0x7f, 0x80, 0xff]),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, self.next() as u8),
            4 => {
                let more = self.below(300);
                bytes.extend(std::iter::repeat_with(|| self.next() as u8).take(more));
            }
            5 => {
                let end = at + self.below(bytes.len() - at);
                bytes.extend_from_within(at..end);
            }
            _ => {
                let other = self.of(others);
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
        }
    }
}

// --- the corpus --------------------------------------------------------------------------------

/// Writes the corpus: one valid example of everything. Findings of a fuzzer are added under other
/// names.
#[test]
#[ignore = "writes files of the source tree"]
fn corpus_is_written() {
    let keep = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(corpus(target)).unwrap();
        fs::write(corpus(target).join(name), bytes).unwrap();
    };
    let frames = |frames: &[(FrameKind, &[u8], &[u8])]| {
        let mut bytes = vec![];
        let mut sender = FrameSender::new(&mut bytes);
        for (kind, meta, body) in frames {
            let header = Header { flow: 7, epoch: 1, queue: 2, ..Header::of(*kind) };
            sender.send(header, meta, &[arrow::buffer::Buffer::from(*body)]).unwrap();
        }
        bytes
    };
    let whole: [(FrameKind, &[u8], &[u8]); 4] = [
        (FrameKind::Message, b"letter", b""),
        (FrameKind::Batch, b"meta", &[5; 100]),
        (FrameKind::Beat, b"", b""),
        (FrameKind::Bye, b"", b""),
    ];
    keep("frame", "message", &frames(&whole[..1]));
    keep("frame", "stream", &frames(&whole));

    let piece = Piece { batch: 3, from: 1, to: 5, bytes: 1 << 20 };
    let stock = Stock { ready: 2, left_bytes: 9 };
    let written = |message: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = vec![];
        message(&mut bytes);
        bytes
    };
    let give = ToConsumer::Give { piece, stock, waited: true };
    let request = ToProducer::Request { mib_ns: 1, answer_ns: 2, left_typical: 3, wait: true };
    keep("message", "give", &written(&|out| give.write(out)));
    keep("message", "recall", &written(&|out| ToConsumer::Recall(piece).write(out)));
    keep("message", "request", &written(&|out| request.write(out)));
    keep("message", "withdraw", &written(&|out| ToProducer::Withdraw.write(out)));

    let described = Block { bytes: 1 << 20, rows: 10_486, meta_bytes: 320, ..Block::default() };
    let meta = written(&|out| block::write(&described, out));
    keep("block", "block", &[&described.bytes.to_le_bytes()[..], &meta, b"letter"].concat());

    let placed =
        PlacedBody { kind: FrameKind::Batch, slab: 1, offset: 8192, bytes: 1 << 20, ticket: 3 };
    keep("placed_body", "placed", &[&b"letter"[..], &written(&|out| placed.write(out))].concat());

    let envelope = |data| Envelope { handler: 3, arguments: [1, 2, 3, 4, 5, 6, 7, 8], data };
    let place = RegionPlace { key: 1, offset: 4096 };
    let contents = [
        ("request", ActiveContent::Request { number: 9, envelope: envelope(DataKind::Short) }),
        (
            "reply",
            ActiveContent::Reply {
                number: 9,
                answers: 5,
                envelope: envelope(DataKind::Bulk(place)),
            },
        ),
        ("acknowledgement", ActiveContent::Acknowledgement),
        ("returned", ActiveContent::Returned { number: 9, reason: ReturnReason::NoHandler }),
    ];
    for (name, content) in contents {
        keep("active", name, &ActiveMeta { handled: 7, content }.encode());
    }

    let greeting = Greeting {
        name: "w2".into(),
        purpose: "batches".into(),
        flow: 7,
        epoch: 1,
        lane: 3,
        program: "0.1.0".into(),
        silence_ms: 0,
        caps: Caps::KNOWN,
        abilities: vec!["a".into(), "b".into()],
    };
    let text = greeting.encode().unwrap();
    keep("greeting", "greeting", &text);
    keep("greeting", "unix", b"unix:/run/euphrates/w2");
    keep("greeting", "tcp", b"[::1]:4400");
    keep("greeting", "secret", "0123456789abcdef".repeat(4).as_bytes());

    let hello = [&[7; 32][..], &text].concat();
    let welcome = [&[9; 32][..], &hello].concat();
    keep(
        "handshake",
        "hello",
        &frames(&[(FrameKind::Hello, &hello, b""), (FrameKind::Hello, &[1; 32], b"")]),
    );
    keep("handshake", "welcome", &frames(&[(FrameKind::Welcome, &welcome, b"")]));
    let refusal = br#"{"refused":"no","remedy":"ask again"}"#;
    keep("handshake", "refusal", &frames(&[(FrameKind::Bye, refusal, b"")]));
    // As `targets::framed` reads it: kind, a quarter of the length, content.
    let padded = |kind: u8, meta: &[u8]| {
        let length = meta.len().div_ceil(4);
        let mut bytes = vec![kind, length as u8];
        bytes.extend(meta);
        bytes.resize(2 + 4 * length, b' ');
        bytes
    };
    keep("handshake", "framed-hello", &[padded(0, &hello), padded(0, &[1; 32])].concat());
    keep("handshake", "framed-welcome", &padded(1, &welcome));
}
