//! Whether a flow stands still for ever.
//!
//! Queues are bounded, so a flow whose branches meet again can lock up: one module waits for room
//! in a queue whose reader waits for something that has yet to come through the first. Whoever
//! works, or waits for a device, a program or the network, is not waiting for another module; so
//! when all wait for each other and go on doing so, nothing will ever move again.

/// Looks in a row at which nothing has moved before a flow is given up: far more than it takes
/// to schedule a thread that has been woken, however busy the machine.
const LOOKS: u32 = 250;

/// Watches a flow. Looks are counted, not seconds, so that a process that was stopped as a whole
/// is not blamed for the time it stood.
#[derive(Clone, Debug, Default)]
pub struct StallWatch {
    moved: u64,
    looks: u32,
}

impl StallWatch {
    /// The flow is looked at: whether all its instances wait for others, and a number that changes
    /// with everything that moves. Returns whether it will stand still for ever.
    pub fn on_look(&mut self, all_wait: bool, moved: u64) -> bool {
        let still = all_wait && moved == self.moved;
        self.looks = if still { self.looks + 1 } else { 0 };
        self.moved = moved;
        self.looks >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_given_up_only_when_all_wait_and_nothing_moves_for_long() {
        let mut watch = StallWatch::default();
        let mut look = |all_wait, moved| (0..LOOKS - 1).any(|_| watch.on_look(all_wait, moved));
        assert!(!look(true, 1));
        assert!(!look(true, 2), "something moved");
        assert!(!look(false, 2), "somebody works");
        assert!(!look(true, 2));
        assert!(watch.on_look(true, 2));
    }
}
