//! All that can be said of a flow that may be wrong: for editors, where a flow is unfinished most
//! of the time. The same rules as those of the check, which stops at the first that is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{CheckedEdge, CheckedNode, Graph, Member, Members, cycle, settle, spell, targets};
use crate::document::{Document, Node};
use crate::error::{Error, unknown};
use crate::spec::Registry;

/// What is known of a flow, sound or not.
#[derive(Default)]
pub struct Survey {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// The modules that are sound and fed by sound ones, producers before consumers.
    pub nodes: Vec<CheckedNode>,
    /// The queues between these.
    pub edges: Vec<CheckedEdge>,
}

/// Something that is wrong, and where.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The module, by its id.
    pub module: Option<String>,
    /// The queue, by its position in the document.
    pub queue: Option<usize>,
    /// The option of the module.
    pub field: Option<String>,
    /// What.
    pub error: Error,
}

impl Problem {
    /// One of the whole flow.
    pub fn of_flow(error: Error) -> Problem {
        Problem { module: None, queue: None, field: None, error }
    }

    /// One of a module; of one of its options, if the error says so.
    pub fn of_module(node: &Node, error: Error) -> Problem {
        let field = error.places().find(|place| node.config.contains_key(*place));
        let field = field.map(str::to_string);
        Problem { module: Some(node.id.clone()), queue: None, field, error }
    }
}

/// What modules may read to find out their columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// All that they read in a run, also what another program writes.
    All,
    /// Regular files: see `Placed::files_only`.
    Files,
}

/// Looks at all of a document whose variables are bound. Modules that `is_closed` names are not
/// looked into, and nothing is said of what comes after them.
pub fn survey(
    document: &Document,
    registry: &Registry,
    cores: usize,
    home: &Path,
    reads: Reads,
    is_closed: &dyn Fn(&Node) -> bool,
) -> Survey {
    let mut survey = Survey::default();
    if document.modules.is_empty() {
        return survey;
    }
    let mut members = survey.place(document, registry, is_closed);
    let document = survey.attached(document);
    let spelled = spell::spell_out(&document, registry, &mut members);
    let document = spelled.unwrap_or_else(|error| {
        survey.problems.push(Problem::of_flow(error));
        document
    });
    survey.settle(&document, members, registry, (cores, home, reads));
    survey
}

impl Survey {
    fn place(
        &mut self,
        document: &Document,
        registry: &Registry,
        is_closed: &dyn Fn(&Node) -> bool,
    ) -> Members {
        let (mut members, mut ids) = (Members::new(), BTreeSet::new());
        for node in &document.modules {
            if !ids.insert(&node.id) {
                let error = Error::usage(format!("two modules have the id `{}`", node.id));
                self.problems.push(Problem::of_module(node, error));
                members.remove(&node.id);
            } else if !is_closed(node) {
                match Member::new(node, registry, None) {
                    Ok(member) => drop(members.insert(node.id.clone(), member)),
                    Err(error) => self.problems.push(Problem::of_module(node, error)),
                }
            }
        }
        members
    }

    /// The document without queues that lead nowhere.
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

    fn settle(
        &mut self,
        document: &Document,
        members: Members,
        registry: &Registry,
        (cores, home, reads): (usize, &Path, Reads),
    ) {
        let mut graph = Graph { document, members };
        for node in document.modules.iter().filter(|node| graph.members.contains_key(&node.id)) {
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
            // What is not known of a producer has been told, or cannot be known before it runs.
            let is_known = feeds.all(|edge| places.contains_key(edge.from.as_str()));
            if !is_known || !graph.members.contains_key(&node.id) {
                continue;
            }
            let settled = (|| {
                let incoming = graph.incoming(node, &places, &self.nodes)?;
                graph.decide(node, registry, &incoming, &self.nodes)?;
                let placed = &graph.members[&node.id].placed;
                placed.at_home(home);
                if reads == Reads::Files {
                    placed.files_only();
                }
                settle(&graph, node, incoming, &self.nodes, cores)
            })();
            match settled {
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
        // A module whose output goes nowhere yet has a schema all the same.
        if let Err(error) = targets::check(&self.nodes) {
            self.problems.push(Problem::of_flow(error));
        }
    }
}
