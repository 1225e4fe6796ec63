//! Tests of launches on workers in this process: output, input, flow control, listing, stopping.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use euphrates_engine::cluster::launch::{
    Launch, LaunchEvent, LaunchOrder, OutputStream, PROGRAMS_MAX, ProgramEnd, ProgramEntry,
    ProgramState, WINDOW_BYTES_MAX, launch,
};
use euphrates_engine::cluster::process_list::{kill, list};
use euphrates_engine::cluster::static_driver::StaticDriver;
use euphrates_engine::cluster::{
    Cluster, Secret, Security, WorkerProperties, WorkerServer, WorkerSettings,
};
use euphrates_flow::{Kind, Registry, Result};
use euphrates_launch::host::user_name;
use parking_lot::{Mutex, MutexGuard};
use signal_hook::consts::SIGINT;
use tempfile::TempDir;

/// No step takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tests count descriptors, so they run one at a time.
static ONE: Mutex<()> = Mutex::new(());

struct Bench {
    cluster: Option<Arc<Cluster>>,
    servers: Vec<WorkerServer>,
    _folder: TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(workers: usize) -> Bench {
        let one = ONE.lock();
        // A shell ignores the interrupt in background jobs, and a program inherits that. A handler,
        // as every worker has one, is not inherited.
        signal_hook::flag::register(SIGINT, Arc::default()).unwrap();
        let folder = TempDir::new().unwrap();
        let secret = Secret::random().unwrap();
        let server = |number: usize| {
            let name = format!("w{number}");
            let label = if number.is_multiple_of(2) { "even" } else { "odd" };
            let socket = folder.path().join(&name);
            let setting = WorkerSettings {
                member: WorkerProperties {
                    labels: vec![label.into()],
                    ..WorkerProperties::named(name)
                },
                listen: format!("unix:{}", socket.display()).parse().unwrap(),
                secret: secret.clone(),
                security: Security::Token,
                lost_after: None,
                scratch: vec![],
            };
            WorkerServer::start(setting, Registry::default(), || ()).unwrap()
        };
        let servers: Vec<WorkerServer> = (0..workers).map(server).collect();
        let address = |(number, server): (usize, &WorkerServer)| {
            (format!("w{number}"), server.address().clone())
        };
        let (driver, _) = StaticDriver::new(servers.iter().enumerate().map(address).collect());
        let cluster =
            Cluster::open_within(None, Box::new(driver), &secret, Security::Token).unwrap();
        Bench { cluster: Some(Arc::new(cluster)), servers, _folder: folder, _one: one }
    }

    fn cluster(&self) -> &Arc<Cluster> {
        self.cluster.as_ref().unwrap()
    }

    fn launch(&self, words: &[&str]) -> Launch {
        launch(self.cluster(), &order(words), &[], 1).unwrap()
    }
}

fn order(words: &[&str]) -> LaunchOrder {
    let (program, arguments) = words.split_first().unwrap();
    let arguments = arguments.iter().map(ToString::to_string).collect();
    LaunchOrder { program: program.to_string(), arguments, ..LaunchOrder::default() }
}

/// The output of each program, and its exit status.
fn all(launch: &Launch) -> (Vec<[Vec<u8>; 2]>, Vec<Option<ProgramEnd>>) {
    let count = launch.slots().len();
    let (mut output, mut ends) = (vec![[vec![], vec![]]; count], vec![None; count]);
    loop {
        match launch.step(PATIENCE) {
            LaunchEvent::Wrote { rank, stream, bytes } => {
                output[rank][usize::from(stream == OutputStream::Stderr)].extend_from_slice(&bytes);
            }
            LaunchEvent::Ended { rank, end } => ends[rank] = Some(end),
            LaunchEvent::Over => return (output, ends),
            LaunchEvent::Quiet => panic!("it hangs: {output:?} {ends:?}"),
        }
    }
}

fn codes(ends: &[Option<ProgramEnd>]) -> Vec<u8> {
    ends.iter().map(|end| end.as_ref().unwrap().exit_code()).collect()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

fn is_alive(pid: u32) -> bool {
    // A zombie counts as dead.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn programs_know_their_ranks_and_their_output_arrives() {
    let bench = Bench::new(3);
    let script = "echo $EUPHRATES_WORKER $EUPHRATES_RANK/$EUPHRATES_RANKS $EUPHRATES_WORKERS $X; \
                  pwd; printf oops >&2; exit $EUPHRATES_RANK";
    let order = LaunchOrder {
        env: [("X".to_string(), "y z".to_string())].into(),
        cwd: Some("/".into()),
        ..order(&["sh", "-c", script])
    };
    let launch = launch(bench.cluster(), &order, &["even".into()], 2).unwrap();
    let names: Vec<&str> = launch.slots().iter().map(|slot| slot.name.as_str()).collect();
    assert_eq!(names, ["w0.0", "w0.1", "w2.0", "w2.1"]);
    let (output, ends) = all(&launch);
    assert_eq!(codes(&ends), [0, 1, 2, 3]);
    assert_eq!(output[3][0], b"w2 3/4 2 y z\n/\n");
    assert!(output.iter().all(|output| output[1] == b"oops"));
}

#[test]
fn programs_start_on_all_workers_or_on_none() {
    let bench = Bench::new(2);
    let refused = |order: &LaunchOrder, on: &[&str], per_worker| -> String {
        let on: Vec<String> = on.iter().map(ToString::to_string).collect();
        let outcome: Result<Launch> = launch(bench.cluster(), order, &on, per_worker);
        let error = outcome.err().unwrap();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        error.to_string()
    };
    let missing = refused(&order(&["no-such-program"]), &["w1"], 1);
    assert!(missing.starts_with("worker w1: no program `no-such-program`"), "{missing}");
    assert!(refused(&order(&["/etc/passwd"]), &[], 1).contains("may not be run"));
    let nowhere = LaunchOrder { cwd: Some("/no/such/folder".into()), ..order(&["true"]) };
    assert!(refused(&nowhere, &[], 1).contains("no folder"));
    let strange = Path::new(OsStr::from_bytes(b"/tmp/\xff")).to_path_buf();
    let strange = LaunchOrder { cwd: Some(strange), ..order(&["true"]) };
    assert!(refused(&strange, &[], 1).contains("is not UTF-8"));
    assert!(refused(&order(&["a\0b"]), &[], 1).contains("zero bytes"));
    let long = "x".repeat(200_000);
    assert!(refused(&order(&["true", &long]), &[], 1).contains("shorter arguments"));
    assert!(refused(&order(&["true", &long.repeat(30)]), &[], 1).contains("variables take 60"));
    assert!(refused(&order(&["true"]), &["w7"], 1).contains("no worker or label named `w7`"));
    assert!(refused(&order(&["true"]), &[], 0).contains("give 1 to"));
    // A program that starts is stopped if another cannot start.
    let sleeps = order(&["sleep", "1000"]);
    let many = launch(bench.cluster(), &sleeps, &["w1".into()], PROGRAMS_MAX).unwrap();
    let is_first = || {
        let entries = list(bench.cluster()).unwrap();
        entries.iter().all(|entry| entry.id.number == many.id().number)
    };
    for is_detached in [false, true] {
        let sleeps = LaunchOrder { is_detached, ..sleeps.clone() };
        let error = launch(bench.cluster(), &sleeps, &[], 1).err().unwrap();
        assert_eq!(error.kind(), Kind::Resource);
        assert!(error.to_string().contains("programs run here"), "{error}");
        wait_for("the other has ended", is_first);
    }
    drop(many);
    wait_for("all have ended", || list(bench.cluster()).unwrap().is_empty());
}

#[test]
fn unread_output_blocks_a_program_at_its_pipe() {
    let bench = Bench::new(1);
    let before = bench.cluster().control_bytes();
    let launch = bench.launch(&["sh", "-c", "yes | head -c 50000000"]);
    let came = || bench.cluster().control_bytes() - before;
    wait_for("it floods", || came() >= WINDOW_BYTES_MAX as u64);
    // Other requests are answered meanwhile, and no further output comes.
    (0..50).for_each(|_| assert_eq!(list(bench.cluster()).unwrap().len(), 1));
    let most = WINDOW_BYTES_MAX + (100 << 10);
    assert!(came() < most as u64, "{} of {most} bytes", came());
    let (output, ends) = all(&launch);
    assert_eq!((output[0][0].len(), codes(&ends)), (50_000_000, vec![0]));
}

#[test]
fn input_reaches_all_programs_and_a_closed_one_delays_none() {
    let bench = Bench::new(2);
    let script = "if [ $EUPHRATES_RANK = 0 ]; then exec <&-; sleep 0.2; else cat; fi";
    let order = LaunchOrder { has_stdin: true, ..order(&["sh", "-c", script]) };
    let launch = Arc::new(launch(bench.cluster(), &order, &[], 1).unwrap());
    let fed: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let (feeder, given) = (launch.clone(), fed.clone());
    let feeding = thread::spawn(move || {
        feeder.feed(&given);
        feeder.feed(&[]);
    });
    let (output, ends) = all(&launch);
    feeding.join().unwrap();
    assert!(output[1][0] == fed && output[0][0].is_empty());
    assert_eq!(codes(&ends), [0, 0]);
}

#[test]
fn interrupt_ends_programs_and_the_rest_is_killed() {
    let bench = Bench::new(2);
    let script = "if [ $EUPHRATES_RANK = 0 ]; then trap 'exit 7' INT; else trap '' INT; fi; \
                  echo ready; while :; do sleep 0.05; done";
    let launch = bench.launch(&["sh", "-c", script]);
    for _ in 0..2 {
        assert!(matches!(launch.step(PATIENCE), LaunchEvent::Wrote { .. }));
    }
    launch.stop(false);
    let (_, ends) = all(&launch);
    assert_eq!(codes(&ends), [7, 137]);
}

#[test]
fn children_are_killed_with_their_program() {
    let bench = Bench::new(1);
    let launch = bench.launch(&["sh", "-c", "sleep 1000 & echo $!"]);
    let (output, ends) = all(&launch);
    let left: u32 = String::from_utf8_lossy(&output[0][0]).trim().parse().unwrap();
    assert_eq!(codes(&ends), [0]);
    wait_for("what was left has ended", || !is_alive(left));
}

#[test]
fn all_masters_list_and_kill_programs() {
    let bench = Bench::new(2);
    let one = bench.launch(&["sleep", "1000"]);
    let other = bench.launch(&["sh", "-c", "echo on; exec sleep 2000"]);
    for _ in 0..2 {
        assert!(matches!(other.step(PATIENCE), LaunchEvent::Wrote { .. }));
    }
    // A program has no memory for a moment while it starts, and again while a shell becomes it.
    let has_memory = |entry: &ProgramEntry| entry.memory_bytes.is_some_and(|bytes| bytes > 0);
    let mut entries = vec![];
    wait_for("their memory", || {
        entries = list(bench.cluster()).unwrap();
        entries.iter().all(has_memory)
    });
    assert_eq!(entries.len(), 4);
    for entry in &entries {
        assert_eq!((entry.state, entry.is_flow), (ProgramState::Running, false));
        assert_eq!(entry.origin.pid, std::process::id());
        assert_eq!(entry.origin.user, user_name());
        assert!(is_alive(entry.pid.unwrap()));
    }
    let mut what: Vec<(&str, &str)> =
        entries.iter().map(|entry| (entry.worker.as_str(), entry.what.as_str())).collect();
    what.sort();
    let flood = "sh -c echo on; exec sleep 2000";
    let sleep = "sleep 1000";
    assert_eq!(what, [("w0", flood), ("w0", sleep), ("w1", flood), ("w1", sleep)]);
    let unknown = kill(bench.cluster(), &["12345678".into()], false).unwrap_err();
    assert!(unknown.to_string().contains("no program or flow named"), "{unknown}");
    let killed = kill(bench.cluster(), &[format!("{}.1", one.id())], false).unwrap();
    assert_eq!(killed.len(), 1);
    assert!(matches!(killed[0].1, Some(ProgramEnd::Killed(2))), "{killed:?}");
    assert_eq!(killed[0].0.worker, "w1");
    assert_eq!(kill(bench.cluster(), &[], true).unwrap().len(), 3);
    assert_eq!(codes(&all(&one).1), [137, 130]);
    assert_eq!(codes(&all(&other).1), [137, 137]);
    wait_for("the list is empty", || list(bench.cluster()).unwrap().is_empty());
}

#[test]
fn programs_end_with_their_master_unless_detached_and_with_their_worker() {
    let mut bench = Bench::new(2);
    drop(bench.launch(&["sleep", "1000"]));
    wait_for("it has gone with its handle", || list(bench.cluster()).unwrap().is_empty());
    let _stays = bench.launch(&["sleep", "1000"]);
    let detached = LaunchOrder { is_detached: true, ..order(&["sleep", "1000"]) };
    drop(launch(bench.cluster(), &detached, &[], 1).unwrap());
    let entries = list(bench.cluster()).unwrap();
    let pids = |of: &dyn Fn(u64) -> bool| -> Vec<u32> {
        let found = entries.iter().filter(|entry| of(entry.id.number));
        found.map(|entry| entry.pid.unwrap()).collect()
    };
    let number = _stays.id().number;
    let (attached, free) = (pids(&|of| of == number), pids(&|of| of != number));
    assert_eq!((attached.len(), free.len()), (2, 2));
    drop(_stays);
    bench.cluster = None;
    wait_for("the master's have ended", || !attached.iter().any(|pid| is_alive(*pid)));
    assert!(free.iter().all(|pid| is_alive(*pid)));
    bench.servers.clear();
    assert!(!free.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn launch_survives_a_lost_worker() {
    let mut bench = Bench::new(2);
    let script = "[ $EUPHRATES_RANK = 0 ] && exec sleep 1000; read x; echo $x";
    let order = LaunchOrder { has_stdin: true, ..order(&["sh", "-c", script]) };
    let launch = launch(bench.cluster(), &order, &[], 1).unwrap();
    drop(bench.servers.remove(0));
    let lost = launch.step(PATIENCE);
    let LaunchEvent::Ended { rank: 0, end } = lost else { panic!("{lost:?}") };
    assert!(matches!(end, ProgramEnd::Lost(_) | ProgramEnd::Killed(9)), "{end:?}");
    assert!(!launch.feed(b"still\n") || !launch.feed(&[]));
    let (output, ends) = all(&launch);
    assert_eq!(output[1][0], b"still\n");
    assert_eq!(ends[1].as_ref().unwrap().exit_code(), 0);
}

#[test]
fn launches_leave_no_descriptors_threads_or_children() {
    let bench = Bench::new(2);
    let run = || assert_eq!(codes(&all(&bench.launch(&["true"])).1), [0, 0]);
    run();
    wait_for("it has been forgotten", || list(bench.cluster()).unwrap().is_empty());
    let before = descriptors();
    (0..100).for_each(|_| run());
    wait_for("all have been forgotten", || list(bench.cluster()).unwrap().is_empty());
    wait_for("all descriptors are closed", || descriptors() <= before);
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let children: Vec<String> = children.flatten().collect();
    let count: usize = children.iter().map(|of| of.split_whitespace().count()).sum();
    assert!(count <= bench.servers.len(), "more than the guards: {children:?}");
}
