//! A run's live statistics and its failure as JSON, for the studio's page and for notebooks.

use euphrates_engine::Running;
use euphrates_flow::{Document, Error, Result};
use serde_json::{Value, json};

use crate::flow_map::drawn_module;

/// The live statistics, by modules and queues of the document.
pub fn live(running: &Running, document: &Document) -> Result<Value> {
    let flow = running.flow();
    let mut live = serde_json::to_value(running.live()).map_err(Error::failed)?;
    let queues = live["queues"].as_array_mut().into_iter().flatten();
    for (edge, queue) in flow.edges.iter().zip(queues) {
        queue["to"][0] = json!(drawn_module(document, (&flow.nodes, &flow.edges), edge.to.0));
    }
    Ok(live)
}

/// The error of a run, with the module and the instance that failed if they are known.
///
/// ```
/// use euphrates_flow::Error;
/// use euphrates_server::run_view::failure;
///
/// let error = Error::failed("division by zero\nTraceback …").at("module map_1.2");
/// let shown = failure(&error);
/// assert_eq!((&shown["module"], &shown["instance"]), (&"map_1".into(), &"map_1.2".into()));
/// assert_eq!((&shown["message"], &shown["kind"]), (&"division by zero".into(), &"failed".into()));
/// ```
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
    let mut json = json!({"kind": error.kind(), "message": message, "at": places.join(": ")});
    let more = [
        ("remedy", error.advice()),
        ("module", module),
        ("instance", instance),
        ("traceback", traceback),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            json[name] = json!(value);
        }
    }
    if let Some(row) = error.row() {
        json["row"] = json!(row);
    }
    json
}
