//! Links that hold, cut, damage, repeat and reorder what goes through them, and ends that die.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use common::proxy::{Proxy, Trick, proxy};
use common::{
    Answerer, CARRIERS, Carrier, Ear, LONG, answerer, answerer_as, at_each, greeting, listen,
};
use euphrates_io::segment::Block;
use euphrates_wire::lane::SUSPICION;
use euphrates_wire::{Address, Greeting, Header, Kind, Secret, Security, block, dial};

/// Both ends of a connection through a link that can be played with: the caller's first.
fn through(answerer: &Answerer) -> (Ear, Ear, Proxy) {
    let link = proxy(answerer.carrier, answerer.listener.address());
    let calling = answerer.dial_at(&link.address, &greeting("w2")).unwrap();
    (listen(calling), listen(answerer.called()), link)
}

/// Nothing else happens for so long. Not to wait for something: the time is what is tested.
fn let_pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

#[test]
fn a_link_that_is_cut_for_a_second_heals() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, link) = through(&answerer);
        one.say(1, b"before");
        assert_eq!(other.frame().meta, b"before");
        link.hold(true);
        one.say(2, b"meanwhile");
        other.say(3, b"the other way");
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
fn a_link_that_stays_cut_is_noticed_at_both_ends_in_time() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, link) = through(&answerer);
        one.say(1, b"before");
        assert_eq!(other.frame().meta, b"before");
        link.hold(true);
        let since = Instant::now();
        let why = one.why();
        assert!(why.contains("connection to w1: no sign of life from `w1` for 2.0 s"), "{why}");
        assert!(why.contains("remedy: look whether `w1` still runs"), "{why}");
        let why = other.why();
        assert!(why.contains("no sign of life from `w2` for 2.0 s"), "{why}");
        assert!(since.elapsed() >= SUSPICION / 2, "too soon");
        link.hold(false);
    });
}

#[test]
fn an_end_is_waited_for_as_long_as_it_asked_for_last() {
    // In its greeting, and in milliseconds with a sign of life.
    let cases = [
        (2500, None, "2.5"),
        (0, Some(2500_u32), "2.5"),
        (9000, Some(2500), "2.5"),
        (9000, Some(0), "2.0"),
    ];
    for (greeted, told, waited) in cases {
        at_each(|carrier| {
            let answerer = answerer_as(carrier, Greeting { silence_ms: greeted, ..greeting("w1") });
            let (calling, mut called) = answerer.pair();
            let one = listen(calling);
            if let Some(told) = told {
                let header = Header::of(Kind::Beat);
                called.sender.send(header, &told.to_le_bytes(), &[]).unwrap();
            }
            let (why, awaited) = (one.why(), format!("no sign of life from `w1` for {waited} s"));
            assert!(why.contains(&awaited), "{carrier:?}: {why}");
        });
    }
}

#[test]
fn lanes_with_nothing_to_say_live_on() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, _link) = through(&answerer);
        let_pass(SUSPICION * 3 / 2);
        one.say(1, b"still here");
        assert_eq!(other.frame().meta, b"still here");
    });
}

#[test]
fn what_a_link_does_to_frames_is_noticed_and_nothing_wrong_comes() {
    let tricks = [
        Trick::Flip(0),
        Trick::Flip(77),
        Trick::Flip(8 * 40),
        Trick::Flip(8 * 70),
        Trick::Truncate(0),
        Trick::Truncate(500),
        Trick::Truncate(999),
        Trick::Duplicate,
        Trick::Reorder,
        Trick::Drop,
    ];
    for carrier in CARRIERS {
        for trick in tricks {
            let answerer = answerer(carrier);
            let (one, other, link) = through(&answerer);
            one.say(0, &[7; 20]);
            assert_eq!(other.frame().header.queue, 0);
            link.play(trick);
            (1..200).for_each(|number| one.say(number, &[7; 20]));
            let why = other.why();
            let known =
                ["damaged", "was due", "lost in the middle", "hung up", "changed on its way"];
            assert!(known.iter().any(|known| why.contains(known)), "{carrier:?} {trick:?}: {why}");
            let came: Vec<u32> = other.frames().map(|frame| frame.header.queue).collect();
            let expected: Vec<u32> = (1..=came.len() as u32).collect();
            assert_eq!(came, expected, "{carrier:?} {trick:?}");
            assert!(came.len() < 199, "{carrier:?} {trick:?}");
            one.end().expect_err("the other end has hung up");
        }
    }
}

#[test]
fn a_flipped_bit_in_a_body_is_found_by_who_decodes_it_or_before() {
    for carrier in CARRIERS {
        for bit in [0, 1000, 60_001] {
            let answerer = answerer(carrier);
            let (one, other, link) = through(&answerer);
            one.say(0, b"ready");
            other.frame();
            let body = Buffer::from(vec![5_u8; 10_000]);
            let crc = crc_fast::crc32_iscsi(&body);
            let block = Block { bytes: 10_000, crc, ..Block::default() };
            let mut meta = vec![];
            block::write(&block, &mut meta);
            link.play(Trick::Flip(bit));
            // Should a sign of life have gone first, it is the one that is damaged.
            one.lane.send(Header::of(Kind::Batch), meta, vec![body]);
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
fn an_end_that_dribbles_is_lost() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (one, other, link) = through(&answerer);
        one.say(0, b"ready");
        other.frame();
        link.play(Trick::Dribble(100));
        one.lane.send(Header::of(Kind::Batch), vec![0; 1000], vec![Buffer::from(vec![0; 10_000])]);
        let why = other.why();
        assert!(why.contains("of a frame came in") || why.contains("no sign of life"), "{why}");
    });
}

#[test]
fn an_end_that_reads_nothing_is_lost_while_there_is_something_to_say() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let one = listen(calling);
        // It lives, and says so.
        let mut mute = called;
        let closer = mute.closer();
        let beating = std::thread::spawn(move || {
            while mute.sender.send(Header::of(Kind::Beat), &[], &[]).is_ok() {
                std::thread::park_timeout(Duration::from_millis(100));
            }
            mute
        });
        for _ in 0..64 {
            one.lane.send(Header::of(Kind::Batch), vec![], vec![Buffer::from(vec![0_u8; 1 << 20])]);
        }
        assert!(one.lane.waiting_bytes() > 16 << 20);
        let why = one.why();
        assert!(why.contains("`w1` has taken nothing for 2.0 s"), "{carrier:?}: {why}");
        assert_eq!(one.lane.waiting_bytes(), 0);
        closer.close();
        drop(beating.join().unwrap());
    });
}

// --- ends in processes of their own -----------------------------------------------------------

const CALL: &str = "EUPHRATES_TEST_CALL";

/// Not a test of its own: another end, when it is told whom to call.
#[test]
fn another_process() {
    let Ok(told) = std::env::var(CALL) else { return };
    let words: Vec<&str> = told.split(' ').collect();
    let address: Address = words[0].parse().unwrap();
    let secret = Secret::parse(words[1]).unwrap();
    let security = if words[2] == "Tls" { Security::Tls } else { Security::Token };
    let ear = listen(dial(&address, &greeting("w2"), &secret, security, LONG).unwrap());
    ear.say(1, b"here");
    let _ = ear.end();
}

fn other_process(answerer: &Answerer) -> (Child, Ear) {
    let Answerer { listener, secret, carrier, .. } = answerer;
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process"])
        .env(CALL, format!("{} {} {carrier:?}", listener.address(), secret.to_text()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ear = listen(answerer.called());
    assert_eq!(ear.frame().meta, b"here");
    (child, ear)
}

#[test]
fn an_end_that_is_killed_is_noticed_at_once() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (mut child, ear) = other_process(&answerer);
        child.kill().unwrap();
        let why = ear.why();
        assert!(why.contains("`w2` hung up without saying Bye"), "{why}");
        child.wait().unwrap();
    }
}

#[test]
fn an_end_that_is_stopped_is_suspected() {
    use rustix::process::{Pid, Signal, kill_process};
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (mut child, ear) = other_process(&answerer);
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let why = ear.why();
        assert!(why.contains("no sign of life from `w2` for 2.0 s"), "{carrier:?}: {why}");
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
