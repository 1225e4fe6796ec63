//! Checks a flow before it starts, and settles what the document leaves open: how many instances,
//! which queues, in which unit.

mod columns;
mod cycle;
mod decide;
mod facts;
mod member;
pub mod names;
mod spell;
mod survey;
mod targets;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use euphrates_policy::memory::queue_bytes_max;

use self::cycle::cycle;
use self::member::{Member, Members};
use crate::document::{Document, Edge, Node, Port, QueueKind};
use crate::error::{Error, Result, unknown};
use crate::module::Placed;
use crate::ports::PortRef;
use crate::spec::{ModuleSpec, Order, PortNames, Registry};

pub use facts::Facts;
pub use survey::{Problem, Reads, Survey, survey};

/// The bytes a queue holds unless the flow says otherwise: a few batches for each side, few enough
/// to stay in cache.
pub const QUEUE_BYTES_MAX: usize = 8 << 20;

/// More instances of one module than any cluster has processors.
const INSTANCES_MAX: usize = 1 << 16;

/// A flow that can be started.
pub struct Checked {
    /// The flow's name.
    pub name: String,
    /// The flow as it runs, with all that the document did not spell out.
    pub document: Document,
    /// The modules, producers before consumers.
    pub nodes: Vec<CheckedNode>,
    /// The queues.
    pub edges: Vec<CheckedEdge>,
}

impl Checked {
    /// Bounds the queues of which the flow says nothing by the memory that there is.
    pub fn fit_queues(&mut self, budget: usize) {
        let bytes_max = queue_bytes_max(budget, self.edges.len(), QUEUE_BYTES_MAX);
        let usual = self.edges.iter_mut().filter(|edge| edge.bytes_max == QUEUE_BYTES_MAX);
        usual.for_each(|edge| edge.bytes_max = bytes_max);
    }
}

/// A module of a checked flow.
pub struct CheckedNode {
    /// Its name in the flow.
    pub id: String,
    /// Its spec.
    pub spec: &'static ModuleSpec,
    /// The configured module.
    pub placed: Arc<dyn Placed>,
    /// Number of instances.
    pub count: usize,
    /// Names or labels of the workers it may be at; any, if there are none.
    pub workers: Vec<String>,
    /// Whether the runs of its input are repeated on its outputs.
    pub keeps_runs: bool,
    /// Whether each run of its outputs has whole groups, as a `partition` has made them.
    pub groups: bool,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Schemas of the outputs; the last one stands for all that follow (see `tee`).
    schemas: Vec<SchemaRef>,
    /// Whether its outputs come in runs.
    pub ordered: bool,
    /// What these are sorted by, as far as it is known.
    sorted_by: Vec<String>,
    /// About how many bytes come out, as far as it is known.
    bytes_expected: Option<u64>,
}

impl CheckedNode {
    /// The schema of an output.
    pub fn schema(&self, output: usize) -> SchemaRef {
        let last = self.schemas.len() - 1;
        self.schemas[output.min(last)].clone()
    }
}

/// A queue of a checked flow.
pub struct CheckedEdge {
    /// Producer (index into `nodes`) and output.
    pub from: (usize, usize),
    /// Consumer (index into `nodes`) and input.
    pub to: (usize, usize),
    /// What flows.
    pub schema: SchemaRef,
    /// Who gets a batch.
    pub kind: QueueKind,
    /// What is handed out at once.
    pub unit: Unit,
    /// Whether each run has whole groups.
    pub groups: bool,
    /// The most bytes that wait in it.
    pub bytes_max: usize,
    /// Why it is so, for people.
    pub why: String,
}

/// What a queue hands to one consumer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A batch.
    Batch,
    /// A whole run, in order.
    Run,
}

/// Checks a document whose variables are bound. `cores` is the number of instances a module gets
/// when the document does not say; `home` is where collections live.
pub fn check(
    document: &Document,
    registry: &Registry,
    cores: usize,
    home: &Path,
) -> Result<Checked> {
    check_part(document, registry, cores, home, &BTreeMap::new())
}

/// The same for one of several processes. Of modules that have no instance there, by name, what
/// another has found out is believed.
pub fn check_part(
    document: &Document,
    registry: &Registry,
    cores: usize,
    home: &Path,
    elsewhere: &BTreeMap<String, Facts>,
) -> Result<Checked> {
    let mut members = place(document, registry, elsewhere)?;
    let document = spell::spell_out(document, registry, &mut members)?;
    let mut decided: Vec<Node> = Vec::new();
    let mut graph = Graph::new(&document, members)?;
    let mut nodes: Vec<CheckedNode> = Vec::new();
    let mut edges: Vec<CheckedEdge> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for node in graph.producers_first()? {
        let whole = graph.whole(node);
        let place = |e: Error| e.at(format!("module {}", whole.id));
        let incoming = graph.incoming(node, &places, &nodes).map_err(place)?;
        decided.extend(graph.decide(node, registry, &incoming, &nodes).map_err(place)?);
        graph.members[&node.id].placed.at_home(home);
        let (checked, inputs) = settle(&graph, node, incoming, &nodes, cores).map_err(place)?;
        places.insert(&node.id, nodes.len());
        nodes.push(checked);
        edges.extend(inputs.into_iter().map(|mut edge| {
            edge.to.0 = nodes.len() - 1;
            edge
        }));
    }
    targets::check(&nodes)?;
    let document = decide::with(document, decided);
    Ok(Checked { name: document.name.clone(), document, nodes, edges })
}

/// Configures the modules, by their ids.
fn place(
    document: &Document,
    registry: &Registry,
    elsewhere: &BTreeMap<String, Facts>,
) -> Result<Members> {
    if document.modules.is_empty() {
        return Err(Error::usage("the flow has no modules").remedy("place one"));
    }
    let mut members = Members::new();
    for node in &document.modules {
        let member = Member::new(node, registry, elsewhere.get(&node.id));
        let member = member.map_err(|e| e.at(format!("module {}", node.id)))?;
        if members.insert(node.id.clone(), member).is_some() {
            return Err(Error::usage(format!("two modules have the id `{}`", node.id)));
        }
    }
    Ok(members)
}

/// The document with its names resolved.
struct Graph<'a> {
    document: &'a Document,
    members: Members,
}

/// An attached input, seen from its consumer.
struct Incoming<'a> {
    edge: &'a Edge,
    input: usize,
    producer: usize,
    output: usize,
}

impl<'a> Graph<'a> {
    fn new(document: &'a Document, members: Members) -> Result<Graph<'a>> {
        for edge in &document.queues {
            for id in [&edge.from, &edge.to] {
                if !members.contains_key(id) {
                    let known = members.keys().map(String::as_str);
                    return Err(unknown("module", id, known).at("queue"));
                }
            }
        }
        let graph = Graph { document, members };
        document.modules.iter().try_for_each(|node| graph.check_outputs(node))?;
        Ok(graph)
    }

    fn names(&self, node: &Node, outputs: bool) -> Vec<String> {
        let end = |edge: &&Edge| if outputs { edge.from == node.id } else { edge.to == node.id };
        let attached = self.document.queues.iter().filter(end).count();
        self.members[&node.id].names(outputs, attached)
    }

    /// The module that somebody has placed, of one that is a part of it.
    fn whole(&self, node: &'a Node) -> &'a Node {
        let whole = self.members[&node.id].part_of.as_ref();
        whole.and_then(|id| self.document.node(id)).unwrap_or(node)
    }

    /// Every output must go somewhere, and to one place only.
    fn check_outputs(&self, node: &Node) -> Result<()> {
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
        self.members[&node.id].side(outputs) == PortNames::Many
    }

    /// The position of an edge's port. Unnamed ports of a `Many` side are taken in order.
    fn port(
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

    fn incoming(
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

    /// Kahn's algorithm, stable in the order of placement; what is left over is a cycle.
    fn producers_first(&self) -> Result<Vec<&'a Node>> {
        let (order, left) = self.sorted();
        if left.is_empty() { Ok(order) } else { Err(cycle(&left, &self.document.queues)) }
    }

    /// The modules, producers first, and those that a cycle keeps from having their turn.
    fn sorted(&self) -> (Vec<&'a Node>, Vec<&'a Node>) {
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

fn settle(
    graph: &Graph,
    node: &Node,
    incoming: Vec<Incoming>,
    nodes: &[CheckedNode],
    cores: usize,
) -> Result<(CheckedNode, Vec<CheckedEdge>)> {
    let member = &graph.members[&node.id];
    let placed = member.placed.clone();
    let schemas =
        incoming.iter().map(|edge| nodes[edge.producer].schema(edge.output)).collect::<Vec<_>>();
    let output_schemas = placed.schemas(&schemas)?;
    output_schemas.iter().try_for_each(|schema| columns::check(schema))?;
    output_schemas.iter().try_for_each(|schema| names::unique(schema))?;
    let count = instances(node, member, cores)?;
    let order = if placed.needs_runs() { Order::Keeps } else { member.order() };
    let edges: Vec<CheckedEdge> = incoming
        .iter()
        .zip(&schemas)
        .map(|(edge, schema)| queue(edge, schema, &nodes[edge.producer], order, count))
        .collect::<Result<_>>()?;
    let in_runs = !edges.is_empty() && edges.iter().all(|edge| edge.unit == Unit::Run);
    if placed.needs_runs() && !in_runs {
        let remedy = "bring it in as a stream: order=True for `scan`, `read`, `from_arrow`, …";
        return Err(Error::usage("the input has no order to keep").remedy(remedy));
    }
    let keeps_runs = in_runs && edges.len() == 1 && order != Order::Any;
    let sorted_by = match in_runs {
        true => nodes[incoming[0].producer].sorted_by.as_slice(),
        false => &[],
    };
    // Runs are the partitions that came if they are repeated, or if whole partitions were taken.
    let repeats = keeps_runs || (edges.len() == 1 && placed.partitioner().is_some());
    let groups = placed.groups() || (repeats && edges[0].groups);
    let checked = CheckedNode {
        id: node.id.clone(),
        spec: member.spec,
        count,
        workers: node.workers.clone(),
        keeps_runs,
        groups,
        ordered: placed.is_ordered(in_runs, keeps_runs),
        sorted_by: placed.sorted_by(sorted_by),
        bytes_expected: placed.bytes_expected(&decide::bytes_expected(&incoming, nodes)),
        inputs: graph.names(node, false),
        outputs: graph.names(node, true),
        schemas: output_schemas,
        placed,
    };
    Ok((checked, edges))
}

fn instances(node: &Node, member: &Member, cores: usize) -> Result<usize> {
    let possible = member.is_parallel();
    if node.count.is_some() && node.per_worker.is_some() {
        return Err(Error::usage("both `count` and `per_worker` are given").remedy("give one"));
    }
    match node.count.or(node.per_worker) {
        Some(0) => Err(Error::usage("count is 0").remedy("give at least 1")),
        Some(count) if count > INSTANCES_MAX => {
            let error = Error::usage(format!("{count} instances are too many"));
            Err(error.remedy(format!("give at most {INSTANCES_MAX}")))
        }
        Some(count) if count > 1 && !possible => {
            let message = format!("`{}` cannot have {count} instances", node.module);
            Err(Error::usage(message).remedy("leave out count"))
        }
        Some(count) => Ok(count),
        None if possible => {
            let useful = member.placed.instances_max().unwrap_or(cores);
            Ok(useful.clamp(1, cores.max(1)))
        }
        None => Ok(1),
    }
}

/// Who gets a batch: what the producer gives and what the document says must agree.
fn kind(said: Option<QueueKind>, producer: &CheckedNode) -> Result<QueueKind> {
    let place = |error: Error| error.at(format!("queue from {}", producer.id));
    match (said, producer.placed.is_keyed()) {
        (None | Some(QueueKind::Keyed), true) => Ok(QueueKind::Keyed),
        (Some(_), true) => {
            let error = Error::usage("partitions go whole to whoever has time");
            Err(place(error.remedy("leave out queue")))
        }
        (Some(QueueKind::Keyed), false) => {
            let error = Error::usage("a keyed queue from a module that keeps no partitions");
            Err(place(error.remedy("place a `partition` between the two")))
        }
        (said, false) => Ok(said.unwrap_or(QueueKind::Distributed)),
    }
}

fn queue(
    incoming: &Incoming,
    schema: &SchemaRef,
    producer: &CheckedNode,
    order: Order,
    count: usize,
) -> Result<CheckedEdge> {
    let kind = kind(incoming.edge.queue, producer)?;
    if kind == QueueKind::Pairwise && producer.count != count {
        let message = format!("a pairwise queue joins {} instances to {count}", producer.count);
        return Err(Error::usage(message)
            .at(format!("queue from {}", producer.id))
            .remedy("give both modules the same count"));
    }
    // Dealing the runs of several producers out pair by pair leaves gaps in their numbers.
    let gaps = producer.ordered && kind == QueueKind::Pairwise && count > 1;
    if gaps && order != Order::Any {
        return Err(Error::usage("a pairwise queue loses the order that this module would keep")
            .at(format!("queue from {}", producer.id))
            .remedy(
                "leave out queue, so that runs go whole to whoever has time; or read unordered",
            ));
    }
    let ordered = producer.ordered && !gaps;
    let (unit, why) = match (ordered, order) {
        _ if kind == QueueKind::Keyed => (Unit::Run, "takes whole partitions"),
        (true, Order::Any) => (Unit::Batch, "needs no order"),
        (true, Order::Keeps) if producer.groups => (Unit::Run, "keeps groups whole"),
        (true, Order::Keeps) => (Unit::Run, "keeps the order of the runs"),
        (true, Order::Ordered) => (Unit::Run, "needs the whole stream in order"),
        (false, _) => (Unit::Batch, "gets a stream that has no order"),
    };
    Ok(CheckedEdge {
        from: (incoming.producer, incoming.output),
        to: (0, incoming.input),
        schema: schema.clone(),
        kind,
        unit,
        groups: producer.groups && unit == Unit::Run,
        bytes_max: incoming.edge.bytes_max.unwrap_or(QUEUE_BYTES_MAX).max(1),
        why: format!("the consumer {why}"),
    })
}
