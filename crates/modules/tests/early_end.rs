//! Modules whose consumers have had enough before all instances have noticed: the flow ends, and
//! no instance waits for one that has left.

mod support;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_engine::{Options, go};
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::{
    Bound, Configure, Document, Inputs, Module, ModuleSpec, PortNames, Ports, Registry, Result,
    Setup,
};
use serde_json::json;
use tempfile::TempDir;

use support::workers;

/// Timeout of every wait in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

static UNEVEN: ModuleSpec = ModuleSpec {
    name: "uneven",
    summary: "Its first instance puts rows until it may not; the others gather first.",
    detail: "",
    inputs: PortNames::Fixed(&[]),
    config_schema: || json!({}),
    configure: |_| Ok(Arc::new(Uneven)),
    ..ModuleSpec::USUAL
};

struct Uneven;

impl Configure for Uneven {
    fn bind(self: Arc<Self>, _: &Inputs) -> Result<Bound> {
        let field = Field::new("n", DataType::Int64, false);
        let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_new(schema.clone(), vec![column])?;
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let batch = batch.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                if ports.setup().instance > 0 {
                    let _waits = ports.metrics().enter(InstanceState::Starved);
                    return ports.setup().all_gather("counts", vec![]).map(drop);
                }
                loop {
                    ports.put(0, batch.clone())?;
                }
            }))
        };
        Ok(Bound::new([schema], instance))
    }
}

fn modules() -> Registry {
    euphrates_modules::registry().with([&UNEVEN])
}

/// The rows that a limit lets pass of `uneven`, in this process or on workers.
fn limited(rows: usize, on_workers: bool) -> usize {
    let home = TempDir::new().unwrap();
    let cluster = on_workers.then(|| workers(&home, &modules()));
    let mut document = Document::new("early end");
    let source = document.place("uneven", json!({}), Some(4));
    let limit = document.place("limit", json!({"rows": rows}), None);
    let sink = document.place("collect", json!({}), None);
    document.attach(&source, &limit);
    document.attach(&limit, &sink);
    let (tell, told) = channel();
    let options = Options {
        cluster: cluster.as_ref().map(|(cluster, _)| cluster.clone()),
        home: Some(home.path().into()),
        ..Options::default()
    };
    thread::spawn(move || drop(tell.send(go(&document, &modules(), &options))));
    let report = told.recv_timeout(PATIENCE).expect("the flow ends").unwrap();
    let collected = report.collected.values().next().expect("a collect");
    collected.batches.iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn instance_that_ends_early_leaves_no_gather_waiting() {
    for on_workers in [false, true] {
        for rows in [0, 1, 1500] {
            assert_eq!(limited(rows, on_workers), rows, "on workers: {on_workers}");
        }
    }
}
