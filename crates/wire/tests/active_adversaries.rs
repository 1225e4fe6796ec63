//! Endpoints whose peers die or break the protocol: the connection ends, the messages return, and
//! other peers go on.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Instant;

use arrow::buffer::Buffer;
use common::LONG;
use common::active::{ActiveCarrier, CARRIERS, all_until, endpoint, options};
use common::random::Random;
use euphrates_flow::Kind as Failure;
use euphrates_wire::active::{
    ActiveContent, ActiveEndpoint, ActiveMeta, ActiveOptions, DataKind, Envelope, OutgoingMessage,
    REQUESTS_MAX, RegionPlace, ReturnReason, ReturnedMessage,
};
use euphrates_wire::{
    Caps, FrameKind, Greeting, Header, Lane, Listener, Secret, Security, dial, shared_memory,
};

const WORDS: [u32; 8] = [3; 8];

fn greeting(name: &str) -> Greeting {
    Greeting {
        name: name.into(),
        purpose: "active".into(),
        flow: 0,
        epoch: 0,
        lane: 0,
        program: env!("CARGO_PKG_VERSION").into(),
        silence_ms: 0,
        caps: Caps { meta_bytes_max: 4 << 10, body_bytes_max: 64 << 20 },
        abilities: shared_memory::abilities(),
    }
}

/// A peer that sends whatever frames it likes.
struct RawPeer {
    lane: Lane,
    end: mpsc::Receiver<euphrates_flow::Result<()>>,
}

fn raw_peer(server: &ActiveEndpoint, secret: &Secret, carrier: ActiveCarrier) -> RawPeer {
    let secret = secret.derive("active messages");
    let security = options(carrier).security;
    let address = server.address().unwrap();
    let connection = dial(address, &greeting("raw"), &secret, security, LONG).unwrap();
    let (ended, end) = mpsc::channel();
    let lane = Lane::start_within(None, connection, "raw", drop, move |outcome| {
        ended.send(outcome).unwrap_or(());
    });
    RawPeer { lane: lane.unwrap(), end }
}

impl RawPeer {
    fn send(&self, meta: Vec<u8>, body: &[u8]) {
        let body = if body.is_empty() { vec![] } else { vec![Buffer::from(body)] };
        self.lane.send(Header::of(FrameKind::Active), meta, body);
    }
}

fn short_request(number: u64, handled: u64) -> Vec<u8> {
    let envelope = Envelope { handler: 1, arguments: WORDS, data: DataKind::Short };
    ActiveMeta { handled, content: ActiveContent::Request { number, envelope } }.encode()
}

fn meta_of(handled: u64, content: ActiveContent) -> Vec<u8> {
    ActiveMeta { handled, content }.encode()
}

/// A server that counts requests, and a well-behaved client of it.
struct Scene {
    server: ActiveEndpoint,
    client: ActiveEndpoint,
    handled: Arc<AtomicU32>,
    secret: Secret,
    carrier: ActiveCarrier,
    _folder: tempfile::TempDir,
}

fn scene(carrier: ActiveCarrier) -> Scene {
    let secret = Secret::random().unwrap();
    let (folder, mut server) = endpoint(carrier, "w1", &secret, ActiveOptions::default());
    server.on_returned(drop);
    let handled = Arc::new(AtomicU32::new(0));
    let counting = handled.clone();
    server.on_request(1, move |token, message| {
        counting.fetch_add(1, SeqCst);
        token.reply(OutgoingMessage::short(2, message.arguments));
    });
    let mut client = ActiveEndpoint::bind("w2", None, &secret, options(carrier)).unwrap();
    client.on_reply(2, |_| {});
    client.connect(server.address().unwrap(), LONG).unwrap();
    Scene { server, client, handled, secret, carrier, _folder: folder }
}

impl Scene {
    fn raw_peer(&self) -> RawPeer {
        raw_peer(&self.server, &self.secret, self.carrier)
    }

    /// Polls until the server has ended a connection; returns the text of its error.
    fn until_ended(&mut self, raw: &RawPeer) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            self.server.poll().unwrap();
            match raw.end.try_recv() {
                Ok(end) => return end.map_or_else(|error| error.to_string(), |()| "Bye".into()),
                Err(_) => assert!(Instant::now() < deadline, "the connection goes on"),
            }
            std::thread::yield_now();
        }
    }

    /// The other peer is served as before.
    fn check_client(&mut self) {
        let before = self.handled.load(SeqCst);
        let peer = self.client.peers().next().unwrap();
        self.client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
        let mut both = [&mut self.client, &mut self.server];
        all_until(&mut both, |all| all[0].unsettled_requests() == 0);
        assert!(self.handled.load(SeqCst) > before);
    }
}

#[test]
fn breaches_of_the_protocol_end_the_connection_and_no_other() {
    for carrier in CARRIERS {
        let mut scene = scene(carrier);
        let returned = ActiveContent::Returned { number: 0, reason: ReturnReason::Declined };
        let envelope = Envelope { handler: 2, arguments: WORDS, data: DataKind::Short };
        let reply = ActiveContent::Reply { number: 0, answers: 0, envelope };
        let breaches = [
            (short_request(1, 0), "active message 1 where 0 was due"),
            (short_request(0, 1), "1 active messages handled, which cannot be"),
            (meta_of(0, returned), "active message 0 returned, which is not unsettled"),
            (meta_of(0, reply), "a reply to active message 0, no unsettled request"),
            (b"nonsense".to_vec(), "an active message that cannot be read"),
        ];
        for (count, (meta, expected)) in breaches.into_iter().enumerate() {
            let raw = scene.raw_peer();
            raw.send(meta, b"");
            scene.until_ended(&raw);
            all_until(&mut [&mut scene.server], |all| all[0].losses().count() > count);
            let losses: Vec<String> =
                scene.server.losses().map(|(_, error)| error.to_string()).collect();
            assert!(losses.iter().any(|loss| loss.contains(expected)), "{expected}: {losses:?}");
            scene.check_client();
        }
    }
}

#[test]
fn peer_that_ignores_its_credits_is_cut() {
    let mut scene = scene(ActiveCarrier::Unix);
    let raw = scene.raw_peer();
    for number in 0..=u64::from(REQUESTS_MAX) {
        raw.send(short_request(number, 0), b"");
    }
    scene.until_ended(&raw);
    assert_eq!(scene.handled.load(SeqCst), REQUESTS_MAX);
    scene.check_client();
}

#[test]
fn bulk_data_over_a_unix_socket_is_placed_through_shared_memory() {
    let mut scene = scene(ActiveCarrier::Unix);
    let region = scene.server.register(100_000).unwrap();
    let raw = scene.raw_peer();
    let data = DataKind::Bulk(RegionPlace { key: region.key(), offset: 0 });
    let envelope = Envelope { handler: 1, arguments: WORDS, data };
    for number in 0..40_u8 {
        let content = ActiveContent::Request { number: number.into(), envelope };
        raw.send(meta_of(0, content), &[number; 100_000]);
        let handled = scene.handled.clone();
        all_until(&mut [&mut scene.server], |_| handled.load(SeqCst) > number.into());
        assert!(region.read(|bytes| bytes.iter().all(|byte| *byte == number)));
    }
    assert!(raw.lane.placed_bytes() > 0);
}

#[test]
fn random_frames_end_their_connection_and_no_other() {
    let mut scene = scene(ActiveCarrier::Unix);
    let mut random = Random(7);
    for round in 0..300 {
        let raw = scene.raw_peer();
        for number in 0..random.below(8) {
            let mut meta = short_request(number as u64, 0);
            if random.below(3) == 0 {
                for _ in 0..=random.below(3) {
                    let at = random.below(meta.len());
                    meta[at] = random.below(256) as u8;
                }
                meta.truncate(meta.len() - random.below(2) * random.below(meta.len()));
            }
            raw.send(meta, &vec![1; random.below(2) * random.below(40_000)]);
        }
        // A last frame that is always wrong.
        raw.send(vec![0xff; random.below(100)], b"");
        let end = scene.until_ended(&raw);
        assert_ne!(end, "Bye", "round {round}");
    }
    scene.check_client();
}

#[test]
fn messages_to_a_peer_that_is_lost_return_once_and_name_it() {
    for carrier in CARRIERS {
        let folder = tempfile::tempdir().unwrap();
        let secret = Secret::random().unwrap();
        let known = secret.derive("active messages");
        let address = match carrier {
            ActiveCarrier::Unix => format!("unix:{}", folder.path().join("s").display()),
            ActiveCarrier::Tcp | ActiveCarrier::Tls => "127.0.0.1:0".into(),
        };
        let (found, connections) = mpsc::channel();
        let listener = Listener::bind(
            &address.parse().unwrap(),
            greeting("dying"),
            Arc::new(move |_| Some(known.clone())),
            options(carrier).security,
            move |connection| found.send(connection).unwrap_or(()),
        )
        .unwrap();
        let mut client = ActiveEndpoint::bind("w2", None, &secret, options(carrier)).unwrap();
        let (sender, returned) = mpsc::channel::<ReturnedMessage>();
        client.on_returned(move |message| sender.send(message).unwrap_or(()));
        let peer = client.connect(listener.address(), LONG).unwrap();
        let dying = connections.recv_timeout(LONG).unwrap();
        for number in 0..5 {
            let words = [number, 0, 0, 0, 0, 0, 0, 0];
            client.request(peer, OutgoingMessage::medium(1, words, vec![4; 100])).unwrap();
        }
        dying.closer().close();
        drop(dying);
        while client.peers().count() > 0 {
            client.wait(Some(Instant::now() + LONG)).unwrap();
        }
        client.request(peer, OutgoingMessage::short(1, [5; 8])).unwrap();
        client.poll().unwrap();
        let returned: Vec<ReturnedMessage> = returned.try_iter().collect();
        let numbers: Vec<u32> = returned.iter().map(|back| back.message.arguments[0]).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5], "{carrier:?}");
        assert!(returned.iter().all(|back| back.reason == ReturnReason::PeerLost));
        assert_eq!(returned[0].message.data_bytes(), 100);
        let (lost, loss) = client.losses().next().unwrap();
        assert_eq!(lost, peer);
        assert_eq!(loss.kind(), Failure::Resource);
        assert!(loss.to_string().contains("dying"), "{loss}");
    }
}

#[test]
fn end_that_is_no_endpoint_is_refused() {
    let scene = scene(ActiveCarrier::Tcp);
    let secret = scene.secret.derive("active messages");
    let me = Greeting { purpose: "batches".into(), ..greeting("worker") };
    let address = scene.server.address().unwrap();
    let connection = dial(address, &me, &secret, Security::Token, LONG).unwrap();
    let (ended, end) = mpsc::channel();
    let _lane = Lane::start_within(None, connection, "raw", drop, move |outcome| {
        ended.send(outcome).unwrap_or(());
    });
    assert!(end.recv_timeout(LONG).unwrap().is_err());
    assert!(dial(address, &greeting("w2"), &scene.secret, Security::Token, LONG).is_err(), "token");
}
