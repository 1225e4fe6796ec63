//! Checks a flow under construction, for the studio: collects all problems.

use std::collections::BTreeSet;

use euphrates_flow::check::{self, Problem, Reads, Survey};
use euphrates_flow::document::{Node, variable_name};
use euphrates_flow::{Document, Error, Registry};
use serde_json::Value;

use super::check::names;
use crate::run::options::Options;
use crate::run::placement::{WorkerProperties, resolve_counts};

/// Checks a flow as it would run in this process. Modules for which `is_excluded` returns true are
/// skipped, and so are modules with a variable that has no value yet, which is no problem.
pub fn survey(
    document: &Document,
    registry: &Registry,
    options: &Options,
    reads: Reads,
    is_excluded: &dyn Fn(&Node) -> bool,
) -> Survey {
    let mut problems = vec![];
    let mut values = options.variables.clone();
    values.retain(|name, _| document.variables.contains_key(name));
    let mut bound = document.clone();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let members: Vec<WorkerProperties> =
        names(1).into_iter().map(WorkerProperties::named).collect();
    for node in &mut bound.modules {
        let uses: Vec<String> = node.config.values().flat_map(variables_of).collect();
        if let Some(stranger) = uses.iter().find(|name| !document.variables.contains_key(*name)) {
            let error = Error::usage(format!("the flow has no variable `{stranger}`"))
                .remedy("declare it, or give a value");
            problems.push(Problem::of_module(node, error));
            open.insert(node.id.clone());
        }
        let has_value = |name: &String| {
            let variable = document.variables.get(name);
            values.contains_key(name) || variable.is_some_and(|one| one.default.is_some())
        };
        if !uses.iter().all(has_value) {
            open.insert(node.id.clone());
            continue;
        }
        let mut alone = Document { modules: vec![node.clone()], ..document.clone() };
        let settled = alone.bind(&values).and_then(|bound| {
            alone = bound;
            resolve_counts(&mut alone, &members)
        });
        if let Err(error) = settled {
            problems.push(Problem::of_module(node, error));
        }
        if let Some(settled) = alone.modules.pop() {
            *node = settled;
        }
    }
    let is_excluded = |node: &Node| open.contains(&node.id) || is_excluded(node);
    let (cores, home) = (options.cores(), options.home());
    let mut survey = check::survey(&bound, registry, cores, &home, reads, &is_excluded);
    survey.problems.splice(0..0, problems);
    survey
}

/// The names of the variables that a value uses.
fn variables_of(value: &Value) -> Vec<String> {
    if let Some(name) = variable_name(value) {
        return vec![name.to_string()];
    }
    match value {
        Value::Object(map) => map.values().flat_map(variables_of).collect(),
        Value::Array(items) => items.iter().flat_map(variables_of).collect(),
        _ => vec![],
    }
}
