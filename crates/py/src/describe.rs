//! Descriptions of modules and flows without running them: specs, checks, code and pictures.

use euphrates_draw::draw as picture;
use euphrates_engine::run::consent::{self, CheckResult, Consent};
use euphrates_flow::check::{CheckedEdge, CheckedNode, QueueUnit};
use euphrates_flow::code::code as write_code;
use euphrates_flow::{Document, MemoryDemand, ModuleSpec, Result};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::data::schemas::words;
use crate::errors::{OrRaise, to_exception};
use crate::registry::registry;
use crate::running::run_options::RunOptions;
use crate::user_code::{CHECKING, take_cause};

/// Every module's description of itself, and whether it calls user code (`user_code`), as JSON.
#[pyfunction]
pub fn specs() -> String {
    let registry = registry();
    let described = |spec: &ModuleSpec| {
        let mut json = spec.to_json();
        json["user_code"] = registry.calls_user_code(spec.name).into();
        json
    };
    registry.iter().map(described).collect::<Value>().to_string()
}

/// Checks a flow, and returns its modules and queues as JSON. Without trust, no user code is
/// called.
#[pyfunction]
pub fn check(py: Python<'_>, document: &str, options: &str, trust: bool) -> PyResult<String> {
    let consent = if trust { Consent::Given } else { Consent::Withheld };
    let checked = py.detach(|| -> Result<String> {
        let options = RunOptions::parse(options)?;
        let document = Document::from_json(document)?;
        let seen = consent::check(&document, &registry(), &options, consent)?;
        Ok(explained(&seen).to_string())
    });
    checked.map_err(|error| to_exception(py, &error, take_cause(CHECKING)))
}

/// A checked flow as JSON.
fn explained(flow: &CheckResult) -> Value {
    let module = |node: &CheckedNode| {
        let outputs = node
            .outputs
            .iter()
            .enumerate()
            .map(|(output, name)| json!({"name": name, "schema": words(&node.schema(output))}));
        json!({
            "id": node.id,
            "module": node.spec.name,
            "count": node.count,
            "inputs": node.inputs,
            "outputs": outputs.collect::<Vec<_>>(),
            "ordered": node.ordered,
            "extent": node.bound.extent,
            "wants_memory": node.spec.memory != MemoryDemand::None,
        })
    };
    let queue = |edge: &CheckedEdge| {
        let (from, to) = (&flow.nodes[edge.from.0], &flow.nodes[edge.to.0]);
        json!({
            "from": from.id,
            "output": from.outputs[edge.from.1],
            "to": to.id,
            "input": to.inputs[edge.to.1],
            "queue": edge.kind.word(),
            "unit": if edge.unit == QueueUnit::Run { "run" } else { "batch" },
            "bytes_max": edge.bytes_max,
            "schema": words(&edge.schema),
            "why": edge.why,
        })
    };
    json!({
        "name": flow.name,
        "document": flow.document,
        "modules": flow.nodes.iter().map(module).collect::<Vec<_>>(),
        "queues": flow.edges.iter().map(queue).collect::<Vec<_>>(),
        "unchecked": flow.unchecked.iter().map(|node| &node.id).collect::<Vec<_>>(),
    })
}

/// A flow as a program in `python` or `rust`.
#[pyfunction]
pub fn code(py: Python<'_>, document: &str, language: &str) -> PyResult<String> {
    let write = || write_code(&Document::from_json(document)?, &registry(), language.parse()?);
    write().or_raise(py)
}

/// A flow as a picture: `svg`, `mermaid` or `dot`.
#[pyfunction]
pub fn draw(py: Python<'_>, document: &str, format: &str) -> PyResult<String> {
    let picture = || Ok(picture(&Document::from_json(document)?, format.parse()?));
    picture().or_raise(py)
}

/// A flow document in the format of this version; an error if it is malformed.
#[pyfunction]
pub fn normalize(py: Python<'_>, document: &str) -> PyResult<String> {
    Document::from_json(document).map(|document| document.to_json()).or_raise(py)
}

/// The JavaScript module that shows a flow in a notebook; `None` if it was not built.
#[pyfunction]
pub fn notebook() -> Option<&'static str> {
    euphrates_server::notebook()
}
