//! Confinement of file access to the project's folder, and safe saves. See docs/security.md.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use serde_json::json;

use super::site::{Answer, Site};

#[test]
fn no_path_leads_out_of_the_folder() {
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
fn run_records_are_not_read_through_symbolic_links() {
    let site = Site::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::fs::create_dir(outside.path().join("1-1-1")).unwrap();
    std::fs::write(outside.path().join("1-1-1/order.json"), "{\"name\": \"secret\"}").unwrap();
    site.put(".euphrates/runs/2-2-2/order.json", "{\"name\": \"own\"}");
    let runs = site.root.path().join(".euphrates/runs");
    symlink(outside.path().join("secret"), runs.join("2-2-2/log")).unwrap();
    symlink(outside.path().join("1-1-1"), runs.join("1-1-1")).unwrap();
    let response = site.ask("GET /api/runs", "").json();
    assert_eq!(response.as_array().unwrap().len(), 1, "{response}");
    assert_eq!((&response[0]["name"], &response[0]["state"]), (&json!("own"), &json!("failed")));
    assert_eq!(site.ask("GET /api/runs/2-2-2", "").json()["log"], json!([]));
    for id in ["1-1-1", "..", "%2e%2e", "2-2-2%2f..", "3-3-3"] {
        assert_eq!(site.ask(&format!("GET /api/runs/{id}"), "").status, 404, "{id}");
    }
}

#[test]
fn swapped_symbolic_link_does_not_leave_the_folder() {
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
fn saves_are_atomic_and_reject_stale_versions() {
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
    let response = conflict.json();
    assert_eq!((conflict.status, response["text"].as_str()), (409, Some("theirs")));
    assert_eq!(response["error"]["kind"], "conflict");
    assert_eq!(save("a.json", "mine", response["version"].clone()).status, 200);
    let nowhere = save("no/b.json", "two", json!(null));
    let message = |answer: &Answer| answer.json()["error"]["message"].to_string();
    assert_eq!((nowhere.status, message(&nowhere).contains("no folder no")), (404, true));
    let long = save(&format!("{}.json", "b".repeat(249)), "two", json!(null));
    assert_eq!((long.status, message(&long).contains("too long")), (400, true));
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
fn read_only_file_is_not_replaced() {
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
fn changes_by_other_programs_are_published() {
    let site = Site::new();
    site.put("a.json", "one");
    assert_eq!(site.ask("GET /api/file?path=a.json", "").status, 200);
    let mut stream = site.connect();
    write!(stream, "GET /api/events HTTP/1.1\r\n{}\r\n", site.session()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut received = String::new();
    let mut read_until = |wanted: &str| {
        let mut bytes = [0; 4096];
        while !received.contains(wanted) {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{received}");
            received += &String::from_utf8_lossy(&bytes[..read]);
        }
    };
    read_until("retry");
    site.put("a.json", "two!");
    read_until("event: file\ndata: {\"path\":\"a.json\"}");
}

#[test]
fn data_files_are_listed_and_created_but_neither_read_nor_replaced() {
    let site = Site::new();
    for name in ["a.csv", "data/b.parquet", "c.JSONL.gz", "d.gz", "e.exe", ".f.csv"] {
        site.put(name, "id\n1\n");
    }
    let listed = site.ask("GET /api/files", "").json();
    let files = listed["files"].as_array().unwrap();
    let listed: Vec<_> = files.iter().map(|file| (&file["path"], &file["kind"])).collect();
    let data = json!("data");
    let paths = [json!("a.csv"), json!("c.JSONL.gz"), json!("data/b.parquet")];
    assert_eq!(listed, paths.iter().map(|path| (path, &data)).collect::<Vec<_>>());
    assert_eq!(site.ask("GET /api/file?path=a.csv", "").status, 403);
    let save = |path: &str, version: serde_json::Value| {
        let body = json!({"path": path, "text": "x\n", "version": version}).to_string();
        site.ask("PUT /api/file", &body).status
    };
    assert_eq!(save("new.csv", json!(null)), 200);
    assert_eq!((save("a.csv", json!(null)), save("new.csv", json!("0"))), (409, 403));
    assert_eq!((save("new.parquet", json!(null)), save("../x.csv", json!(null))), (403, 403));
    assert_eq!(std::fs::read_to_string(site.root.path().join("a.csv")).unwrap(), "id\n1\n");
}

#[test]
fn record_of_an_ended_run_is_removed() {
    let site = Site::new();
    site.put(".euphrates/runs/2-2-2/order.json", "{\"name\": \"own\"}");
    let held = crate::run_record::RunRecord::at(site.root.path().join(".euphrates/runs/2-2-2"));
    let lock = held.hold().unwrap();
    assert_eq!(site.ask("DELETE /api/runs/2-2-2", "").status, 409);
    drop(lock);
    assert_eq!(site.ask("DELETE /api/runs/2-2-2", "").status, 200);
    assert_eq!(site.ask("DELETE /api/runs/2-2-2", "").status, 404);
    assert!(!site.root.path().join(".euphrates/runs/2-2-2").exists());
}
