//! `POST /api/check`: checks a flow without calling user code or a remote service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use euphrates_engine::Options;
use euphrates_engine::run::survey::survey;
use euphrates_flow::check::{CheckedEdge, CheckedNode, Problem, QueueUnit, Reads, Survey};
use euphrates_flow::document::Node;
use euphrates_flow::{Document, Registry};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::flow_map::drawn_module;
use crate::http::error::Result;
use crate::http::request::ApiRequest;
use crate::studio::Studio;
use crate::table_json::columns;

/// The time that a check may take: it reads the beginnings of files.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of the request.
#[derive(Deserialize)]
struct CheckRequest {
    document: Value,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
}

/// `POST /api/check`: the problems, queues and modules of a flow.
pub fn check(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let asked: CheckRequest = request.body()?;
    let registry = studio.settings.registry.clone();
    studio.checks.run(CHECK_TIMEOUT, move || problems_and_schemas(asked, &registry))
}

/// The response: the problems of the flow, and the schemas of its queues and outputs.
fn problems_and_schemas(asked: CheckRequest, registry: &Registry) -> Value {
    let document = match Document::from_json(&asked.document.to_string()) {
        Ok(document) => document,
        Err(error) => {
            let problem = problem(&Problem::of_flow(error));
            return json!({"problems": [problem], "queues": [], "modules": []});
        }
    };
    let options = Options { variables: asked.variables, ..Options::default() };
    // Modules whose check would run user code or contact a remote service.
    let is_excluded = |node: &Node| {
        registry.calls_user_code(&node.module) || node.config.values().any(names_address)
    };
    let found = survey(&document, registry, &options, Reads::Files, &is_excluded);
    json!({
        "problems": found.problems.iter().map(problem).collect::<Vec<_>>(),
        "queues": found.edges.iter().map(|edge| queue(&document, &found, edge)).collect::<Vec<_>>(),
        "modules": found.nodes.iter().map(module).collect::<Vec<_>>(),
    })
}

/// Whether a value contains an address like `s3://…`.
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
    let mut json = json!({"at": at, "message": message});
    if let Some(remedy) = problem.error.advice() {
        json["remedy"] = json!(remedy);
    }
    json
}

fn queue(document: &Document, found: &Survey, edge: &CheckedEdge) -> Value {
    let (from, to) = (&found.nodes[edge.from.0], &found.nodes[edge.to.0]);
    json!({
        "from": from.id,
        "output": from.outputs[edge.from.1],
        "to": drawn_module(document, (&found.nodes, &found.edges), edge.to.0),
        "input": to.inputs[edge.to.1],
        "kind": edge.kind.word(),
        "unit": if edge.unit == QueueUnit::Run { "run" } else { "batch" },
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
