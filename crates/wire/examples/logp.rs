//! Benchmark: the LogP parameters of active messages between two processes.
//!
//!     cargo run --release -p euphrates-wire --example logp -- unix poll 7
//!
//! The method is that of Culler, Liu, Martin and Yoshikawa (Assessing Fast Network Interfaces, IEEE
//! Micro, 1996). A burst of M requests with a computation of D between them takes per message o_s
//! for a small M and D = 0, the gap g for a large M and D = 0, and o_s + D + o_r for a large M and
//! D. The latency L is half a round trip less o_s and o_r; G is the time per byte of bulk messages.
//! The program runs itself again as the server, which polls, or sleeps until something arrives.
//! Prints one line of JSON for each round, in microseconds; the driver is `bench/peers/logp.py`.

use std::io::{self, BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Result};
use euphrates_wire::active::{ActiveEndpoint, ActiveOptions, OutgoingMessage, PeerId, RegionPlace};
use euphrates_wire::{Address, Secret, Security};

/// Requests in a burst whose time is the gap: more than there are credits.
const LARGE: u64 = 2000;
/// Requests in a burst whose time is the send overhead: fewer than credits.
const SMALL: u64 = 8;
/// Bursts whose times are averaged.
const BURSTS: u64 = 50;
/// Round trips that are averaged.
const ROUND_TRIPS: u64 = 500;
/// The computation between two requests, longer than a round trip takes the processor.
const DELAY: Duration = Duration::from_micros(100);
/// Bytes of a bulk message, and how many are sent.
const BULK_BYTES: usize = 1 << 20;
const BULKS: u64 = 128;
/// Numbers of handlers: requests with a reply, requests for the region, bulk requests, the end.
const ECHO: u32 = 1;
const REGION: u32 = 2;
const STORE: u32 = 3;
const STOP: u32 = 4;
const WAIT: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", carrier, mode] => serve(carrier, mode == "poll"),
        [carrier @ ("unix" | "tcp" | "tls"), mode @ ("poll" | "block"), rounds] => {
            let rounds = rounds.parse().map_err(|_| Error::usage("rounds are a number"))?;
            measure(carrier, mode, rounds)
        }
        _ => Err(Error::usage("logp unix|tcp|tls poll|block ROUNDS")),
    }
}

fn options(carrier: &str) -> ActiveOptions {
    let security = if carrier == "tls" { Security::Tls } else { Security::Token };
    ActiveOptions { security, ..ActiveOptions::default() }
}

/// Prints secret and address, and answers until it is told to stop.
fn serve(carrier: &str, polls: bool) -> Result<()> {
    let secret = Secret::random()?;
    let address: Address = match carrier {
        "unix" => Address::Unix(std::env::temp_dir().join(format!("logp-{}", std::process::id()))),
        _ => "127.0.0.1:0".parse()?,
    };
    let mut endpoint = ActiveEndpoint::bind("server", Some(&address), &secret, options(carrier))?;
    let region = endpoint.register(BULK_BYTES)?;
    let key = region.key() as u32;
    endpoint.on_request(ECHO, |token, message| {
        token.reply(OutgoingMessage::short(ECHO, message.arguments));
    });
    endpoint.on_request(REGION, move |token, _| {
        token.reply(OutgoingMessage::short(REGION, [key, 0, 0, 0, 0, 0, 0, 0]));
    });
    endpoint.on_request(STORE, |_, _| {});
    let ended = Arc::new(AtomicU64::new(0));
    let ending = ended.clone();
    endpoint.on_request(STOP, move |_, _| ending.store(1, Relaxed));
    print(&secret.to_text())?;
    print(&endpoint.address().map(ToString::to_string).unwrap_or_default())?;
    while ended.load(Relaxed) == 0 {
        step(&mut endpoint, polls)?;
    }
    endpoint.close(Instant::now() + WAIT)
}

fn print(line: &str) -> Result<()> {
    let mut out = io::stdout();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(|error| Error::os("write to", "stdout", &error))
}

/// Handles what arrives, after a wait unless this end polls.
fn step(endpoint: &mut ActiveEndpoint, polls: bool) -> Result<()> {
    if polls {
        endpoint.poll()?;
    } else {
        endpoint.wait(Some(Instant::now() + WAIT))?;
    }
    Ok(())
}

/// A client, and how many replies it has received.
struct Client {
    endpoint: ActiveEndpoint,
    peer: PeerId,
    replies: Arc<AtomicU64>,
    key: Arc<AtomicU64>,
    polls: bool,
    server: Child,
}

fn measure(carrier: &str, mode: &str, rounds: usize) -> Result<()> {
    let mut client = Client::start(carrier, mode)?;
    client.round_trips(100)?;
    for _ in 0..rounds {
        let round_trip = client.round_trips(ROUND_TRIPS)?;
        let send_overhead = client.send_overhead()?;
        let gap = client.burst(LARGE, Duration::ZERO)?;
        let delayed = client.burst(LARGE / 10, DELAY)?;
        let receive_overhead = delayed - DELAY.as_secs_f64() - send_overhead;
        let gap_per_byte = client.bulk()?;
        let micro = |seconds: f64| (seconds * 1e9).round() / 1e3;
        let told = serde_json::json!({
            "carrier": carrier,
            "mode": mode,
            "o_s_us": micro(send_overhead),
            "o_r_us": micro(receive_overhead),
            "L_us": micro(round_trip / 2.0 - send_overhead - receive_overhead),
            "g_us": micro(gap),
            "round_trip_us": micro(round_trip),
            "bulk_gb_per_s": 1e-9 / gap_per_byte,
        });
        print(&told.to_string())?;
    }
    client.stop()
}

impl Client {
    fn start(carrier: &str, mode: &str) -> Result<Client> {
        let os = |error: io::Error| Error::os("run", "the server", &error);
        let mut server = Command::new(std::env::current_exe().map_err(os)?)
            .args(["serve", carrier, mode])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(os)?;
        let mut lines = io::BufReader::new(server.stdout.take().expect("piped")).lines();
        let mut next = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        let secret = Secret::parse(&next().map_err(os)?)?;
        let address: Address = next().map_err(os)?.parse()?;
        let mut endpoint = ActiveEndpoint::bind("client", None, &secret, options(carrier))?;
        let (replies, key): (Arc<AtomicU64>, Arc<AtomicU64>) = Default::default();
        let (counting, noting) = (replies.clone(), key.clone());
        endpoint.on_reply(ECHO, move |_| {
            counting.fetch_add(1, Relaxed);
        });
        endpoint
            .on_reply(REGION, move |message| noting.store(message.arguments[0].into(), Relaxed));
        let peer = endpoint.connect(&address, WAIT)?;
        let mut client = Client { endpoint, peer, replies, key, polls: mode == "poll", server };
        client.endpoint.request(peer, OutgoingMessage::short(REGION, [0; 8]))?;
        client.settle()?;
        Ok(client)
    }

    fn settle(&mut self) -> Result<()> {
        while self.endpoint.unsettled_requests() > 0 {
            step(&mut self.endpoint, self.polls)?;
        }
        Ok(())
    }

    /// Sends a request; while there is no credit, handles what arrives as this end does.
    fn request(&mut self, message: OutgoingMessage) -> Result<()> {
        let mut waiting = self.endpoint.try_request(self.peer, message)?;
        while let Some(message) = waiting {
            step(&mut self.endpoint, self.polls)?;
            waiting = self.endpoint.try_request(self.peer, message)?;
        }
        Ok(())
    }

    /// Seconds of a round trip.
    fn round_trips(&mut self, count: u64) -> Result<f64> {
        let began = Instant::now();
        for _ in 0..count {
            self.request(OutgoingMessage::short(ECHO, [0; 8]))?;
            self.settle()?;
        }
        Ok(began.elapsed().as_secs_f64() / count as f64)
    }

    /// Seconds that this end takes to send a request, in bursts of fewer than there are credits.
    fn send_overhead(&mut self) -> Result<f64> {
        let mut seconds = 0.0;
        for _ in 0..BURSTS {
            let began = Instant::now();
            for _ in 0..SMALL {
                self.request(OutgoingMessage::short(ECHO, [0; 8]))?;
            }
            seconds += began.elapsed().as_secs_f64();
            self.settle()?;
        }
        Ok(seconds / (BURSTS * SMALL) as f64)
    }

    /// Seconds per request of a burst, with a delay after each in which this end only computes, and
    /// then handles what has arrived.
    fn burst(&mut self, count: u64, delay: Duration) -> Result<f64> {
        let (began, before) = (Instant::now(), self.replies.load(Relaxed));
        for _ in 0..count {
            self.request(OutgoingMessage::short(ECHO, [0; 8]))?;
            if !delay.is_zero() {
                let computing = Instant::now();
                while computing.elapsed() < delay {
                    std::hint::spin_loop();
                }
                self.endpoint.poll()?;
            }
        }
        if delay.is_zero() {
            self.settle()?;
        }
        let seconds = began.elapsed().as_secs_f64() / count as f64;
        self.settle()?;
        assert_eq!(self.replies.load(Relaxed) - before, count, "each request has a reply");
        Ok(seconds)
    }

    /// Seconds per byte of bulk messages.
    fn bulk(&mut self) -> Result<f64> {
        let data = Buffer::from_vec(vec![1_u8; BULK_BYTES]);
        let place = RegionPlace { key: self.key.load(Relaxed), offset: 0 };
        let began = Instant::now();
        for _ in 0..BULKS {
            self.request(OutgoingMessage::bulk(STORE, [0; 8], data.clone(), place))?;
        }
        self.settle()?;
        Ok(began.elapsed().as_secs_f64() / (BULKS * BULK_BYTES as u64) as f64)
    }

    fn stop(mut self) -> Result<()> {
        self.request(OutgoingMessage::short(STOP, [0; 8]))?;
        self.settle()?;
        self.endpoint.close(Instant::now() + WAIT)?;
        self.server.wait().map_err(|error| Error::os("wait for", "the server", &error))?;
        Ok(())
    }
}
