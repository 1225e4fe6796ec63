//! The commit of a flow: its outputs are made durable and their names reserved, then all are
//! published or none (`euphrates_store::commit`).
//!
//! The master publishes every output that it can access. Only a file on a worker's local disk is
//! published by that worker, before all others: if the worker is lost then, no other output is
//! visible.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use euphrates_flow::check::CheckedFlow;
use euphrates_flow::{DecisionRef, Error, Result, Sink};
use euphrates_policy::commit::{OutputState, RecoveryAction, on_failure};
use euphrates_store::collection;
use euphrates_store::commit::{
    self, CommitDecision, DecidedOutput, Durability, PreparedOutput, Resolution, decision,
};
use serde_json::Value;

use super::running::Running;
use crate::cluster::control::Closing;

/// Outputs that can be published, by module, in the order of publication.
pub(crate) struct PreparedOutputs {
    outputs: Vec<(usize, DecidedOutput)>,
    decision: Option<CommitDecision>,
}

impl PreparedOutputs {
    /// The outputs, in the order of publication.
    pub fn decided_outputs(&self) -> impl Iterator<Item = &DecidedOutput> {
        self.outputs.iter().map(|(_, decided)| decided)
    }
}

/// The record that decides about a flow's outputs, if there are several; a single output needs
/// none.
pub(crate) fn decision_of(
    flow: &CheckedFlow,
    home: &Path,
    run_id: &str,
) -> Result<Option<DecisionRef>> {
    let targets = flow.nodes.iter().filter(|node| node.bound.sink.is_some()).count();
    (targets > 1).then(|| decision::make_reference(home, run_id)).transpose()
}

/// Completes what dead flows of a home folder have decided, and returns a line about each; removes
/// collections that they left unfinished.
pub(crate) fn complete_dead_flows(home: &Path) -> Vec<String> {
    let mut said = vec![];
    for Resolution { flow, published, left } in commit::resolve(home) {
        if !published.is_empty() {
            let published = published.join(", ");
            said.push(format!("published what flow {flow} had completed before: {published}"));
        }
        said.extend(left.map(|error| format!("flow {flow} is not complete: {error}")));
    }
    collection::reclaim_at_start(home);
    said
}

impl Running {
    /// Syncs all outputs and reserves their names; no output is visible yet.
    pub(crate) fn prepare_outputs(&self) -> Result<PreparedOutputs> {
        let is_whole = |at: &usize| self.deployment.placement.is_whole(*at);
        let whole: Vec<usize> = (0..self.flow.nodes.len()).filter(is_whole).collect();
        let sinks = whole.iter().filter_map(|at| Some((*at, self.sink(*at)?)));
        let sinks: Vec<(usize, &Arc<dyn Sink>)> = sinks.collect();
        for (node, sink) in &sinks {
            sink.sync().map_err(|error| self.placed(*node, error))?;
        }
        // A flow that is cancelled before this point publishes nothing; a later cancel comes too
        // late.
        if self.is_cancelled() {
            return Err(Error::interrupted());
        }
        let begin = |at| CommitDecision::begin(at, &self.folders());
        let decision = self.deployment.decision.as_ref().map(begin).transpose()?;
        let mut staged: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        for (node, sink) in sinks {
            staged.insert(node, vec![sink.staged().map_err(|error| self.placed(node, error))?]);
        }
        if let Some(attempt) = &self.deployment.attempt {
            staged.extend(attempt.prepare_outputs(&|| self.is_cancelled())?);
            // The staged output of a lost worker is not protected any more.
            if let Some((name, error)) = attempt.lost() {
                return Err(error.at(format!("worker {name}")));
            }
        }
        let mut outputs = vec![];
        for (node, parts) in staged {
            let decided = self.decided(node, parts).map_err(|error| self.placed(node, error))?;
            outputs.extend(decided.map(|decided| (node, decided)));
        }
        outputs.sort_by_key(|(_, decided)| decided.rank());
        Ok(PreparedOutputs { outputs, decision })
    }

    /// The output of a module, from what its processes have staged.
    fn decided(&self, node: usize, parts: Vec<Value>) -> Result<Option<DecidedOutput>> {
        // Processes that staged nothing have nothing to publish.
        if parts.iter().all(Value::is_null) {
            return Ok(None);
        }
        let (run_id, decision) = (&self.deployment.run_id, self.deployment.decision.as_ref());
        let checked = &self.flow.nodes[node];
        let sink =
            self.sink(node).ok_or_else(|| Error::corrupt("a module that publishes nothing"))?;
        let output = sink.output(parts, run_id, decision)?;
        if output.is_null() {
            return Ok(None);
        }
        let output: PreparedOutput = serde_json::from_value(output).map_err(Error::corrupt)?;
        let far = self.deployment.attempt.as_ref().filter(|_| output.state().is_none());
        let at = far.and_then(|attempt| attempt.worker_of(node));
        let at = at.map(|(_, name)| name.to_string());
        Ok(Some(DecidedOutput { module: checked.id.clone(), at, is_published: false, output }))
    }

    /// The folders with staged files and reserved names.
    fn folders(&self) -> Vec<PathBuf> {
        self.flow
            .nodes
            .iter()
            .filter_map(|node| node.bound.sink.as_ref()?.staging_folder())
            .collect()
    }

    /// Records the decision, then publishes all outputs. After an error, either nothing is visible,
    /// or the next start publishes the rest.
    pub(crate) fn publish(&self, prepared: PreparedOutputs) -> Result<()> {
        let PreparedOutputs { outputs, mut decision } = prepared;
        if let Some(decision) = &mut decision {
            let decided_outputs: Vec<DecidedOutput> =
                outputs.iter().map(|(_, one)| one.clone()).collect();
            if let Err(error) = decision.decide(&self.flow.name, &decided_outputs) {
                if decision.is_left() {
                    self.release(&outputs, |_| false);
                }
                return Err(error.while_running());
            }
        }
        let mut states = vec![OutputState::Ready; outputs.len()];
        let (mut unsynced, mut failed) = (BTreeMap::new(), None);
        for (at, (node, decided)) in outputs.iter().enumerate() {
            match self.publish_one(*node, decided) {
                Ok(durability) => {
                    states[at] = OutputState::Published;
                    let synced = durability.durable(&decided.output.name());
                    unsynced.extend(synced.err().map(|error| (at, error)));
                    continue;
                }
                Err(error) => {
                    failed = failed.or(Some((at, error)));
                    states[at] = decided.state();
                }
            }
            if on_failure(&states) == RecoveryAction::RollBack {
                break;
            }
        }
        let name = |at: usize| outputs[at].1.output.name();
        // An output that a loss of power may take back is left to the next start.
        let is_done: Vec<bool> = (0..outputs.len())
            .map(|at| states[at] == OutputState::Published && !unsynced.contains_key(&at))
            .collect();
        let error = match (failed, unsynced.pop_first()) {
            (None, None) => {
                self.complete(&outputs);
                return Ok(());
            }
            // The only output: there is no record by which it could be completed later.
            (Some((_, error)), _) if decision.is_none() => return Err(error),
            (Some((at, error)), _) => match on_failure(&states) {
                RecoveryAction::RollBack => {
                    return Err(self.retract(&outputs, decision.as_mut(), error));
                }
                _ => not_yet(&name(at), &error),
            },
            (None, Some((_, error))) => error.remedy(remedy_of_unsynced(decision.is_some())),
        };
        decision.iter_mut().for_each(CommitDecision::leave);
        self.release(&outputs, |at| is_done[at]);
        Err(error)
    }

    /// Publishes one output: at its worker, if only that reaches it; otherwise here, with one
    /// retry.
    fn publish_one(&self, node: usize, decided: &DecidedOutput) -> Result<Durability> {
        let published = match (&decided.at, &self.deployment.attempt) {
            (Some(_), Some(attempt)) => {
                let (worker, _) = attempt.worker_of(node).ok_or_else(Error::interrupted)?;
                let published = attempt.publish(worker, &decided.output);
                let remedy = "output at that worker may be visible: look whether it is there";
                published.map(|()| Durability::Durable).map_err(|error| error.remedy(remedy))
            }
            _ => decided.output.publish().or_else(|_| decided.output.publish()),
        };
        published.map_err(|error| self.placed(node, error).while_running())
    }

    /// Removes what the outputs have replaced, and the files that protected them.
    fn complete(&self, outputs: &[(usize, DecidedOutput)]) {
        outputs.iter().for_each(|(_, decided)| decided.output.clean());
        self.release(outputs, |_| true);
    }

    /// Nothing is published: retracts the decision; the staged outputs are removed later.
    fn retract(
        &self,
        outputs: &[(usize, DecidedOutput)],
        decision: Option<&mut CommitDecision>,
        error: Error,
    ) -> Error {
        if let Some(Err(why)) = decision.map(CommitDecision::retract) {
            self.release(outputs, |_| false);
            return not_yet(&outputs[0].1.output.name(), &why);
        }
        error
    }

    /// Makes all processes forget their outputs: published ones stay, and the others are left to
    /// the process that completes the decision.
    fn release(&self, outputs: &[(usize, DecidedOutput)], is_published: impl Fn(usize) -> bool) {
        let mut closing = Closing::default();
        for (at, (node, _)) in outputs.iter().enumerate() {
            if is_published(at) {
                self.flow.nodes[*node].bound.committed();
                closing.published.push(*node);
            } else {
                self.flow.nodes[*node].bound.orphan();
                closing.orphaned.push(*node);
            }
        }
        self.close_attempt(&closing);
    }

    /// Tells all workers to forget the attempt and remove what they have staged, except for the
    /// outputs that `closing` names.
    pub(crate) fn close_attempt(&self, closing: &Closing) {
        let Some(attempt) = &self.deployment.attempt else { return };
        attempt.close(closing);
        if attempt.lost().is_some() {
            self.flow.nodes.iter().for_each(|node| node.bound.reclaim());
        }
    }

    fn sink(&self, node: usize) -> Option<&Arc<dyn Sink>> {
        self.flow.nodes[node].bound.sink.as_ref()
    }

    fn placed(&self, node: usize, error: Error) -> Error {
        error.at(format!("module {}", self.flow.nodes[node].id))
    }
}

fn not_yet(name: &str, error: &Error) -> Error {
    let message = format!("{name} could not be published yet: {}", error.message());
    Error::new(error.kind(), message)
        .remedy("the next start, or `euphrates gc`, publishes whatever is missing")
}

fn remedy_of_unsynced(has_record: bool) -> &'static str {
    match has_record {
        true => "check the disk; the next start, or `euphrates gc`, syncs it once more",
        false => "check the disk, then run the flow again with `overwrite=True`",
    }
}
