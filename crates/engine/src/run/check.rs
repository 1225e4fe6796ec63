//! Checks a flow as it will run; stops at the first problem.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use euphrates_flow::check::{CheckedFlow, check_part};
use euphrates_flow::sample_limit::limit_samples;
use euphrates_flow::{Document, Error, Registry, Result};
use euphrates_policy::memory;
use serde_json::json;

use super::options::Options;
use super::placement::{WorkerProperties, resolve_counts};
use crate::cluster::placed_flow::check_and_place;

/// Binds the variables and checks the flow without starting it.
///
/// ```
/// use euphrates_engine::Options;
/// use euphrates_engine::run::check::check_flow;
/// use euphrates_flow::{Document, Registry};
/// use serde_json::json;
///
/// let mut flow = Document::new("daily");
/// flow.place("scan", json!({"path": {"$var": "days"}}), None);
/// flow.variables.insert("days".into(), Default::default());
/// let checked = check_flow(&flow, &Registry::default(), &Options::default());
/// assert_eq!(checked.err().unwrap().message(), "variable `days` has no value");
/// ```
pub fn check_flow(
    document: &Document,
    registry: &Registry,
    options: &Options,
) -> Result<CheckedFlow> {
    limit_samples(memory::sample_budget_bytes(options.budget()));
    if let Some(cluster) = &options.cluster {
        return check_and_place(cluster, document, registry, options).map(|bound| bound.flow);
    }
    let workers = options.workers.unwrap_or(1);
    let mut bound = document.bind(&options.variables)?;
    let members: Vec<WorkerProperties> =
        names(workers).into_iter().map(WorkerProperties::named).collect();
    resolve_counts(&mut bound, &members)?;
    let (home, cache) = (options.home(), options.cache_grant());
    check_part(&bound, registry, options.cores(), (&home, cache), &BTreeMap::new())
}

/// The columns of the rows of a flow without a sink, which are on the first output of its last
/// module, and the bytes that are read for them, if known.
///
/// ```
/// use euphrates_engine::Options;
/// use euphrates_engine::run::check::open_end;
/// use euphrates_flow::{Document, Registry};
///
/// let checked = open_end(&Document::new("empty"), &Registry::default(), &Options::default());
/// assert_eq!(checked.err().unwrap().message(), "the flow has no modules");
/// ```
pub fn open_end(
    rows: &Document,
    registry: &Registry,
    options: &Options,
) -> Result<(SchemaRef, Option<u64>)> {
    let Some(last) = rows.modules.last().map(|node| node.id.clone()) else {
        return Err(Error::usage("the flow has no modules").remedy("place one"));
    };
    let mut flow = rows.clone();
    let sink = flow.place("collect", json!({}), None);
    flow.attach(&last, &sink);
    let checked = check_flow(&flow, registry, options)?;
    let node = checked.nodes.iter().find(|node| node.id == last);
    let facts = node.map(|node| (node.schema(0), node.bound.bytes_expected));
    facts.ok_or_else(|| Error::failed(format!("no module {last}")))
}

/// The names of in-process workers.
pub(crate) fn names(workers: usize) -> Vec<String> {
    (0..workers).map(|number| format!("w{number}")).collect()
}
