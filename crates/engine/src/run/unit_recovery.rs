//! Recovery by unit: an attempt at a flow adopts the complete files of earlier ones, and computes
//! the rest of its input.
//!
//! This is possible for a chain of a source that is read in units, modules whose output is the same
//! for each unit (`RecoveryClass::ByUnit`), and a sink that can keep a part of its output. The
//! source then reads its units as runs, so each is written whole and in order by one instance of
//! the sink, which notes in a journal which rows of which units each file holds
//! (`store::dataset::kept_files`). Only a flow with `resume` works like this: a run is assigned to
//! one consumer, which is less even than batches are.

use euphrates_flow::check::{CheckedEdge, CheckedFlow, CheckedNode};
use euphrates_flow::module::UnitPlan;
use euphrates_flow::{Document, Effect, RecoveryClass, Result};
use euphrates_store::dataset::{KeptFiles, adopt_files};
use serde_json::Value;

use super::options::Options;
use super::resume::identity_of;
use crate::observe::format::count;

pub(crate) mod growth;
pub(crate) mod newcomers;

/// The units of an attempt, which the instances of its source claim by a shared counter.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedUnits {
    /// The name of the counter.
    pub counter: String,
    /// The number of units.
    pub count: u64,
    /// The position of the source in the flow.
    pub source: usize,
}

/// A flow as this attempt runs it.
pub(crate) struct Continued {
    pub document: Document,
    /// The files of earlier attempts, locked until the attempt ends.
    pub kept: KeptFiles,
    /// What the instances of the source claim.
    pub units: ClaimedUnits,
}

impl Continued {
    /// What is kept of earlier attempts, for the report; none if that is nothing.
    pub fn remark(&self) -> Option<String> {
        let (files, rows) = (self.kept.files, count(self.kept.ledger.rows()));
        (files > 0)
            .then(|| format!("{files} files of earlier attempts, with {rows} rows, were kept"))
    }
}

/// A checked flow without the units that earlier attempts have completed. None without `resume`, or
/// if the flow does not work by units. `document` is the flow as given.
pub(crate) fn continued_of(
    document: &Document,
    flow: &CheckedFlow,
    options: &Options,
) -> Result<Option<Continued>> {
    let Some((source, sink)) = ends_of_chain(flow).filter(|_| options.resume) else {
        return Ok(None);
    };
    let input = flow.nodes[source].bound.source.as_ref();
    let target = flow.nodes[sink].bound.sink.as_ref().and_then(|sink| sink.resumable_target());
    let (Some(input), Some(target)) = (input, target) else { return Ok(None) };
    let Some(units) = input.units() else { return Ok(None) };
    let key = key_of(&identity_of(document, options)?, &input.version(), units);
    let kept = adopt_files(target, &key, units)?;
    let plan = UnitPlan {
        left: kept.ledger.left(),
        durable_rows: kept.ledger.durable_rows().collect(),
        folders: kept.folders.clone(),
        first_file: kept.next_number,
        ..UnitPlan::new(&key, units)
    };
    let mut document = flow.document.clone();
    for node in [source, sink] {
        let CheckedNode { id, module, .. } = &flow.nodes[node];
        let Some(Value::Object(config)) = module.by_units(&plan) else { return Ok(None) };
        document.modules.iter_mut().filter(|other| other.id == *id).for_each(|other| {
            other.config = config.clone();
        });
    }
    let counter = format!("{}/{}", flow.nodes[source].id, UnitPlan::COUNTER);
    let units = ClaimedUnits { counter, count: plan.count(), source };
    Ok(Some(Continued { document, kept, units }))
}

/// The source and the sink of a chain of modules that work by units.
fn ends_of_chain(flow: &CheckedFlow) -> Option<(usize, usize)> {
    let queues = |node: usize, is_from: bool| {
        let end = |edge: &CheckedEdge| if is_from { edge.from.0 } else { edge.to.0 };
        flow.edges.iter().filter(|edge| end(edge) == node).count()
    };
    let (mut source, mut sink) = (None, None);
    for (at, node) in flow.nodes.iter().enumerate() {
        match (queues(at, false), queues(at, true)) {
            (0, 1) if source.is_none() => source = Some(at),
            (1, 0) if sink.is_none() => sink = Some(at),
            (1, 1) if node.spec.recovery == RecoveryClass::ByUnit => {}
            _ => return None,
        }
        let has_effect = node.spec.effect == Effect::External || !node.bound.is_repeatable;
        if has_effect || (node.bound.sink.is_some() && sink != Some(at)) {
            return None;
        }
    }
    source.zip(sink)
}

/// Tells a flow with its input from all others, also of other versions of the program, whose splits
/// may be different.
fn key_of(identity: &Value, version: &str, units: u64) -> String {
    let text = format!("{} {identity} {version} {units}", env!("CARGO_PKG_VERSION"));
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, text.as_bytes());
    format!("{crc:016x}")
}
