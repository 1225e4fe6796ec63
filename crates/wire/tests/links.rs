//! Network faults: links that stall, cut, damage, repeat and reorder frames, and ends that die.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use common::proxy::{Fault, Proxy, proxy};
use common::{
    Answerer, CARRIERS, Carrier, Endpoint, LONG, answerer, answerer_as, at_each, greeting, listen,
};
use euphrates_policy::failure_detector::LOCAL_TIMEOUT;
use euphrates_store::segment::Block;
use euphrates_wire::{Address, FrameKind, Greeting, Header, Secret, Security, block, dial};

/// Both ends of a connection through a faulty link, the caller's first.
fn through(answerer: &Answerer) -> (Endpoint, Endpoint, Proxy) {
    let link = proxy(answerer.carrier, answerer.listener.address());
    let calling = answerer.dial_at(&link.address, &greeting("w2")).unwrap();
    (listen(calling), listen(answerer.called()), link)
}

/// Lets time pass. Not to wait for an event: the time itself is tested.
fn let_pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

#[test]
fn connection_survives_a_cut_of_one_second() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, link) = through(&answerer);
        one.send(1, b"before");
        assert_eq!(other.frame().meta, b"before");
        link.hold(true);
        one.send(2, b"meanwhile");
        other.send(3, b"the other way");
        let_pass(Duration::from_secs(1));
        link.hold(false);
        assert_eq!(other.frame().meta, b"meanwhile");
        assert_eq!(one.frame().meta, b"the other way");
        one.lane.close();
        one.end().unwrap();
        other.end().unwrap();
    });
}

#[test]
fn permanent_cut_is_detected_at_both_ends_within_the_timeout() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, link) = through(&answerer);
        one.send(1, b"before");
        assert_eq!(other.frame().meta, b"before");
        link.hold(true);
        let since = Instant::now();
        let why = one.why();
        assert!(why.contains("connection to w1: no sign of life from `w1` for 2.0 s"), "{why}");
        assert!(why.contains("remedy: look whether `w1` still runs"), "{why}");
        let why = other.why();
        assert!(why.contains("no sign of life from `w2` for 2.0 s"), "{why}");
        assert!(since.elapsed() >= LOCAL_TIMEOUT / 2, "too soon");
        link.hold(false);
    });
}

#[test]
fn last_advertised_timeout_applies() {
    // Advertised in the greeting, then in a heartbeat, in milliseconds.
    let cases = [
        (2500, None, "2.5"),
        (0, Some(2500_u32), "2.5"),
        (9000, Some(2500), "2.5"),
        (9000, Some(0), "2.0"),
    ];
    for (greeted, advertised, waited) in cases {
        at_each(|carrier| {
            let answerer = answerer_as(carrier, Greeting { silence_ms: greeted, ..greeting("w1") });
            let (calling, mut called) = answerer.pair();
            let one = listen(calling);
            if let Some(advertised) = advertised {
                let header = Header::of(FrameKind::Beat);
                called.sender.send(header, &advertised.to_le_bytes(), &[]).unwrap();
            }
            let (why, awaited) = (one.why(), format!("no sign of life from `w1` for {waited} s"));
            assert!(why.contains(&awaited), "{carrier:?}: {why}");
        });
    }
}

#[test]
fn idle_lanes_stay_alive() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, _link) = through(&answerer);
        let_pass(LOCAL_TIMEOUT * 3 / 2);
        one.send(1, b"still here");
        assert_eq!(other.frame().meta, b"still here");
    });
}

#[test]
fn every_link_fault_is_detected_and_no_wrong_frame_is_delivered() {
    let faults = [
        Fault::Flip(0),
        Fault::Flip(77),
        Fault::Flip(8 * 40),
        Fault::Flip(8 * 70),
        Fault::Truncate(0),
        Fault::Truncate(500),
        Fault::Truncate(999),
        Fault::Duplicate,
        Fault::Reorder,
        Fault::Drop,
    ];
    for carrier in CARRIERS {
        for fault in faults {
            let answerer = answerer(carrier);
            let (one, other, link) = through(&answerer);
            one.send(0, &[7; 20]);
            assert_eq!(other.frame().header.queue, 0);
            link.inject(fault);
            (1..200).for_each(|number| one.send(number, &[7; 20]));
            let why = other.why();
            let known =
                ["damaged", "was due", "lost in the middle", "hung up", "changed on its way"];
            assert!(known.iter().any(|known| why.contains(known)), "{carrier:?} {fault:?}: {why}");
            let received: Vec<u32> = other.frames().map(|frame| frame.header.queue).collect();
            let expected: Vec<u32> = (1..=received.len() as u32).collect();
            assert_eq!(received, expected, "{carrier:?} {fault:?}");
            assert!(received.len() < 199, "{carrier:?} {fault:?}");
            one.end().expect_err("the other end has hung up");
        }
    }
}

#[test]
fn flipped_bit_in_a_body_is_detected_when_decoded_or_before() {
    for carrier in CARRIERS {
        for bit in [0, 1000, 60_001] {
            let answerer = answerer(carrier);
            let (one, other, link) = through(&answerer);
            one.send(0, b"ready");
            other.frame();
            let body = Buffer::from(vec![5_u8; 10_000]);
            let crc = crc_fast::crc32_iscsi(&body);
            let block = Block { bytes: 10_000, crc, ..Block::default() };
            let mut meta = vec![];
            block::write(&block, &mut meta);
            link.inject(Fault::Flip(bit));
            // If a heartbeat goes first, the heartbeat is damaged.
            one.lane.send(Header::of(FrameKind::Batch), meta, vec![body]);
            let damaged = match other.frames().next() {
                Some(frame) => {
                    let (block, _) = block::read(&frame.meta, frame.header.body_bytes).unwrap();
                    block.check(&frame.body).unwrap_err().to_string().contains("checksum")
                }
                None => other.why().contains("changed") || carrier != Carrier::Tls,
            };
            assert!(damaged, "{carrier:?}, bit {bit}");
        }
    }
}

#[test]
fn peer_that_sends_too_slowly_is_lost() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, link) = through(&answerer);
        one.send(0, b"ready");
        other.frame();
        link.inject(Fault::Slow(100));
        one.lane.send(
            Header::of(FrameKind::Batch),
            vec![0; 1000],
            vec![Buffer::from(vec![0; 10_000])],
        );
        let why = other.why();
        assert!(why.contains("of a frame came in") || why.contains("no sign of life"), "{why}");
    });
}

#[test]
fn peer_that_reads_nothing_is_lost_while_frames_wait() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let one = listen(calling);
        // It lives and sends heartbeats.
        let mut mute = called;
        let closer = mute.closer();
        let beating = std::thread::spawn(move || {
            while mute.sender.send(Header::of(FrameKind::Beat), &[], &[]).is_ok() {
                std::thread::park_timeout(Duration::from_millis(100));
            }
            mute
        });
        for _ in 0..64 {
            one.lane.send(
                Header::of(FrameKind::Batch),
                vec![],
                vec![Buffer::from(vec![0_u8; 1 << 20])],
            );
        }
        assert!(one.lane.waiting_bytes() > 16 << 20);
        let why = one.why();
        assert!(why.contains("`w1` has taken nothing for 2.0 s"), "{carrier:?}: {why}");
        assert_eq!(one.lane.waiting_bytes(), 0);
        closer.close();
        drop(beating.join().unwrap());
    });
}

// --- ends in separate processes -----------------------------------------------------------

const CALL: &str = "EUPHRATES_TEST_CALL";

/// Not a test of its own: run as another process, it dials the address that the variable names.
#[test]
fn another_process() {
    let Ok(advertised) = std::env::var(CALL) else { return };
    let words: Vec<&str> = advertised.split(' ').collect();
    let address: Address = words[0].parse().unwrap();
    let secret = Secret::parse(words[1]).unwrap();
    let security = if words[2] == "Tls" { Security::Tls } else { Security::Token };
    let endpoint = listen(dial(&address, &greeting("w2"), &secret, security, LONG).unwrap());
    endpoint.send(1, b"here");
    let _ = endpoint.end();
}

fn other_process(answerer: &Answerer) -> (Child, Endpoint) {
    let Answerer { listener, secret, carrier, .. } = answerer;
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process"])
        .env(CALL, format!("{} {} {carrier:?}", listener.address(), secret.to_text()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let endpoint = listen(answerer.called());
    assert_eq!(endpoint.frame().meta, b"here");
    (child, endpoint)
}

#[test]
fn killed_process_is_detected_at_once() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (mut child, endpoint) = other_process(&answerer);
        child.kill().unwrap();
        let why = endpoint.why();
        assert!(why.contains("`w2` hung up without saying Bye"), "{why}");
        child.wait().unwrap();
    }
}

#[test]
fn stopped_process_is_lost_after_the_timeout() {
    use rustix::process::{Pid, Signal, kill_process};
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (mut child, endpoint) = other_process(&answerer);
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let why = endpoint.why();
        assert!(why.contains("no sign of life from `w2` for 2.0 s"), "{carrier:?}: {why}");
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
