//! What is told of a run, to whoever shows it: the studio's page, and a notebook. Their numbers are
//! the engine's, and the same.

use euphrates_engine::Running;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Value, json};

use crate::drawn::owner;

/// How it goes, in terms of the flow as it was drawn.
pub fn live(running: &Running, document: &Document) -> Result<Value> {
    let flow = running.flow();
    let mut live = serde_json::to_value(running.live()).map_err(Error::failed)?;
    let queues = live["queues"].as_array_mut().into_iter().flatten();
    for (edge, queue) in flow.edges.iter().zip(queues) {
        queue["to"][0] = json!(owner(document, (&flow.nodes, &flow.edges), edge.to.0));
    }
    Ok(live)
}

/// How it failed.
pub fn failure(error: &Error) -> Value {
    let places: Vec<&str> = error.places().collect();
    let instance = places.iter().find_map(|place| place.strip_prefix("module "));
    let module = instance.map(|name| match name.rsplit_once('.') {
        Some((module, number)) if number.parse::<usize>().is_ok() => module,
        _ => name,
    });
    let (message, traceback) = match error.message().split_once('\n') {
        Some((message, rest)) => (message, Some(rest)),
        None => (error.message(), None),
    };
    let mut told = json!({"kind": error.kind(), "message": message, "at": places.join(": ")});
    let more = [
        ("remedy", error.advice()),
        ("module", module),
        ("instance", instance),
        ("traceback", traceback),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            told[name] = json!(value);
        }
    }
    if let Some(row) = error.row() {
        told["row"] = json!(row);
    }
    told
}
