//! What is said of a flow without running anything of the user's: neither Python is imported nor
//! an address of somebody else's asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use euphrates_engine::{Options, machine, survey::survey};
use euphrates_flow::check::{CheckedEdge, CheckedNode, Problem, Survey, Unit};
use euphrates_flow::document::Node;
use euphrates_flow::{Document, Error, ModuleSpec, Registry};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Studio;
use crate::drawn::owner;
use crate::refusal::{Refusal, Result};
use crate::routes::Call;
use crate::schema::columns;

/// Checks that go on at once, and how long one may take: it reads the beginnings of files.
const CHECKS_MAX: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);

static CHECKS: AtomicUsize = AtomicUsize::new(0);

/// One of the checks that go on at once, however it ends.
struct Place;

impl Place {
    fn take() -> Result<Place> {
        let place = Place;
        match CHECKS.fetch_add(1, SeqCst) < CHECKS_MAX {
            true => Ok(place),
            false => Err(Refusal::too_many("too many checks at once").remedy("try again")),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CHECKS.fetch_sub(1, SeqCst);
    }
}

/// `GET /api/session`
pub fn session(studio: &Arc<Studio>, _: &Call) -> Result<Value> {
    let setting = &studio.setting;
    let cores = machine::cores();
    let mut clusters = vec![String::new()];
    clusters.extend([2, 4, 8].map(|workers| format!("processes:{workers}")));
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "root": studio.root.path.display().to_string(),
        "flow": setting.flow,
        "read_only": setting.read_only,
        "machine": {"processors": cores, "memory": machine::memory_bytes()},
        "clusters": clusters,
        "trusted": studio.trust.has(&studio.root.path),
    }))
}

/// `GET /api/modules`
pub fn modules(studio: &Arc<Studio>, _: &Call) -> Result<Value> {
    let known = studio.setting.registry.iter().map(ModuleSpec::to_json);
    Ok(known.chain(studio.own.list()).collect())
}

#[derive(Deserialize)]
struct Asked {
    document: Value,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
}

/// `POST /api/check`
pub fn check(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let asked: Asked = call.body()?;
    let place = Place::take()?;
    let (registry, safe) = (studio.setting.registry.clone(), studio.setting.safe.clone());
    let (tell, told) = channel();
    // A file of a share that does not answer must not take a thread of the server's with it.
    let checking = std::thread::Builder::new().name("check".into()).spawn(move || {
        let answer = looked_at(asked, &registry, &safe);
        drop(place);
        // Who has lost patience does not listen.
        let _ = tell.send(answer);
    });
    checking.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
    told.recv_timeout(PATIENCE).map_err(|_| {
        let refusal = Error::resource("the check takes too long");
        Refusal::from(refusal.remedy("look whether the files it names can be read"))
    })
}

fn looked_at(asked: Asked, registry: &Registry, safe: &Registry) -> Value {
    let document = match Document::from_json(&asked.document.to_string()) {
        Ok(document) => document,
        Err(error) => {
            let problem = problem(&Problem::of_flow(error));
            return json!({"problems": [problem], "queues": [], "modules": []});
        }
    };
    let options = Options { variables: asked.variables, ..Options::default() };
    let is_closed = |node: &Node| {
        let runs_code = safe.find(&node.module).is_err() && registry.find(&node.module).is_ok();
        runs_code || node.config.values().any(names_address)
    };
    let found = survey(&document, registry, &options, &is_closed);
    json!({
        "problems": found.problems.iter().map(problem).collect::<Vec<_>>(),
        "queues": found.edges.iter().map(|edge| queue(&document, &found, edge)).collect::<Vec<_>>(),
        "modules": found.nodes.iter().map(module).collect::<Vec<_>>(),
    })
}

/// Whether a value says something like `s3://…`.
fn names_address(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("://"),
        Value::Array(items) => items.iter().any(names_address),
        Value::Object(map) => map.values().any(names_address),
        _ => false,
    }
}

fn problem(problem: &Problem) -> Value {
    let mut at = json!({});
    for (name, value) in [("module", &problem.module), ("field", &problem.field)] {
        if let Some(value) = value {
            at[name] = json!(value);
        }
    }
    if let Some(queue) = problem.queue {
        at["queue"] = json!(queue);
    }
    let places: Vec<&str> = problem.error.places().collect();
    let message = match places.is_empty() {
        true => problem.error.message().to_string(),
        false => format!("{}: {}", places.join(": "), problem.error.message()),
    };
    let mut told = json!({"at": at, "message": message});
    if let Some(remedy) = problem.error.advice() {
        told["remedy"] = json!(remedy);
    }
    told
}

fn queue(document: &Document, found: &Survey, edge: &CheckedEdge) -> Value {
    let (from, to) = (&found.nodes[edge.from.0], &found.nodes[edge.to.0]);
    json!({
        "from": from.id,
        "output": from.outputs[edge.from.1],
        "to": owner(document, (&found.nodes, &found.edges), edge.to.0),
        "input": to.inputs[edge.to.1],
        "kind": edge.kind.word(),
        "unit": if edge.unit == Unit::Run { "run" } else { "batch" },
        "bytes_max": edge.bytes_max,
        "why": edge.why,
        "schema": columns(&edge.schema),
    })
}

fn module(node: &CheckedNode) -> Value {
    let outputs = node.outputs.iter().enumerate();
    let outputs = outputs
        .map(|(output, name)| json!({"name": name, "schema": columns(&node.schema(output))}));
    json!({
        "id": node.id,
        "count": node.count,
        "instances": (0..node.count).map(|n| format!("{}.{n}", node.id)).collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
        "ordered": node.ordered,
    })
}
