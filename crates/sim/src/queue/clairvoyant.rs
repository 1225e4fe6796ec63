//! A clairvoyant (offline) schedule of whole batches: a completion time that a queue could reach.
//!
//! The fluid bound treats batches as divisible. In a queue, a batch is read whole before it is
//! consumed, and by one consumer. This schedule shows how much of a policy's distance to the bound
//! is due to that. It knows all past and future speeds and needs no messages: a free consumer
//! begins a batch of the producer with most left, if it can finish it by the deadline. Bisection
//! finds the earliest deadline that all batches meet. The schedule is greedy and never cuts
//! batches, so its time is one that can be reached, not a bound.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::scenario::{Draws, QueueScenario};
use crate::speed::SpeedCurve;

/// The precision of the deadline, in nanoseconds.
const EXACT_NS: u64 = 20_000;

/// The completion time of the schedule, in nanoseconds, for a queue without deaths and latency.
/// `bound_ns` is a lower bound on it.
pub fn done_at(scenario: &QueueScenario, seed: u64, bound_ns: u64) -> u64 {
    let draws = scenario.draws(seed);
    let meets = |by_ns: u64| IdealSchedule::new(scenario, &draws, by_ns).run();
    let (mut low, mut step) = (bound_ns, EXACT_NS);
    while !meets(low + step) {
        (low, step) = (low + step, 2 * step);
    }
    let mut high = low + step;
    while high - low > EXACT_NS {
        let middle = low + (high - low) / 2;
        if meets(middle) { high = middle } else { low = middle }
    }
    high
}

/// An event: its time, whether it is a producer's, and the node.
type NodeEvent = Reverse<(u64, bool, usize)>;

struct IdealSchedule<'a> {
    scenario: &'a QueueScenario,
    draws: &'a Draws,
    by_ns: u64,
    events: BinaryHeap<NodeEvent>,
    producers: Vec<RemainingWork>,
    /// Producers with a ready batch, by batches left.
    ready: BTreeSet<(u64, usize)>,
    /// Free consumers, without those that cannot meet the deadline any more.
    free: Vec<usize>,
    left: u64,
}

#[derive(Clone, Copy)]
struct RemainingWork {
    ready: u64,
    unread: u64,
    is_reading: bool,
}

impl<'a> IdealSchedule<'a> {
    fn new(scenario: &'a QueueScenario, draws: &'a Draws, by_ns: u64) -> IdealSchedule<'a> {
        let stock = RemainingWork { ready: 0, unread: scenario.batches, is_reading: false };
        IdealSchedule {
            scenario,
            draws,
            by_ns,
            events: BinaryHeap::new(),
            producers: vec![stock; draws.disks.len()],
            ready: BTreeSet::new(),
            free: (0..draws.cpus.len()).collect(),
            left: scenario.batches * draws.disks.len() as u64,
        }
    }

    /// Whether all batches are finished by the deadline.
    fn run(mut self) -> bool {
        (0..self.producers.len()).for_each(|producer| self.read(producer, 0));
        while let Some(&Reverse((now_ns, ..))) = self.events.peek() {
            while let Some(&Reverse((at_ns, is_read, node))) = self.events.peek()
                && at_ns == now_ns
            {
                self.events.pop();
                if is_read { self.on_read(node, now_ns) } else { self.free.push(node) }
            }
            self.hand_out(now_ns);
        }
        self.left == 0
    }

    fn on_read(&mut self, producer: usize, now_ns: u64) {
        let before = self.producers[producer];
        self.ready.remove(&(before.ready + before.unread, producer));
        let stock = &mut self.producers[producer];
        (stock.ready, stock.unread, stock.is_reading) =
            (before.ready + 1, before.unread - 1, false);
        self.ready.insert((before.ready + before.unread, producer));
        self.read(producer, now_ns);
    }

    fn read(&mut self, producer: usize, now_ns: u64) {
        let stock = &mut self.producers[producer];
        let more = stock.unread > 0 && stock.ready < u64::from(self.scenario.ready_max);
        if more && !stock.is_reading {
            stock.is_reading = true;
            if let Some(done_ns) = self.done_at(&self.draws.disks[producer], now_ns) {
                self.events.push(Reverse((done_ns, true, producer)));
            }
        }
    }

    /// Gives ready batches to the free consumers that finish them first.
    fn hand_out(&mut self, now_ns: u64) {
        if self.ready.is_empty() || self.free.is_empty() {
            return;
        }
        let mut free: Vec<_> = std::mem::take(&mut self.free)
            .into_iter()
            .filter_map(|node| Some((self.done_at(&self.draws.cpus[node], now_ns)?, node)))
            .filter(|&(done_ns, _)| done_ns <= self.by_ns)
            .collect();
        free.sort_unstable_by(|a, b| b.cmp(a));
        while !free.is_empty()
            && let Some((left, producer)) = self.ready.pop_last()
        {
            let (done_ns, consumer) = free.pop().expect("one that is free");
            self.events.push(Reverse((done_ns, false, consumer)));
            self.left -= 1;
            self.producers[producer].ready -= 1;
            if self.producers[producer].ready > 0 {
                self.ready.insert((left - 1, producer));
            }
            self.read(producer, now_ns);
        }
        self.free = free.into_iter().map(|(_, node)| node).collect();
    }

    fn done_at(&self, speed: &SpeedCurve, now_ns: u64) -> Option<u64> {
        speed.done_at(now_ns, self.scenario.batch_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{QueueSide, Share, Slowdown, When};

    const MS: u64 = 1_000_000;

    fn reached_ms(producers: u32, consumers: u32, slower: f64) -> u64 {
        let when = When::Always;
        let slow = Slowdown { side: QueueSide::Consumers, share: Share::Count(1), slower, when };
        let base = QueueScenario { producers, consumers, batches: 10, ..QueueScenario::default() };
        let scenario = QueueScenario { perturbations: vec![slow], ..base };
        done_at(&scenario, 1, 0).div_ceil(MS)
    }

    #[test]
    fn batches_are_read_whole_before_they_are_consumed() {
        // Ten batches of 10 ms on each side; the same with four consumers of 40 ms; and one
        // consumer that would finish nothing in time.
        assert_eq!([reached_ms(1, 1, 1.0), reached_ms(1, 4, 1.0)], [110, 140]);
        assert_eq!(reached_ms(2, 2, 1e6), 10 + 20 * 10);
    }
}
