//! Active messages between endpoints over every carrier: delivery, returns, credits, closing.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use common::LONG;
use common::active::{CARRIERS, all_until, endpoint, pair};
use euphrates_wire::Secret;
use euphrates_wire::active::{
    ActiveEndpoint, ActiveMessage, ActiveOptions, MEDIUM_BYTES_MAX, OutgoingMessage, PeerId,
    RegionPlace, ReplyToken, ReturnReason, ReturnedMessage,
};

const WORDS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, u32::MAX];

fn returns_of(endpoint: &mut ActiveEndpoint) -> Receiver<ReturnedMessage> {
    let (sender, returned) = mpsc::channel();
    endpoint.on_returned(move |message| sender.send(message).unwrap_or(()));
    returned
}

#[test]
fn messages_of_every_kind_reach_their_handlers_with_their_data() {
    for carrier in CARRIERS {
        let (mut client, mut server, peer) = pair(carrier);
        let (sender, seen) = mpsc::channel();
        server.on_request(1, move |_, message| {
            sender.send((message.arguments, message.data.to_vec(), message.placed)).unwrap_or(());
        });
        let region = server.register(1 << 20).unwrap();
        let large: Vec<u8> = (0..600_000_u32).map(|at| (at * 7) as u8).collect();
        let place = RegionPlace { key: region.key(), offset: 5 };
        for length in [0, 1, MEDIUM_BYTES_MAX] {
            let medium = OutgoingMessage::medium(1, WORDS, large[..length].to_vec());
            client.request(peer, medium).unwrap();
        }
        client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
        let data = Buffer::from_vec(large.clone());
        client.request(peer, OutgoingMessage::bulk(1, WORDS, data, place)).unwrap();
        all_until(&mut [&mut client, &mut server], |all| all[0].unsettled_requests() == 0);
        for length in [0, 1, MEDIUM_BYTES_MAX, 0] {
            assert_eq!(seen.try_recv().unwrap(), (WORDS, large[..length].to_vec(), None));
        }
        let bulk = (WORDS, vec![], Some((place, large.len())));
        assert_eq!(seen.try_recv().unwrap(), bulk, "{carrier:?}");
        region.read(|bytes| assert!(bytes[5..][..large.len()] == large[..]));
    }
}

#[test]
fn replies_of_every_kind_reach_the_requester() {
    for carrier in CARRIERS {
        let (mut client, mut server, peer) = pair(carrier);
        let region = client.register(100_000).unwrap();
        server.on_request(1, move |token, message| {
            let [kind, key, ..] = message.arguments;
            let place = RegionPlace { key: key.into(), offset: 1 };
            token.reply(match kind {
                0 => OutgoingMessage::short(2, message.arguments),
                1 => OutgoingMessage::medium(2, message.arguments, message.data.to_vec()),
                _ => {
                    let data = Buffer::from_vec(vec![kind as u8; 99_999]);
                    OutgoingMessage::bulk(2, message.arguments, data, place)
                }
            });
        });
        let (sender, seen) = mpsc::channel();
        client.on_reply(2, move |message: ActiveMessage<'_>| {
            let placed = message.placed.map(|(_, bytes)| bytes);
            sender.send((message.arguments[0], message.data.to_vec(), placed)).unwrap_or(());
        });
        for kind in 0..3 {
            let words = [kind, region.key() as u32, 0, 0, 0, 0, 0, 0];
            client.request(peer, OutgoingMessage::medium(1, words, b"data".to_vec())).unwrap();
        }
        let mut replies = vec![];
        all_until(&mut [&mut client, &mut server], |_| {
            replies.extend(seen.try_iter());
            replies.len() == 3
        });
        let expected = [(0, vec![], None), (1, b"data".to_vec(), None), (2, vec![], Some(99_999))];
        assert_eq!(replies, expected, "{carrier:?}");
        region.read(|bytes| assert!(bytes[0] == 0 && bytes[1..] == [2; 99_999]));
    }
}

#[test]
fn every_fault_returns_the_whole_message_once_with_its_reason() {
    for carrier in CARRIERS {
        let secret = Secret::random().unwrap();
        let (folder, mut server) = endpoint(carrier, "w1", &secret, ActiveOptions::default());
        let options =
            ActiveOptions { message_bytes_max: 200_000, ..common::active::options(carrier) };
        let mut client = ActiveEndpoint::bind("w2", None, &secret, options).unwrap();
        let peer = client.connect(server.address().unwrap(), LONG).unwrap();
        let handled: Arc<AtomicU32> = Arc::default();
        let counting = handled.clone();
        server.on_request(1, move |_: ReplyToken<'_>, _| {
            counting.fetch_add(1, SeqCst);
        });
        server.on_request(2, |token, _| token.decline());
        let region = server.register(1000).unwrap();
        let place = |key, offset| RegionPlace { key, offset };
        let bulk = |bytes, place| {
            OutgoingMessage::bulk(1, WORDS, Buffer::from_vec(vec![9_u8; bytes]), place)
        };
        let medium = |bytes| OutgoingMessage::medium(1, WORDS, vec![8; bytes]);
        let here = place(region.key(), 0);
        let faults = [
            (OutgoingMessage::short(7, WORDS), ReturnReason::NoHandler),
            (OutgoingMessage::short(2, WORDS), ReturnReason::Declined),
            (bulk(10, place(99, 0)), ReturnReason::NoRegion),
            (bulk(1001, here), ReturnReason::RegionTooSmall { region_bytes: 1000 }),
            (
                bulk(1, place(region.key(), 1000)),
                ReturnReason::RegionTooSmall { region_bytes: 1000 },
            ),
            (medium(65_537), ReturnReason::TooLarge { bytes_max: 65_536 }),
            (bulk(200_001, here), ReturnReason::TooLarge { bytes_max: 200_000 }),
        ];
        let returned = returns_of(&mut client);
        let mut expected = vec![];
        for (message, reason) in faults {
            client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
            client.request(peer, message.clone()).unwrap();
            expected.push(ReturnedMessage { to: peer, is_reply: false, message, reason });
        }
        all_until(&mut [&mut client, &mut server], |all| all[0].unsettled_requests() == 0);
        let mut seen: Vec<ReturnedMessage> = returned.try_iter().collect();
        // Those that were not sent return sooner.
        let key = |message: &ReturnedMessage| format!("{:?}", message.reason);
        seen.sort_by_key(key);
        expected.sort_by_key(key);
        assert!(seen == expected, "{carrier:?}: {seen:#?}");
        assert_eq!(handled.load(SeqCst), 7);
        assert!(region.read(|bytes| bytes.iter().all(|byte| *byte == 0)), "nothing was placed");
        drop(folder);
    }
}

#[test]
fn reply_without_a_handler_returns_to_the_replier() {
    let (mut client, mut server, peer) = pair(CARRIERS[0]);
    let returned = returns_of(&mut server);
    server.on_request(1, |token, _| token.reply(OutgoingMessage::short(77, WORDS)));
    client.request(peer, OutgoingMessage::short(1, [0; 8])).unwrap();
    let mut seen = vec![];
    all_until(&mut [&mut client, &mut server], |_| {
        seen.extend(returned.try_iter());
        !seen.is_empty()
    });
    let [message] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((message.is_reply, message.reason), (true, ReturnReason::NoHandler));
    assert_eq!(message.message, OutgoingMessage::short(77, WORDS));
    assert_eq!(client.unsettled_requests(), 0, "the request was delivered");
}

#[test]
fn message_that_returns_without_a_handler_for_it_is_an_error() {
    let (mut client, mut server, peer) = pair(CARRIERS[0]);
    client.request(peer, OutgoingMessage::short(5, WORDS)).unwrap();
    let error = loop {
        server.poll().unwrap();
        if let Err(error) = client.poll() {
            break error;
        }
    };
    let text = error.to_string();
    assert!(text.contains("a request for handler 5 of peer 0: it has no such handler"), "{text}");
    assert!(error.advice().is_some());
}

#[test]
fn request_without_a_credit_is_given_back_until_others_are_settled() {
    for carrier in CARRIERS {
        let secret = Secret::random().unwrap();
        let (_folder, mut server) = endpoint(carrier, "w1", &secret, ActiveOptions::default());
        let options = ActiveOptions { requests_max: 3, ..common::active::options(carrier) };
        let mut client = ActiveEndpoint::bind("w2", None, &secret, options).unwrap();
        let peer = client.connect(server.address().unwrap(), LONG).unwrap();
        server.on_request(1, |_, _| {});
        let message = OutgoingMessage::short(1, WORDS);
        for _ in 0..3 {
            assert_eq!(client.try_request(peer, message.clone()).unwrap(), None);
        }
        let back = client.try_request(peer, message.clone()).unwrap();
        assert_eq!(back, Some(message.clone()), "{carrier:?}");
        all_until(&mut [&mut client, &mut server], |all| all[0].unsettled_requests() == 0);
        assert_eq!(client.try_request(peer, message).unwrap(), None);
    }
}

#[test]
fn requests_after_a_peer_has_closed_return_as_not_handled() {
    for carrier in CARRIERS {
        let (mut client, mut server, peer) = pair(carrier);
        let returned = returns_of(&mut client);
        let count: Arc<AtomicU32> = Arc::default();
        let counting = count.clone();
        server.on_request(1, move |_, _| {
            counting.fetch_add(1, SeqCst);
        });
        for _ in 0..10 {
            client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
        }
        while server.peers().count() == 0 {
            server.wait(Some(Instant::now() + LONG)).unwrap();
        }
        // It may have handled some of them.
        server.poll().unwrap();
        drop(server);
        while client.peers().count() > 0 {
            client.wait(Some(Instant::now() + LONG)).unwrap();
        }
        client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
        client.poll().unwrap();
        let returned: Vec<ReturnReason> = returned.try_iter().map(|back| back.reason).collect();
        let handled = count.load(SeqCst) as usize;
        assert_eq!(returned, vec![ReturnReason::NoEndpoint; 11 - handled], "{carrier:?}");
        assert_eq!(client.losses().count(), 0);
    }
}

#[test]
fn closing_endpoint_settles_its_own_messages_and_returns_those_of_others() {
    for carrier in CARRIERS {
        let (mut client, mut server, peer) = pair(carrier);
        let returned = returns_of(&mut server);
        client.on_request(1, |_, _| panic!("its endpoint was closing"));
        client.on_reply(2, |_| {});
        server.on_request(1, |token, _| token.reply(OutgoingMessage::short(2, WORDS)));
        for _ in 0..5 {
            client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
        }
        // The server has no peer before it has polled.
        while server.peers().count() == 0 {
            server.wait(Some(Instant::now() + LONG)).unwrap();
        }
        let back = server.peers().next().unwrap();
        server.request(back, OutgoingMessage::short(1, WORDS)).unwrap();
        let serving = thread::spawn(move || {
            while server.peers().count() > 0 {
                server.wait(Some(Instant::now() + LONG)).unwrap();
            }
        });
        client.close(Instant::now() + LONG).unwrap();
        serving.join().unwrap();
        let reasons: Vec<ReturnReason> = returned.try_iter().map(|back| back.reason).collect();
        assert_eq!(reasons, [ReturnReason::NoEndpoint], "{carrier:?}");
    }
}

/// Sends requests while it answers those of the other end, until both are done.
fn flood(mut endpoint: ActiveEndpoint, peer: Option<PeerId>, count: u32) -> (u32, u32) {
    let replies: Arc<AtomicU32> = Arc::default();
    let requests: Arc<AtomicU32> = Arc::default();
    let (counting, answering) = (replies.clone(), requests.clone());
    endpoint.on_reply(2, move |_| {
        counting.fetch_add(1, SeqCst);
    });
    endpoint.on_request(1, move |token, message| {
        answering.fetch_add(1, SeqCst);
        // Every third request has no reply.
        if !message.arguments[0].is_multiple_of(3) {
            token.reply(OutgoingMessage::medium(2, message.arguments, message.data.to_vec()));
        }
    });
    let peer = peer.unwrap_or_else(|| {
        loop {
            endpoint.wait(Some(Instant::now() + LONG)).unwrap();
            if let Some(peer) = endpoint.peers().next() {
                break peer;
            }
        }
    });
    for number in 0..count {
        let words = [number, 0, 0, 0, 0, 0, 0, 0];
        let data = vec![7; number as usize % 2000];
        endpoint.request(peer, OutgoingMessage::medium(1, words, data)).unwrap();
    }
    let seen = |of: &AtomicU32| of.load(SeqCst);
    let expected = count - count.div_ceil(3);
    while seen(&requests) < count || seen(&replies) < expected || endpoint.unsettled_requests() > 0
    {
        endpoint.wait(Some(Instant::now() + LONG)).unwrap();
    }
    endpoint.close(Instant::now() + LONG).unwrap();
    (seen(&requests), seen(&replies))
}

#[test]
fn two_ends_that_flood_each_other_finish_with_any_number_of_credits() {
    for carrier in CARRIERS {
        for requests_max in [1, 2, 7, 256] {
            let secret = Secret::random().unwrap();
            let options = ActiveOptions { requests_max, ..common::active::options(carrier) };
            let (_folder, server) = endpoint(carrier, "w1", &secret, options.clone());
            let mut client = ActiveEndpoint::bind("w2", None, &secret, options).unwrap();
            let peer = client.connect(server.address().unwrap(), LONG).unwrap();
            let count = 1500;
            let serving = thread::spawn(move || flood(server, None, count));
            let calling = flood(client, Some(peer), count);
            let expected = (count, count - count.div_ceil(3));
            assert_eq!([calling, serving.join().unwrap()], [expected; 2], "{carrier:?}");
        }
    }
}

#[test]
fn wait_ends_at_its_deadline_and_at_an_arrival() {
    let (mut client, mut server, peer) = pair(CARRIERS[0]);
    client.poll().unwrap();
    assert_eq!(client.wait(Some(Instant::now() + Duration::from_millis(5))).unwrap(), 0);
    server.on_request(1, |token, _| token.reply(OutgoingMessage::short(2, WORDS)));
    client.on_reply(2, |_| {});
    let doorbell = client.doorbell();
    let waiting = thread::spawn(move || doorbell.wait(Some(Instant::now() + LONG)));
    client.request(peer, OutgoingMessage::short(1, WORDS)).unwrap();
    while client.unsettled_requests() > 0 {
        server.poll().unwrap();
        if waiting.is_finished() {
            client.poll().unwrap();
        }
    }
    assert!(waiting.join().unwrap(), "the reply has arrived");
}

#[test]
fn messages_of_a_peer_are_handled_in_their_order() {
    for carrier in CARRIERS {
        let (mut client, mut server, peer) = pair(carrier);
        let (sender, seen) = mpsc::channel();
        server.on_request(1, move |_, message| sender.send(message.arguments[0]).unwrap_or(()));
        let serving = thread::spawn(move || {
            let mut had_peers = false;
            while !had_peers || server.peers().count() > 0 {
                server.wait(Some(Instant::now() + LONG)).unwrap();
                had_peers |= server.peers().count() > 0;
            }
        });
        for number in 0..5000 {
            let data = vec![0; (number as usize * 37) % 40_000];
            let words = [number, 0, 0, 0, 0, 0, 0, 0];
            client.request(peer, OutgoingMessage::medium(1, words, data)).unwrap();
        }
        client.close(Instant::now() + LONG).unwrap();
        serving.join().unwrap();
        assert!(seen.try_iter().eq(0..5000), "{carrier:?}");
    }
}

#[test]
fn wrong_options_and_peers_of_other_endpoints_are_refused() {
    let secret = Secret::random().unwrap();
    for requests_max in [0, 257] {
        let options = ActiveOptions { requests_max, ..ActiveOptions::default() };
        let error = ActiveEndpoint::bind("w1", None, &secret, options).unwrap_err();
        assert!(error.advice().unwrap().contains("1 to 256"), "{error}");
    }
    let (_client, server, peer) = pair(CARRIERS[0]);
    let mut other = ActiveEndpoint::bind("w3", None, &secret, ActiveOptions::default()).unwrap();
    let error = other.request(peer, OutgoingMessage::short(1, WORDS)).unwrap_err();
    assert!(error.to_string().contains("peer 0 is of another endpoint"), "{error}");
    let other = Secret::random().unwrap();
    let mut stranger =
        ActiveEndpoint::bind("w4", None, &other, common::active::options(CARRIERS[0])).unwrap();
    assert!(stranger.connect(server.address().unwrap(), LONG).is_err());
    assert_eq!(stranger.peers().count(), 0);
}
