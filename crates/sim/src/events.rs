//! The event queue of the simulator, ordered by virtual time.
//!
//! Events of the same nanosecond are ordered by insertion, so messages of one link with one latency
//! arrive in order. It is a binary heap of small entries: ten thousand nodes keep some ten thousand
//! events pending, which fit the cache.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Pending events, and the current virtual time.
///
/// ```
/// use euphrates_sim::events::EventQueue;
///
/// let mut events = EventQueue::default();
/// [(20, "last"), (10, "first"), (10, "second")].map(|(at_ns, event)| events.push(at_ns, event));
/// let popped = [events.pop(), events.pop()];
/// assert_eq!(popped, [Some("first"), Some("second")], "of one time, in turn");
/// assert_eq!(events.now_ns(), 10);
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<ScheduledEvent<T>>>,
    now_ns: u64,
    count: u64,
}

#[derive(Clone, Debug)]
struct ScheduledEvent<T> {
    at_ns: u64,
    number: u64,
    event: T,
}

impl<T> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue { heap: BinaryHeap::new(), now_ns: 0, count: 0 }
    }
}

impl<T> EventQueue<T> {
    /// The virtual time, in nanoseconds since the start: that of the last event popped.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Events inserted so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Inserts an event; its time must not be in the past.
    pub fn push(&mut self, at_ns: u64, event: T) {
        assert!(at_ns >= self.now_ns, "an event in the past");
        self.heap.push(Reverse(ScheduledEvent { at_ns, number: self.count, event }));
        self.count += 1;
    }

    /// Removes the next event and advances the time to it.
    pub fn pop(&mut self) -> Option<T> {
        let Reverse(entry) = self.heap.pop()?;
        debug_assert!(entry.at_ns >= self.now_ns);
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }
}

impl<T> PartialEq for ScheduledEvent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for ScheduledEvent<T> {}

impl<T> PartialOrd for ScheduledEvent<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for ScheduledEvent<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_ordered_by_time_then_by_insertion() {
        let mut events = EventQueue::default();
        for (at_ns, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            events.push(at_ns, name);
        }
        let popped: Vec<_> =
            std::iter::from_fn(|| Some((events.pop()?, events.now_ns()))).collect();
        assert_eq!(popped, [('a', 1), ('b', 2), ('c', 5), ('d', 5)]);
    }

    #[test]
    #[should_panic(expected = "an event in the past")]
    fn event_in_the_past_panics() {
        let mut events = EventQueue::default();
        events.push(3, ());
        events.pop();
        events.push(2, ());
    }
}
