//! Going on after the death of a worker: the flow begins again with the others.
//!
//! What an attempt has staged is forgotten with it, and nothing of it can come late: frames and
//! staged output carry the number of their attempt, and only the master commits. So every record
//! counts once, whatever the lost worker had done with it.

use std::sync::Weak;
use std::time::{Duration, Instant};

use euphrates_flow::check::{Checked, CheckedNode};
use euphrates_flow::{Document, Effect, Error, Kind, Registry, Result};

use crate::cluster::control::Closing;
use crate::cluster::{Cluster, start};
use crate::master::{Options, Running};

/// How long after a failure a worker may be found to be its cause: its own silence takes longest.
const SUSPICION: Duration = Duration::from_millis(2600);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// Attempts at one flow.
const ATTEMPTS_MAX: u32 = 4;

/// What a flow needs to begin again.
pub(crate) struct Again {
    /// Whoever closes the cluster ends its flows, too.
    pub cluster: Weak<Cluster>,
    pub document: Document,
    pub registry: Registry,
    pub options: Options,
    /// The attempt that runs.
    pub epoch: u32,
}

impl Again {
    /// Whether there may be another attempt.
    pub fn may_be(&self) -> bool {
        self.epoch < ATTEMPTS_MAX && self.cluster.strong_count() > 0
    }
}

/// Whether all that a flow does can be done again.
pub(crate) fn is_repeatable(flow: &Checked) -> bool {
    let is_pure =
        |node: &CheckedNode| node.spec.effect != Effect::Effect && node.placed.is_repeatable();
    flow.nodes.iter().all(is_pure)
}

/// The loss of a worker that explains a failure, if there is one: `lost` names one that is known.
/// It is not looked for any longer once that is interrupted.
pub(crate) fn find_loss(
    failure: &Error,
    lost: impl Fn() -> Option<(String, Error)>,
    is_interrupted: &dyn Fn() -> bool,
) -> Option<String> {
    if !matches!(failure.kind(), Kind::Resource | Kind::Interrupted | Kind::Corrupt) {
        return None;
    }
    let deadline = Instant::now() + SUSPICION;
    loop {
        if let Some((name, error)) = lost() {
            return Some(format!("worker {name} was lost ({})", error.message()));
        }
        if Instant::now() > deadline || is_interrupted() {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

impl Running {
    /// Whether a failure was a worker's death, and the flow has begun again without it.
    pub(crate) fn begin_again(&mut self) -> bool {
        if self.cancel.is_cancelled() || !self.may_begin_again() {
            return false;
        }
        self.take_network_failure();
        let Some(loss) = self.find_loss() else {
            // It need not be looked for twice.
            self.again = None;
            return false;
        };
        self.close_attempt(&Closing::default());
        self.watch = None;
        self.flow.nodes.iter().for_each(|node| node.placed.abandon());
        match self.restart() {
            Ok(()) => {
                let seconds = self.began.elapsed().as_secs_f64();
                let text = format!("{loss}; the flow began again without it after {seconds:.1} s");
                self.losses.push(text);
                true
            }
            Err(error) => {
                self.failure = Some(error.at(loss));
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

    fn may_begin_again(&self) -> bool {
        is_repeatable(&self.flow) && self.again.as_ref().is_some_and(Again::may_be)
    }

    /// The loss that explains the failure, if there is one.
    fn find_loss(&self) -> Option<String> {
        let attempt = self.deployment.attempt.as_ref()?;
        let lost = || attempt.lost();
        find_loss(self.failure.as_ref()?, lost, &|| self.cancel.is_cancelled())
    }

    fn restart(&mut self) -> Result<()> {
        let again = self.again.as_mut().ok_or_else(|| Error::failed("it cannot begin again"))?;
        again.epoch += 1;
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
