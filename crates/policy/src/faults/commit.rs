//! Two-phase commit of a flow's outputs with presumed abort: recovery after crashes and failures.
//!
//! All outputs are prepared, then one durable record decides that they are published. Without a
//! record nothing has been published, and everything prepared is removed. With one, publishing is
//! completed, unless another flow has taken a name and no output has been published. Whether an
//! output that only another machine can access has been published is unknown: recovery waits until
//! it can be checked, unless another output is found to be published. A flow with one output needs
//! no record.

/// The state of one prepared output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputState {
    /// It can be published.
    Ready,
    /// It has been published, and perhaps replaced or removed since.
    Published,
    /// Something else has taken its name, which it must not replace.
    Refused,
    /// It cannot be seen from here: another machine or an object store has it.
    OutOfReach,
}

/// The decision about the outputs of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Publish what is ready. The record stays until everything is published.
    RollForward,
    /// Delete the record, then remove what was prepared. No output has been published.
    RollBack,
    /// Change nothing, and decide again at the next start.
    Wait,
}

/// Decides about outputs whose flow has ended without completing them. `is_decided` tells whether
/// the durable record exists.
///
/// ```
/// use euphrates_policy::commit::{OutputState, RecoveryAction, recovery_action};
///
/// assert_eq!(recovery_action(false, &[OutputState::Ready]), RecoveryAction::RollBack);
/// let outputs = [OutputState::Ready, OutputState::Published];
/// assert_eq!(recovery_action(true, &outputs), RecoveryAction::RollForward);
/// ```
pub fn recovery_action(is_decided: bool, outputs: &[OutputState]) -> RecoveryAction {
    let has = |state| outputs.contains(&state);
    match is_decided {
        false => RecoveryAction::RollBack,
        true if has(OutputState::Published) => RecoveryAction::RollForward,
        true if has(OutputState::OutOfReach) => RecoveryAction::Wait,
        true if has(OutputState::Refused) => RecoveryAction::RollBack,
        true => RecoveryAction::RollForward,
    }
}

/// Decides for a live flow that could not publish one output although the record exists.
///
/// ```
/// use euphrates_policy::commit::{OutputState, RecoveryAction, on_failure};
///
/// assert_eq!(on_failure(&[OutputState::Ready, OutputState::Refused]), RecoveryAction::RollBack);
/// let outputs = [OutputState::Published, OutputState::Refused];
/// assert_eq!(on_failure(&outputs), RecoveryAction::RollForward);
/// ```
pub fn on_failure(outputs: &[OutputState]) -> RecoveryAction {
    let may_be_visible =
        |state: &OutputState| matches!(state, OutputState::Published | OutputState::OutOfReach);
    if outputs.iter().any(may_be_visible) {
        RecoveryAction::RollForward
    } else {
        RecoveryAction::RollBack
    }
}

/// The order of publication: outputs that may still fail come first, so that a failure finds
/// nothing visible.
///
/// ```
/// use euphrates_policy::commit::Rank;
///
/// let [elsewhere, fresh, replaces] = [(false, false), (true, false), (true, true)]
///     .map(|(is_here, replaces)| Rank { is_here, replaces });
/// assert!(elsewhere < fresh && fresh < replaces, "what may fail is published first");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Whether this process publishes it, not another.
    pub is_here: bool,
    /// Whether it replaces existing output, so that it cannot be refused.
    pub replaces: bool,
}

/// The record that a reservation refers to, as far as this process can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The reservation belongs to a flow with one output, which needs no record.
    NotNeeded,
    /// The folder of the record cannot be seen from here.
    HomeUnseen,
    /// The process that decides is alive.
    Open,
    /// The record exists: the outputs are to be published.
    Decided,
    /// The record does not exist.
    Absent,
}

/// The decision about a reserved name that another flow needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The name is in use: leave it alone.
    InUse,
    /// The state is unknown: leave the name alone.
    InDoubt,
    /// Complete the outputs of the flow, which ends the reservation.
    Complete,
    /// Remove the reservation and everything staged for it.
    Stale,
}

/// Decides about a reservation found on disk.
///
/// ```
/// use euphrates_policy::commit::{Record, Reserved, reserved};
///
/// assert_eq!(reserved(true, Record::Absent), Reserved::InUse);
/// assert_eq!(reserved(false, Record::Decided), Reserved::Complete);
/// assert_eq!(reserved(false, Record::HomeUnseen), Reserved::InDoubt);
/// assert_eq!(reserved(false, Record::Absent), Reserved::Stale);
/// ```
pub fn reserved(owner_lives: bool, record: Record) -> Reserved {
    match (owner_lives, record) {
        (true, _) | (_, Record::Open) => Reserved::InUse,
        (_, Record::HomeUnseen) => Reserved::InDoubt,
        (_, Record::Decided) => Reserved::Complete,
        (_, Record::NotNeeded | Record::Absent) => Reserved::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::OutputState::{OutOfReach, Published, Ready, Refused};
    use super::RecoveryAction::{RollBack, RollForward, Wait};
    use super::*;

    #[test]
    fn outputs_without_a_record_are_removed() {
        for one in [Ready, Published, Refused, OutOfReach] {
            assert_eq!(recovery_action(false, &[one, Ready]), RollBack, "{one:?}");
        }
        assert_eq!(recovery_action(false, &[]), RollBack);
    }

    #[test]
    fn outputs_with_a_record_are_published_if_possible() {
        let table: &[(&[OutputState], RecoveryAction)] = &[
            (&[], RollForward),
            (&[Ready, Ready], RollForward),
            (&[Published, Published], RollForward),
            (&[Ready, Published], RollForward),
            // Part of it is visible: the rest follows as far as possible.
            (&[Published, Refused, Ready], RollForward),
            (&[Published, OutOfReach], RollForward),
            // Nothing is visible, and not everything can become visible.
            (&[Ready, Refused], RollBack),
            // The one out of reach may have been published.
            (&[OutOfReach, Refused], Wait),
            (&[Ready, OutOfReach], Wait),
        ];
        for (outputs, expected) in table {
            assert_eq!(recovery_action(true, outputs), *expected, "{outputs:?}");
        }
    }

    #[test]
    fn failure_aborts_only_while_nothing_can_be_visible() {
        let table: &[(&[OutputState], RecoveryAction)] = &[
            (&[Ready, Ready], RollBack),
            (&[Refused, Ready], RollBack),
            (&[Published, Ready], RollForward),
            (&[Published, Refused], RollForward),
            (&[OutOfReach, Ready], RollForward),
        ];
        for (outputs, expected) in table {
            assert_eq!(on_failure(outputs), *expected, "{outputs:?}");
        }
    }

    #[test]
    fn fallible_outputs_are_published_first() {
        let rank = |is_here, replaces| Rank { is_here, replaces };
        let mut ranks = [rank(true, true), rank(true, false), rank(false, true)];
        ranks.sort();
        assert_eq!(ranks, [rank(false, true), rank(true, false), rank(true, true)]);
    }

    #[test]
    fn reservation_ends_only_if_no_process_can_need_it() {
        use Record::*;
        let table = [
            (true, NotNeeded, Reserved::InUse),
            (true, Absent, Reserved::InUse),
            (true, Decided, Reserved::InUse),
            (false, Open, Reserved::InUse),
            (false, HomeUnseen, Reserved::InDoubt),
            (false, Decided, Reserved::Complete),
            (false, Absent, Reserved::Stale),
            (false, NotNeeded, Reserved::Stale),
        ];
        for (owner_lives, record, expected) in table {
            assert_eq!(reserved(owner_lives, record), expected, "{owner_lives} {record:?}");
        }
    }
}
