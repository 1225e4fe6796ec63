//! Elastic flows: a flow that works by units goes on with the workers that join while it runs.
//!
//! A thread asks the cluster for workers that have joined or have been restarted. If
//! `policy::elastic` expects that they shorten the flow, the master exhausts the counter by which
//! the instances of the source claim units. They finish the units that they have claimed, and end;
//! so do all others, and the sink completes its files. In place of the commit the master begins
//! another attempt, with all workers, which adopts the files and computes the units that are left.
//! Nothing is computed twice.

use std::time::Duration;

use euphrates_policy::elastic::AttemptProgress;

use super::newcomers::Growth;
use crate::observe::observer::FlowEvent;
use crate::run::running::Running;

impl Running {
    /// Lets the flow go on with workers that join, if it works by units. `start_cost` is the time
    /// that the start of the attempt has taken.
    pub(crate) fn follow_newcomers(&mut self, start_cost: Duration) {
        if let Some(growth) = &mut self.growth {
            return growth.on_attempt(start_cost);
        }
        let is_elastic = self.deployment.units.is_some() && !self.deployment.is_statically_divided;
        let Some(retry) = self.retry.as_ref().filter(|_| is_elastic) else { return };
        // Without the thread, the flow keeps its workers.
        self.growth = Growth::new(retry.cluster.clone(), start_cost).ok();
    }

    /// Ends the claims of units, if another attempt with the workers that have joined is worth it.
    pub(crate) fn consider_newcomers(&mut self) {
        let Some(growth) = self.growth.as_mut().filter(|growth| growth.joining.is_none()) else {
            return;
        };
        let (Some(attempt), Some(units)) = (&self.deployment.attempt, &self.deployment.units)
        else {
            return;
        };
        let Some(cluster) = self.retry.as_ref().and_then(|retry| retry.cluster.upgrade()) else {
            return;
        };
        let (usable, _) = cluster.roster.usable();
        let newcomers: Vec<_> =
            usable.iter().filter(|handle| !attempt.has_worker(handle)).collect();
        if newcomers.is_empty() {
            return;
        }
        let cores = |one: u64, cores: usize| one + cores.max(1) as u64;
        let joined_cores = newcomers.iter().map(|one| one.member().cores).fold(0, cores);
        let progress = AttemptProgress {
            since_start: growth.started.elapsed(),
            start_cost: growth.start_cost,
            units: units.count,
            claimed: attempt.claimed_units(&units.counter).min(units.count),
            instances: self.flow.nodes[units.source].count as u64,
            cores: attempt.cores().into_iter().fold(0, cores),
            joined_cores,
        };
        if progress.gains_by_another_attempt() {
            attempt.end_claims(&units.counter);
            let names = newcomers.iter().map(|one| one.member().name.clone());
            growth.joining = Some(names.collect());
        }
    }

    /// Begins another attempt with workers that have joined, if the claims of this one have been
    /// ended for that; returns whether it did. To be called when all instances have ended well.
    pub(crate) fn grow(&mut self) -> bool {
        let joining = self.growth.as_mut().and_then(|growth| growth.joining.take());
        let Some(joining) = joining.filter(|_| !self.is_cancelled()) else { return false };
        if let Some(retry) = &mut self.retry {
            retry.recovery.on_growth();
        }
        self.end_attempt();
        if let Err(error) = self.next_attempt() {
            // A worker that has joined may not see the input or the output.
            let cluster = self.retry.as_ref().and_then(|retry| retry.cluster.upgrade());
            cluster.iter().for_each(|cluster| cluster.roster.exclude(&joining));
            self.losses.push(format!("{}: {error}; the flow goes on without it", named(&joining)));
            if let Some(retry) = &mut self.retry {
                retry.recovery.on_growth();
            }
            self.failure = self.next_attempt().err();
            return self.failure.is_none();
        }
        let seconds = self.attempt_began.as_secs_f64();
        let text =
            format!("{} joined; the flow goes on with it after {seconds:.1} s", named(&joining));
        self.observers.tell(&FlowEvent::Restarted { cause: &text, cost: self.restarts });
        self.losses.push(text);
        true
    }
}

fn named(workers: &[String]) -> String {
    let noun = if workers.len() == 1 { "worker" } else { "workers" };
    format!("{noun} {}", workers.join(", "))
}
