//! Recovery from faults: the flow begins again, with the workers that are left.
//!
//! What an attempt has staged is forgotten with it, and nothing of it can come late: frames and
//! staged output carry the number of their attempt, and only the master commits. So every record
//! counts once, whatever the lost worker had done with it. This file finds
//! out what the fault was; `policy::recovery` decides whether there is another attempt.

use std::sync::Weak;
use std::time::{Duration, Instant};

use euphrates_flow::check::{Checked, CheckedNode};
use euphrates_flow::{Cause, Document, Effect, Error, Kind, Registry, Result};
use euphrates_policy::recovery::{CRASHES_MAX, Fault, Recovery, Verdict};

use crate::cluster::control::Closing;
use crate::cluster::{Cluster, start};
use crate::run::master::Running;
use crate::run::options::Options;

/// How often a lost worker is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// How long it takes to detect a dead worker after one of its connections broke.
const BROKEN_WAIT: Duration = Duration::from_millis(500);

/// What a flow needs to begin again.
pub(crate) struct Again {
    /// Whoever closes the cluster ends its flows, too.
    pub cluster: Weak<Cluster>,
    pub document: Document,
    pub registry: Registry,
    pub options: Options,
    /// Counts attempts and faults.
    pub recovery: Recovery,
}

/// Whether all that a flow does can be done again.
pub(crate) fn is_repeatable(flow: &Checked) -> bool {
    let is_pure =
        |node: &CheckedNode| node.spec.effect != Effect::Effect && node.placed.is_repeatable();
    flow.nodes.iter().all(is_pure)
}

/// What ended an attempt.
pub(crate) struct Found {
    /// The text for the report.
    pub told: String,
    what: What,
}

enum What {
    Worker,
    Link { ends: [String; 2], is_parted: bool },
    Crash { unit: String },
}

impl Found {
    fn new(told: String, what: What) -> Found {
        Found { told, what }
    }

    /// How the flow continues, for the report.
    pub fn how(&self) -> &'static str {
        if matches!(self.what, What::Worker) { "without it" } else { "again" }
    }

    /// The fault, for the decision.
    fn fault(&self) -> Fault<'_> {
        match &self.what {
            What::Worker => Fault::Worker,
            What::Link { .. } => Fault::Link,
            What::Crash { unit } => Fault::Crash(unit),
        }
    }
}

/// The fault that explains a failure, if another attempt may avoid it. `lost` returns a lost worker
/// once the loss is detected, which takes at most `silence`. Returns early when interrupted.
pub(crate) fn find_fault(
    failure: &Error,
    lost: impl Fn() -> Option<(String, Error)>,
    silence: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Option<Found> {
    let link = match failure.cause() {
        Some(Cause::Crash { unit }) => {
            let told = failure.places().chain([failure.message()]).collect::<Vec<_>>().join(": ");
            return Some(Found::new(told, What::Crash { unit: unit.clone() }));
        }
        Some(Cause::Link { ends, is_parted }) => Some((ends.clone(), *is_parted)),
        None => None,
    };
    let may_be_a_loss =
        matches!(failure.kind(), Kind::Resource | Kind::Interrupted | Kind::Corrupt);
    if link.is_none() && !may_be_a_loss {
        return None;
    }
    let is_broken = link.as_ref().is_some_and(|(_, is_parted)| !is_parted);
    let deadline = Instant::now() + if is_broken { BROKEN_WAIT.min(silence) } else { silence };
    loop {
        if let Some((name, error)) = lost() {
            let told = format!("worker {name} was lost ({})", error.message());
            return Some(Found::new(told, What::Worker));
        }
        if Instant::now() > deadline || is_interrupted() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let (ends, is_parted) = link?;
    let told = format!(
        "the connection between {} and {} failed ({})",
        ends[0],
        ends[1],
        failure.message()
    );
    Some(Found::new(told, What::Link { ends, is_parted }))
}

impl Again {
    /// Whether the flow begins again after this fault. The cluster remembers failed connections for
    /// its other flows.
    pub fn may_be(&mut self, found: &Found, is_repeatable: bool) -> Result<bool, Verdict> {
        let Some(cluster) = self.cluster.upgrade() else { return Ok(false) };
        if let What::Link { ends: [one, other], is_parted } = &found.what {
            cluster.on_link_lost(one, other, *is_parted);
        }
        if !is_repeatable {
            return Ok(false);
        }
        match self.recovery.on_fault(found.fault()) {
            Verdict::Again => Ok(true),
            verdict => Err(verdict),
        }
    }
}

/// The failure of a flow that is not tried again.
pub(crate) fn given_up(failure: Error, verdict: Verdict) -> Error {
    match verdict {
        Verdict::TooManyCrashes => {
            failure.for_good().at(format!("gave up after {CRASHES_MAX} crashes of the same module"))
        }
        Verdict::Again | Verdict::TooManyAttempts => failure,
    }
}

impl Running {
    /// Whether the failure was a fault that another attempt may avoid, and the flow has begun
    /// again.
    pub(crate) fn begin_again(&mut self) -> bool {
        if self.cancel.is_cancelled() {
            return false;
        }
        self.take_network_failure();
        let found = self.find_fault();
        let is_repeatable = is_repeatable(&self.flow);
        let verdict = match (&found, &mut self.again) {
            (Some(found), Some(again)) => again.may_be(found, is_repeatable),
            _ => Ok(false),
        };
        let (Some(found), Ok(true)) = (found, verdict) else {
            // The search for a fault is not repeated.
            self.again = None;
            if let Err(verdict) = verdict {
                self.failure = self.failure.take().map(|failure| given_up(failure, verdict));
            }
            return false;
        };
        self.close_attempt(&Closing::default());
        self.watch = None;
        self.flow.nodes.iter().for_each(|node| node.placed.abandon());
        match self.restart() {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f64();
                let without = if matches!(found.what, What::Worker) { " without it" } else { "" };
                let told = &found.told;
                let text = format!("{told}; the flow began again{without} after {seconds:.1} s");
                self.losses.push(text);
                true
            }
            Err(error) => {
                self.failure = Some(error.at(found.told));
                false
            }
        }
    }

    /// What the network failed with is the cause of what was interrupted.
    pub(crate) fn take_network_failure(&mut self) {
        let is_echo = |failure: &Error| failure.kind() == Kind::Interrupted;
        if self.failure.as_ref().is_none_or(is_echo)
            && let Some(error) =
                self.deployment.attempt.as_ref().and_then(|attempt| attempt.take_failure())
        {
            self.failure = Some(error);
        }
    }

    fn find_fault(&self) -> Option<Found> {
        let attempt = self.deployment.attempt.as_ref()?;
        self.again.as_ref()?;
        let lost = || attempt.lost();
        let failure = self.failure.as_ref()?;
        if failure.cause().is_none() && !is_repeatable(&self.flow) {
            return None;
        }
        find_fault(failure, lost, attempt.silence(), &|| self.cancel.is_cancelled())
    }

    fn restart(&mut self) -> Result<()> {
        let again = self.again.as_mut().ok_or_else(|| Error::failed("it cannot begin again"))?;
        let is_interrupted = || self.cancel.is_cancelled();
        let (started, cancel) =
            start::attempt(again, self.began, &mut self.losses, &is_interrupted)?;
        self.flow = started.flow;
        (self.worker, self.ended) = started.parts;
        self.deployment = started.deployment;
        self.watch = Some(started.watch);
        self.attempt_cancel = cancel;
        (self.failure, self.outcome) = (None, None);
        self.stall = Default::default();
        self.pace = Default::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> bool {
        false
    }

    fn found(failure: &Error, lost: Option<&str>) -> Option<Found> {
        let lost = || lost.map(|name| (name.to_string(), Error::resource("it was killed")));
        find_fault(failure, lost, Duration::ZERO, &never)
    }

    #[test]
    fn a_damaged_frame_is_a_link_fault_unless_a_worker_died() {
        let damaged = Error::corrupt("a frame was damaged on its way");
        let damaged = damaged.because(Cause::link("w0", "w1", false));
        let fault = found(&damaged, None).unwrap();
        assert_eq!(fault.fault(), Fault::Link);
        assert!(
            fault.told.starts_with("the connection between w0 and w1 failed"),
            "{}",
            fault.told
        );
        assert_eq!(found(&damaged, Some("w1")).unwrap().fault(), Fault::Worker);
    }

    #[test]
    fn a_crash_is_reported_with_its_place_without_searching_for_lost_workers() {
        let crash = Cause::Crash { unit: "map_1 rows 0 to 9".into() };
        let crash = Error::failed("signal 11").because(crash).at("rows 0 to 9").at("module map_1");
        let fault = found(&crash, Some("w1")).unwrap();
        assert_eq!(fault.fault(), Fault::Crash("map_1 rows 0 to 9"));
        assert_eq!(fault.told, "module map_1: rows 0 to 9: signal 11");
    }

    #[test]
    fn errors_of_modules_are_not_faults() {
        assert!(found(&Error::failed("seven is right out"), Some("w1")).is_none());
        assert!(found(&Error::resource("the disk is full"), None).is_none());
    }
}
