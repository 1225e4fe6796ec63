//! Modules that panic in calls from the flow's own threads, on workers: the flow ends with an
//! error.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use euphrates_engine::{Options, go};

use euphrates_flow::{
    Bound, Configure, Document, Inputs, InstanceFactory, Module, ModuleSpec, PortNames, Ports,
    Registry, Result, Setup, Sink,
};
use euphrates_modules::registry;
use serde_json::{Value, json};
use tempfile::TempDir;

use support::workers;

/// Timeout of every wait in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than a cancelled flow waits for its instances.
const LINGER: Duration = Duration::from_secs(3);

static FRAGILE: ModuleSpec = ModuleSpec {
    name: "fragile",
    summary: "Breaks when it is told to.",
    detail: "",
    outputs: PortNames::Fixed(&[]),
    config_schema: || json!({}),
    configure: |config| Ok(Arc::new(Fragile { when: config["when"].to_string() })),
    ..ModuleSpec::USUAL
};

struct Fragile {
    when: String,
}

impl Fragile {
    fn come_to(&self, what: &str) {
        assert!(!self.when.contains(what), "it broke at {what}");
    }
}

impl Configure for Fragile {
    fn bind(self: Arc<Self>, _: &Inputs) -> Result<Bound> {
        Ok(Bound { sink: Some(self.clone()), ..Bound::shared([], self) })
    }
}

impl InstanceFactory for Fragile {
    fn prepare(&self, _: &Setup) -> Result<()> {
        self.come_to("prepare");
        Ok(())
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        Ok(Box::new(Instance(self)))
    }
}

impl Sink for Fragile {
    fn target(&self) -> String {
        "a fragile output".to_string()
    }

    fn staging_folder(&self) -> Option<PathBuf> {
        None
    }

    fn sync(&self) -> Result<()> {
        self.come_to("sync");
        Ok(())
    }

    fn staged(&self) -> Result<Value> {
        self.come_to("staged");
        Ok(Value::Null)
    }

    fn on_committed(&self) {}

    fn on_orphaned(&self) {}

    fn reclaim(&self) {}
}

struct Instance(Arc<Fragile>);

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        while ports.get(0)?.is_some() {
            self.0.come_to("run");
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.0.come_to("drop");
        if self.0.when.contains("linger") {
            thread::sleep(LINGER);
        }
    }
}

fn modules() -> Registry {
    registry().with([&FRAGILE])
}

/// The outcome of a flow that panics in `when`, in this process or on workers.
fn outcome(when: &str, on_workers: bool) -> String {
    let home = TempDir::new().unwrap();
    let cluster = on_workers.then(|| workers(&home, &modules()));
    let mut document = Document::new("breaking");
    // More rows than the sink takes before it breaks, so that the source is interrupted.
    let rows = if when.contains("linger") { 1_000_000_000_u64 } else { 1000 };
    let source = document.place("generate", json!({"what": "integers", "rows": rows}), None);
    let sink = document.place("fragile", json!({"when": when}), None);
    document.attach(&source, &sink);
    let (tell, told) = channel();
    let options = Options {
        cluster: cluster.as_ref().map(|(cluster, _)| cluster.clone()),
        home: Some(home.path().into()),
        cores: Some(2),
        ..Options::default()
    };
    thread::spawn(move || drop(tell.send(go(&document, &modules(), &options).map(drop))));
    let ended = told.recv_timeout(PATIENCE).expect("the flow ends");
    ended.expect_err("it broke").to_string()
}

#[test]
fn panicking_instance_is_named_wherever_it_runs() {
    for on_workers in [false, true] {
        for when in ["run", "drop"] {
            let text = outcome(when, on_workers);
            assert!(text.contains(&format!("panicked: it broke at {when}")), "{text}");
            assert!(text.contains("fragile_1"), "{text}");
        }
    }
}

#[test]
fn failure_is_reported_before_its_instance_has_left() {
    let text = outcome("run, then linger", false);
    assert!(text.contains("panicked: it broke at run"), "{text}");
}

#[test]
fn worker_with_panicking_module_is_lost_with_reason() {
    for when in ["prepare", "sync", "staged"] {
        let text = outcome(when, true);
        assert!(text.contains(&format!("panicked: it broke at {when}")), "{text}");
    }
}
