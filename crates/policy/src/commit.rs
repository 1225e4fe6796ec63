//! Outputs of a flow that are published together: what becomes of them after a crash or a failure.
//!
//! Two-phase commit with presumed abort. All outputs are prepared, then one durable record decides
//! that they are published. Without a record nothing has been published, and everything prepared
//! is removed; with one, publishing is completed.

/// The state of one prepared output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can be published.
    Ready,
    /// It has been published, and perhaps replaced or removed since.
    Published,
    /// Something else has taken its name, which it must not replace.
    Refused,
    /// It cannot be seen from here: another machine or an object store has it.
    OutOfReach,
}

/// What to do with the outputs of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Publish what is ready. The record stays until everything is published.
    Forward,
    /// Forget the record, then remove what was prepared. Nothing of it is visible.
    Back,
    /// Change nothing, and look again at the next start.
    Wait,
}

/// What to do with outputs whose flow has ended without completing them.
pub fn course(is_decided: bool, outputs: &[State]) -> Course {
    let has = |state| outputs.contains(&state);
    match is_decided {
        false => Course::Back,
        true if has(State::Published) => Course::Forward,
        true if has(State::Refused) => Course::Back,
        true if has(State::OutOfReach) => Course::Wait,
        true => Course::Forward,
    }
}

/// What a live flow does when one output could not be published although that was decided.
pub fn on_failure(outputs: &[State]) -> Course {
    let may_be_visible = |state: &State| matches!(state, State::Published | State::OutOfReach);
    if outputs.iter().any(may_be_visible) { Course::Forward } else { Course::Back }
}

/// Outputs are published in this order: what may still fail comes first, so that a failure finds
/// nothing visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Another process publishes it.
    pub is_here: bool,
    /// It replaces what is there, so nothing can refuse it.
    pub replaces: bool,
}

/// What is known of the record that a reservation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The reservation is of a flow with one output, which needs none.
    NotNeeded,
    /// Its home folder cannot be seen from here.
    HomeUnseen,
    /// The process that decides is alive.
    Open,
    /// It is there: the outputs are to be published.
    Decided,
    /// It is not there.
    Absent,
}

/// What to do with a reserved name that another flow needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is in use: leave it alone.
    InUse,
    /// Nobody here can know: leave it alone.
    InDoubt,
    /// Complete the flow's outputs, which ends the reservation.
    Complete,
    /// Remove it, and what was staged for it.
    Stale,
}

/// What a reservation found on disk is worth.
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
    use super::Course::{Back, Forward, Wait};
    use super::State::{OutOfReach, Published, Ready, Refused};
    use super::*;

    #[test]
    fn without_a_record_everything_goes_back() {
        for one in [Ready, Published, Refused, OutOfReach] {
            assert_eq!(course(false, &[one, Ready]), Back, "{one:?}");
        }
        assert_eq!(course(false, &[]), Back);
    }

    #[test]
    fn with_a_record_the_outputs_decide() {
        let table: &[(&[State], Course)] = &[
            (&[], Forward),
            (&[Ready, Ready], Forward),
            (&[Published, Published], Forward),
            (&[Ready, Published], Forward),
            // Part is visible already: the rest follows as far as it can.
            (&[Published, Refused, Ready], Forward),
            (&[Published, OutOfReach], Forward),
            // Nothing is visible, and not everything can be.
            (&[Ready, Refused], Back),
            (&[OutOfReach, Refused], Back),
            // Nothing is visible, and everything may be later.
            (&[Ready, OutOfReach], Wait),
        ];
        for (outputs, expected) in table {
            assert_eq!(course(true, outputs), *expected, "{outputs:?}");
        }
    }

    #[test]
    fn a_failure_takes_the_decision_back_only_while_nothing_can_be_visible() {
        let table: &[(&[State], Course)] = &[
            (&[Ready, Ready], Back),
            (&[Refused, Ready], Back),
            (&[Published, Ready], Forward),
            (&[Published, Refused], Forward),
            (&[OutOfReach, Ready], Forward),
        ];
        for (outputs, expected) in table {
            assert_eq!(on_failure(outputs), *expected, "{outputs:?}");
        }
    }

    #[test]
    fn what_may_fail_is_published_first() {
        let rank = |is_here, replaces| Rank { is_here, replaces };
        let mut ranks = [rank(true, true), rank(true, false), rank(false, true)];
        ranks.sort();
        assert_eq!(ranks, [rank(false, true), rank(true, false), rank(true, true)]);
    }

    #[test]
    fn a_reservation_ends_only_when_nobody_can_need_it() {
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
