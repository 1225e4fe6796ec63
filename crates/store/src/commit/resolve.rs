//! Resolution of dead flows' commits: rolls decided ones forward, and undecided ones back.

use std::fs::File;
use std::path::Path;

use euphrates_flow::{DecisionRef, Error, Result};
use euphrates_policy::commit::{OutputState, RecoveryAction, recovery_action};

use super::decision::{self, Decided, DecidedOutput};
use super::reservation;
use crate::output::reclaim_staged;
use euphrates_device::durable::Durability;

/// The resolution of one dead flow.
#[derive(Debug)]
pub struct Resolution {
    /// The flow's name; empty if it had decided nothing.
    pub flow: String,
    /// The outputs that this resolution has published.
    pub published: Vec<String>,
    /// The reason why something is left to do, if so.
    pub left: Option<Error>,
}

/// Resolves the commits of all dead flows of a home folder. Every start calls it.
///
/// ```
/// use euphrates_store::commit::resolve;
///
/// let home = tempfile::tempdir()?;
/// assert!(resolve(home.path()).is_empty(), "no flow has died here");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn resolve(home: &Path) -> Vec<Resolution> {
    decision::all_in(home).iter().filter_map(resolve_run).collect()
}

/// Resolves one commit; `None` if its process lives or another process resolves it now.
pub fn resolve_run(at: &DecisionRef) -> Option<Resolution> {
    let lock = decision::lock_dead(at)?;
    let resolution = match decision::read(at) {
        Ok(None) => {
            roll_back_undecided(at);
            Resolution { flow: String::new(), published: vec![], left: None }
        }
        Ok(Some(decided)) => complete(at, decided),
        Err(error) => Resolution { flow: String::new(), published: vec![], left: Some(error) },
    };
    drop(lock);
    Some(resolution)
}

fn roll_back_undecided(at: &DecisionRef) {
    for folder in decision::folders_of(at) {
        reservation::withdraw_run(&folder, at);
        reclaim_staged(&folder);
    }
    decision::forget(at);
}

fn complete(at: &DecisionRef, decided: Decided) -> Resolution {
    let Decided { flow, outputs } = decided;
    let states: Vec<OutputState> = outputs.iter().map(DecidedOutput::state).collect();
    let mut resolution = Resolution { flow, published: vec![], left: None };
    match recovery_action(true, &states) {
        RecoveryAction::RollForward => publish(at, &outputs, &states, &mut resolution),
        RecoveryAction::RollBack => match decision::retract(at) {
            Ok(()) => {
                outputs.iter().for_each(|decided| decided.output.withdraw());
                decision::forget(at);
            }
            Err(error) => resolution.left = Some(error),
        },
        RecoveryAction::Wait => {
            let first = |wanted| {
                let found = outputs.iter().zip(&states).find(|(_, state)| **state == wanted);
                found.map(|(decided, _)| decided)
            };
            let (far, refused) = (first(OutputState::OutOfReach), first(OutputState::Refused));
            resolution.left = far.map(|far| match refused {
                Some(refused) => in_doubt_error(at, far, refused),
                None => out_of_reach_error(at, far),
            });
        }
    }
    resolution
}

fn publish(
    at: &DecisionRef,
    outputs: &[DecidedOutput],
    states: &[OutputState],
    done: &mut Resolution,
) {
    for (decided, state) in outputs.iter().zip(states) {
        let left = match state {
            OutputState::OutOfReach => Some(out_of_reach_error(at, decided)),
            OutputState::Published if decided.output.state().is_none() => None,
            _ => match decided.output.publish() {
                Ok(durability) => {
                    if *state != OutputState::Published {
                        done.published.push(decided.output.name());
                    }
                    durability.durable(&decided.output.name()).err()
                }
                Err(error) => Some(error),
            },
        };
        done.left = done.left.take().or(left);
    }
    if done.left.is_none() {
        outputs.iter().for_each(|decided| decided.output.clean());
        decision::forget(at);
    }
}

fn out_of_reach_error(at: &DecisionRef, decided: &DecidedOutput) -> Error {
    let (name, record) = (decided.output.name(), decision::record_path(at));
    let message = match &decided.at {
        Some(worker) => {
            format!("{name} is ready to be published, but only worker {worker} sees it")
        }
        None => format!("{name} is ready to be published, but cannot be reached"),
    };
    let remedy = format!(
        "run a flow of this home when it can be reached; to give it up, remove {}",
        record.display()
    );
    Error::resource(message).remedy(remedy)
}

/// The error for a flow of which one output may be visible, and another cannot become so.
fn in_doubt_error(at: &DecisionRef, far: &DecidedOutput, refused: &DecidedOutput) -> Error {
    let (far, refused, record) =
        (far.output.name(), refused.output.name(), decision::record_path(at));
    let message =
        format!("{far} may have been published, and something else has the name of {refused}");
    let remedy = format!(
        "run a flow of this home when {far} can be reached, or remove {refused}; to give it up, \
         remove {}",
        record.display()
    );
    Error::resource(message).remedy(remedy)
}

/// Outputs of dead flows of this home that only workers can publish, with the run of each. Flows
/// with a name taken by others are left out: publishing more of them could not complete them.
pub fn out_of_reach(home: &Path) -> Vec<(String, DecidedOutput)> {
    let decided_outputs = |at: DecisionRef| {
        let free = decision::lock_dead(&at)?;
        let decided = decision::read(&at).ok()??;
        drop::<File>(free);
        if decided.outputs.iter().any(|one| one.state() == OutputState::Refused) {
            return None;
        }
        let far = decided.outputs.into_iter().filter(|one| one.state() == OutputState::OutOfReach);
        let far = far.filter(|decided| decided.at.is_some());
        Some(far.map(|decided| (at.run_id.clone(), decided)).collect::<Vec<_>>())
    };
    decision::all_in(home).into_iter().filter_map(decided_outputs).flatten().collect()
}

/// At a worker: publishes those outputs that this process can reach. Returns which.
pub fn publish_decided(decided_outputs: &[(String, DecidedOutput)]) -> Vec<(String, String)> {
    let can_be_seen = |decided: &DecidedOutput| decided.output.state().is_some();
    let seen = decided_outputs.iter().filter(|(_, decided)| can_be_seen(decided));
    let kept =
        seen.filter(|(_, decided)| matches!(decided.output.publish(), Ok(Durability::Durable)));
    kept.map(|(run_id, decided)| (run_id.clone(), decided.module.clone())).collect()
}

/// Records that a worker has published this output of a dead flow.
pub fn mark_published(home: &Path, run_id: &str, module: &str) -> Result<()> {
    let found = decision::all_in(home).into_iter().find(|at| at.run_id == run_id);
    let Some(at) = found else { return Ok(()) };
    let Some(_lock) = decision::lock_dead(&at) else { return Ok(()) };
    let Some(mut decided) = decision::read(&at)? else { return Ok(()) };
    let of = decided.outputs.iter_mut().filter(|decided| decided.module == module);
    of.for_each(|decided| decided.is_published = true);
    decision::write(&at, &decided)
}
