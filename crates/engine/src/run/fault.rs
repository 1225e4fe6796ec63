//! Determines the fault that caused a failure. `policy::recovery` decides whether to retry.

use std::sync::Weak;
use std::time::{Duration, Instant};

use euphrates_flow::check::{CheckedFlow, CheckedNode};
use euphrates_flow::{Cause, Document, Effect, Error, Kind, Registry, Result};
use euphrates_policy::recovery::{CRASHES_MAX, Fault, Recovery, Verdict};

use super::options::Options;
use crate::cluster::Cluster;

/// How often a failed flow checks for a lost worker.
const LOSS_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long it takes to detect a dead worker after one of its connections broke.
const BROKEN_WAIT: Duration = Duration::from_millis(500);

/// What a flow needs to begin again.
pub(crate) struct Retry {
    /// Weak: closing the cluster ends its flows.
    pub cluster: Weak<Cluster>,
    pub document: Document,
    pub registry: Registry,
    pub options: Options,
    /// Counts attempts and faults.
    pub recovery: Recovery,
    /// Rows in files of earlier attempts, as the latest attempt has found them.
    pub kept_rows: u64,
}

/// Whether running the flow again has no other effect than running it once.
pub(crate) fn is_repeatable(flow: &CheckedFlow) -> bool {
    let is_pure =
        |node: &CheckedNode| node.spec.effect != Effect::External && node.bound.is_repeatable;
    flow.nodes.iter().all(is_pure)
}

/// The fault that ended an attempt.
pub(crate) struct FoundFault {
    /// A description for the report.
    pub text: String,
    kind: FaultKind,
}

enum FaultKind {
    Worker,
    Link { ends: [String; 2], is_unreachable: bool },
    Crash { unit: String },
}

impl FoundFault {
    /// How the flow continues: for the report.
    pub fn how(&self) -> &'static str {
        if self.is_lost_worker() { "without it" } else { "again" }
    }

    /// Whether a worker was lost, which the next attempt does without.
    pub fn is_lost_worker(&self) -> bool {
        matches!(self.kind, FaultKind::Worker)
    }

    /// The fault as `policy::recovery` counts it.
    fn fault(&self) -> Fault<'_> {
        match &self.kind {
            FaultKind::Worker => Fault::Worker,
            FaultKind::Link { .. } => Fault::Link,
            FaultKind::Crash { unit } => Fault::Crash(unit),
        }
    }
}

/// The fault behind a failure, if another attempt may avoid it. Polls `lost` for up to `silence`,
/// the time in which a loss is detected; stops when interrupted.
pub(crate) fn find_fault(
    failure: &Error,
    lost: impl Fn() -> Option<(String, Error)>,
    silence: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Option<FoundFault> {
    let link = match failure.cause() {
        Some(Cause::Crash { unit }) => {
            let text = failure.places().chain([failure.message()]).collect::<Vec<_>>().join(": ");
            return Some(FoundFault { text, kind: FaultKind::Crash { unit: unit.clone() } });
        }
        Some(Cause::Link { ends, is_unreachable }) => Some((ends.clone(), *is_unreachable)),
        None => None,
    };
    let may_be_a_loss =
        matches!(failure.kind(), Kind::Resource | Kind::Interrupted | Kind::Corrupt);
    if link.is_none() && !may_be_a_loss {
        return None;
    }
    let is_broken = link.as_ref().is_some_and(|(_, is_unreachable)| !is_unreachable);
    let deadline = Instant::now() + if is_broken { BROKEN_WAIT.min(silence) } else { silence };
    loop {
        if let Some((name, error)) = lost() {
            let text = format!("worker {name} was lost ({})", error.message());
            return Some(FoundFault { text, kind: FaultKind::Worker });
        }
        if Instant::now() > deadline || is_interrupted() {
            break;
        }
        std::thread::sleep(LOSS_POLL_INTERVAL);
    }
    let (ends, is_unreachable) = link?;
    let ([one, other], why) = (&ends, failure.message());
    let text = format!("the connection between {one} and {other} failed ({why})");
    Some(FoundFault { text, kind: FaultKind::Link { ends, is_unreachable } })
}

impl Retry {
    /// Records the fault, and a failed connection also in the cluster for its other flows; returns
    /// whether the flow begins again. `Err` has the verdict by which policy gave up.
    pub fn may_retry(&mut self, found: &FoundFault, is_repeatable: bool) -> Result<bool, Verdict> {
        let Some(cluster) = self.cluster.upgrade() else { return Ok(false) };
        if let FaultKind::Link { ends: [one, other], is_unreachable } = &found.kind {
            cluster.roster.on_link_lost(one, other, *is_unreachable);
        }
        if !is_repeatable {
            return Ok(false);
        }
        match self.recovery.on_fault(found.fault()) {
            Verdict::Retry => Ok(true),
            verdict => Err(verdict),
        }
    }
}

/// The failure of a flow that does not begin again; says so if too many crashes are the reason.
pub(crate) fn given_up(failure: Error, verdict: Verdict) -> Error {
    match verdict {
        Verdict::TooManyCrashes => {
            failure.for_good().at(format!("gave up after {CRASHES_MAX} crashes of the same module"))
        }
        Verdict::Retry | Verdict::TooManyAttempts => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> bool {
        false
    }

    fn found(failure: &Error, lost: Option<&str>) -> Option<FoundFault> {
        let lost = || lost.map(|name| (name.to_string(), Error::resource("it was killed")));
        find_fault(failure, lost, Duration::ZERO, &never)
    }

    #[test]
    fn damaged_frame_is_a_link_fault_unless_a_worker_died() {
        let damaged = Error::corrupt("a frame was damaged on its way");
        let damaged = damaged.because(Cause::link("w0", "w1", false));
        let fault = found(&damaged, None).unwrap();
        assert_eq!(fault.fault(), Fault::Link);
        assert!(
            fault.text.starts_with("the connection between w0 and w1 failed"),
            "{}",
            fault.text
        );
        assert_eq!(found(&damaged, Some("w1")).unwrap().fault(), Fault::Worker);
    }

    #[test]
    fn crash_is_reported_with_its_place_without_search_for_lost_workers() {
        let crash = Cause::Crash { unit: "map_1 rows 0 to 9".into() };
        let crash = Error::failed("signal 11").because(crash).at("rows 0 to 9").at("module map_1");
        let fault = found(&crash, Some("w1")).unwrap();
        assert_eq!(fault.fault(), Fault::Crash("map_1 rows 0 to 9"));
        assert_eq!(fault.text, "module map_1: rows 0 to 9: signal 11");
    }

    #[test]
    fn errors_of_modules_are_not_faults() {
        assert!(found(&Error::failed("seven is right out"), Some("w1")).is_none());
        assert!(found(&Error::resource("the disk is full"), None).is_none());
    }
}
