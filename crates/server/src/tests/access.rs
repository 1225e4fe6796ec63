//! Access control of a studio: sessions, host names, origins, headers and limits. Each line of
//! docs/security.md on access is a test.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::site::Site;
use crate::routes::routes;
use crate::settings::ServerSettings;

const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY"];

fn path_of(template: &str) -> String {
    template.replace("{*file}", "assets/index.js").replace("{id}", "0-0-0")
}

#[test]
fn every_route_and_method_requires_a_session() {
    let site = Site::new();
    let host = format!("Host: 127.0.0.1:{}\r\n", site.port());
    let wrong = format!("{host}Cookie: euphrates_{}=0\r\nAuthorization: Bearer 0\r\n", site.port());
    let own = "Sec-Fetch-Site: same-origin\r\nX-Euphrates: 1\r\nContent-Type: application/json\r\n";
    let paths = routes().into_iter().map(|route| path_of(route.path));
    for path in paths.chain(["/nowhere".into(), "/api".into(), "/?code=0".into()]) {
        for method in METHODS {
            for headers in [&host, &wrong, &format!("{wrong}{own}")] {
                let answer = site.send(&format!("{method} {path}"), headers, "{}");
                assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
            }
        }
    }
}

#[test]
fn sign_in_code_is_valid_once_and_leaves_the_address() {
    let site = Site::new();
    let host = format!("Host: 127.0.0.1:{}\r\n", site.port());
    let link = site.server.link().unwrap();
    let (_, code) = link.split_once("/?").unwrap();
    assert!(code.len() >= "code=".len() + 64);
    let answer = site.send(&format!("GET /?{code}"), &host, "");
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap();
    let (pair, rest) = cookie.split_once(';').unwrap();
    assert!(pair.starts_with(&format!("euphrates_{}=", site.port())), "{cookie}");
    assert_eq!(rest, " HttpOnly; SameSite=Strict; Path=/");
    let page = site.send("GET /", &format!("{host}Cookie: {pair}\r\n"), "");
    assert_eq!(page.status, 200);
    assert_eq!(site.send(&format!("GET /?{code}"), &host, "").status, 401);
    // Only the link's method and path accept a code.
    let fresh = site.server.link().unwrap();
    let (_, code) = fresh.split_once("/?").unwrap();
    assert_eq!(site.send(&format!("POST /?{code}"), &host, "").status, 401);
    assert_eq!(site.send(&format!("GET /api/files?{code}"), &host, "").status, 401);
}

#[test]
fn cross_site_navigation_reloads_the_page_once() {
    let site = Site::new();
    let host = format!("Host: 127.0.0.1:{}\r\n", site.port());
    let from = |place: &str| {
        let headers = format!("{host}Sec-Fetch-Site: {place}\r\nSec-Fetch-Mode: navigate\r\n");
        let answer = site.send("GET /", &headers, "");
        assert_eq!(answer.status, 401);
        answer.body.contains("http-equiv=\"refresh\"")
    };
    assert_eq!(["cross-site", "same-origin", "none"].map(from), [true, false, false]);
}

#[test]
fn token_file_is_private_and_grants_access() {
    let site = Site::new();
    let host = format!("Host: localhost:{}\r\n", site.port());
    let answer = site.send(
        "GET /api/session",
        &format!("{host}Authorization: Bearer {}\r\n", site.token()),
        "",
    );
    assert_eq!(answer.status, 200);
    let file = site.server.link_file().unwrap();
    for path in [file.with_extension("token"), file.clone()] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    drop(site);
    assert!(!file.exists());
}

#[test]
fn server_listens_on_loopback_only() {
    assert!(Site::new().server.address.ip().is_loopback());
}

#[test]
fn foreign_host_names_are_rejected() {
    let site = Site::new();
    let session = site.session();
    let own = format!("Host: 127.0.0.1:{}", site.port());
    let port = site.port();
    let foreign = [
        "evil.example".to_string(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".into(),
        "localhost:1".into(),
        format!("127.0.0.1:{port}, evil.example"),
        format!("user@127.0.0.1:{port}"),
        String::new(),
    ];
    for host in foreign {
        let headers = session.replace(&own, &format!("Host: {host}"));
        for line in ["GET /", "GET /api/events", "GET /api/files", "POST /api/check", "HEAD /"] {
            let status = site.send(line, &headers, "{}").status;
            assert!([400, 403].contains(&status), "{line} {host}: {status}");
        }
    }
    let twice = format!("{session}Host: 127.0.0.1:{port}\r\n");
    assert!([400, 403].contains(&site.send("GET /api/files", &twice, "").status));
    let absolute = format!("GET http://evil.example:{port}/api/files");
    assert_eq!(site.send(&absolute, &session, "").status, 403);
    for name in ["localhost", "[::1]"] {
        let headers = session.replace(&own, &format!("Host: {name}:{port}"));
        assert_eq!(site.send("GET /api/files", &headers, "").status, 200);
    }
    let tunnel = Site::with(|settings| ServerSettings {
        allowed_hosts: vec!["laptop:8000".into()],
        ..settings
    });
    let own = format!("Host: 127.0.0.1:{}", tunnel.port());
    let headers = tunnel.session().replace(&own, "Host: laptop:8000");
    assert_eq!(tunnel.send("GET /api/files", &headers, "").status, 200);
}

#[test]
fn unsafe_methods_require_a_same_origin_page() {
    let site = Site::new();
    let (session, port) = (site.session(), site.port());
    let body = json!({"path": "a.json", "text": "{}", "version": null}).to_string();
    let put = |headers: &str| site.send("PUT /api/file", headers, &body).status;
    let from = |site: &str| session.replace("Sec-Fetch-Site: same-origin\r\n", site);
    for site in ["same-site", "cross-site", "none", "", "same-origin, same-origin"] {
        assert_eq!(put(&from(&format!("Sec-Fetch-Site: {site}\r\n"))), 403, "{site}");
    }
    for origin in ["null", "http://evil.example", "https://127.0.0.1", "http://localhost:1"] {
        assert_eq!(put(&from(&format!("Origin: {origin}\r\n"))), 403, "{origin}");
    }
    assert_eq!(put(&from("")), 403);
    assert_eq!(put(&session.replace("X-Euphrates: 1\r\n", "")), 403);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
        assert_eq!(put(&session.replace("application/json", kind)), 415, "{kind}");
    }
    assert!(!site.root.path().join("a.json").exists());
    assert_eq!(put(&from(&format!("Origin: http://127.0.0.1:{port}\r\n"))), 200);
    // Unknown methods are treated as unsafe.
    let odd = from("Sec-Fetch-Site: cross-site\r\n");
    for method in ["DELETE", "PATCH", "QUERY", "TRACE"] {
        assert_eq!(site.send(&format!("{method} /api/draft?path=a.json"), &odd, "").status, 403);
    }
}

#[test]
fn server_offers_no_cors_and_no_websockets() {
    let site = Site::new();
    let session = format!("{}Origin: http://evil.example\r\n", site.session());
    for route in routes().into_iter().filter(|route| route.path != "/api/events") {
        let path = path_of(route.path);
        assert_eq!(site.send(&format!("OPTIONS {path}"), &session, "").status, 405);
        let answer = site.send(&format!("{} {path}", route.method), &session, "{}");
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    }
    let upgrade = format!("{session}Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    assert_ne!(site.send("GET /", &upgrade, "").status, 101);
}

#[test]
fn every_response_has_the_security_headers() {
    let site = Site::new();
    for (line, headers) in [
        ("GET /", site.session()),
        ("GET /api/session", site.session()),
        ("GET /api/nothing", site.session()),
        ("GET /", format!("Host: 127.0.0.1:{}\r\n", site.port())),
        ("GET /", "Host: evil.example\r\n".into()),
    ] {
        let answer = site.send(line, &headers, "");
        let policy = answer.header("content-security-policy").unwrap();
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule));
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{line}");
        }
    }
}

#[test]
fn read_only_server_rejects_writes() {
    let site = Site::with(|settings| ServerSettings { read_only: true, ..settings });
    site.put("a.json", "{}");
    for route in routes().into_iter().filter(|route| route.method != axum::http::Method::GET) {
        let path = path_of(route.path);
        let status = site.ask(&format!("{} {path}?path=a.json", route.method), "{}").status;
        assert_eq!(status == 403, path != "/api/check", "{path}: {status}");
    }
    assert_eq!(site.ask("GET /api/file?path=a.json", "").status, 200);
    assert_eq!(site.ask("GET /api/session", "").json()["read_only"], true);
}

#[test]
fn bodies_connections_and_streams_are_limited() {
    let site = Site::new();
    let long = format!("{{\"path\": \"{}\"}}", "a".repeat(5 << 20));
    assert_eq!(site.ask("PUT /api/file", &long).status, 413);
    let stream = || {
        let mut stream = site.connect();
        write!(stream, "GET /api/events HTTP/1.1\r\n{}\r\n", site.session()).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        (stream, String::from_utf8_lossy(&begin).into_owned())
    };
    let streams: Vec<_> = (0..8).map(|_| stream()).collect();
    assert!(streams.iter().all(|(_, begin)| begin.ends_with("200")));
    assert!(stream().1.ends_with("429"));
    drop(streams);
    // Idle connections are closed for new ones.
    let silent: Vec<_> = (0..80).map(|_| site.connect()).collect();
    assert_eq!(site.ask("GET /api/session", "").status, 200);
    drop(silent);
}
