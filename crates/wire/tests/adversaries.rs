//! Mismatched ends and stalling callers: refusals name their reason and affect no other connection.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Answerer, CARRIERS, Carrier, LONG, answerer, at_each, greeting, listen};
use euphrates_flow::Kind as Failure;
use euphrates_wire::frame::{Caps, HEADER_BYTES};
use euphrates_wire::listener::{HANDSHAKE_WAIT, UNAUTHENTICATED_MAX};
use euphrates_wire::{
    Address, Greeting, Header, Kind, Listener, Receiver, Secret, Security, Sender, dial,
};

/// Dials and expects a refusal; returns its text, with place and remedy.
fn refused(answerer: &Answerer, me: &Greeting, secret: &Secret, security: Security) -> String {
    let address = answerer.listener.address();
    let error = dial(address, me, secret, security, LONG).unwrap_err();
    assert_eq!(error.kind(), Failure::Usage, "{error}");
    assert!(error.to_string().starts_with(&format!("calling {address}: ")), "{error}");
    assert!(error.advice().is_some(), "{error}");
    error.to_string()
}

#[test]
fn different_tokens_are_reported_at_both_ends() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let other = Secret::random().unwrap();
        let told = refused(&answerer, &greeting("w2"), &other, carrier.security());
        let heard = answerer.refusals();
        for text in [&told, &heard] {
            assert!(text.contains("different tokens") || text.contains("another secret"), "{text}");
            assert!(text.contains("remedy: give both ends the same token"), "{text}");
            assert!(!text.contains(&other.to_text()), "{text}");
            assert!(!text.contains(&answerer.secret.to_text()), "{text}");
        }
        let lines = answerer.listener.lines().concat();
        assert!(lines.contains("Z refused "), "{lines}");
        assert!(lines.contains("different tokens") || lines.contains("another secret"), "{lines}");
        assert!(answerer.nobody());
    }
}

#[test]
fn unknown_flow_is_named() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let me = Greeting { flow: 8, ..greeting("w2") };
        let told = refused(&answerer, &me, &answerer.secret, carrier.security());
        assert!(told.contains("no flow 8") || told.contains("no such flow"), "{told}");
        assert!(told.contains("look whether the flow has ended"), "{told}");
        let heard = answerer.refusals();
        assert!(heard.contains("`w1` knows of no flow 8"), "{heard}");
        assert!(answerer.nobody());
    }
}

#[test]
fn other_program_version_is_named_at_both_ends() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let me = Greeting { program: "0.2.0".into(), ..greeting("w2") };
        let told = refused(&answerer, &me, &answerer.secret, carrier.security());
        let heard = answerer.refusals();
        for text in [told, heard] {
            assert!(text.contains("`w2` runs Euphrates 0.2.0, but `w1` runs 0.1.0"), "{text}");
            assert!(text.contains("install the same version"), "{text}");
        }
    }
}

#[test]
fn tls_at_one_end_only_is_refused_with_a_remedy() {
    for (here, there, heard_part) in [
        (Carrier::Tls, Security::Token, "the caller speaks no TLS"),
        (Carrier::Tcp, Security::Tls, "the caller speaks TLS, and this end does not"),
    ] {
        let answerer = answerer(here);
        let told = refused(&answerer, &greeting("w2"), &answerer.secret, there);
        assert!(told.contains("speaks nothing else") || told.contains("speaks no TLS"), "{told}");
        assert!(told.contains("remedy: set `channel_security` to the same"), "{told}");
        let heard = answerer.refusals();
        assert!(heard.contains(heard_part), "{heard}");
    }
}

#[test]
fn other_protocol_version_is_named_at_both_ends() {
    // A caller with a newer protocol.
    let answerer = answerer(Carrier::Tcp);
    let mut stream = TcpStream::connect(answerer.listener.address().to_string()).unwrap();
    let mut header = Header::of(Kind::Hello).encode();
    header[4] = 9;
    stream.write_all(&header).unwrap();
    stream.write_all(&[0; 100]).unwrap();
    let heard = answerer.refusals();
    assert!(heard.contains("speaks version 9 of the protocol, this 1"), "{heard}");
    assert!(heard.contains("install the same version of Euphrates"), "{heard}");
    // The header of the Bye shows this end's version.
    let mut told = vec![];
    stream.read_to_end(&mut told).unwrap();
    assert_eq!(told[4..6], [1, 0]);
    let bye = Receiver::new(&told[..], Caps::KNOWN).receive().unwrap().unwrap();
    assert_eq!(bye.header.kind, Kind::Bye);
    assert!(String::from_utf8_lossy(&bye.meta).contains("speaks version 9"));

    // An answerer with a newer protocol.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let future = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&header).unwrap();
        let mut told = vec![];
        stream.read_to_end(&mut told).unwrap();
        told
    });
    let secret = Secret::random().unwrap();
    let error = dial(&address, &greeting("w2"), &secret, Security::Token, LONG).unwrap_err();
    assert!(error.to_string().contains("speaks version 9 of the protocol, this 1"), "{error}");
    let told = future.join().unwrap();
    assert!(String::from_utf8_lossy(&told).contains("speaks version 9"), "it was told why");
}

#[test]
fn foreign_protocols_are_recognised() {
    for (carrier, asked, heard_part) in [
        (
            Carrier::Tcp,
            &b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
                [..],
            "no frame",
        ),
        (Carrier::Tls, &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "speaks no TLS"),
        (Carrier::Tls, &[22, 3, 1, 255, 255][..], "TLS failed"),
        (Carrier::Unix, &[0; 64][..], "no frame"),
    ] {
        let answerer = answerer(carrier);
        let mut stream = call(answerer.listener.address());
        stream.write_all(asked).unwrap();
        let heard = answerer.refusals();
        assert!(heard.contains(heard_part), "{heard}");
        until_end(&mut *stream);
    }
    // A listener that never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let secret = Secret::random().unwrap();
    for security in [Security::Tls, Security::Token] {
        let soon = Duration::from_millis(100);
        let error = dial(&address, &greeting("w2"), &secret, security, soon).unwrap_err();
        assert!(error.to_string().contains("took too long to say who it is"), "{error}");
    }
    drop(listener);
    let error = dial(&address, &greeting("w2"), &secret, Security::Tls, LONG).unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert!(error.to_string().contains("look whether the other end runs"), "{error}");
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A raw connection to an address.
fn call(address: &Address) -> Box<dyn Stream> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            Box::new(stream)
        }
        Address::Tcp(place) => {
            let stream = TcpStream::connect(place).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            Box::new(stream)
        }
    }
}

/// Reads until the other end has hung up, with or without an error.
fn until_end(stream: &mut dyn Stream) {
    if let Err(error) = stream.read_to_end(&mut vec![]) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "it still waits for more");
    }
}

#[test]
fn stalling_callers_are_disconnected_and_delay_nobody() {
    at_each(|carrier| {
        let answerer = answerer(carrier);
        let (calling, called) = answerer.pair();
        let (one, other) = (listen(calling), listen(called));
        let since = Instant::now();
        let mut stalling: Vec<_> =
            (0..3 * UNAUTHENTICATED_MAX).map(|_| call(answerer.listener.address())).collect();
        let begin = if carrier == Carrier::Tls { 22 } else { b'E' };
        for peer in &mut stalling {
            // Some have been disconnected already.
            let _ = peer.write_all(&[begin]);
        }
        // New callers authenticate, and the existing lane goes on.
        for number in 0..20 {
            let (calling, _called) = answerer.pair();
            assert_eq!(calling.peer.name, "w1");
            one.say(number, b"");
            assert_eq!(other.frame().header.queue, number);
        }
        stalling.iter_mut().for_each(|peer| until_end(&mut **peer));
        assert!(since.elapsed() < HANDSHAKE_WAIT * 4, "{:?}", since.elapsed());
        assert!(answerer.nobody());
    });
}

#[test]
fn caller_that_sends_too_much_before_authenticating_is_cut_off() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let mut stream = call(answerer.listener.address());
        // Well-formed, but more than a handshake needs.
        let mut said = vec![];
        if carrier == Carrier::Tls {
            // A ClientHello of 60 kB, in records of 1000.
            let mut hello = vec![1, 0, 0xea, 0x60];
            hello.resize(60_000, 0);
            for part in hello.chunks(1000) {
                said.extend([22, 3, 1, (part.len() >> 8) as u8, part.len() as u8]);
                said.extend(part);
            }
        } else {
            let mut sender = Sender::new(&mut said);
            (0..1000).for_each(|_| sender.send(Header::of(Kind::Beat), &[], &[]).unwrap());
        }
        let _ = stream.write_all(&said);
        let heard = answerer.refusals();
        assert!(heard.contains("says too much") || heard.contains("Beat where Hello"), "{heard}");
        until_end(&mut *stream);
    }
}

#[test]
fn oversized_frame_of_an_unauthenticated_peer_is_refused_by_its_header() {
    let answerer = answerer(Carrier::Tcp);
    let mut stream = call(answerer.listener.address());
    let header = Header { meta_bytes: 5000, ..Header::of(Kind::Hello) };
    stream.write_all(&header.encode()).unwrap();
    let heard = answerer.refusals();
    assert!(heard.contains("a frame of 5000 bytes, where 4096 are allowed"), "{heard}");
    let mut told = vec![];
    stream.read_to_end(&mut told).unwrap();
    assert!(told.len() > HEADER_BYTES, "it was told why");
}

#[test]
fn dropped_listener_refuses_callers_and_keeps_connections() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let address = answerer.listener.address().clone();
        let mut peer = call(&address);
        let (calling, called) = answerer.pair();
        let Answerer { listener, secret, .. } = answerer;
        drop(listener);
        until_end(&mut *peer);
        let error = dial(&address, &greeting("w2"), &secret, carrier.security(), LONG).unwrap_err();
        assert!(error.to_string().contains("cannot be reached"), "{error}");
        // The authenticated connection stays.
        let (one, other) = (listen(calling), listen(called));
        one.say(1, b"still here");
        assert_eq!(other.frame().meta, b"still here");
    }
}

const CALL: &str = "EUPHRATES_TEST_CALL_AS_ANOTHER";

/// Not a test of its own: run as another process, it dials the address that the variable names.
#[test]
fn another_user() {
    let Ok(told) = std::env::var(CALL) else { return };
    let (address, secret) = told.split_once(' ').unwrap();
    let (address, secret) = (address.parse().unwrap(), Secret::parse(secret).unwrap());
    let error = dial(&address, &greeting("w2"), &secret, Security::Token, LONG).unwrap_err();
    assert!(error.to_string().contains("run both ends as the same user"), "{error}");
}

#[test]
fn other_user_of_this_machine_is_refused_even_with_the_token() {
    // Only root can become another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65_534;
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let secret = Secret::random().unwrap();
    let (known, address) = (secret.clone(), Address::Unix(path.clone()));
    let keys = Arc::new(move |_| Some(known.clone()));
    let on = |_| panic!("somebody was let in");
    let listener = Listener::bind(&address, greeting("w1"), keys, Security::Token, on).unwrap();
    open(folder.path(), 0o755);
    open(&path, 0o777);
    let program = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open(&program, 0o755);
    let status = Command::new(&program)
        .args(["--exact", "another_user"])
        .env(CALL, format!("{address} {}", secret.to_text()))
        .stdout(Stdio::null())
        .uid(NOBODY)
        .status();
    match status {
        Ok(status) => assert!(status.success()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
        Err(error) => panic!("{error}"),
    }
    let heard: Vec<String> = listener.refusals().iter().map(ToString::to_string).collect();
    let expected = "the other end belongs to user 65534, this one to 0";
    assert!(heard.iter().any(|text| text.contains(expected)), "{heard:?}");
}
