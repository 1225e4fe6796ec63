//! Recovery from faults: the whole flow is retried with the remaining workers.
//!
//! Staged output of a failed attempt is discarded. Late frames and output of it are recognised,
//! because they carry the number of their attempt, and only the master decides the commit. Every
//! record therefore counts once, whatever a lost worker had done with it.

use std::time::Instant;

use euphrates_flow::{Error, Kind, Result};

use super::fault::{FoundFault, find_fault, given_up, is_repeatable};
use super::running::Running;
use crate::cluster::control::Closing;
use crate::cluster::start;
use crate::observe::observer::FlowEvent;

impl Running {
    /// Begins again if the failure was a fault that another attempt may avoid; returns whether it
    /// did.
    pub(crate) fn begin_again(&mut self) -> bool {
        if self.cancel.is_cancelled() {
            return false;
        }
        self.take_cause();
        let found = self.find_fault();
        let is_repeatable = is_repeatable(&self.flow);
        let verdict = match (&found, &mut self.retry) {
            (Some(found), Some(retry)) => retry.may_retry(found, is_repeatable),
            _ => Ok(false),
        };
        let (Some(found), Ok(true)) = (found, verdict) else {
            // The search for a fault is not repeated.
            self.retry = None;
            if let Err(verdict) = verdict {
                self.failure = self.failure.take().map(|failure| given_up(failure, verdict));
            }
            return false;
        };
        let rows = self.totals().rows_read();
        let before = self.attempt_began;
        self.end_attempt();
        match self.next_attempt() {
            Ok(()) => {
                let seconds = self.attempt_began.as_secs_f64();
                let lost = self.attempt_began.saturating_sub(before).as_secs_f64();
                self.restarts.failed_attempts += 1;
                self.restarts.lost_seconds += lost;
                self.restarts.rows_again += rows;
                let without = if found.is_lost_worker() { " without it" } else { "" };
                let cause = &found.text;
                let text = format!("{cause}; the flow began again{without} after {seconds:.1} s");
                self.observers.tell(&FlowEvent::Restarted { cause: &text, cost: self.restarts });
                self.losses.push(text);
                true
            }
            Err(error) => {
                self.failure = Some(error.at(found.text));
                false
            }
        }
    }

    /// Replaces an interruption by what caused it: the failure of an instance that has not ended
    /// yet, since it gives up much memory, or one of the network.
    pub(crate) fn take_cause(&mut self) {
        let is_echo = |failure: &Error| failure.kind() == Kind::Interrupted;
        if self.failure.as_ref().is_none_or(is_echo) {
            let own = self.part.failed.get().cloned().map(Error::while_running);
            let attempt = self.deployment.attempt.as_ref();
            let found = own.or_else(|| attempt.and_then(|attempt| attempt.take_failure()));
            self.failure = found.or(self.failure.take());
        }
    }

    fn find_fault(&self) -> Option<FoundFault> {
        let attempt = self.deployment.attempt.as_ref()?;
        self.retry.as_ref()?;
        let lost = || attempt.lost();
        let failure = self.failure.as_ref()?;
        if failure.cause().is_none() && !is_repeatable(&self.flow) {
            return None;
        }
        find_fault(failure, lost, attempt.loss_detection_time(), &|| self.cancel.is_cancelled())
    }

    /// Ends the attempt on all workers. Nothing of it becomes visible; what later attempts may
    /// adopt is kept.
    pub(crate) fn end_attempt(&mut self) {
        self.close_attempt(&Closing::default());
        self.sampler = None;
        self.flow.nodes.iter().for_each(|node| node.bound.abandon());
    }

    /// Begins the next attempt.
    pub(crate) fn next_attempt(&mut self) -> Result<()> {
        let began = Instant::now();
        // The next attempt adopts these files, too.
        self.deployment.kept = None;
        let retry = self.retry.as_mut().ok_or_else(|| Error::failed("it cannot begin again"))?;
        let is_interrupted = || self.cancel.is_cancelled();
        let (started, cancel) =
            start::attempt(retry, self.began, &mut self.losses, &is_interrupted)?;
        self.flow = started.flow;
        (self.part, self.ended) = started.parts;
        self.deployment = started.deployment;
        self.sampler = Some(started.sampler);
        self.attempt_cancel = cancel;
        self.failure = None;
        self.stall = Default::default();
        self.recent_rate = Default::default();
        self.attempt_began = self.began.elapsed();
        self.follow_newcomers(began.elapsed());
        Ok(())
    }
}
