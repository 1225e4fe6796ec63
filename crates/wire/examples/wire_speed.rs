//! Benchmark: throughput and processor time of batches sent between two processes.
//!
//!     cargo run --release -p euphrates-wire --example wire_speed -- tls 4000000000
//!
//! The program runs itself again as the receiver. `shm` is a unix socket with shared memory for
//! large bodies. One stream, batches of a megabyte (keys of 10
//! bytes, payloads of 90), encoded from a few that are ready, checked and decoded where they
//! arrive. Prints one line of JSON.

use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use arrow::array::{FixedSizeBinaryArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use euphrates_flow::{Error, Result};
use euphrates_store::segment::{BlockDecoder, BlockEncoder};
use euphrates_wire::{
    Address, Caps, Connection, Frame, FrameKind, Greeting, Header, Lane, Listener, Secret,
    Security, block, dial, shared_memory,
};

/// Rows per batch: of 100 bytes each, they make a megabyte.
const ROWS: usize = 10_486;
/// Distinct batches, too many for a processor's cache.
const BATCHES: usize = 16;
/// Batches in flight, at most: as many as the queues of a flow grant.
const WINDOW: usize = 8;
/// The receiver reports after every `TAKEN` batches.
const TAKEN: u64 = 4;
/// The number of the flow whose secret both ends share.
const FLOW: u64 = 7;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", carrier] => receive(carrier),
        [carrier, bytes] => {
            let bytes = bytes.parse().map_err(|_| Error::usage("bytes are a number"))?;
            send(carrier, bytes)
        }
        [carrier] => send(carrier, 2_000_000_000),
        _ => Err(Error::usage("wire_speed shm|unix|tcp|tls [bytes]")),
    }
}

fn security(carrier: &str) -> Security {
    if carrier == "tls" { Security::Tls } else { Security::Token }
}

fn greeting(name: &str, carrier: &str) -> Greeting {
    Greeting {
        name: name.into(),
        purpose: "batches".into(),
        flow: FLOW,
        epoch: 0,
        lane: 0,
        program: env!("CARGO_PKG_VERSION").into(),
        silence_ms: 0,
        caps: Caps::KNOWN,
        abilities: if carrier == "shm" { shared_memory::abilities() } else { vec![] },
    }
}

fn schema() -> SchemaRef {
    let field = |name, bytes| Field::new(name, DataType::FixedSizeBinary(bytes), false);
    Arc::new(Schema::new(vec![field("key", 10), field("payload", 90)]))
}

fn batch(seed: u64) -> Result<RecordBatch> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut column = |bytes: usize| {
        let random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let values: Vec<u8> = std::iter::repeat_with(random).take(ROWS * bytes).collect();
        Arc::new(FixedSizeBinaryArray::new(bytes as i32, Buffer::from_vec(values), None))
    };
    Ok(RecordBatch::try_new(schema(), vec![column(10), column(90)])?)
}

fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// The sender's window: batches in flight.
#[derive(Default)]
struct Window {
    taken: Mutex<u64>,
    changed: Condvar,
}

impl Window {
    fn took(&self, batches: u64) {
        *self.taken.lock().expect("nobody panics") = batches;
        self.changed.notify_one();
    }

    fn wait_for(&self, batches: u64) {
        let taken = self.taken.lock().expect("nobody panics");
        drop(self.changed.wait_while(taken, |taken| *taken < batches).expect("nobody panics"));
    }
}

/// Starts the receiver, sends it `bytes`, and prints the result.
fn send(carrier: &str, bytes: u64) -> Result<()> {
    let os = |error: io::Error| Error::os("run", "the receiver", &error);
    let itself = std::env::current_exe().map_err(os)?;
    let mut receiver = Command::new(itself)
        .args(["receive", carrier])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(os)?;
    let mut header = io::BufReader::new(receiver.stdout.take().expect("piped")).lines();
    let mut next = || header.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let secret = Secret::parse(&next().map_err(os)?)?;
    let address: Address = next().map_err(os)?.parse()?;
    let me = greeting("sender", carrier);
    let wait = Duration::from_secs(10);
    let connection = dial(&address, &me, &secret, security(carrier), wait)?;

    let window = Arc::new(Window::default());
    let (taken, (ended, end)) = (window.clone(), mpsc::channel());
    let lane = Lane::start_within(
        None,
        connection,
        "sender",
        move |frame: Frame| taken.took(frame.header.flow),
        move |outcome| ended.send(outcome).unwrap_or(()),
    )?;
    let batches: Vec<RecordBatch> = (0..BATCHES as u64).map(batch).collect::<Result<_>>()?;
    let mut encoder = BlockEncoder::new(schema(), None)?;
    let (began, began_cpu, mut sent, mut sent_bytes) = (Instant::now(), cpu_seconds(), 0, 0);
    while sent_bytes < bytes || !(sent as u64).is_multiple_of(TAKEN) {
        let encoded = encoder.encode(&batches[sent % BATCHES])?;
        sent_bytes += encoded.block.bytes;
        sent += 1;
        let mut meta = Vec::with_capacity(block::BLOCK_BYTES);
        block::write(&encoded.block, &mut meta);
        lane.send(Header::of(FrameKind::Batch), meta, encoded.parts);
        window.wait_for(sent.saturating_sub(WINDOW) as u64);
    }
    window.wait_for(sent as u64);
    let placed_bytes = lane.placed_bytes();
    let (seconds, sender_cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - began_cpu);
    lane.close();
    end.recv().map_err(|_| Error::failed("the lane ended without a word"))??;
    let receiver_cpu: f64 = next().map_err(os)?.parse().map_err(Error::failed)?;
    receiver.wait().map_err(os)?;

    let gigabytes = sent_bytes as f64 / 1e9;
    let told = serde_json::json!({
        "carrier": carrier,
        "bytes": sent_bytes,
        "placed_bytes": placed_bytes,
        "seconds": seconds,
        "gb_per_s": gigabytes / seconds,
        "cpu_s_per_gb": (sender_cpu + receiver_cpu) / gigabytes,
        "sender_cpu_s_per_gb": sender_cpu / gigabytes,
        "receiver_cpu_s_per_gb": receiver_cpu / gigabytes,
    });
    writeln!(io::stdout(), "{told}").map_err(|error| Error::os("write to", "stdout", &error))
}

/// Listens, prints address and secret, and counts received batches.
fn receive(carrier: &str) -> Result<()> {
    let secret = Secret::random()?;
    let address = match carrier {
        "unix" | "shm" => {
            let name = format!("wire-speed-{}", std::process::id());
            Address::Unix(std::env::temp_dir().join(name))
        }
        _ => "127.0.0.1:0".parse()?,
    };
    let (found, connections) = mpsc::channel();
    let known = secret.clone();
    let keys = Arc::new(move |flow| (flow == FLOW).then(|| known.clone()));
    let on = move |connection: Connection| found.send(connection).unwrap_or(());
    let me = greeting("receiver", carrier);
    let listener = Listener::bind(&address, me, keys, security(carrier), on)?;
    let told = |line: String| {
        let mut out = io::stdout();
        let written = writeln!(out, "{line}").and_then(|()| out.flush());
        written.map_err(|error| Error::os("write to", "stdout", &error))
    };
    told(secret.to_text())?;
    told(listener.address().to_string())?;
    let connection = connections.recv().map_err(|_| Error::failed("nobody called"))?;

    let began_cpu = cpu_seconds();
    let (ended, end) = mpsc::channel();
    let back: Arc<std::sync::OnceLock<Lane>> = Arc::default();
    let (answering, decoder) = (back.clone(), BlockDecoder::new(&schema(), None));
    let (mut taken, mut first_error) = (0, None);
    let lane = Lane::start_within(
        None,
        connection,
        "receiver",
        move |frame| {
            if let Err(error) = take(&decoder, &frame) {
                first_error.get_or_insert(error);
            }
            taken += 1;
            let header = Header { flow: taken, ..Header::of(FrameKind::Message) };
            if first_error.is_none() && taken.is_multiple_of(TAKEN) {
                answering.wait().send(header, vec![], vec![]);
            }
        },
        move |outcome| ended.send(outcome).unwrap_or(()),
    )?;
    back.get_or_init(|| lane);
    end.recv().map_err(|_| Error::failed("the lane ended without a word"))??;
    told((cpu_seconds() - began_cpu).to_string())
}

/// Verifies and decodes a batch, as a consumer does first.
fn take(decoder: &BlockDecoder, frame: &Frame) -> Result<()> {
    let malformed = |_| Error::corrupt("no block");
    let (block, _) = block::read(&frame.meta, frame.header.body_bytes).map_err(malformed)?;
    block.check(&frame.body)?;
    decoder.decode(&block, &frame.body).map(drop)
}
