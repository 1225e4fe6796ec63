//! Served folders at the level of frames: what a client may not do, and what remains when it has
//! gone.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_device::disk::{Disks, NamedDisk, save_named_disks};
use euphrates_policy::striping::RequestOrder;
use euphrates_wire::served::{FILE_REQUESTS, FILES, FileServer, SharedFolder, WorkerOffer};
use euphrates_wire::{
    Connection, Frame, FrameKind, Greeting, Header, Lane, Listener, Secret, Security, dial,
};
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(30);

struct Served {
    listener: Listener,
    secret: Secret,
    top: tempfile::TempDir,
}

fn greeting(name: &str, purpose: &str) -> Greeting {
    let program = env!("CARGO_PKG_VERSION").into();
    Greeting { purpose: purpose.into(), flow: 0, program, ..common::greeting(name) }
}

impl Served {
    fn new() -> Served {
        let top = tempfile::tempdir().unwrap();
        let home = top.path().join("home");
        fs::create_dir(&home).unwrap();
        let disk: NamedDisk =
            serde_json::from_value(json!({"name": "d", "folder": top.path().join("d")})).unwrap();
        save_named_disks(&home, &[disk]).unwrap();
        let disks = Arc::new(Disks::of(&home).unwrap());
        let folder = disks.folder("d").unwrap().1.clone();
        folder.make().unwrap();
        let shared = SharedFolder { name: "d".into(), folder, disks: Some(disks.clone()) };
        let order = RequestOrder::Granted;
        let server = Arc::new(FileServer::new("here", &home, vec![shared], &order, None));
        let secret = Secret::random().unwrap();
        let known = secret.clone();
        let keys = Arc::new(move |flow: u64| (flow == 0).then(|| known.clone()));
        let on_call = move |connection: Connection| {
            drop(match connection.peer.purpose.as_str() {
                FILES => server.serve_session(connection),
                _ => server.serve_requests(connection),
            });
        };
        let address = "127.0.0.1:0".parse().unwrap();
        let me = greeting("w0", "worker");
        let listener = Listener::bind(&address, me, keys, Security::Token, on_call).unwrap();
        Served { listener, secret, top }
    }

    fn dial(&self, purpose: &str) -> Connection {
        let me = greeting("client", purpose);
        dial(self.listener.address(), &me, &self.secret, Security::Token, WITHIN).unwrap()
    }

    /// A session, and a connection for its requests.
    fn session(&self) -> (Lane, Connection) {
        let (sender, received) = std::sync::mpsc::channel();
        let on_frame = move |frame: Frame| drop(sender.send(frame));
        let lane = Lane::start_within(None, self.dial(FILES), "files", on_frame, |_| ()).unwrap();
        let offer = received.recv_timeout(WITHIN).unwrap();
        let offer: WorkerOffer = serde_json::from_slice(&offer.meta).unwrap();
        assert_eq!(offer.folders[0].name, "d");
        let mut connection = self.dial(FILE_REQUESTS);
        send(&mut connection, &json!({"Attach": {"session": offer.session}}), b"");
        (lane, connection)
    }

    fn disk(&self) -> std::path::PathBuf {
        self.top.path().join("d")
    }
}

fn send(connection: &mut Connection, request: &Value, body: &[u8]) {
    let meta = serde_json::to_vec(request).unwrap();
    let body = [Buffer::from(body)];
    connection.sender.send(Header::of(FrameKind::Files), &meta, &body).unwrap();
}

/// The answer and its content; `None` if the server has closed the connection.
fn ask(connection: &mut Connection, request: &Value, body: &[u8]) -> Option<(Value, Vec<u8>)> {
    send(connection, request, body);
    let frame = connection.receiver.receive().ok()??;
    Some((serde_json::from_slice(&frame.meta).unwrap(), frame.body.to_vec()))
}

fn of_folder(request: Value) -> Value {
    json!({"Folder": {"folder": "d", "request": request}})
}

fn of_handle(handle: &Value, request: Value) -> Value {
    json!({"Open": {"handle": handle, "request": request}})
}

#[test]
fn segment_is_written_synced_read_and_cut_at_its_end() {
    let served = Served::new();
    let (_lane, mut client) = served.session();
    let created = ask(&mut client, &of_folder(json!({"Create": {"path": "f/0.blocks"}})), b"");
    let handle = created.unwrap().0["Handle"].clone();
    let write = json!({"Write": {"offset": 4096, "is_buffered": false, "left": 1}});
    let written = ask(&mut client, &of_handle(&handle, write), &[7; 8192]).unwrap();
    assert_eq!(written.0, "Done");
    assert_eq!(ask(&mut client, &of_handle(&handle, json!("Sync")), b"").unwrap().0, "Done");
    let read = json!({"Read": {"offset": 8192, "bytes": 8192, "left": 1}});
    let (answer, content) = ask(&mut client, &of_handle(&handle, read), b"").unwrap();
    assert_eq!((answer, content), (json!("Content"), vec![7; 4096]), "the file ends there");
}

#[test]
fn no_path_outside_of_the_folder_is_reached() {
    let served = Served::new();
    let secret = served.top.path().join("secret");
    fs::write(&secret, "s").unwrap();
    fs::create_dir_all(served.disk()).unwrap();
    std::os::unix::fs::symlink(served.top.path(), served.disk().join("out")).unwrap();
    std::os::unix::fs::symlink(served.top.path().join("new"), served.disk().join("dangling"))
        .unwrap();
    let (_lane, mut client) = served.session();
    let absolute = secret.to_str().unwrap();
    for path in ["../secret", "a/../../secret", absolute, "out/secret", "dangling"] {
        for request in [
            json!({"Read": {"path": path}}),
            json!({"Open": {"path": path}}),
            json!({"Write": {"path": path, "is_synced": false}}),
            json!({"Stage": {"path": path}}),
            json!({"Create": {"path": path}}),
            json!({"Link": {"from": path, "to": "mine"}}),
            json!({"MoveFolder": {"from": path, "to": "mine"}}),
            json!({"RemoveFile": {"path": path}}),
            json!({"RemoveFolder": {"path": path}}),
        ] {
            let (answer, content) = ask(&mut client, &of_folder(request.clone()), b"x").unwrap();
            assert!(answer["Os"].is_i64(), "{path}: {request}: {answer}");
            assert!(content.is_empty());
        }
    }
    assert_eq!(fs::read(&secret).unwrap(), b"s");
    assert!(!served.top.path().join("new").exists());
    assert!(!served.disk().join("mine").exists());
}

#[test]
fn requests_without_a_session_or_for_more_than_a_block_are_refused() {
    let served = Served::new();
    let mut stranger = served.dial(FILE_REQUESTS);
    assert!(ask(&mut stranger, &of_folder(json!("Facts")), b"").is_none(), "no session");
    let mut liar = served.dial(FILE_REQUESTS);
    send(&mut liar, &json!({"Attach": {"session": "0".repeat(64)}}), b"");
    assert!(ask(&mut liar, &of_folder(json!("Facts")), b"").is_none(), "no such session");
    let (_lane, mut client) = served.session();
    let (answer, _) =
        ask(&mut client, &json!({"Folder": {"folder": "e", "request": "Facts"}}), b"")
            .expect("an answer");
    assert!(answer["Refused"]["message"].as_str().unwrap().contains("no folder named"));
    fs::write(served.disk().join("f"), "content").unwrap();
    let opened = ask(&mut client, &of_folder(json!({"Open": {"path": "f"}})), b"").unwrap();
    let read = json!({"Read": {"offset": 0, "bytes": u32::MAX, "left": 1}});
    let (answer, _) = ask(&mut client, &of_handle(&opened.0["Handle"], read), b"").unwrap();
    assert!(answer["Refused"].is_object(), "{answer}");
    let (answer, _) = ask(&mut client, &of_handle(&json!(99), json!("Sync")), b"").unwrap();
    assert!(answer["Refused"].is_object(), "no such handle: {answer}");
}

#[test]
fn client_of_another_version_is_told_of_both_versions() {
    let served = Served::new();
    for purpose in [FILES, FILE_REQUESTS] {
        let me = Greeting { program: "0.0.1".into(), ..greeting("client", purpose) };
        let address = served.listener.address();
        let dialled = dial(address, &me, &served.secret, Security::Token, WITHIN);
        let error = dialled.expect_err("its requests may differ");
        assert_eq!(error.kind(), euphrates_flow::Kind::Usage, "{error}");
        for version in ["0.0.1", env!("CARGO_PKG_VERSION")] {
            assert!(error.to_string().contains(version), "{error}");
        }
    }
}

#[test]
fn what_a_client_holds_is_free_when_its_session_has_ended() {
    let served = Served::new();
    let name = "66108e58a676d-1-0-0";
    let (lane, mut client) = served.session();
    let hold = json!({"Hold": {"parent": ".staging", "name": name}});
    ask(&mut client, &of_folder(hold), b"").unwrap();
    let is_held = of_folder(json!({"IsHeld": {"parent": ".staging", "name": name}}));
    let (_other, mut other) = served.session();
    assert_eq!(ask(&mut other, &is_held, b"").unwrap().0, json!({"Flag": true}));
    lane.cut();
    let begun = Instant::now();
    while ask(&mut other, &is_held, b"").unwrap().0 == json!({"Flag": true}) {
        assert!(begun.elapsed() < WITHIN);
        std::thread::yield_now();
    }
    assert!(client.receiver.receive().map_or(true, |frame| frame.is_none()), "it is closed, too");
    let abandoned = of_folder(json!({"Abandoned": {"parent": ".staging"}}));
    let (answer, _) = ask(&mut other, &abandoned, b"").unwrap();
    let (handle, path) = (&answer["Handles"][0][0], answer["Handles"][0][1].as_str().unwrap());
    assert_eq!(Path::new(path), Path::new(".staging").join(name));
    assert_eq!(ask(&mut other, &of_handle(handle, json!("Remove")), b"").unwrap().0, "Done");
    assert_eq!(fs::read_dir(served.disk().join(".staging")).unwrap().count(), 0);
}
