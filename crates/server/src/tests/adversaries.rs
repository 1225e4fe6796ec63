//! Adversarial clients and files: slow connections, misplaced secrets, named pipes. See
//! docs/security.md.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::Refusals;
use futures::FutureExt;
use serde_json::json;

use super::site::Site;
use crate::http::connections::{AUTHENTICATED_MAX, Connections, Timeouts, UNAUTHENTICATED_MAX};

/// A slow client (slow-loris): connects and sends an incomplete request.
fn slow_client(site: &Site, kind: usize) -> TcpStream {
    let mut stream = site.connect();
    let host = format!("Host: 127.0.0.1:{}\r\n", site.port());
    let sent = match kind {
        0 => String::new(),
        1 => format!("GET / HTTP/1.1\r\n{host}X-A: a"),
        2 => format!("PUT /api/file HTTP/1.1\r\n{host}Content-Length: 1000\r\n\r\n{{"),
        _ => format!("GET / HTTP/1.1\r\n{host}\r\n").repeat(100),
    };
    // The server may have closed it already.
    let _ = stream.write_all(sent.as_bytes());
    stream
}

/// The status of the next answer on a connection that stays open.
fn next_status(stream: &mut BufReader<TcpStream>) -> String {
    let (mut first, mut length, mut line) = (String::new(), 0, String::new());
    stream.read_line(&mut first).unwrap();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).unwrap();
    first.split(' ').nth(1).unwrap_or_default().to_string()
}

/// Reads lines until one contains `wanted`.
fn read_until(stream: &mut BufReader<TcpStream>, wanted: &str) {
    let mut line = String::new();
    while !line.contains(wanted) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream has ended");
    }
}

/// An open event stream, after its first message.
fn events(site: &Site) -> BufReader<TcpStream> {
    let mut stream = site.connect();
    write!(stream, "GET /api/events HTTP/1.1\r\n{}\r\n", site.session()).unwrap();
    let mut stream = BufReader::new(stream);
    read_until(&mut stream, "retry");
    stream
}

#[test]
fn slow_connections_make_room_for_new_requests() {
    for count in [UNAUTHENTICATED_MAX, 200] {
        for kind in 0..4 {
            let site = Site::new();
            let mut kept = BufReader::new(site.connect());
            let mut events = events(&site);
            let mut again = || {
                let request = format!("GET /api/session HTTP/1.1\r\n{}\r\n", site.session());
                kept.get_mut().write_all(request.as_bytes()).unwrap();
                next_status(&mut kept)
            };
            assert_eq!(again(), "200");
            let held: Vec<_> = (0..count).map(|_| slow_client(&site, kind)).collect();
            assert_eq!(site.ask("GET /api/session", "").status, 200, "{count} of kind {kind}");
            // The authenticated connection is still open.
            assert_eq!(again(), "200");
            site.put("a.json", "one");
            assert_eq!(site.ask("GET /api/file?path=a.json", "").status, 200);
            site.put("a.json", "two!");
            read_until(&mut events, "event: file");
            drop(held);
        }
    }
}

#[test]
fn slow_connections_with_a_session_make_room_for_new_requests() {
    let site = Site::new();
    site.put("long.json", &"x".repeat(1 << 20));
    let mut events = events(&site);
    let session = site.session();
    let body = format!("PUT /api/file HTTP/1.1\r\n{session}Content-Length: 1000\r\n\r\n{{");
    let answers = format!("GET /api/file?path=long.json HTTP/1.1\r\n{session}\r\n").repeat(32);
    for sent in [body, answers] {
        let hold = || {
            let mut stream = site.connect();
            let _ = stream.write_all(sent.as_bytes());
            stream
        };
        let held: Vec<_> = (0..AUTHENTICATED_MAX + 16).map(|_| hold()).collect();
        assert_eq!(site.ask("GET /api/session", "").status, 200);
        drop(held);
    }
    site.put("a.json", "one");
    assert_eq!(site.ask("GET /api/file?path=a.json", "").status, 200);
    site.put("a.json", "two!");
    read_until(&mut events, "event: file");
}

#[test]
fn closed_connection_with_further_requests_closes_no_other() {
    let refusals = Arc::new(Refusals::default());
    let connections = Arc::new(Connections::new(refusals, Timeouts::default()));
    let held: Vec<_> = (0..=AUTHENTICATED_MAX as u16)
        .map(|port| {
            let connection = connections.add(([127, 0, 0, 1], port).into());
            connection.set_authenticated();
            connection
        })
        .collect();
    assert_eq!(connections.count(), AUTHENTICATED_MAX);
    let closes = |at: usize| held[at].closing().now_or_never().is_some();
    assert!(closes(0));
    // The next request of its pipeline.
    held[0].set_authenticated();
    assert!(!(1..held.len()).any(closes));
    assert_eq!(connections.count(), AUTHENTICATED_MAX);
}

#[test]
fn slow_bodies_responses_and_unauthenticated_clients_time_out() {
    let wait = Duration::from_millis(200);
    let timeouts = Timeouts { request: wait, transfer: wait };
    let site = Site::with_timeouts(|settings| settings, timeouts);
    site.put("long.json", &"x".repeat(4 << 20));
    let session = site.session();
    let ended = |sent: &str| {
        let mut stream = site.connect();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answer = vec![];
        // Closed, or closed with something unread.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let host = format!("Host: 127.0.0.1:{}\r\n", site.port());
    assert_eq!(ended(""), "");
    ended(&format!("GET / HTTP/1.1\r\n{host}X-A: a"));
    ended(&format!("GET / HTTP/1.1\r\n{host}\r\n"));
    let put = format!("PUT /api/file HTTP/1.1\r\n{session}Content-Length: 1000\r\n\r\n{{");
    assert!(ended(&put).starts_with("HTTP/1.1 408 "));
    // The client does not read the response: the connection ends before most of it is sent.
    let mut stream = site.connect();
    let request = format!("GET /api/file?path=long.json HTTP/1.1\r\n{session}\r\n");
    stream.write_all(request.repeat(16).as_bytes()).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    while site.server.connections() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn token_and_cookies_are_not_interchangeable() {
    let site = Site::new();
    let port = site.port();
    let (token, first, second) = (site.token(), site.sign_in(), site.sign_in());
    let value = |cookie: &str| cookie.split_once('=').unwrap().1.to_string();
    assert!(value(&first) != value(&second) && value(&first) != token);
    let status = |header: String| {
        let headers = format!("Host: 127.0.0.1:{port}\r\n{header}\r\n");
        site.send("GET /api/session", &headers, "").status
    };
    let bearer = |secret: &str| status(format!("Authorization: Bearer {secret}"));
    let cookie = |secret: &str| status(format!("Cookie: euphrates_{port}={secret}"));
    assert_eq!((bearer(&token), cookie(&value(&first)), cookie(&value(&second))), (200, 200, 200));
    assert_eq!((cookie(&token), bearer(&value(&first)), bearer(&value(&second))), (401, 401, 401));
    // A signed-in browser gets a new session for a new link, and none for a used one.
    let headers = format!("Host: 127.0.0.1:{port}\r\nCookie: {first}\r\n");
    let link = site.server.link().unwrap();
    let (_, code) = link.split_once("/?").unwrap();
    let answer = site.send(&format!("GET /?{code}"), &headers, "");
    assert!(answer.status == 303 && !answer.header("set-cookie").unwrap().contains(&first));
    let answer = site.send(&format!("GET /?{code}"), &headers, "");
    assert_eq!((answer.status, answer.header("set-cookie")), (303, None));
    // Many sign-ins: a session in use stays valid, an unused one is dropped.
    for _ in 0..20 {
        site.sign_in();
        assert_eq!(cookie(&value(&first)), 200);
    }
    assert_eq!(cookie(&value(&second)), 401);
}

#[test]
fn refusals_are_logged_without_secrets() {
    let site = Site::new();
    let session = site.session();
    let link = site.server.link().unwrap();
    let (_, code) = link.split_once("code=").unwrap();
    let host = format!("Host: 127.0.0.1:{}", site.port());
    site.server.refusals();
    let mut lines = vec![];
    for (line, headers, wanted) in [
        (format!("POST /?code={code}"), format!("{host}\r\n"), "POST /: no session"),
        (
            "GET /api/files".into(),
            "Host: evil.example\r\n".into(),
            "GET /api/files: the request is",
        ),
        (
            "PUT /api/file?a=b".into(),
            session.replace("same-origin", "cross-site"),
            "PUT /api/file: the request does not come from a page",
        ),
        ("GET /%1b%5b2J%0aok".into(), format!("{host}\r\n"), "GET /%1b%5b2J%0aok: no session"),
        ("\x01\x02".into(), String::new(), ": this is no request"),
    ] {
        site.send(&line, &headers, "{}");
        let mut logged = vec![];
        while logged.is_empty() {
            // At most one line a second is logged.
            logged = site.server.refusals();
            std::thread::yield_now();
        }
        assert!(logged.len() == 1 && logged[0].contains(wanted), "{logged:?}");
        assert!(logged[0].contains("Z refused 127.0.0.1:"), "{logged:?}");
        lines.extend(logged);
    }
    let all = lines.concat();
    for secret in [code, &site.token(), session.split("euphrates_").nth(1).unwrap()] {
        assert!(!all.contains(secret), "{all}");
    }
}

#[test]
fn checks_of_named_pipes_fail_without_waiting() {
    let site = Site::new();
    let pipe = site.root.path().join("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    site.put("people.csv", "name\nAda\n");
    let file = site.root.path().join("people.csv");
    let check = |module: &str, config: serde_json::Value| {
        let modules = json!([
            {"id": "a", "module": module, "config": config},
            {"id": "b", "module": "collect", "config": {}},
        ]);
        let queues = json!([{"from": "a", "to": "b"}]);
        let document = json!({"euphrates": 1, "name": "x", "modules": modules, "queues": queues});
        let answer = site.ask("POST /api/check", &json!({"document": document}).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    for _ in 0..10 {
        let scanned = check("scan", json!({"path": pipe}));
        let copied = check("copy_in", json!({"path": pipe, "format": "csv"}));
        for response in [scanned, copied] {
            let problem = &response["problems"][0];
            assert_eq!(problem["at"]["module"], "a", "{response}");
            assert!(problem["message"].as_str().unwrap().contains("is a named pipe"), "{response}");
        }
    }
    let response = check("scan", json!({"path": file}));
    assert_eq!(response["problems"], json!([]));
    assert_eq!(response["queues"][0]["schema"][0]["name"], "name");
}

#[test]
fn named_pipes_in_the_project_are_not_opened() {
    let site = Site::new();
    for name in ["x.json", "x.flow.json", "x.py", ".x.json.draft"] {
        let made = Command::new("mkfifo").arg(site.root.path().join(name)).status().unwrap();
        assert!(made.success());
    }
    site.put("real.json", "\"euphrates\"");
    let listed = site.ask("GET /api/files", "").json();
    assert_eq!(listed["files"].as_array().unwrap().len(), 1, "{listed}");
    for path in ["x.json", "x.flow.json", "x.py"] {
        assert_eq!(site.ask(&format!("GET /api/file?path={path}"), "").status, 403);
        let save = json!({"path": path, "text": "mine", "version": null}).to_string();
        assert_eq!(site.ask("PUT /api/file", &save).status, 403);
    }
    assert_eq!(site.ask("GET /api/draft?path=x.json", "").status, 403);
    let script = json!({"path": "x.py", "run": true}).to_string();
    assert_eq!(site.ask("POST /api/script", &script).status, 403);
}
