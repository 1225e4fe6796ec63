//! The claim gates of a flow in this process, by module: the master of the flow holds them while
//! the process drains and other processes may claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use euphrates_flow::ClaimGate;
use parking_lot::Mutex;

/// The gates. Modules may be held before their instances are made.
#[derive(Debug, Default)]
pub struct ClaimGates {
    of_module: Mutex<BTreeMap<usize, Arc<ClaimGate>>>,
}

impl ClaimGates {
    /// The gate of a module, by its position in the flow.
    pub fn of(&self, module: usize) -> Arc<ClaimGate> {
        self.of_module.lock().entry(module).or_default().clone()
    }

    /// Holds the claims of these modules, and of no others.
    pub fn hold(&self, modules: &[usize]) {
        modules.iter().for_each(|module| drop(self.of(*module)));
        let gates = self.of_module.lock();
        gates.iter().for_each(|(module, gate)| gate.hold(modules.contains(module)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_held_before_and_after_their_gates_are_made() {
        let gates = ClaimGates::default();
        let made = gates.of(1);
        gates.hold(&[0, 1]);
        assert!(made.is_held() && gates.of(0).is_held() && !gates.of(2).is_held());
        gates.hold(&[2]);
        assert!(!made.is_held() && !gates.of(0).is_held() && gates.of(2).is_held());
    }
}
