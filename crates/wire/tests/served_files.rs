//! Striped files on served disks: servers are processes of their own, which are killed and stopped.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use euphrates_device::disk::{Disks, NamedDisk, save_named_disks};
use euphrates_device::folder::{DiskFolder, LocalFolder};
use euphrates_device::served::{
    ServedDisk, ServedFolderAddress, ServedHome, WorkerAccess, install,
};
use euphrates_flow::{Kind, Result};
use euphrates_policy::striping::RequestOrder;
use euphrates_store::catalog::Catalog;
use euphrates_store::striped::{
    StripedOptions, StripedReader, StripedSession, StripedWriter, remove_file, rename_file,
    repair_file, verify_file,
};
use euphrates_wire::served::{FILES, FileServer, ServedConnector, SharedFolder};
use euphrates_wire::{Address, Connection, Greeting, Listener, Secret, Security};
use rustix::process::{Pid, Signal, kill_process};

/// Set in a process that serves: its folder, the token's file, and the security.
const SERVER: &str = "SERVED_FILES_TEST";
/// Silence of a worker, one call, and what a loaded machine needs.
const LOST_WITHIN: Duration = Duration::from_secs(40);

/// A process that serves the disk `d` of a folder, or its catalog.
struct ServerProcess {
    child: Child,
    address: String,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServerProcess {
    fn start(folder: &Path, token: &Path, security: &str) -> ServerProcess {
        ServerProcess::start_at("127.0.0.1:0", folder, token, security)
    }

    fn start_at(address: &str, folder: &Path, token: &Path, security: &str) -> ServerProcess {
        let (folder, token) = (folder.to_str().unwrap(), token.to_str().unwrap());
        let words = [folder, token, security, address].join("\n");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve_until_killed", "--exact", "--nocapture", "--ignored"])
            .env(SERVER, words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(std::io::Result::ok)
            .find_map(|line| Some(line.split_once("listening at ")?.1.to_string()))
            .expect("it says where it listens");
        ServerProcess { child, address }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
    }
}

/// Not a test: the body of a server's process.
#[test]
#[ignore = "it is started by the tests"]
fn serve_until_killed() {
    let Ok(words) = std::env::var(SERVER) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let (folder, token, security) = (Path::new(words[0]), Path::new(words[1]), words[2]);
    let secret = Secret::read(token).unwrap();
    let disks = Arc::new(Disks::of(folder).unwrap());
    let mut shared = vec![];
    for (disk, of_disk) in disks.folders().filter(|(disk, _)| disk.name != "home") {
        let (name, folder) = (disk.name.clone(), of_disk.clone());
        shared.push(SharedFolder { name, folder, disks: Some(disks.clone()) });
    }
    let catalog = folder.join("catalog");
    if catalog.is_dir() {
        let folder: Arc<dyn DiskFolder> = Arc::new(LocalFolder::new(&catalog));
        shared.push(SharedFolder { name: "/catalog".into(), folder, disks: None });
    }
    let server = FileServer::new("machine", folder, shared, &RequestOrder::Granted, None);
    let keys = Arc::new(move |flow: u64| (flow == 0).then(|| secret.clone()));
    let me = Greeting {
        purpose: "worker".into(),
        flow: 0,
        program: env!("CARGO_PKG_VERSION").into(),
        ..common::greeting("worker")
    };
    let on_call = move |connection: Connection| {
        drop(match connection.peer.purpose.as_str() {
            FILES => server.serve_session(connection),
            _ => server.serve_requests(connection),
        });
    };
    let address: Address = words[3].parse().unwrap();
    let security = if security == "tls" { Security::Tls } else { Security::Token };
    let listener = Listener::bind(&address, me, keys, security, on_call).unwrap();
    writeln!(std::io::stdout(), "\nlistening at {}", listener.address()).unwrap();
    loop {
        std::thread::park();
    }
}

/// A catalog and disks, each served by a process, and the folder of a client.
struct Cluster {
    top: tempfile::TempDir,
    catalog: ServerProcess,
    servers: Vec<ServerProcess>,
}

impl Cluster {
    fn new(disks: usize, security: &str) -> Cluster {
        install(Box::new(ServedConnector));
        let top = tempfile::tempdir().unwrap();
        let token = top.path().join("token");
        Secret::random().unwrap().write(&token).unwrap();
        let home = top.path().join("catalog-home");
        fs::create_dir_all(home.join("catalog")).unwrap();
        let catalog = ServerProcess::start(&home, &token, security);
        let mut cluster = Cluster { top, catalog, servers: vec![] };
        for number in 0..disks {
            let home = cluster.top.path().join(format!("home{number}"));
            fs::create_dir_all(&home).unwrap();
            let folder = cluster.disk(number);
            let disk = serde_json::json!({"name": format!("d{number}"), "folder": folder});
            let disk: NamedDisk = serde_json::from_value(disk).unwrap();
            save_named_disks(&home, &[disk]).unwrap();
            let server = ServerProcess::start(&home, &token, security);
            cluster.servers.push(server);
        }
        cluster.client("client", security);
        cluster
    }

    fn disk(&self, number: usize) -> PathBuf {
        self.top.path().join(format!("d{number}"))
    }

    fn home(&self) -> PathBuf {
        self.top.path().join("client")
    }

    /// Kills a server and starts it again where it was.
    fn restart(&mut self, number: usize, security: &str) {
        let (top, address) = (self.top.path(), self.servers[number].address.clone());
        self.servers[number].kill();
        let home = top.join(format!("home{number}"));
        self.servers[number] =
            ServerProcess::start_at(&address, &home, &top.join("token"), security);
    }

    /// The folder of a client of this name, which knows the servers that there are now.
    fn client(&self, name: &str, security: &str) -> PathBuf {
        let at = |worker: String, address: &str, folder: &str| ServedFolderAddress {
            worker,
            address: address.to_string(),
            folder: folder.to_string(),
        };
        let disks = self.servers.iter().enumerate().map(|(number, server)| {
            let name = format!("d{number}");
            let at = at(format!("w{number}"), &server.address, &name);
            ServedDisk { name, machine: format!("machine{number}"), at }
        });
        let served = ServedHome {
            home: self.top.path().join("catalog-home"),
            client: name.to_string(),
            catalog: at("catalog".into(), &self.catalog.address, "/catalog"),
            disks: disks.collect(),
            access: WorkerAccess {
                token_file: self.top.path().join("token"),
                is_encrypted: security == "tls",
                lost_after_ms: None,
            },
        };
        let home = self.top.path().join(name);
        served.save(&home).unwrap();
        home
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

fn options(data: usize, parity: usize) -> StripedOptions {
    StripedOptions { data, parity, block_bytes: 100_000, ..StripedOptions::default() }
}

fn write(home: &Path, name: &str, content: &[u8]) -> Result<u64> {
    let mut writer = StripedWriter::create(home, name, options(2, 1))?;
    writer.write_at(0, content)?;
    writer.commit()
}

fn read(home: &Path, name: &str) -> Result<Vec<u8>> {
    let reader = StripedReader::open(home, name)?;
    let mut bytes = vec![0; reader.bytes() as usize];
    reader.read_at(0, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn clients_with_folders_of_their_own_share_files_over_tls_and_without() {
    for security in ["tls", "token"] {
        let cluster = Cluster::new(4, security);
        let (one, other) = (cluster.home(), cluster.client("other", security));
        let content = content(3_000_001);
        write(&one, "f", &content).unwrap();
        assert!(cluster.disk(0).join("f").is_dir(), "it lies on the disks of the servers");
        assert!(!one.join("catalog").exists() && !one.join("data/f").exists());
        let old = StripedReader::open(&one, "f").unwrap();
        assert!(read(&other, "f").unwrap() == content);
        assert_eq!(write(&other, "f", b"new").unwrap(), 2);
        let mut bytes = vec![0; content.len()];
        old.read_at(0, &mut bytes).unwrap();
        assert!(bytes == content, "its version stays readable");
        assert_eq!(read(&one, "f").unwrap(), b"new");
        let mut writer = StripedWriter::update(&one, "f", "run").unwrap();
        writer.write_at(0, b"N").unwrap();
        assert_eq!(write(&other, "f", b"newest").unwrap(), 3);
        assert!(writer.commit().is_err(), "another writer was faster");
        rename_file(&other, "f", "g", false, "run 2").unwrap();
        assert_eq!(read(&one, "g").unwrap(), b"newest");
        assert!(verify_file(&one, "g").unwrap().damages.is_empty());
        remove_file(&one, "g", "run 3").unwrap();
        assert!(Catalog::of(&other).unwrap().list_files().unwrap().is_empty());
        drop(old);
        for number in 0..4 {
            assert!(!cluster.disk(number).join("g").exists(), "its segments are removed");
            let staging = fs::read_dir(cluster.disk(number).join(".staging")).unwrap();
            assert_eq!(staging.count(), 0);
        }
    }
}

#[test]
fn server_that_is_killed_loses_nothing_that_is_written_or_read() {
    let mut cluster = Cluster::new(5, "tls");
    let (home, content) = (cluster.home(), content(5_000_001));
    let mut writer = StripedWriter::create(&home, "f", options(2, 1)).unwrap();
    writer.write_at(0, &content[..2_000_000]).unwrap();
    cluster.servers[1].kill();
    writer.write_at(2_000_000, &content[2_000_000..]).unwrap();
    writer.commit().unwrap();
    let reader = StripedReader::open(&home, "f").unwrap();
    let mut bytes = vec![0; content.len()];
    reader.read_at(0, &mut bytes[..1_000_000]).unwrap();
    cluster.servers[2].kill();
    reader.read_at(1_000_000, &mut bytes[1_000_000..]).unwrap();
    assert!(bytes == content);
    // Which blocks a reader asks for depends on the pace of the servers; `verify` reads all.
    assert!(!verify_file(&home, "f").unwrap().damages.is_empty());
    let repaired = repair_file(&home, "f", &[], "run 2").unwrap();
    assert!(repaired.restored > 0 && repaired.lost.is_empty(), "{repaired:?}");
    cluster.servers[3].kill();
    assert!(read(&home, "f").unwrap() == content, "the repaired file survives one more");
}

#[test]
fn stopped_server_is_a_lost_disk_within_a_bounded_time() {
    let cluster = Cluster::new(4, "tls");
    let (home, content) = (cluster.home(), content(3_000_001));
    write(&home, "f", &content).unwrap();
    let reader = StripedReader::open(&home, "f").unwrap();
    cluster.servers[0].stop();
    let begun = Instant::now();
    let mut bytes = vec![0; content.len()];
    reader.read_at(0, &mut bytes).unwrap();
    assert!(bytes == content && begun.elapsed() < LOST_WITHIN);
    let begun = Instant::now();
    write(&home, "g", &content).unwrap();
    assert!(read(&home, "g").unwrap() == content && begun.elapsed() < LOST_WITHIN);
}

#[test]
fn more_lost_servers_than_parity_restores_are_typed_errors_within_a_bounded_time() {
    let mut cluster = Cluster::new(4, "tls");
    let (home, content) = (cluster.home(), content(3_000_001));
    write(&home, "f", &content).unwrap();
    let reader = StripedReader::open(&home, "f").unwrap();
    cluster.servers.iter_mut().take(3).for_each(ServerProcess::kill);
    let begun = Instant::now();
    let error = reader.read_at(0, &mut vec![0; content.len()]).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("out of reach"), "{error}");
    let error = write(&home, "g", &content).unwrap_err();
    assert_eq!(error.kind(), Kind::Resource, "{error}");
    assert!(begun.elapsed() < LOST_WITHIN);
}

#[test]
fn lost_catalog_is_replaced_by_the_copies_of_manifests_for_readers_only() {
    let mut cluster = Cluster::new(3, "tls");
    let home = cluster.home();
    write(&home, "f", b"old").unwrap();
    cluster.catalog.kill();
    assert_eq!(read(&home, "f").unwrap(), b"old");
    let error = write(&home, "f", b"new").unwrap_err();
    assert!(error.to_string().contains("out of reach"), "{error}");
    assert_eq!(read(&home, "f").unwrap(), b"old");
    assert_eq!(Catalog::of(&home).unwrap().list_files().unwrap().len(), 1);
}

#[test]
fn restarted_server_is_used_again_by_an_open_file_and_by_writers() {
    let mut cluster = Cluster::new(3, "tls");
    let (home, content) = (cluster.home(), content(3_000_001));
    write(&home, "f", &content).unwrap();
    let reader = StripedReader::open(&home, "f").unwrap();
    let mut bytes = vec![0; content.len()];
    reader.read_at(0, &mut bytes).unwrap();
    cluster.restart(1, "tls");
    // Its end may be noticed later than its start.
    let begun = Instant::now();
    while let Err(error) = write(&home, "g", &content) {
        assert!(begun.elapsed() < LOST_WITHIN, "{error}");
        std::thread::yield_now();
    }
    cluster.servers[0].kill();
    bytes.fill(0);
    reader.read_at(0, &mut bytes).unwrap();
    assert!(bytes == content, "it needs the restarted one");
    assert!(read(&home, "g").unwrap() == content);
}

#[test]
fn of_clients_that_commit_one_name_at_once_one_wins_and_the_others_leave_nothing() {
    const CLIENTS: u8 = 4;
    let cluster = Cluster::new(4, "token");
    let homes = (0..CLIENTS).map(|number| cluster.client(&format!("client{number}"), "token"));
    let homes: Vec<PathBuf> = homes.collect();
    for version in 1..=3 {
        let all_written = Barrier::new(homes.len());
        let commit = |number: u8, home: &Path| {
            let run_id = format!("{version}-{number}");
            let options = StripedOptions { overwrite: true, run_id, ..options(2, 1) };
            let mut writer = StripedWriter::create(home, "f", options).unwrap();
            writer.write_at(0, &[number; 900_000]).unwrap();
            all_written.wait();
            writer.commit()
        };
        let committed: Vec<Result<u64>> = std::thread::scope(|scope| {
            let clients = homes.iter().zip(0..).map(|(home, number)| {
                let commit = &commit;
                scope.spawn(move || commit(number, home))
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let winner = committed.iter().position(Result::is_ok).expect("one of them wins");
        assert_eq!(*committed[winner].as_ref().unwrap(), version);
        for error in committed.iter().filter_map(|one| one.as_ref().err()) {
            assert!(error.message().contains("another writer"), "{error}");
        }
        assert_eq!(committed.iter().filter(|one| one.is_err()).count(), homes.len() - 1);
        assert!(read(&homes[0], "f").unwrap() == [winner as u8; 900_000]);
        for number in 0..4 {
            let of_file = fs::read_dir(cluster.disk(number).join("f")).unwrap().flatten();
            let attempts = of_file.filter(|entry| entry.file_name().as_encoded_bytes()[0] == b'@');
            assert_eq!(attempts.count(), 1, "the segments of the winner");
            let staged = fs::read_dir(cluster.disk(number).join(".staging")).unwrap();
            assert_eq!(staged.count(), 0);
        }
    }
}

#[test]
fn session_is_left_alone_by_other_clients() {
    let cluster = Cluster::new(4, "tls");
    let (home, other) = (cluster.home(), cluster.client("other", "tls"));
    let content = content(1_000_000);
    let mut session = StripedSession::begin(&home, "f", options(2, 1), 2, false).unwrap();
    for (number, at) in [(0, 0), (1, 500_001)] {
        let mut writer = StripedSession::join(&home, session.id(), number, "run").unwrap();
        let end = if number == 0 { 500_001 } else { content.len() };
        writer.write_at(at as u64, &content[at..end]).unwrap();
        writer.end().unwrap();
        write(&other, "g", b"reclaims what nobody needs").unwrap();
    }
    session.commit().unwrap();
    assert!(read(&other, "f").unwrap() == content);
}

#[test]
fn client_with_another_token_is_refused() {
    let cluster = Cluster::new(3, "tls");
    let home = cluster.client("stranger", "tls");
    let mut served = ServedHome::of(&home).unwrap().unwrap();
    served.access.token_file = cluster.top.path().join("wrong");
    Secret::random().unwrap().write(&served.access.token_file).unwrap();
    served.save(&home).unwrap();
    assert!(write(&home, "f", b"x").is_err());
    assert!(!cluster.disk(0).exists() || !cluster.disk(0).join("f").exists());
}
