//! Memory that an unauthenticated peer can make this end allocate, counted by the allocator.
//!
//! One test in one process, so that no other test allocates.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{Answerer, Carrier, LONG, answerer, greeting};
use euphrates_wire::frame::UNKNOWN_BYTES_MAX;
use euphrates_wire::{FrameKind, FrameSender, Greeting, Header};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(more: usize, less: usize) {
    let live = LIVE.fetch_add(more, SeqCst) + more;
    PEAK.fetch_max(live, SeqCst);
    LIVE.fetch_sub(less, SeqCst);
}

// SAFETY: every call is passed to the system's allocator; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both allocations exist while the content is moved.
        count(size, layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The peak of memory allocated for a peer that sends `sent` and hangs up at the first answer or
/// at the end of the stream.
fn cost(answerer: &Answerer, sent: &[u8]) -> usize {
    let address = answerer.listener.address().to_string();
    let before = LIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    let mut stream = TcpStream::connect(&address[..]).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let _ = stream.write_all(sent);
    let mut answer = [0; 512];
    // An answer or an error: either ends the exchange.
    let _ = stream.read(&mut answer);
    let _ = stream.shutdown(Shutdown::Both);
    let refusals = answerer.refusals();
    assert!(!refusals.is_empty());
    PEAK.load(SeqCst) - before
}

fn framed(meta: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    FrameSender::new(&mut bytes).send(Header::of(FrameKind::Hello), meta, &[]).unwrap();
    bytes
}

/// A Hello for a flow, with arbitrary JSON in block of its abilities.
fn hello(flow: u64, abilities: &str) -> Vec<u8> {
    let greeting = Greeting { flow, ..greeting("w2") };
    let mut greeting = serde_json::to_value(greeting).unwrap();
    greeting["abilities"] = "ABILITIES".into();
    let text = greeting.to_string().replace("\"ABILITIES\"", abilities);
    framed(&[&[7; 32][..], text.as_bytes()].concat())
}

/// A TLS ClientHello for a server name.
fn client_hello(name: &'static str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = vec![];
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// A handshake message of a kind and length, in records of a kilobyte.
fn handshake(kind: u8, bytes: u32) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend(&bytes.to_be_bytes()[1..]);
    message.resize(4 + bytes as usize, 3);
    let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    message.chunks(1000).flat_map(record).collect()
}

#[test]
fn unauthenticated_peer_allocates_at_most_the_bound() {
    let sent: Vec<(Carrier, &str, Vec<u8>)> = vec![
        (Carrier::Tcp, "nothing of use", vec![b'x'; 10_000]),
        (Carrier::Tcp, "a large frame", framed(&[0; 4096])),
        (Carrier::Tcp, "many abilities", hello(7, &format!("[{}\"\"]", "\"\",".repeat(1200)))),
        (Carrier::Tcp, "deep abilities", hello(7, &"[".repeat(3500))),
        (Carrier::Tcp, "a long ability", hello(7, &format!("[{:?}]", "é".repeat(1700)))),
        (Carrier::Tcp, "a greeting of an unknown flow", hello(8, "[]")),
        (Carrier::Tcp, "a greeting, and no proof", hello(7, "[]")),
        (Carrier::Tls, "nothing of use", vec![b'x'; 10_000]),
        (Carrier::Tls, "a large record", [&[22, 3, 1, 0x40, 0][..], &[1; 16 << 10]].concat()),
        (Carrier::Tls, "a large ClientHello", handshake(1, 60_000)),
        (Carrier::Tls, "a larger one", handshake(1, 0xff_ffff / 16)),
        (Carrier::Tls, "another message", handshake(11, 60_000)),
        (Carrier::Tls, "an unknown flow", client_hello("8.euphrates")),
        (Carrier::Tls, "a ClientHello, and nothing else", client_hello("7.euphrates")),
    ];
    let answerers = [answerer(Carrier::Tcp), answerer(Carrier::Tls)];
    let called = |carrier| answerers.iter().find(|answerer| answerer.carrier == carrier).unwrap();
    // Certificates, tables and thread buffers are allocated once, before anything is counted.
    answerers.iter().for_each(|answerer| drop(answerer.pair()));
    for (carrier, _, bytes) in &sent {
        cost(called(*carrier), bytes);
    }
    for (carrier, what, bytes) in &sent {
        let cost = cost(called(*carrier), bytes);
        let summary = format!("{carrier:?}, {what}: {cost} bytes for {}", bytes.len());
        assert!(cost <= UNKNOWN_BYTES_MAX, "{summary}");
        eprintln!("{summary}");
    }
}
