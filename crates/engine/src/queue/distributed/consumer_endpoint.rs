//! The endpoint of a consumer: holds the pieces that it has received and not begun.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Parcel, Result, Taken};
use euphrates_policy::distributed::{
    Consumer, EndpointPosition, MessageQueue, Now, Peer, Piece, Policy, ToConsumer, ToProducer,
};

use super::messages::{ConsumerMessage, Pieces, ProducerMessage, ProducerState};
use crate::queue::protocol::{DueEndpoints, Endpoint, EndpointAddress, Outlet, Router};

/// Asks producers for pieces by its policy, and reports which of them it has begun.
pub struct ConsumerEndpoint {
    policy: Consumer,
    out: MessageQueue<ToProducer>,
    /// Messages besides those of the policy.
    reports: Vec<(Peer, ProducerMessage)>,
    held: BTreeMap<(Peer, Piece), RecordBatch>,
    busy_with: Option<(Peer, Piece)>,
    /// By producer: whether it has ended. An ended producer is notified of each of its pieces that
    /// is begun.
    ended: Vec<bool>,
    /// Producers whose pieces have all been begun, here or elsewhere.
    drained: usize,
    is_gone: bool,
}

impl ConsumerEndpoint {
    /// Without pieces; `near` are the producers it prefers.
    pub fn new(
        policy: Policy,
        (position, near): (EndpointPosition, Vec<Peer>),
    ) -> ConsumerEndpoint {
        let mut policy = Consumer::new(policy, position);
        policy.set_near(near);
        ConsumerEndpoint {
            policy,
            out: MessageQueue::default(),
            reports: vec![],
            held: BTreeMap::new(),
            busy_with: None,
            ended: vec![false; position.producers as usize],
            drained: 0,
            is_gone: false,
        }
    }

    /// Finishes the piece begun last, and begins the next if there is one.
    fn next(&mut self, now: Now) -> Option<(Piece, RecordBatch)> {
        self.finish(now);
        let (from, piece) = self.policy.begin(now, &mut self.out)?;
        self.busy_with = Some((from, piece));
        if self.ended[from as usize] {
            self.reports.push((from, ProducerMessage::Begun(piece)));
        }
        let batch = self.held.remove(&(from, piece)).expect("a piece comes with its records");
        Some((piece, batch))
    }

    /// Finishes the piece begun last.
    fn finish(&mut self, now: Now) {
        if let Some((from, piece)) = self.busy_with.take() {
            // A finished piece has been begun; a report behind that would count it twice.
            self.reports.retain(|report| *report != (from, ProducerMessage::Begun(piece)));
            self.policy.on_finished(now, &mut self.out);
        }
    }

    /// Whether no further piece can arrive.
    fn is_over(&self) -> bool {
        self.drained == self.ended.len()
    }

    fn on_producer(&mut self, from: Peer, state: ProducerState) {
        match state {
            ProducerState::Ended => {
                self.ended[from as usize] = true;
                if let Some((_, piece)) = self.busy_with.filter(|(of, _)| *of == from) {
                    self.reports.push((from, ProducerMessage::Begun(piece)));
                }
            }
            ProducerState::Drained => self.drained += 1,
        }
    }
}

impl Outlet for ConsumerEndpoint {
    fn on_start(&mut self, now: Now) {
        self.policy.on_start(now, &mut self.out);
    }

    fn hold(&mut self, is_held: bool, now: Now) {
        self.policy.hold(is_held, now, &mut self.out);
    }

    fn take(&mut self, now: Now) -> Result<Taken> {
        Ok(match self.next(now) {
            Some((piece, batch)) => {
                Taken::Batch(Parcel { batch, bytes: piece.bytes as usize, run: None })
            }
            None if self.is_over() => Taken::End,
            None => Taken::Empty,
        })
    }

    /// While its module polls other inputs, it does not process what it took here.
    fn on_poll(&mut self, _: Peer, now: Now) {
        self.finish(now);
    }

    /// Producers send the pieces that it has not begun to other consumers.
    fn leave(&mut self, _: Peer, now: Now) {
        self.finish(now);
        self.is_gone = true;
        self.held.clear();
        self.reports.extend((0..self.ended.len()).map(|to| (to as Peer, ProducerMessage::Gone)));
    }
}

impl Endpoint for ConsumerEndpoint {
    type Protocol = Pieces;
    type Message = ConsumerMessage;

    fn receive(&mut self, from: Peer, message: ConsumerMessage, now: Now) {
        if self.is_gone {
            return;
        }
        let message = match message {
            ConsumerMessage::Producer(state) => return self.on_producer(from, state),
            ConsumerMessage::Policy(message) => message,
            ConsumerMessage::Give(message, batch) => {
                if let ToConsumer::Give { piece, .. } = message {
                    self.held.insert((from, piece), batch);
                }
                message
            }
        };
        self.policy.on_message(from, message, now, &mut self.out);
    }

    fn flush(&mut self, router: &impl Router<Pieces>, me: Peer, due: &mut DueEndpoints) {
        for (to, message) in self.out.drain() {
            if let ToProducer::Returned(piece) = message {
                self.held.remove(&(to, piece));
            }
            router.to_producer(me, to, ProducerMessage::Policy(message), due);
        }
        for (to, message) in self.reports.drain(..) {
            router.to_producer(me, to, message, due);
        }
    }

    fn on_alarm(&mut self, now: Now) {
        if !self.is_gone {
            self.policy.on_wake(now, &mut self.out);
        }
    }

    /// None while it is busy: in one process an answer comes at once, so a request need not be sent
    /// before it is needed.
    fn wake_at_ns(&self) -> Option<u64> {
        let is_busy = self.busy_with.is_some();
        if is_busy || self.is_gone { None } else { self.policy.wake_at_ns() }
    }

    fn has_work(&self) -> bool {
        !self.held.is_empty() || self.is_over()
    }

    fn address(me: Peer) -> EndpointAddress {
        EndpointAddress::Consumer(me)
    }
}

#[cfg(test)]
mod tests {
    use euphrates_policy::distributed::{Stock, late_binding};

    use super::*;

    #[test]
    fn finished_piece_is_not_reported_as_begun() {
        let policy = Policy::LateBinding(late_binding::Limits::default());
        let position = EndpointPosition { me: 0, producers: 1, consumers: 1 };
        let mut end = ConsumerEndpoint::new(policy, (position, vec![]));
        let (now, piece) = (Now { ns: 1, random: 0 }, Piece::whole(0, 10));
        end.on_start(now);
        let stock = Stock { ready: 0, left_bytes: 0 };
        let given = ToConsumer::Give { piece, stock, waited: false };
        let batch = RecordBatch::new_empty(std::sync::Arc::new(arrow::datatypes::Schema::empty()));
        end.receive(0, ConsumerMessage::Give(given, batch), now);
        assert!(end.next(now).is_some());
        end.receive(0, ConsumerMessage::Producer(ProducerState::Ended), now);
        assert_eq!(end.reports, [(0, ProducerMessage::Begun(piece))], "it is being processed");
        assert!(end.next(now).is_none());
        assert_eq!(end.reports, [], "it would be counted twice");
    }
}
