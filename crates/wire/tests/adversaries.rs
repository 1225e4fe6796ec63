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
    Address, FrameKind, FrameReceiver, FrameSender, Greeting, Header, Listener, Secret, Security,
    dial,
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
        let at_caller = refused(&answerer, &greeting("w2"), &other, carrier.security());
        let at_answerer = answerer.refusals();
        for text in [&at_caller, &at_answerer] {
            assert!(text.contains("different tokens") || text.contains("another secret"), "{text}");
            assert!(text.contains("remedy: give both ends the same token"), "{text}");
            assert!(!text.contains(&other.to_text()), "{text}");
            assert!(!text.contains(&answerer.secret.to_text()), "{text}");
        }
        let lines = answerer.listener.lines().concat();
        assert!(lines.contains("Z refused "), "{lines}");
        assert!(lines.contains("different tokens") || lines.contains("another secret"), "{lines}");
        assert!(answerer.has_no_caller());
    }
}

#[test]
fn unknown_flow_is_named() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let me = Greeting { flow: 8, ..greeting("w2") };
        let at_caller = refused(&answerer, &me, &answerer.secret, carrier.security());
        assert!(
            at_caller.contains("no flow 8") || at_caller.contains("no such flow"),
            "{at_caller}"
        );
        assert!(at_caller.contains("look whether the flow has ended"), "{at_caller}");
        let at_answerer = answerer.refusals();
        assert!(at_answerer.contains("`w1` knows of no flow 8"), "{at_answerer}");
        assert!(answerer.has_no_caller());
    }
}

#[test]
fn other_program_version_is_named_at_both_ends() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let me = Greeting { program: "0.2.0".into(), ..greeting("w2") };
        let at_caller = refused(&answerer, &me, &answerer.secret, carrier.security());
        let at_answerer = answerer.refusals();
        for text in [at_caller, at_answerer] {
            assert!(text.contains("`w2` runs Euphrates 0.2.0, but `w1` runs 0.1.0"), "{text}");
            assert!(text.contains("install the same version"), "{text}");
        }
    }
}

#[test]
fn tls_at_one_end_only_is_refused_with_a_remedy() {
    for (here, there, expected) in [
        (Carrier::Tls, Security::Token, "the caller does not use TLS"),
        (Carrier::Tcp, Security::Tls, "the caller speaks TLS, and this end does not"),
    ] {
        let answerer = answerer(here);
        let at_caller = refused(&answerer, &greeting("w2"), &answerer.secret, there);
        assert!(
            at_caller.contains("which this end requires") || at_caller.contains("does not use TLS"),
            "{at_caller}"
        );
        assert!(at_caller.contains("remedy: set `channel_security` to the same"), "{at_caller}");
        let at_answerer = answerer.refusals();
        assert!(at_answerer.contains(expected), "{at_answerer}");
    }
}

#[test]
fn other_protocol_version_is_named_at_both_ends() {
    // A caller with a newer protocol.
    let answerer = answerer(Carrier::Tcp);
    let mut stream = TcpStream::connect(answerer.listener.address().to_string()).unwrap();
    let mut header = Header::of(FrameKind::Hello).encode();
    header[4] = 9;
    stream.write_all(&header).unwrap();
    stream.write_all(&[0; 100]).unwrap();
    let at_answerer = answerer.refusals();
    assert!(at_answerer.contains("speaks version 9 of the protocol, this 1"), "{at_answerer}");
    assert!(at_answerer.contains("install the same version of Euphrates"), "{at_answerer}");
    // The header of the Bye shows this end's version.
    let mut at_caller = vec![];
    stream.read_to_end(&mut at_caller).unwrap();
    assert_eq!(at_caller[4..6], [1, 0]);
    let bye = FrameReceiver::new(&at_caller[..], Caps::KNOWN).receive().unwrap().unwrap();
    assert_eq!(bye.header.kind, FrameKind::Bye);
    assert!(String::from_utf8_lossy(&bye.meta).contains("speaks version 9"));

    // An answerer with a newer protocol.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let future = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&header).unwrap();
        let mut at_caller = vec![];
        stream.read_to_end(&mut at_caller).unwrap();
        at_caller
    });
    let secret = Secret::random().unwrap();
    let error = dial(&address, &greeting("w2"), &secret, Security::Token, LONG).unwrap_err();
    assert!(error.to_string().contains("speaks version 9 of the protocol, this 1"), "{error}");
    let at_caller = future.join().unwrap();
    assert!(String::from_utf8_lossy(&at_caller).contains("speaks version 9"), "it was told why");
}

#[test]
fn foreign_protocols_are_recognised() {
    for (carrier, asked, expected) in [
        (
            Carrier::Tcp,
            &b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
                [..],
            "no frame",
        ),
        (Carrier::Tls, &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "does not use TLS"),
        (Carrier::Tls, &[22, 3, 1, 255, 255][..], "TLS failed"),
        (Carrier::Unix, &[0; 64][..], "no frame"),
    ] {
        let answerer = answerer(carrier);
        let mut stream = call(answerer.listener.address());
        stream.write_all(asked).unwrap();
        let at_answerer = answerer.refusals();
        assert!(at_answerer.contains(expected), "{at_answerer}");
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
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).unwrap();
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
            one.send(number, b"");
            assert_eq!(other.frame().header.queue, number);
        }
        stalling.iter_mut().for_each(|peer| until_end(&mut **peer));
        assert!(since.elapsed() < HANDSHAKE_WAIT * 4, "{:?}", since.elapsed());
        assert!(answerer.has_no_caller());
    });
}

#[test]
fn caller_that_sends_too_much_before_authenticating_is_cut_off() {
    for carrier in CARRIERS {
        let answerer = answerer(carrier);
        let mut stream = call(answerer.listener.address());
        // Well-formed, but more than a handshake needs.
        let mut sent = vec![];
        if carrier == Carrier::Tls {
            // A ClientHello of 60 kB, in records of 1000.
            let mut hello = vec![1, 0, 0xea, 0x60];
            hello.resize(60_000, 0);
            for part in hello.chunks(1000) {
                sent.extend([22, 3, 1, (part.len() >> 8) as u8, part.len() as u8]);
                sent.extend(part);
            }
        } else {
            let mut sender = FrameSender::new(&mut sent);
            (0..1000).for_each(|_| sender.send(Header::of(FrameKind::Beat), &[], &[]).unwrap());
        }
        let _ = stream.write_all(&sent);
        let at_answerer = answerer.refusals();
        assert!(
            at_answerer.contains("says too much") || at_answerer.contains("Beat where Hello"),
            "{at_answerer}"
        );
        until_end(&mut *stream);
    }
}

#[test]
fn oversized_frame_of_an_unauthenticated_peer_is_refused_by_its_header() {
    let answerer = answerer(Carrier::Tcp);
    let mut stream = call(answerer.listener.address());
    let header = Header { meta_bytes: 5000, ..Header::of(FrameKind::Hello) };
    stream.write_all(&header.encode()).unwrap();
    let at_answerer = answerer.refusals();
    assert!(at_answerer.contains("a frame of 5000 bytes, where 4096 are allowed"), "{at_answerer}");
    let mut at_caller = vec![];
    stream.read_to_end(&mut at_caller).unwrap();
    assert!(at_caller.len() > HEADER_BYTES, "it was told why");
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
        one.send(1, b"still here");
        assert_eq!(other.frame().meta, b"still here");
    }
}

const CALL: &str = "EUPHRATES_TEST_CALL_AS_ANOTHER";

/// Not a test of its own: run as another process, it dials the address that the variable names.
#[test]
fn another_user() {
    let Ok(at_caller) = std::env::var(CALL) else { return };
    let (address, secret) = at_caller.split_once(' ').unwrap();
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
    let at_answerer: Vec<String> = listener.refusals().iter().map(ToString::to_string).collect();
    let expected = "the other end belongs to user 65534, this one to 0";
    assert!(at_answerer.iter().any(|text| text.contains(expected)), "{at_answerer:?}");
}
