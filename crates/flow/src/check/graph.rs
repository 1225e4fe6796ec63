//! The graph of a flow: resolves the ends and ports of its queues, and orders its modules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::checked::CheckedNode;
use super::configured::{ConfiguredModule, ConfiguredModules};
use super::cycle::cycle;
use crate::document::{Document, Edge, Node, Port};
use crate::error::{Error, Result, unknown};
use crate::module::{ColumnNames, KeyFilterSlot, NeededRows, Needs, RowCondition};
use crate::ports::PortRef;
use crate::spec::PortNames;

/// The document with its configured modules.
pub(super) struct Graph<'a> {
    pub(super) document: &'a Document,
    pub(super) modules: ConfiguredModules,
    /// By the id of a module, the slots of each of its inputs, see `Inputs::key_filters`.
    key_filters: BTreeMap<String, Vec<Vec<Arc<KeyFilterSlot>>>>,
    /// Whether a module of the flow has several outputs of which one may wait for another.
    pub(super) has_tied_outputs: bool,
}

/// Maximum number of modules downstream of a source whose conditions are pushed down to it.
const CONDITION_DEPTH_MAX: usize = 32;

/// A queue at an input, seen from its consumer.
pub(super) struct Incoming<'a> {
    pub(super) edge: &'a Edge,
    pub(super) input: usize,
    pub(super) producer: usize,
    pub(super) output: usize,
}

impl<'a> Graph<'a> {
    pub(super) fn new(document: &'a Document, modules: ConfiguredModules) -> Result<Graph<'a>> {
        for edge in &document.queues {
            for id in [&edge.from, &edge.to] {
                if !modules.contains_key(id) {
                    let known = modules.keys().map(String::as_str);
                    return Err(unknown("module", id, known).at("queue"));
                }
            }
        }
        let graph = Graph::unchecked(document, modules);
        document.modules.iter().try_for_each(|node| graph.check_outputs(node))?;
        Ok(graph)
    }

    /// A graph whose queues may lead nowhere.
    pub(super) fn unchecked(document: &'a Document, modules: ConfiguredModules) -> Graph<'a> {
        let slots = |(id, member): (&String, &ConfiguredModule)| match &member.interface.rows {
            NeededRows::Matching(inputs) => {
                let slots = |keys: &Vec<String>| KeyFilterSlot::of_join(id, keys);
                Some((id.clone(), inputs.iter().map(slots).collect()))
            }
            NeededRows::First(by, order) => {
                let slot = KeyFilterSlot::of_first_rows(id, by.clone(), *order);
                Some((id.clone(), vec![vec![Arc::new(slot)]]))
            }
            _ => None,
        };
        let key_filters = modules.iter().filter_map(slots).collect();
        let mut producers = BTreeSet::new();
        let is_free = |id: &String| modules.get(id).is_some_and(|it| it.spec.has_own_paces);
        let mut edges = document.queues.iter().filter(|edge| !is_free(&edge.from));
        let has_tied_outputs = !edges.all(|edge| producers.insert(&edge.from));
        Graph { document, modules, key_filters, has_tied_outputs }
    }

    pub(super) fn names(&self, node: &Node, outputs: bool) -> Vec<String> {
        let end = |edge: &&Edge| if outputs { edge.from == node.id } else { edge.to == node.id };
        let attached = self.document.queues.iter().filter(end).count();
        self.modules[&node.id].names(outputs, attached)
    }

    /// The module in the document that this one is part of, or itself.
    pub(super) fn whole(&self, node: &'a Node) -> &'a Node {
        let whole = self.modules[&node.id].part_of.as_ref();
        whole.and_then(|id| self.document.node(id)).unwrap_or(node)
    }

    /// Fails unless every output is attached to exactly one queue.
    pub(super) fn check_outputs(&self, node: &Node) -> Result<()> {
        let names = self.names(node, true);
        let place = |error: Error| error.at(format!("module {}", node.id));
        let mut taken = vec![None; names.len()];
        let mut next = 0;
        for edge in self.document.queues.iter().filter(|edge| edge.from == node.id) {
            let output = self.port(edge.output.as_ref(), &names, true, node, &mut next);
            let output = output.map_err(place)?;
            if let Some(other) = taken[output].replace(&edge.to) {
                let message = format!("output `{}` is attached to `{other}` and to", names[output]);
                let error = Error::usage(format!("{message} `{}`", edge.to));
                return Err(place(error.remedy("place a `tee` between them")));
            }
        }
        match taken.iter().position(Option::is_none) {
            Some(free) => {
                let message = format!("output `{}` goes nowhere", names[free]);
                let remedy = "attach it to a module, for example `collect` or `save`";
                Err(place(Error::usage(message).remedy(remedy)))
            }
            None if names.is_empty() && self.is_many(node, true) => {
                Err(place(Error::usage("no output is attached").remedy("attach at least one")))
            }
            None => Ok(()),
        }
    }

    fn is_many(&self, node: &Node, outputs: bool) -> bool {
        self.modules[&node.id].side(outputs) == PortNames::Many
    }

    /// The position of an edge's port. Unnamed ports of a `Many` side are numbered in order.
    pub(super) fn port(
        &self,
        port: Option<&Port>,
        names: &[String],
        output: bool,
        node: &Node,
        next: &mut usize,
    ) -> Result<usize> {
        match port {
            Some(Port::Position(position)) => position.position(names),
            Some(Port::Name(name)) => name.as_str().position(names),
            None if self.is_many(node, output) => {
                *next += 1;
                Ok(*next - 1)
            }
            None if names.is_empty() => {
                let side = if output { "outputs" } else { "inputs" };
                Err(Error::usage(format!("`{}` has no {side}", node.module)))
            }
            None => Ok(0),
        }
    }

    /// The columns that the consumers of a module's outputs read; `None` for all. Modules that pass
    /// columns on are followed downstream.
    pub(super) fn needed_of(&self, node: &Node) -> Option<ColumnNames> {
        let (mut needed, mut suffixes) = (ColumnNames::default(), BTreeSet::new());
        // Behind a join, a name may be that of a column of its other side.
        let (mut seen, mut left) = (BTreeSet::new(), vec![(&node.id, false)]);
        while let Some((id, is_joined)) = left.pop() {
            let mut add = |names: &ColumnNames| match is_joined {
                true => needed.merge_possible(names),
                false => needed.merge(names),
            };
            for edge in self.document.queues.iter().filter(|edge| edge.from == *id) {
                if !seen.insert(&edge.to) {
                    continue;
                }
                match &self.modules.get(&edge.to)?.interface.needs {
                    Needs::All => return None,
                    Needs::These(names) => add(names),
                    Needs::PassedOn(names) => {
                        add(names);
                        left.push((&edge.to, is_joined));
                    }
                    Needs::Joined(names, suffix) => {
                        add(names);
                        suffixes.insert(suffix);
                        left.push((&edge.to, true));
                    }
                }
            }
        }
        suffixes.into_iter().for_each(|suffix| needed.add_without(suffix));
        (!seen.is_empty()).then_some(needed)
    }

    /// The rows of a module's outputs that matter to their consumers, which are `depth` modules
    /// behind a source. Modules that pass rows on have one input, so each is visited once.
    pub(super) fn condition_of(&self, id: &str, depth: usize) -> RowCondition {
        let consumers = self.document.queues.iter().filter(|edge| edge.from == id);
        let condition = |edge: &Edge| match self.modules.get(&edge.to).map(|it| &it.interface.rows)
        {
            Some(NeededRows::PassedOn) if depth < CONDITION_DEPTH_MAX => {
                self.condition_of(&edge.to, depth + 1)
            }
            Some(NeededRows::Where(sql)) if depth < CONDITION_DEPTH_MAX => {
                RowCondition::Sql(sql.clone()).then(self.condition_of(&edge.to, depth + 1))
            }
            _ => RowCondition::TRUE,
        };
        RowCondition::any(consumers.map(condition).collect())
    }

    /// Where a module may leave filters, for each of its inputs.
    pub(super) fn key_filters_of(&self, id: &str) -> &[Vec<Arc<KeyFilterSlot>>] {
        self.key_filters.get(id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn incoming(
        &self,
        node: &Node,
        places: &BTreeMap<&str, usize>,
        nodes: &[CheckedNode],
    ) -> Result<Vec<Incoming<'a>>> {
        let names = self.names(node, false);
        let mut found: Vec<Option<Incoming>> = names.iter().map(|_| None).collect();
        let mut next = 0;
        for edge in self.document.queues.iter().filter(|edge| edge.to == node.id) {
            let input = self.port(edge.input.as_ref(), &names, false, node, &mut next)?;
            let producer = places[edge.from.as_str()];
            let from = self.document.node(&edge.from).expect("checked in new");
            let before =
                self.document.queues.iter().take_while(|other| !std::ptr::eq(*other, edge));
            let is_unnamed = |other: &&Edge| other.from == edge.from && other.output.is_none();
            let mut nth = before.filter(is_unnamed).count();
            let output =
                self.port(edge.output.as_ref(), &nodes[producer].outputs, true, from, &mut nth)?;
            if found[input].replace(Incoming { edge, input, producer, output }).is_some() {
                let message = format!("input `{}` is attached twice", names[input]);
                return Err(Error::usage(message).remedy("place a `union` before it"));
            }
        }
        let missing = found.iter().position(Option::is_none);
        if let Some(missing) = missing {
            let message = format!("input `{}` is not attached", names[missing]);
            let remedy = format!("flow.attach(…, {})", node.id);
            return Err(Error::usage(message).remedy(remedy));
        }
        if found.is_empty() && self.is_many(node, false) {
            return Err(Error::usage("no input is attached").remedy("attach at least one"));
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Topological order (Kahn's algorithm), stable in the order of placement; fails on a cycle.
    pub(super) fn producers_first(&self) -> Result<Vec<&'a Node>> {
        let (order, left) = self.sorted();
        if left.is_empty() { Ok(order) } else { Err(cycle(&left, &self.document.queues)) }
    }

    /// The modules in topological order, and those that a cycle keeps from being ordered.
    pub(super) fn sorted(&self) -> (Vec<&'a Node>, Vec<&'a Node>) {
        let mut left: Vec<&Node> = self.document.modules.iter().collect();
        let mut order: Vec<&Node> = Vec::new();
        let fed = |node: &&Node, order: &[&Node]| {
            let mut feeds = self.document.queues.iter().filter(|edge| edge.to == node.id);
            feeds.all(|edge| order.iter().any(|done| done.id == edge.from))
        };
        while let Some(next) = left.iter().position(|node| fed(node, &order)) {
            order.push(left.remove(next));
        }
        (order, left)
    }
}
