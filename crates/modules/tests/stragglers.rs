//! Flows with slow components: the report names them, and work moves to the others. Work is
//! simulated by sleeping, so that its speed does not depend on the machine or its host: time
//! without a processor is short and is not multiplied.

use std::iter::once;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use euphrates_device::disk::{Disks, NamedDisk, save_named_disks};
use euphrates_engine::{Options, Report, go, start};

use euphrates_flow::{
    Bound, Configure, Document, Inputs, Kind, Module, ModuleSpec, Perturbation, Ports, Registry,
    Result, Setup,
};
use serde_json::{Value, json};

/// Duration of the work on a batch.
const WORK: Duration = Duration::from_millis(20);

static DOZE: ModuleSpec = ModuleSpec {
    name: "doze",
    summary: "Takes its time over each batch.",
    detail: "",
    config_schema: || json!({}),
    configure: |_| Ok(Arc::new(Doze)),
    ..ModuleSpec::USUAL
};

struct Doze;

impl Configure for Doze {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let instance = |_: &Setup| -> Result<Box<dyn Module>> {
            Ok(Box::new(|ports: &mut Ports| {
                while let Some(batch) = ports.get(0)? {
                    thread::sleep(WORK);
                    ports.put(0, batch)?;
                }
                Ok(())
            }))
        };
        Ok(Bound::new([inputs.schemas[0].clone()], instance))
    }
}

fn registry() -> Registry {
    euphrates_modules::registry().with([&DOZE])
}

/// Integers through four instances that can be slowed; a million rows are fifteen batches.
fn doze(rows: u64) -> Document {
    let mut flow = Document::new("doze");
    let made = flow.place("generate", json!({"what": "integers", "rows": rows}), Some(1));
    let dozed = flow.place("doze", json!({}), Some(4));
    let counted = flow.place("count", json!({}), Some(1));
    let collected = flow.place("collect", json!({}), None);
    flow.attach(&made, &dozed).bytes_max = Some(2 << 20);
    flow.attach(&dozed, &counted);
    flow.attach(&counted, &collected);
    flow
}

fn options(home: &Path, perturbations: Value) -> Options {
    Options {
        cores: Some(2),
        home: Some(home.into()),
        perturbations: Perturbation::list_from_json(&perturbations.to_string()).unwrap(),
        ..Options::default()
    }
}

fn run(flow: &Document, perturbations: Value) -> Result<Report> {
    let home = tempfile::tempdir().unwrap();
    go(flow, &registry(), &options(home.path(), perturbations))
}

/// The fractions of the rows that the instances of `doze_1` moved.
fn shares(report: &Report) -> Vec<f64> {
    let instances = report.slowness.instances.iter().filter(|one| one.module == "doze_1");
    let rows: Vec<f64> = instances.map(|one| one.counters.rows_in as f64).collect();
    rows.iter().map(|own| own / rows.iter().sum::<f64>()).collect()
}

fn check_numbers(report: &Report) {
    let slowness = &report.slowness;
    let fraction = slowness.fraction_of_ideal.expect("long enough");
    assert!(fraction > 0.0 && fraction <= 1.0, "{fraction}");
    assert!(slowness.ideal_seconds.unwrap() <= report.seconds);
    assert!(slowness.divided_seconds.unwrap() >= report.seconds);
    let parsed: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(parsed["slow"].as_array().unwrap().len(), slowness.slow.len());
    let points = slowness.history.seconds.len();
    assert!(points > 5 && points <= 240, "{points}");
    assert!(slowness.history.series.iter().all(|one| one.bytes_per_second.len() == points));
}

#[test]
fn straggler_does_less_and_is_named_in_report() {
    let slow = json!([{"instance": "doze_1.2", "share": 0.8}]);
    let report = run(&doze(45_000_000), slow).unwrap();
    check_numbers(&report);
    let names: Vec<&str> = report.slowness.slow.iter().map(|slow| slow.name.as_str()).collect();
    assert_eq!(names, ["doze_1.2"], "{:?}", report.slowness);
    let slow = &report.slowness.slow[0];
    assert!((3.0..8.0).contains(&slow.factor.unwrap()), "{slow:?}");
    assert!(slow.share_moved.unwrap() < 0.12 && slow.share_equal == Some(0.25), "{slow:?}");
    let shares = shares(&report);
    assert!(shares[2] < 0.12 && shares[0] > 0.2, "{shares:?}");
    // A fixed assignment would have waited for it.
    let (divided, ideal) = (report.slowness.divided_seconds, report.slowness.ideal_seconds);
    assert!(divided.unwrap() > 2.0 * ideal.unwrap(), "{divided:?} {ideal:?}");
    let page = report.to_string();
    for part in ["perturbed: doze_1.2", "slow: doze_1.2", "ideal: ", "static division"] {
        assert!(page.contains(part), "{page}");
    }
}

#[test]
fn a_worker_that_is_slow_has_all_its_instances_slow() {
    let home = tempfile::tempdir().unwrap();
    let slow = json!([{"worker": "w1", "share": 0.9}]);
    let options = Options { workers: Some(3), ..options(home.path(), slow) };
    let report = go(&doze(30_000_000), &registry(), &options).unwrap();
    // With four instances on three workers, the second worker has only the second instance.
    let shares = shares(&report);
    let fast = [0, 2, 3].map(|at| shares[at]);
    assert!(fast.iter().all(|share| *share > 2.0 * shares[1]), "{shares:?}");
}

#[test]
fn no_straggler_is_named_when_all_are_equal() {
    let report = run(&doze(45_000_000), json!([])).unwrap();
    check_numbers(&report);
    assert!(report.slowness.slow.is_empty(), "{:?}", report.slowness.slow);
    assert!(!report.to_string().contains("static division"));
    let shares = shares(&report);
    assert!(shares.iter().all(|share| (0.15..0.35).contains(share)), "{shares:?}");
}

#[test]
fn paused_instance_does_not_delay_others() {
    let pause = json!([{"instance": "doze_1.1", "pause": true, "after": 0.8, "lasts": 3.0}]);
    let report = run(&doze(60_000_000), pause).unwrap();
    let own = shares(&report);
    let others = [0, 2, 3].map(|at| own[at]);
    assert!(others.iter().all(|share| *share > own[1]), "{own:?}");
    // The other instances are as fast as before and do not wait for the paused one.
    let (during, before_and_after) = rates_of_others(&report, "doze_1.1", 1.0..3.6);
    assert!(during > 0.7 * before_and_after, "{during} {before_and_after}");
    let slow = &report.slowness.slow;
    let names: Vec<&str> = slow.iter().map(|slow| slow.name.as_str()).collect();
    assert_eq!(names, ["doze_1.1"], "{slow:?}");
}

/// The mean rate of the other three instances in bytes per second: in the intervals within these
/// seconds, and in all others except the last, in which the input ends.
fn rates_of_others(report: &Report, name: &str, within: Range<f64>) -> (f64, f64) {
    let history = &report.slowness.history;
    let others = history.series.iter().filter(|one| one.name != name);
    let others = others.filter(|one| one.module.as_deref() == Some("doze_1"));
    let (mut inside, mut outside) = ((0.0, 0.0), (0.0, 0.0));
    for series in others {
        let begins = once(&0.0).chain(&history.seconds);
        let intervals = begins.zip(&history.seconds).zip(&series.bytes_per_second);
        for ((begin, end), rate) in intervals.take(history.seconds.len() - 1) {
            let is_inside = within.start <= *begin && *end <= within.end;
            let (seconds, bytes) = if is_inside { &mut inside } else { &mut outside };
            *seconds += end - begin;
            *bytes += rate * (end - begin);
        }
    }
    let mean = |(seconds, bytes): (f64, f64)| bytes / seconds;
    (mean(inside), mean(outside))
}

#[test]
fn cancel_wakes_paused_instances() {
    let home = tempfile::tempdir().unwrap();
    let pause = json!([{"module": "doze_1", "pause": true, "lasts": 3600}]);
    let options = options(home.path(), pause);
    let mut running = start(&doze(10_000_000), &registry(), &options).unwrap();
    running.cancel();
    assert!(running.wait_for(Duration::from_secs(60)));
    assert_eq!(running.finish().unwrap_err().kind(), Kind::Interrupted);
}

#[test]
fn disk_is_throttled_only_while_flow_runs() {
    let home = tempfile::tempdir().unwrap();
    let disk = |name: &str| NamedDisk {
        name: name.into(),
        folder: name.into(),
        mode: Default::default(),
        rate: None,
        worker: name.into(),
    };
    save_named_disks(home.path(), &[disk("d1"), disk("d2")]).unwrap();
    for (name, to) in [("one", "d1"), ("two", "d2")] {
        let mut flow = Document::new("write");
        let made = flow.place("generate", json!({"what": "records", "rows": 400_000}), None);
        let kept = flow.place("write", json!({"collection": name, "disk": to}), None);
        flow.attach(&made, &kept);
        go(&flow, &registry(), &options(home.path(), json!([]))).unwrap();
    }
    let mut flow = Document::new("read");
    let read = |name: &str| json!({"collection": name});
    let (one, two) = (flow.place("read", read("one"), None), flow.place("read", read("two"), None));
    for from in [one, two] {
        let counted = flow.place("count", json!({}), Some(1));
        let collected = flow.place("collect", json!({}), None);
        flow.attach(&from, &counted);
        flow.attach(&counted, &collected);
    }
    let held = json!([{"disk": "d1", "rate": "10MB/s"}, {"disk": "d2", "rate": "40MB/s"}]);
    let report = go(&flow, &registry(), &options(home.path(), held)).unwrap();
    let seconds = |name: &str| {
        let disk = report.slowness.disks.iter().find(|disk| disk.name == name).unwrap();
        assert!(disk.read_bytes > 39e6 && disk.written_bytes == 0.0, "{disk:?}");
        disk.read_seconds
    };
    // Forty megabytes each: four seconds and one, except for the first request, which may start at
    // once.
    assert!(seconds("d1") > 3.0 && seconds("d2") > 0.5, "{:?}", report.slowness.disks);
    let slow = &report.slowness.slow;
    let names: Vec<&str> = slow.iter().map(|slow| slow.name.as_str()).collect();
    assert_eq!(names, ["disk d1 (reading)"], "{slow:?}");
    check_numbers(&report);
    let disk = Disks::of(home.path()).unwrap().open("d1").unwrap();
    assert_eq!(disk.rate(), None);
}

#[test]
fn invalid_perturbations_fail_before_start() {
    let cases = [
        (json!({"instance": "doze_1.4", "share": 0.5}), "doze_1.0 to doze_1.3"),
        (json!({"instance": "doze_1", "share": 0.5}), "is a module"),
        (json!({"instance": "here", "share": 0.5}), "generate_1.0, doze_1.0 to doze_1.3"),
        (json!({"module": "dzoe_1", "share": 0.5}), "did you mean `doze_1`"),
        (json!({"worker": "w1", "share": 0.5}), "no worker named `w1`"),
        (json!({"disk": "d9", "rate": "5MB/s"}), "known: home"),
        (json!({"disk": "home", "rate": 0}), "0"),
        (json!({"disk": "home", "rate": "fast"}), "not a size"),
        (json!({"disk": "home"}), "without a rate"),
        (json!({"module": "doze_1", "share": 1.0}), "between 0 and 1"),
        (json!({"module": "doze_1", "share": 0.0}), "between 0 and 1"),
        (json!({"module": "doze_1"}), "share, or pause"),
        (json!({"module": "doze_1", "pause": true}), "how many seconds"),
        (json!({"module": "doze_1", "pause": true, "share": 0.5, "lasts": 1}), "one of them"),
        (json!({"module": "doze_1", "rate": 5}), "rate does not go with"),
        (json!({"share": 0.5}), "no target"),
        (json!({"module": "doze_1", "disk": "home"}), "several targets"),
        (json!({"memory": "900TB"}), "hold less"),
        (json!({"memory": "1MB", "lasts": 5, "every": 5}), "`every` must be longer than `lasts`"),
        (json!({"memory": "1MB", "every": 5}), "not lasts"),
        (json!({"memory": "1MB", "after": -1}), "seconds, from 0 up"),
    ];
    for (perturbation, says) in cases {
        let error = run(&doze(1000), json!([perturbation])).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[test]
fn memory_is_held_and_the_flow_goes_on() {
    let report = run(&doze(1_000_000), json!([{"memory": "100MB"}])).unwrap();
    assert!(report.to_string().contains("perturbed: memory: 100MB held"), "{report}");
}
