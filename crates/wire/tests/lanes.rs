//! Lanes over every carrier: frames are delivered in order until one end sends Bye.

mod common;

use std::sync::Arc;

use arrow::array::{FixedSizeBinaryArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use common::{CARRIERS, Carrier, answerer, answerer_as, greeting, listen};
use euphrates_store::segment::{BlockDecoder, BlockEncoder};
use euphrates_wire::{Address, Caps, FrameKind, Greeting, Header, Listener, Security, block};

#[test]
fn both_ends_see_the_greeting_of_the_other() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let me = Greeting { lane: 3, abilities: vec!["b".into(), "a".into()], ..greeting("w2") };
        let calling = answerer.dial(&me).unwrap();
        let called = answerer.called();
        assert_eq!((called.peer.name.as_str(), called.peer.lane), ("w2", 3));
        assert_eq!((calling.peer.name.as_str(), calling.peer.lane), ("w1", 3));
        let both = carrier.of(greeting("w1")).abilities;
        assert_eq!(calling.peer.abilities, both);
        assert_eq!(called.peer.abilities, both);
    }
}

#[test]
fn messages_arrive_in_order_in_both_directions() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        let count = 20_000;
        for number in 0..count {
            one.send(number, &number.to_le_bytes());
            other.send(number, b"back");
        }
        for (endpoint, bytes) in [(&one, 4), (&other, 4)] {
            for number in 0..count {
                let frame = endpoint.frame();
                assert_eq!(frame.header.queue, number, "{carrier:?}");
                assert_eq!(frame.meta.len(), bytes);
            }
        }
        one.lane.close();
        one.end().unwrap();
        other.end().unwrap();
        assert_eq!(one.lane.waiting_bytes(), 0);
        assert!(one.lane.sent_bytes() >= u64::from(count) * 68);
        assert!(other.lane.received_bytes() >= u64::from(count) * 68);
    }
}

fn schema() -> SchemaRef {
    let field = |name, bytes| Field::new(name, DataType::FixedSizeBinary(bytes), false);
    Arc::new(Schema::new(vec![field("key", 10), field("payload", 90)]))
}

fn batch(rows: usize, seed: u8) -> RecordBatch {
    let column = |bytes: usize| {
        let values = (0..rows * bytes).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
        FixedSizeBinaryArray::new(bytes as i32, Buffer::from_vec::<u8>(values), None)
    };
    RecordBatch::try_new(schema(), vec![Arc::new(column(10)), Arc::new(column(90))]).unwrap()
}

#[test]
fn batches_roundtrip() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        let mut encoder = BlockEncoder::new(schema(), None).unwrap();
        let batches: Vec<_> = (0..20).map(|n| batch(n as usize * 997, n)).collect();
        for batch in &batches {
            let encoded = encoder.encode(batch).unwrap();
            let mut meta = vec![];
            block::write(&encoded.block, &mut meta);
            meta.extend(b"letter");
            one.lane.send(Header::of(FrameKind::Batch), meta, encoded.parts);
        }
        let decoder = BlockDecoder::new(&schema(), None);
        for batch in &batches {
            let frame = other.frame();
            let (block, message) = block::read(&frame.meta, frame.header.body_bytes).unwrap();
            assert_eq!(message, b"letter");
            block.check(&frame.body).unwrap();
            assert!(decoder.decode(&block, &frame.body).unwrap() == *batch, "{carrier:?}");
        }
    }
}

#[test]
fn fifty_megabyte_value_roundtrips() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        let large: Vec<u8> =
            (0..50_000_001_u32).map(|at| at.wrapping_mul(2_654_435_761) as u8).collect();
        let body = vec![Buffer::from_vec(large.clone())];
        one.lane.send(Header::of(FrameKind::Batch), vec![1; 1 << 20], body);
        one.send(1, b"behind it");
        let frame = other.frame();
        assert_eq!(frame.meta.len(), 1 << 20);
        assert!(frame.body.as_slice() == large, "{carrier:?}");
        assert_eq!(other.frame().meta, b"behind it");
    }
}

#[test]
fn concurrent_lanes_do_not_mix() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let pairs: Vec<_> = (0..8).map(|_| answerer.pair()).collect();
        let endpoints: Vec<_> = pairs.into_iter().map(|(a, b)| (listen(a), listen(b))).collect();
        for number in 0..1000 {
            for (lane, (one, _)) in endpoints.iter().enumerate() {
                one.send(number, &[lane as u8]);
            }
        }
        for (lane, (one, other)) in endpoints.iter().enumerate() {
            for number in 0..1000 {
                let frame = other.frame();
                assert_eq!((frame.header.queue, frame.meta), (number, vec![lane as u8]));
            }
            one.lane.close();
            other.end().unwrap();
        }
    }
}

#[test]
fn queued_frames_precede_bye_and_later_ones_are_dropped() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        for number in 0..5000 {
            one.send(number, &[0; 1000]);
        }
        one.lane.close();
        one.send(9999, b"too late");
        one.end().unwrap();
        other.end().unwrap();
        assert_eq!(other.frames().count(), 5000, "{carrier:?}");
    }
}

#[test]
fn both_ends_may_close_at_once_and_dropping_closes() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        for _ in 0..20 {
            let (calling, called) = answerer.pair();
            let (one, other) = (listen(calling), listen(called));
            one.lane.close();
            other.lane.close();
            one.end().unwrap();
            other.end().unwrap();
        }
        let (calling, called) = answerer.pair();
        let other = listen(called);
        drop(listen(calling).lane);
        other.end().unwrap();
    }
}

#[test]
fn cut_lane_ends_at_both_ends() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        one.lane.cut();
        assert!(one.why().contains("connection to w1: the connection to `w1` was cut at this end"));
        assert!(other.why().contains("`w2` hung up without saying Bye"), "{carrier:?}");
        assert_eq!(one.lane.waiting_bytes(), 0);
    }
}

#[test]
fn frame_above_the_peers_caps_is_not_sent() {
    let caps = Caps { meta_bytes_max: 1 << 20, body_bytes_max: 1000 };
    let answerer = answerer_as(Carrier::Unix, Greeting { caps, ..greeting("w1") });
    let (calling, called) = answerer.pair();
    assert_eq!(calling.peer.caps, caps);
    let (one, _other) = (listen(calling), listen(called));
    one.lane.send(Header::of(FrameKind::Batch), vec![], vec![Buffer::from(vec![0_u8; 1001])]);
    let why = one.why();
    assert!(why.contains("a frame of 1001 bytes, where 1000 were agreed on"), "{why}");
    assert!(why.contains("make batches smaller"), "{why}");
}

#[test]
fn panic_in_the_frame_handler_ends_the_lane() {
    let answerer = answerer(Carrier::Unix);
    let (calling, called) = answerer.pair();
    let one = listen(calling);
    let (sender, ended) = std::sync::mpsc::channel();
    let _lane = euphrates_wire::Lane::start_within(
        None,
        called,
        "test",
        |_| panic!("on purpose"),
        move |end| sender.send(end).unwrap(),
    )
    .unwrap();
    one.send(1, b"");
    let why = ended.recv_timeout(common::LONG).unwrap().unwrap_err().to_string();
    assert!(why.contains("on purpose"), "{why}");
    assert!(one.why().contains("hung up"));
}

#[test]
fn address_in_use_is_named_and_a_stale_socket_file_is_replaced() {
    let keys = || Arc::new(|_| None);
    let bind = |address: &Address| {
        Listener::bind(address, greeting("w1"), keys(), Security::Token, |_| {})
    };
    let folder = tempfile::tempdir().unwrap();
    let unix = Address::Unix(folder.path().join("socket"));
    for address in [unix.clone(), "127.0.0.1:0".parse().unwrap()] {
        let first = bind(&address).unwrap();
        let error = bind(first.address()).unwrap_err().to_string();
        assert!(error.contains(&first.address().to_string()), "{error}");
        assert!(error.contains("remedy: choose another port"), "{error}");
        drop(first);
    }
    let Address::Unix(path) = &unix else { unreachable!() };
    assert!(!path.exists());
    // The file that a killed process has left.
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    assert!(path.exists());
    drop(bind(&unix).unwrap());
    assert!(!path.exists());
    let long = Address::Unix(folder.path().join("x".repeat(200)));
    assert!(bind(&long).unwrap_err().to_string().contains("too long for a socket"));
}

#[test]
fn rate_limited_lane_delays_frames_and_sends_all_when_released() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        // Less than one frame during this test.
        one.lane.limit_rate(Some(1));
        for number in 0..3 {
            one.send(number, &[0; 1000]);
        }
        assert_eq!(other.frame().header.queue, 0);
        assert!(one.lane.waiting_bytes() > 2000, "{carrier:?}");
        other.send(9, b"the other way is free");
        assert_eq!(one.frame().header.queue, 9);
        one.lane.limit_rate(None);
        assert_eq!([other.frame(), other.frame()].map(|frame| frame.header.queue), [1, 2]);
        one.lane.limit_rate(Some(1));
        for number in 3..6 {
            one.send(number, &[0; 1000]);
        }
        // Closing ignores the limit.
        one.lane.close();
        let rest = [other.frame(), other.frame(), other.frame()];
        assert_eq!(rest.map(|frame| frame.header.queue), [3, 4, 5]);
        one.end().unwrap();
        other.end().unwrap();
    }
}
