//! Reports every problem of a flow, for editors, where a flow is unfinished most of the time. The
//! rules are those of the check, which stops at the first broken one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::checked::{CheckedEdge, CheckedNode};
use super::configured::{ConfiguredModule, ConfiguredModules};
use super::cycle::cycle;
use super::first_rows::order_sources;
use super::graph::Graph;
use super::node::{Scope, check_node};
use super::partitioners::insert_partitioners;
use super::side_sinks::insert_side_sinks;
use super::targets;
use crate::document::{Document, Node};
use crate::error::{Error, unknown};
use crate::module::Reads;
use crate::spec::Registry;

/// What is known of a flow that may have problems.
#[derive(Default)]
pub struct Survey {
    /// All problems found, in the order of the checks.
    pub problems: Vec<Problem>,
    /// The valid modules whose producers are valid too, producers before consumers.
    pub nodes: Vec<CheckedNode>,
    /// The queues between these modules.
    pub edges: Vec<CheckedEdge>,
}

/// A problem of a flow, and its place.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The id of the module at fault.
    pub module: Option<String>,
    /// The queue, as its position in the document.
    pub queue: Option<usize>,
    /// The option of the module at fault.
    pub field: Option<String>,
    /// The error that the check reports.
    pub error: Error,
}

impl Problem {
    /// A problem of the whole flow.
    pub fn of_flow(error: Error) -> Problem {
        Problem { module: None, queue: None, field: None, error }
    }

    /// A problem of a module, or of one of its options if the error names one.
    ///
    /// ```
    /// use euphrates_flow::check::Problem;
    /// use euphrates_flow::{Document, Error};
    ///
    /// let mut flow = Document::new("daily");
    /// flow.place("scan", serde_json::json!({"path": "none.csv"}), None);
    /// let error = Error::usage("there is no such file").at("path");
    /// let problem = Problem::of_module(&flow.modules[0], error);
    /// assert_eq!(problem.module.as_deref(), Some("scan_1"));
    /// assert_eq!(problem.field.as_deref(), Some("path"), "an option that the error names");
    /// ```
    pub fn of_module(node: &Node, error: Error) -> Problem {
        let field = error.places().find(|place| node.config.contains_key(*place));
        let field = field.map(str::to_string);
        Problem { module: Some(node.id.clone()), queue: None, field, error }
    }
}

/// Checks all of a document whose variables are bound. Modules for which `is_excluded` holds are
/// not configured, and modules after them are not checked.
pub fn survey(
    document: &Document,
    registry: &Registry,
    cores: usize,
    home: &Path,
    reads: Reads,
    is_excluded: &dyn Fn(&Node) -> bool,
) -> Survey {
    let mut survey = Survey::default();
    if document.modules.is_empty() {
        return survey;
    }
    let mut modules = survey.configure(document, registry, is_excluded);
    let document = survey.attached(document);
    let expanded = insert_side_sinks(&document, registry, &mut modules)
        .and_then(|document| insert_partitioners(&document, registry, &mut modules))
        .and_then(|document| order_sources(&document, registry, &mut modules));
    let document = expanded.unwrap_or_else(|error| {
        survey.problems.push(Problem::of_flow(error));
        document
    });
    survey.check_nodes(&document, modules, registry, &Scope { cores, home, cache: None, reads });
    survey
}

impl Survey {
    fn configure(
        &mut self,
        document: &Document,
        registry: &Registry,
        is_excluded: &dyn Fn(&Node) -> bool,
    ) -> ConfiguredModules {
        let (mut modules, mut ids) = (ConfiguredModules::new(), BTreeSet::new());
        for node in &document.modules {
            if !ids.insert(&node.id) {
                let error = Error::usage(format!("two modules have the id `{}`", node.id));
                self.problems.push(Problem::of_module(node, error));
                modules.remove(&node.id);
            } else if !is_excluded(node) {
                match ConfiguredModule::new(node, registry, None) {
                    Ok(member) => drop(modules.insert(node.id.clone(), member)),
                    Err(error) => self.problems.push(Problem::of_module(node, error)),
                }
            }
        }
        modules
    }

    /// The document without queues whose ends do not exist.
    fn attached(&mut self, document: &Document) -> Document {
        let mut attached = Document { queues: vec![], ..document.clone() };
        let ids = || document.modules.iter().map(|node| node.id.as_str());
        for (queue, edge) in document.queues.iter().enumerate() {
            match [&edge.from, &edge.to].into_iter().find(|id| ids().all(|known| known != *id)) {
                None => attached.queues.push(edge.clone()),
                Some(stranger) => {
                    let error = unknown("module", stranger, ids());
                    self.problems.push(Problem { queue: Some(queue), ..Problem::of_flow(error) });
                }
            }
        }
        attached
    }

    fn check_nodes(
        &mut self,
        document: &Document,
        modules: ConfiguredModules,
        registry: &Registry,
        scope: &Scope,
    ) {
        let mut graph = Graph::unchecked(document, modules);
        // A module whose outputs are not attached yet is reported, and still checked below.
        for node in document.modules.iter().filter(|node| graph.modules.contains_key(&node.id)) {
            if let Err(error) = graph.check_outputs(node) {
                self.problems.push(Problem::of_module(node, error));
            }
        }
        let (order, left) = graph.sorted();
        if !left.is_empty() {
            self.problems.push(Problem::of_flow(cycle(&left, &document.queues)));
        }
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for node in order {
            let mut feeds = document.queues.iter().filter(|edge| edge.to == node.id);
            // A producer that was not checked has been reported, or was left out by the caller.
            let is_known = feeds.all(|edge| places.contains_key(edge.from.as_str()));
            if !is_known || !graph.modules.contains_key(&node.id) {
                continue;
            }
            let checked_node = (|| {
                let incoming = graph.incoming(node, &places, &self.nodes)?;
                graph.resolve_config(node, (registry, scope.home), &incoming, &self.nodes)?;
                check_node(&graph, node, incoming, &self.nodes, scope)
            })();
            match checked_node {
                Ok((checked, edges)) => {
                    places.insert(&node.id, self.nodes.len());
                    self.nodes.push(checked);
                    let to = self.nodes.len() - 1;
                    self.edges.extend(edges.into_iter().map(|edge| {
                        let to = (to, edge.to.1);
                        CheckedEdge { to, ..edge }
                    }));
                }
                Err(error) => self.problems.push(Problem::of_module(graph.whole(node), error)),
            }
        }
        if let Err(error) = targets::check(&self.nodes) {
            self.problems.push(Problem::of_flow(error));
        }
    }
}
