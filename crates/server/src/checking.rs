//! What is said of a flow without running anything of the user's: neither Python is imported nor
//! an address of somebody else's asked for.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use euphrates_engine::{Options, machine, run::survey::survey};
use euphrates_flow::check::{CheckedEdge, CheckedNode, Problem, Reads, Survey, Unit};
use euphrates_flow::document::Node;
use euphrates_flow::{Document, Error, ModuleSpec, Registry};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::drawn::owner;
use crate::refusal::{Refusal, Result};
use crate::routes::Call;
use crate::schema::columns;
use crate::{Studio, lock};

/// Checks that go on at once, and how long one may take: it reads the beginnings of files.
const CHECKS_MAX: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);
/// Checks that have been given up and not ended: each holds a thread that waits for a file system.
const GIVEN_UP_MAX: usize = 64;

/// The checks that have not ended. One that has been given up no longer counts among those that go
/// on at once, so a share that does not answer holds up the checks of other flows for no longer
/// than one of them may take.
#[derive(Clone, Default)]
pub struct Checks(Arc<Mutex<Unended>>);

#[derive(Default)]
struct Unended {
    next: u64,
    /// By number, whether each has been given up.
    checks: BTreeMap<u64, bool>,
}

/// A check that ends when this is dropped, however it ends.
struct Check {
    number: u64,
    of: Checks,
}

impl Checks {
    /// What `work` says, unless it takes longer than `patience`. It goes on all the same: what
    /// waits for a file system cannot be stopped within a process.
    fn within<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let check = self.begin()?;
        let number = check.number;
        let (tell, told) = channel();
        let checking = std::thread::Builder::new().name("check".into()).spawn(move || {
            let answer = work();
            drop(check);
            // The caller may have given up waiting.
            let _ = tell.send(answer);
        });
        checking.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        told.recv_timeout(patience).map_err(|error| {
            if error == RecvTimeoutError::Disconnected {
                return Error::failed("the check has failed; the terminal says more").into();
            }
            if let Some(is_given_up) = lock(&self.0).checks.get_mut(&number) {
                *is_given_up = true;
            }
            let refusal = Error::resource("the check takes too long");
            Refusal::from(refusal.remedy("look whether the files it names can be read"))
        })
    }

    fn begin(&self) -> Result<Check> {
        let mut unended = lock(&self.0);
        let given_up = unended.checks.values().filter(|is_given_up| **is_given_up).count();
        if unended.checks.len() - given_up == CHECKS_MAX {
            return Err(Refusal::too_many("too many checks at once").remedy("try again"));
        }
        if given_up == GIVEN_UP_MAX {
            let message = format!("{given_up} checks wait for files that cannot be read");
            let remedy = "look whether a share of the network answers, or start the studio again";
            return Err(Refusal::too_many(message).remedy(remedy));
        }
        unended.next += 1;
        let number = unended.next;
        unended.checks.insert(number, false);
        Ok(Check { number, of: self.clone() })
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        lock(&self.of.0).checks.remove(&self.number);
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
    let registry = studio.setting.registry.clone();
    studio.checks.within(PATIENCE, move || looked_at(asked, &registry))
}

fn looked_at(asked: Asked, registry: &Registry) -> Value {
    let document = match Document::from_json(&asked.document.to_string()) {
        Ok(document) => document,
        Err(error) => {
            let problem = problem(&Problem::of_flow(error));
            return json!({"problems": [problem], "queues": [], "modules": []});
        }
    };
    let options = Options { variables: asked.variables, ..Options::default() };
    let is_closed = |node: &Node| {
        registry.calls_user_code(&node.module) || node.config.values().any(names_address)
    };
    let found = survey(&document, registry, &options, Reads::Files, &is_closed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_hang_leave_room_for_others_and_are_bounded() {
        let checks = Checks::default();
        let (end, ended) = channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let hang = || {
            let ended = ended.clone();
            checks.within(Duration::ZERO, move || lock(&ended).recv().is_ok()).unwrap_err()
        };
        for _ in 0..GIVEN_UP_MAX - 1 {
            assert_eq!(hang().message, "the check takes too long");
            assert_eq!(checks.within(PATIENCE, || 7).unwrap(), 7);
        }
        assert_eq!(hang().message, "the check takes too long");
        let refusal = checks.within(PATIENCE, || 7).unwrap_err();
        assert!(refusal.message.contains("64 checks wait for files"), "{refusal:?}");
        // The share answers again.
        drop(end);
        while !lock(&checks.0).checks.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(checks.within(PATIENCE, || 7).unwrap(), 7);
        let broken: Result<()> = checks.within(PATIENCE, || panic!("a bug"));
        assert!(broken.is_err());
        assert_eq!(checks.within(PATIENCE, || 7).unwrap(), 7);
    }
}
