//! A started flow: waits for its instances, detects deadlock and cancellation, commits, reports.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use euphrates_device::scratch::take_excluded;
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::metrics::{InstanceMetrics, InstanceState};
use euphrates_flow::{Cancel, DecisionRef, Error, Kind, Perturbation, Result};
use euphrates_policy::deadlock::DeadlockDetector;
use euphrates_store::dataset::KeptFiles;
use parking_lot::Mutex;

use super::fault::Retry;
use super::placement::Placement;
use super::resume::NoteFile;
use super::running_part::{CANCEL_GRACE, Ended, RunningPart};
use super::unit_recovery::ClaimedUnits;
use super::unit_recovery::newcomers::Growth;
use crate::cluster::attempt::Attempt;
use crate::cluster::control::Closing;
use crate::observe::observer::{FlowEvent, Observers};
use crate::observe::progress::{FlowProgress, RecentRate};
use crate::observe::report::Report;
use crate::observe::sampler::Sampler;
use crate::observe::slowness::{self, HistoryReport, Slowness};
use crate::observe::snapshot::RecentSnapshots;
use crate::observe::totals::RestartCost;

/// How often a running flow is checked for cancellation and deadlock.
const STATE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Where the instances of a flow run, and the names of what it stages.
pub(crate) struct Deployment {
    pub placement: Placement,
    /// The master's side of the parts in other processes.
    pub attempt: Option<Attempt>,
    pub run_id: String,
    /// Whether work is divided among instances in advance.
    pub is_statically_divided: bool,
    /// The record that decides whether outputs are published, if there are several.
    pub decision: Option<DecisionRef>,
    /// The files of earlier attempts that are part of the output.
    pub kept: Option<KeptFiles>,
    /// The units of the attempt, if the flow works by units.
    pub units: Option<ClaimedUnits>,
}

/// A started flow. Dropping it cancels the flow.
pub struct Running {
    pub(crate) flow: CheckedFlow,
    pub(crate) part: RunningPart,
    pub(crate) ended: Receiver<Ended>,
    pub(crate) deployment: Deployment,
    /// Absent once the flow has ended.
    pub(crate) sampler: Option<Sampler>,
    pub(crate) perturbations: Vec<Perturbation>,
    /// Set by the user.
    pub(crate) cancel: Arc<Cancel>,
    /// Set when this attempt fails; the next attempt has another.
    pub(crate) attempt_cancel: Arc<Cancel>,
    /// How to begin again, if that is possible.
    pub(crate) retry: Option<Retry>,
    /// How to go on with workers that join, if that is possible.
    pub(crate) growth: Option<Growth>,
    /// What happened besides the run, without stopping it: lost or restarted workers, commits
    /// completed for dead flows.
    pub(crate) losses: Vec<String>,
    /// Where its outputs are noted, if it may be resumed.
    pub(crate) note_file: Option<NoteFile>,
    pub(crate) observers: Observers,
    /// The name of the first attempt's run.
    pub(crate) run: String,
    /// When the present attempt began, from the start of the first.
    pub(crate) attempt_began: Duration,
    pub(crate) restarts: RestartCost,
    /// Modules whose output an earlier run has made.
    pub(crate) made_before: Vec<String>,
    pub(crate) began: Instant,
    pub(crate) recent_rate: Mutex<RecentRate>,
    pub(crate) recent: Mutex<RecentSnapshots>,
    /// The first failure that does not follow from another.
    pub(crate) failure: Option<Error>,
    pub(crate) stall: DeadlockDetector,
}

impl Running {
    pub(crate) fn new(
        flow: CheckedFlow,
        (part, ended): (RunningPart, Receiver<Ended>),
        deployment: Deployment,
        sampler: Option<Sampler>,
        (perturbations, cancel, began): (Vec<Perturbation>, Arc<Cancel>, Instant),
    ) -> Running {
        Running {
            flow,
            part,
            ended,
            run: deployment.run_id.clone(),
            deployment,
            sampler,
            perturbations,
            attempt_cancel: cancel.clone(),
            cancel,
            retry: None,
            growth: None,
            losses: vec![],
            note_file: None,
            observers: Observers::default(),
            attempt_began: Duration::ZERO,
            restarts: RestartCost::default(),
            made_before: vec![],
            began,
            recent_rate: Mutex::default(),
            recent: Mutex::default(),
            failure: None,
            stall: DeadlockDetector::default(),
        }
    }

    /// Allows another attempt after a fault.
    pub(crate) fn repeatable(mut self, attempt_cancel: Arc<Cancel>, retry: Retry) -> Running {
        (self.attempt_cancel, self.retry) = (attempt_cancel, Some(retry));
        self
    }

    /// The flow as it was checked.
    pub fn flow(&self) -> &CheckedFlow {
        &self.flow
    }

    /// The counters and states of all modules, and the current rate.
    pub fn progress(&self) -> FlowProgress {
        let mut recent_rate = self.recent_rate.lock();
        let slow = self.sampler.as_ref().map(Sampler::slow).unwrap_or_default();
        let attempt = self.deployment.attempt.as_ref();
        let elsewhere = |edge| attempt.map_or(0, |attempt| attempt.waiting_bytes(edge));
        let instances = (&self.part, &elsewhere as &dyn Fn(usize) -> i64);
        FlowProgress::read(&self.flow, instances, slow, self.began.elapsed(), &mut recent_rate)
    }

    /// The throughput of instances and disks so far.
    pub fn history(&self) -> HistoryReport {
        let history =
            |sampler: &Sampler| sampler.so_far(|seen| slowness::history(&self.flow, seen));
        self.sampler.as_ref().map(history).unwrap_or_default()
    }

    /// Stops the flow. `wait` then returns `Interrupted` and no output appears, unless the commit
    /// has already begun; then the flow ends as if it had not been cancelled.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The switch that stops the flow.
    pub fn canceller(&self) -> Arc<Cancel> {
        self.cancel.clone()
    }

    /// Waits for the end, commits, and reports.
    pub fn wait(mut self) -> Result<Report> {
        while !self.wait_for(Duration::from_secs(3600)) {}
        self.finish()
    }

    /// Waits until all instances have ended, or the flow has failed for good, at most this long.
    /// Returns true when `finish` may be called.
    pub fn wait_for(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while self.part.left > 0 || self.begins_another_attempt() {
            self.observe();
            self.consider_newcomers();
            let left = deadline.saturating_duration_since(Instant::now());
            // A cancel may come while this waits: the limit keeps its grace short.
            match self.ended.recv_timeout(left.min(STATE_POLL_INTERVAL)) {
                Ok(ended) => self.note(ended),
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "an instance has ended without a word";
                    self.failure.get_or_insert_with(|| Error::failed(message));
                    break;
                }
                Err(RecvTimeoutError::Timeout) if self.is_cancelled() => {
                    self.drain_cancelled();
                    if !self.begin_again() {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return false,
                Err(RecvTimeoutError::Timeout) => self.check_deadlock(),
            }
        }
        true
    }

    /// Begins another attempt when all instances have ended, if they have failed and policy allows
    /// it, or if workers have joined; returns whether it did.
    fn begins_another_attempt(&mut self) -> bool {
        match self.failure {
            Some(_) => self.begin_again(),
            None => self.grow(),
        }
    }

    /// The failure that prevents the commit, if there is one.
    fn end(&mut self) -> Option<Error> {
        if self.part.left == 0 {
            self.part.threads.drain(..).for_each(|thread| {
                // Panics of modules are caught in the thread and reported as failures.
                let _ = thread.join();
            });
        }
        self.take_cause();
        let failure = self.failure.take();
        failure.or_else(|| self.is_cancelled().then(Error::interrupted))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.attempt_cancel.is_cancelled()
    }

    /// Cancels a deadlocked flow: one whose modules wait for each other.
    fn check_deadlock(&mut self) {
        let instances = || self.part.metrics.iter().flat_map(|one| &one.metrics);
        let waits = |state| {
            matches!(state, InstanceState::Starved | InstanceState::Blocked | InstanceState::Ended)
        };
        let all_wait = instances().all(|one| waits(one.state()));
        // A flow whose processes compute is not deadlocked, even if all instances wait.
        let works = self.sampler.as_ref().map_or(0, Sampler::works);
        let moved = instances().map(|one| one.moved()).fold(works, u64::wrapping_add);
        // A connection may be silent this long before it is given up; meanwhile the flow is not
        // deadlocked.
        let silence =
            self.deployment.attempt.as_ref().map_or(Duration::ZERO, Attempt::batch_lane_timeout);
        let now = self.began.elapsed();
        if self.failure.is_some() || !self.stall.on_poll(now, all_wait, moved, silence) {
            return;
        }
        let modules = self.flow.nodes.iter().zip(&self.part.metrics);
        let waiting = modules.flat_map(|(node, instances)| {
            let state = |one: &Arc<InstanceMetrics>| match one.state() {
                InstanceState::Starved => Some(format!("{} waits for input", node.id)),
                InstanceState::Blocked => Some(format!("{} waits for room in its output", node.id)),
                _ => None,
            };
            instances.metrics.iter().find_map(state)
        });
        let waiting: Vec<String> = waiting.collect();
        let message = format!("the flow stands still: {}", waiting.join(", "));
        let remedy = "let the module where branches meet read its inputs side by side (`select`), \
                      or give the queues into it more room (`bytes_max`)";
        self.failure = Some(Error::failed(message).remedy(remedy));
        self.attempt_cancel.cancel();
    }

    /// After a cancel: waits out the grace, then abandons the threads that have not returned.
    fn drain_cancelled(&mut self) {
        self.attempt_cancel.cancel();
        self.deployment.attempt.iter().for_each(Attempt::cancel);
        let deadline = Instant::now() + CANCEL_GRACE;
        while self.part.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.ended.recv_timeout(left) {
                Ok(ended) => self.note(ended),
                Err(_) => break,
            }
        }
    }

    fn note(&mut self, ended: Ended) {
        self.part.left -= 1;
        let Err(error) = ended.result.map_err(Error::while_running) else { return };
        let echo = error.kind() == Kind::Interrupted;
        if self.failure.as_ref().is_none_or(|first| first.kind() == Kind::Interrupted && !echo) {
            self.failure = Some(error);
        }
    }

    /// Commits. If an instance or the first phase of the commit failed, starts another attempt
    /// where policy allows it, waits for it, and tries again; otherwise returns the failure. To be
    /// called after `wait_for` returned true.
    pub fn finish(mut self) -> Result<Report> {
        let ended = self.commit_and_report();
        self.observers.tell(&match &ended {
            Ok(report) => FlowEvent::Finished(report),
            Err(error) => FlowEvent::Failed(error),
        });
        ended
    }

    fn commit_and_report(&mut self) -> Result<Report> {
        let prepared = loop {
            match self
                .end()
                .map_or_else(|| self.prepare_outputs().map_err(Error::while_running), Err)
            {
                Ok(prepared) => break prepared,
                Err(error) => self.failure = Some(error),
            }
            // Nothing is visible yet, so the flow can still begin again when a worker is lost.
            if !self.begin_again() {
                return Err(self.failure.take().unwrap_or_else(Error::interrupted));
            }
            while !self.wait_for(Duration::from_secs(3600)) {}
        };
        let note = |note_file: &NoteFile| note_file.write(&self.flow, prepared.decided_outputs());
        let _note = self.note_file.as_ref().map(note).transpose()?;
        self.observe_now();
        self.publish(prepared)?;
        self.observers.tell(&FlowEvent::Committed);
        let seconds = self.began.elapsed().as_secs_f64();
        let slowness = self.sampler.take().map(|sampler| {
            let (flow, part) = (&self.flow, &self.part);
            let run = (seconds, self.deployment.is_statically_divided);
            sampler.finish(|seen, spells| Slowness::new(flow, part, seen, spells, run))
        });
        let perturbations = std::mem::take(&mut self.perturbations);
        let slowness = slowness.unwrap_or_default();
        let remark = |node: usize| match &self.deployment.attempt {
            Some(attempt) if !self.deployment.placement.is_whole(node) => attempt.remark(node),
            _ => self.flow.nodes[node].bound.remark(),
        };
        let mut losses = std::mem::take(&mut self.losses);
        losses.extend(take_excluded(&self.deployment.run_id));
        losses.extend(self.deployment.attempt.iter().flat_map(Attempt::take_excluded));
        let observed = (perturbations, losses, slowness);
        let report = Report::new(&self.flow, &self.part, &remark, seconds, observed);
        let made_before = std::mem::take(&mut self.made_before);
        Ok(Report { made_before, restarts: self.restarts, ..report })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.attempt_cancel.cancel();
        self.close_attempt(&Closing::default());
        drop(take_excluded(&self.deployment.run_id));
        // `abandon` removes nothing that is published or left to the decision record.
        self.flow.nodes.iter().for_each(|node| node.bound.abandon());
    }
}
