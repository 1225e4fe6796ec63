//! Names of the policies of distributed queues, for comparison.

use euphrates_flow::Result;
use euphrates_flow::error::unknown;
use euphrates_policy::distributed::push::PushChoice;
use euphrates_policy::distributed::{Policy, late_binding};

/// Batches of a producer that wait at a consumer, under policies that push.
const CREDIT_MAX: u32 = 2;

/// Late binding, the default between workers.
pub fn late_binding() -> Policy {
    Policy::LateBinding(late_binding::Limits::default())
}

/// The policies with a name, the default first.
fn known() -> [(&'static str, Policy); 6] {
    let credit_max = CREDIT_MAX;
    [
        ("late_binding", late_binding()),
        ("static", Policy::Push(PushChoice::Static { credit_max })),
        ("round_robin", Policy::Push(PushChoice::RoundRobin { credit_max })),
        ("shortest", Policy::Push(PushChoice::ShortestOf { k: 2, credit_max })),
        ("credit", Policy::Push(PushChoice::Credit { credit_max })),
        ("sparrow", Policy::Sparrow { reservations: 2, slots_max: 2 }),
    ]
}

/// The policy of this name.
///
/// ```
/// use euphrates_engine::queue::policies::{is_statically_divided, named};
///
/// assert!(is_statically_divided(named("static")?));
/// assert!(!is_statically_divided(named("late_binding")?));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn named(name: &str) -> Result<Policy> {
    let known = known();
    let found = known.iter().find(|(known, _)| *known == name);
    let names = known.iter().map(|(name, _)| *name);
    found.map(|(_, policy)| *policy).ok_or_else(|| unknown("way to divide", name, names))
}

/// The name of a policy, if it has one.
pub(crate) fn name_of(policy: Policy) -> Option<&'static str> {
    known().iter().find(|(_, known)| *known == policy).map(|(name, _)| *name)
}

/// Whether batches assigned to one consumer never go to another.
///
/// ```
/// use euphrates_engine::queue::policies::{is_statically_divided, late_binding, named};
///
/// assert!(!is_statically_divided(late_binding()), "a batch is assigned when a consumer has time");
/// assert!(!is_statically_divided(named("round_robin")?), "assigned in advance, but in turn");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn is_statically_divided(policy: Policy) -> bool {
    matches!(policy, Policy::Push(PushChoice::Static { .. }))
}
