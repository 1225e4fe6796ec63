//! Checks a flow before it starts, and fills in what the document does not specify: numbers of
//! instances, kinds of queues, and whether queues hand out batches, runs or partitions.

mod checked;
mod columns;
mod configured;
mod cycle;
mod edge;
mod first_rows;
mod graph;
mod key_paths;
mod late_config;
pub mod names;
mod node;
mod partitioners;
mod remote;
mod side_sinks;
mod survey;
mod targets;

use std::collections::BTreeMap;
use std::path::Path;

use self::configured::{ConfiguredModule, ConfiguredModules};
use self::first_rows::order_sources;
use self::graph::Graph;
use self::node::{Scope, check_node};
use self::partitioners::insert_partitioners;
use self::side_sinks::insert_side_sinks;
use crate::document::{Document, Node};
use crate::error::{Error, Result};
use crate::setup::cache_grant::CacheGrant;
use crate::spec::Registry;

pub use self::checked::{CheckedEdge, CheckedFlow, CheckedNode, QUEUE_BYTES_MAX, QueueUnit};
pub use self::remote::RemoteModule;
pub use self::survey::{Problem, Survey, survey};
pub use crate::module::Reads;

/// Checks a document whose variables are bound. `cores` is the most instances that a parallel
/// module gets when the document does not say; `home` is where collections live.
///
/// ```
/// use euphrates_flow::check::check;
/// use euphrates_flow::{Document, Kind, Registry};
/// use std::path::Path;
///
/// let mut flow = Document::new("daily");
/// flow.place("scna", serde_json::json!({}), None);
/// let error = check(&flow, &Registry::default(), 4, Path::new("/tmp")).err().expect("no module");
/// assert_eq!((error.kind(), error.message()), (Kind::Usage, "no module named `scna`"));
/// ```
pub fn check(
    document: &Document,
    registry: &Registry,
    cores: usize,
    home: &Path,
) -> Result<CheckedFlow> {
    check_part(document, registry, cores, (home, None), &BTreeMap::new())
}

/// Like `check`, for one of several processes. `elsewhere` holds what another process has found
/// out about modules without instances here; they are not checked again. Remote data may be kept in
/// memory as `cache` grants.
pub fn check_part(
    document: &Document,
    registry: &Registry,
    cores: usize,
    (home, cache): (&Path, Option<CacheGrant>),
    elsewhere: &BTreeMap<String, RemoteModule>,
) -> Result<CheckedFlow> {
    let mut modules = configure(document, registry, elsewhere)?;
    let document = insert_side_sinks(document, registry, &mut modules)?;
    let document = insert_partitioners(&document, registry, &mut modules)?;
    let document = order_sources(&document, registry, &mut modules)?;
    let scope = Scope { cores, home, cache, reads: Reads::All };
    let mut decided: Vec<Node> = Vec::new();
    let mut graph = Graph::new(&document, modules)?;
    let mut nodes: Vec<CheckedNode> = Vec::new();
    let mut edges: Vec<CheckedEdge> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for node in graph.producers_first()? {
        let whole = graph.whole(node);
        let place = |e: Error| e.at(format!("module {}", whole.id));
        let incoming = graph.incoming(node, &places, &nodes).map_err(place)?;
        let resolved = graph.resolve_config(node, (registry, home), &incoming, &nodes);
        decided.extend(resolved.map_err(place)?);
        let (checked, inputs) =
            check_node(&graph, node, incoming, &nodes, &scope).map_err(place)?;
        places.insert(&node.id, nodes.len());
        nodes.push(checked);
        edges.extend(inputs.into_iter().map(|mut edge| {
            edge.to.0 = nodes.len() - 1;
            edge
        }));
    }
    targets::check(&nodes)?;
    let document = late_config::with_resolved_nodes(document, decided);
    Ok(CheckedFlow { name: document.name.clone(), document, nodes, edges })
}

/// Configures all modules, by id.
fn configure(
    document: &Document,
    registry: &Registry,
    elsewhere: &BTreeMap<String, RemoteModule>,
) -> Result<ConfiguredModules> {
    if document.modules.is_empty() {
        return Err(Error::usage("the flow has no modules").remedy("place one"));
    }
    let mut modules = ConfiguredModules::new();
    for node in &document.modules {
        let member = ConfiguredModule::new(node, registry, elsewhere.get(&node.id));
        let member = member.map_err(|e| e.at(format!("module {}", node.id)))?;
        if modules.insert(node.id.clone(), member).is_some() {
            return Err(Error::usage(format!("two modules have the id `{}`", node.id)));
        }
    }
    Ok(modules)
}
