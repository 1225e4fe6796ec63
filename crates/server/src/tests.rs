//! What a studio on this machine must do, a line a test: see docs/security.md.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use serde_json::json;

use crate::routes::routes;
use crate::testing::{Answer, Site};

const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY"];

fn path_of(template: &str) -> String {
    template.replace("{*file}", "assets/index.js").replace("{id}", "0-0-0")
}

#[test]
fn nobody_gets_anywhere_without_a_session_by_any_method() {
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
fn a_code_lets_in_once_and_leaves_the_address() {
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
    // By no other way than the link's.
    let fresh = site.server.link().unwrap();
    let (_, code) = fresh.split_once("/?").unwrap();
    assert_eq!(site.send(&format!("POST /?{code}"), &host, "").status, 401);
    assert_eq!(site.send(&format!("GET /api/files?{code}"), &host, "").status, 401);
}

#[test]
fn a_browser_that_comes_from_elsewhere_is_sent_here_once_more_and_no_oftener() {
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
fn programs_of_this_user_show_a_token_that_nobody_else_can_read() {
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
fn it_listens_on_this_machine_alone() {
    assert!(Site::new().server.address.ip().is_loopback());
}

#[test]
fn it_answers_to_its_own_names_only_whatever_the_method() {
    let site = Site::new();
    let session = site.session();
    let own = format!("Host: 127.0.0.1:{}", site.port());
    let port = site.port();
    let strangers = [
        "evil.example".to_string(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".into(),
        "localhost:1".into(),
        format!("127.0.0.1:{port}, evil.example"),
        format!("user@127.0.0.1:{port}"),
        String::new(),
    ];
    for stranger in strangers {
        let headers = session.replace(&own, &format!("Host: {stranger}"));
        for line in ["GET /", "GET /api/events", "GET /api/files", "POST /api/check", "HEAD /"] {
            let status = site.send(line, &headers, "{}").status;
            assert!([400, 403].contains(&status), "{line} {stranger}: {status}");
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
    let tunnel = Site::with(|setting| crate::Setting {
        allowed_hosts: vec!["laptop:8000".into()],
        ..setting
    });
    let own = format!("Host: 127.0.0.1:{}", tunnel.port());
    let headers = tunnel.session().replace(&own, "Host: laptop:8000");
    assert_eq!(tunnel.send("GET /api/files", &headers, "").status, 200);
}

#[test]
fn only_a_page_of_its_own_can_change_anything() {
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
    // Methods nobody has thought of are as unsafe as those that are known.
    let odd = from("Sec-Fetch-Site: cross-site\r\n");
    for method in ["DELETE", "PATCH", "QUERY", "TRACE"] {
        assert_eq!(site.send(&format!("{method} /api/draft?path=a.json"), &odd, "").status, 403);
    }
}

#[test]
fn there_is_no_cors_and_no_websocket() {
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
fn every_answer_says_what_a_browser_may_do_with_it() {
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
fn no_name_leads_out_of_the_folder() {
    let site = Site::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.json"), "\"euphrates\"").unwrap();
    let target = outside.path().join("secret.json");
    site.put("in.json", "\"euphrates\"");
    symlink(&target, site.root.path().join("link.json")).unwrap();
    symlink(outside.path(), site.root.path().join("folder")).unwrap();
    symlink("in.json", site.root.path().join("inner.json")).unwrap();
    let deep = format!("{}/secret.json", outside.path().display());
    let up = format!("../{}/secret.json", outside.path().file_name().unwrap().display());
    for path in [
        &deep,
        &up,
        "link.json",
        "folder/secret.json",
        "..%2fsecret.json",
        "%2e%2e%2fin.json",
        "in.json%00",
        "a%5c..%5cin.json",
        "./in.json",
        ".in.json.draft",
        ".euphrates/in.json",
        "/in.json",
        "in.json/",
        "a//in.json",
        "",
        "/proc/self/environ",
        "in.txt",
        "%ff.json",
        "proc/../in.json",
        "%252e%252e/in.json",
    ] {
        let answer = site.ask(&format!("GET /api/file?path={path}"), "");
        assert!([400, 403, 404].contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.contains("secret\\\"") && !answer.body.contains("PATH="));
        let answer = site.ask(&format!("DELETE /api/draft?path={path}"), "");
        assert!([200, 400, 403, 404].contains(&answer.status), "{path}");
    }
    for path in [&deep, &up, "link.json", "folder/new.json", "a/../../b.json", "no/such/a.json"] {
        let seen = site.ask("GET /api/file?path=in.json", "").json()["version"].clone();
        for version in [json!(null), seen] {
            let body = json!({"path": path, "text": "x", "version": version}).to_string();
            let status = site.ask("PUT /api/file", &body).status;
            assert!([403, 404, 409].contains(&status), "{path}: {status}");
        }
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "\"euphrates\"");
    assert_eq!(site.ask("GET /api/file?path=inner.json", "").status, 200);
    let listed = site.ask("GET /api/files", "").body;
    assert!(listed.contains("inner.json") && !listed.contains("link.json"), "{listed}");
    assert!(!listed.contains("secret"), "{listed}");
}

#[test]
fn records_of_runs_are_not_looked_for_where_links_lead() {
    let site = Site::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::fs::create_dir(outside.path().join("1-1-1")).unwrap();
    std::fs::write(outside.path().join("1-1-1/order.json"), "{\"name\": \"secret\"}").unwrap();
    site.put(".euphrates/runs/2-2-2/order.json", "{\"name\": \"own\"}");
    let runs = site.root.path().join(".euphrates/runs");
    symlink(outside.path().join("secret"), runs.join("2-2-2/log")).unwrap();
    symlink(outside.path().join("1-1-1"), runs.join("1-1-1")).unwrap();
    let told = site.ask("GET /api/runs", "").json();
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
    assert_eq!((&told[0]["name"], &told[0]["state"]), (&json!("own"), &json!("failed")));
    assert_eq!(site.ask("GET /api/runs/2-2-2", "").json()["log"], json!([]));
    for id in ["1-1-1", "..", "%2e%2e", "2-2-2%2f..", "3-3-3"] {
        assert_eq!(site.ask(&format!("GET /api/runs/{id}"), "").status, 404, "{id}");
    }
}

#[test]
fn a_link_that_is_swapped_meanwhile_leads_nowhere() {
    let site = Site::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("a.json"), "secret").unwrap();
    site.put("real/a.json", "\"euphrates\"");
    let (root, away) = (site.root.path().to_path_buf(), outside.path().to_path_buf());
    let swapping = std::thread::spawn(move || {
        let (shown, staged) = (root.join("shown"), root.join("staged"));
        for turn in 0..2000 {
            let target = if turn % 2 == 0 { "real".into() } else { away.clone() };
            symlink(target, &staged).unwrap();
            std::fs::rename(&staged, &shown).unwrap();
        }
    });
    while !swapping.is_finished() {
        let answer = site.ask("GET /api/file?path=shown/a.json", "");
        assert!(!answer.body.contains("secret"), "{answer:?}");
        let body = json!({"path": "shown/a.json", "text": "mine", "version": null}).to_string();
        assert_ne!(site.ask("PUT /api/file", &body).status, 500);
    }
    swapping.join().unwrap();
    assert_eq!(std::fs::read_to_string(outside.path().join("a.json")).unwrap(), "secret");
}

#[test]
fn files_are_saved_whole_and_never_over_what_was_not_seen() {
    let site = Site::new();
    let save = |path: &str, text: &str, version: serde_json::Value| {
        site.ask(
            "PUT /api/file",
            &json!({"path": path, "text": text, "version": version}).to_string(),
        )
    };
    let first = save("a.json", "one", json!(null));
    assert_eq!(first.status, 200);
    let version = first.json()["version"].clone();
    assert_eq!(save("a.json", "two", json!(null)).status, 409);
    assert_eq!(save("b.json", "two", version.clone()).status, 409);
    site.put("a.json", "theirs");
    let conflict = save("a.json", "mine", version);
    let told = conflict.json();
    assert_eq!((conflict.status, told["text"].as_str()), (409, Some("theirs")));
    assert_eq!(told["error"]["kind"], "conflict");
    assert_eq!(save("a.json", "mine", told["version"].clone()).status, 200);
    let nowhere = save("no/b.json", "two", json!(null));
    let said = |answer: &Answer| answer.json()["error"]["message"].to_string();
    assert_eq!((nowhere.status, said(&nowhere).contains("no folder no")), (404, true));
    let long = save(&format!("{}.json", "b".repeat(249)), "two", json!(null));
    assert_eq!((long.status, said(&long).contains("too long")), (400, true));
    let names = std::fs::read_dir(site.root.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.json"]);
    let draft = json!({"path": "a.json", "text": "draft", "version": null}).to_string();
    assert_eq!(site.ask("PUT /api/draft", &draft).status, 200);
    assert_eq!(site.ask("GET /api/draft?path=a.json", "").json()["text"], "draft");
    assert!(site.root.path().join(".a.json.draft").exists());
    assert_eq!(site.ask("DELETE /api/draft?path=a.json", "").status, 200);
    let none = site.ask("GET /api/draft?path=a.json", "");
    assert_eq!((none.status, none.json().is_null()), (200, true));
}

#[test]
fn a_file_that_may_only_be_read_is_not_replaced() {
    let site = Site::new();
    site.put("a.json", "theirs");
    let path = site.root.path().join("a.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    let version = site.ask("GET /api/file?path=a.json", "").json()["version"].clone();
    let save = json!({"path": "a.json", "text": "mine", "version": version}).to_string();
    assert_eq!(site.ask("PUT /api/file", &save).status, 403);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
}

#[test]
fn what_is_read_only_stays_as_it_is() {
    let site = Site::with(|setting| crate::Setting { read_only: true, ..setting });
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
fn bodies_connections_and_streams_have_bounds() {
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
    // Whoever connects and says nothing is put out, so that others have a place.
    let silent: Vec<_> = (0..80).map(|_| site.connect()).collect();
    assert_eq!(site.ask("GET /api/session", "").status, 200);
    drop(silent);
}

#[test]
fn a_check_says_all_that_is_wrong_and_runs_nothing() {
    let site = Site::with(|setting| crate::Setting {
        registry: setting.registry.clone().with_user_code(setting.registry.find("exec").ok()),
        ..setting
    });
    site.put("people.csv", "name,age\nAda,36\n");
    let path = site.root.path().join("people.csv").display().to_string();
    let touched = site.root.path().join("touched");
    let document = json!({
        "euphrates": 1, "name": "x",
        "modules": [
            {"id": "scan_1", "module": "scan", "config": {"path": path}},
            {"id": "filter_1", "module": "filter", "config": {"where": "agee > 3"}},
            {"id": "scan_2", "module": "scan", "config": {"path": path}},
            {"id": "sort_1", "module": "sort", "config": {"by": ["age"]}},
            {"id": "collect_1", "module": "collect", "config": {}},
            {"id": "scan_3", "module": "scan", "config": {"path": path}},
            {"id": "sort_2", "module": "sort", "config": {"by": ["agee"]}},
            {"id": "far_1", "module": "scan", "config": {"path": "s3://nobody/x.csv"}},
            {"id": "odd_1", "module": "sortt", "config": {}},
            {"id": "run_1", "module": "exec",
             "config": {"command": ["touch", touched.display().to_string()]}},
        ],
        "queues": [
            {"from": "scan_1", "to": "filter_1"},
            {"from": "scan_2", "to": "sort_1"},
            {"from": "sort_1", "to": "collect_1"},
            {"from": "far_1", "to": "nobody_1"},
            {"from": "scan_3", "to": "sort_2"},
        ],
    });
    let body = json!({"document": document, "variables": {}}).to_string();
    let answer = site.ask("POST /api/check", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    let problems = told["problems"].as_array().unwrap();
    let at = |name: &str, value: serde_json::Value| {
        problems.iter().any(|problem| problem["at"][name] == value)
    };
    assert!(at("module", json!("filter_1")) && at("module", json!("odd_1")), "{problems:#?}");
    assert!(at("queue", json!(3)), "{problems:#?}");
    // What a part of the sort finds wrong is wrong with the sort.
    let is_wrong_key = |problem: &serde_json::Value| {
        problem["message"].as_str().is_some_and(|text| text.contains("no column named `agee`"))
            && problem["at"]["module"] == "sort_2"
    };
    assert!(problems.iter().any(is_wrong_key), "{problems:#?}");
    assert!(!at("module", json!("sort_1")) && !at("module", json!("run_1")), "{problems:#?}");
    let queues = told["queues"].as_array().unwrap();
    let queue = |from: &str, to: &str| {
        queues.iter().find(|queue| queue["from"] == from && queue["to"] == to).unwrap()
    };
    let sorted = queue("scan_2", "sort_1");
    assert_eq!(sorted["schema"][1]["name"], "age");
    assert_eq!(sorted["kind"], "distributed");
    assert!(queue("sort_1", "collect_1")["why"].as_str().unwrap().contains("consumer"));
    assert!(!touched.exists());
    for broken in [json!({}), json!(7), json!({"euphrates": 99}), json!({"euphrates": 1})] {
        let answer = site.ask("POST /api/check", &json!({"document": broken}).to_string());
        assert_eq!(answer.json()["problems"].as_array().unwrap().len(), 1, "{answer:?}");
    }
}

#[test]
fn a_script_is_run_only_when_that_is_said() {
    let site = Site::new();
    site.put("flow.py", "import euphrates\nraise SystemExit(1)\n");
    let told = site.ask("POST /api/script", &json!({"path": "flow.py"}).to_string()).json();
    assert_eq!(told, json!({"needs_trust": true}));
    assert_eq!(site.ask("GET /api/session", "").json()["trusted"], false);
    let said = json!({"path": "flow.py", "run": true}).to_string();
    assert_eq!(site.ask("POST /api/script", &said).status, 400);
    assert_eq!(site.ask("GET /api/session", "").json()["trusted"], true);
    let outside = json!({"path": "../flow.py", "run": true}).to_string();
    assert_eq!(site.ask("POST /api/script", &outside).status, 403);
}

#[test]
fn a_file_that_another_program_changes_is_told() {
    let site = Site::new();
    site.put("a.json", "one");
    assert_eq!(site.ask("GET /api/file?path=a.json", "").status, 200);
    let mut stream = site.connect();
    write!(stream, "GET /api/events HTTP/1.1\r\n{}\r\n", site.session()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut heard = String::new();
    let mut hear = |wanted: &str| {
        let mut bytes = [0; 4096];
        while !heard.contains(wanted) {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{heard}");
            heard += &String::from_utf8_lossy(&bytes[..read]);
        }
    };
    hear("retry");
    site.put("a.json", "two!");
    hear("event: file\ndata: {\"path\":\"a.json\"}");
}
