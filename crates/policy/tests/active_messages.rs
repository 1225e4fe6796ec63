//! Active messages in virtual time: several endpoints run the state machine over a network whose
//! delays are random, with random faults. Nothing may wait forever, and each message is delivered
//! or returned once.

use std::collections::{BTreeMap, VecDeque};

use euphrates_policy::active_messages::{
    MessageLimits, PeerEnd, PeerMessages, ReturnReason, SendDecision,
};

/// Schedules that are tried.
const SCHEDULES: u64 = 100_000;
/// Steps after which a schedule counts as stuck; most take some hundreds.
const STEPS_MAX: usize = 100_000;

/// What an endpoint sends to another.
#[derive(Clone, Debug)]
enum Frame {
    Request { number: u64, handled: u64, id: u64, action: Action },
    Reply { number: u64, handled: u64, answers: u64, id: u64, is_known: bool },
    Acknowledgement { handled: u64 },
    Returned { number: u64, handled: u64, reason: ReturnReason },
    End(PeerEnd),
}

/// What the receiver of a request does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Reply,
    ReplyToNoHandler,
    Nothing,
    Decline,
    NoHandler,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    handled: u32,
    returned: u32,
    is_return_unsure: bool,
}

struct SimulatedPeer {
    messages: PeerMessages,
    /// Identifiers of the unsettled messages, by number.
    kept: BTreeMap<u64, u64>,
    arriving: VecDeque<Frame>,
}

/// An endpoint: its peers by number, and the requests it has yet to send.
struct SimulatedEndpoint {
    peers: BTreeMap<usize, SimulatedPeer>,
    to_send: VecDeque<(usize, Action)>,
    is_alive: bool,
}

struct Network {
    endpoints: Vec<SimulatedEndpoint>,
    fates: Vec<Fate>,
    random: Random,
    requests_max: u32,
}

impl Network {
    fn new(seed: u64) -> Network {
        let mut random = Random(seed);
        let count = 2 + random.below(4);
        let requests_max = 1 + random.below(5) as u32;
        let request_bytes_max = random.below(300) as u64;
        let endpoints = (0..count).map(|me| {
            let others = (0..count).filter(|other| *other != me);
            let limits = MessageLimits { requests_max, request_bytes_max, message_bytes_max: 100 };
            let peers = others.map(|other| {
                let (messages, kept) = (PeerMessages::new(limits), BTreeMap::new());
                (other, SimulatedPeer { messages, kept, arriving: VecDeque::new() })
            });
            SimulatedEndpoint { peers: peers.collect(), to_send: VecDeque::new(), is_alive: true }
        });
        let mut network =
            Network { endpoints: endpoints.collect(), fates: vec![], random, requests_max };
        for me in 0..count {
            for _ in 0..network.random.below(25) {
                let to = (me + 1 + network.random.below(count - 1)) % count;
                let action = match network.random.below(12) {
                    0 => Action::Decline,
                    1 => Action::NoHandler,
                    2 => Action::ReplyToNoHandler,
                    3..6 => Action::Nothing,
                    _ => Action::Reply,
                };
                network.endpoints[me].to_send.push_back((to, action));
            }
        }
        network
    }

    fn peer(&mut self, me: usize, other: usize) -> &mut SimulatedPeer {
        self.endpoints[me].peers.get_mut(&other).expect("a peer")
    }

    fn carry(&mut self, from: usize, to: usize, frame: Frame) {
        if self.endpoints[to].is_alive {
            self.peer(to, from).arriving.push_back(frame);
        }
    }

    fn returned(&mut self, id: u64, reason: ReturnReason) {
        let fate = &mut self.fates[id as usize];
        fate.returned += 1;
        fate.is_return_unsure = reason == ReturnReason::PeerLost;
    }

    fn new_message(&mut self) -> u64 {
        self.fates.push(Fate::default());
        self.fates.len() as u64 - 1
    }

    /// Sends the next request of an endpoint, if it has a credit.
    fn send_request(&mut self, me: usize) -> bool {
        let Some((to, action)) = self.endpoints[me].to_send.front().copied() else { return false };
        let bytes = self.random.below(110) as u64;
        let decision = self.peer(me, to).messages.request(bytes);
        if decision == SendDecision::Wait {
            return false;
        }
        self.endpoints[me].to_send.pop_front();
        let id = self.new_message();
        match decision {
            SendDecision::Return(reason) => self.returned(id, reason),
            SendDecision::Send => {
                let peer = self.peer(me, to);
                let number = peer.messages.on_request(bytes);
                peer.kept.insert(number, id);
                let handled = peer.messages.handled_to_send();
                self.carry(me, to, Frame::Request { number, handled, id, action });
            }
            SendDecision::Wait => unreachable!("seen above"),
        }
        true
    }

    /// Handles the first frame that has arrived from a peer.
    fn handle(&mut self, me: usize, from: usize) -> bool {
        let Some(frame) = self.peer(me, from).arriving.pop_front() else { return false };
        match frame {
            Frame::Request { number, handled, id, action } => {
                self.settle(me, from, handled);
                let requests_max = self.requests_max;
                let messages = &mut self.peer(me, from).messages;
                assert!(messages.replies() < requests_max, "more replies than credits");
                messages.on_request_arrived(number).unwrap();
                match action {
                    Action::Decline => self.refuse(me, from, number, ReturnReason::Declined),
                    Action::NoHandler => self.refuse(me, from, number, ReturnReason::NoHandler),
                    Action::Nothing => self.fates[id as usize].handled += 1,
                    Action::Reply | Action::ReplyToNoHandler => {
                        self.fates[id as usize].handled += 1;
                        self.reply(me, from, number, action == Action::Reply);
                    }
                }
            }
            Frame::Reply { number, handled, answers, id, is_known } => {
                self.peer(me, from).messages.on_reply_to(answers).unwrap();
                self.settle(me, from, handled);
                self.peer(me, from).messages.on_reply_arrived(number).unwrap();
                match is_known {
                    true => self.fates[id as usize].handled += 1,
                    false => self.refuse(me, from, number, ReturnReason::NoHandler),
                }
            }
            Frame::Acknowledgement { handled } => self.settle(me, from, handled),
            Frame::Returned { number, handled, reason } => {
                self.peer(me, from).messages.on_returned(number).unwrap();
                let id = self.peer(me, from).kept.remove(&number).expect("kept until settled");
                self.returned(id, reason);
                self.settle(me, from, handled);
            }
            Frame::End(end) => {
                for number in self.peer(me, from).messages.on_end(end) {
                    let id = self.peer(me, from).kept.remove(&number).expect("kept until settled");
                    self.returned(id, end.reason());
                }
            }
        }
        self.acknowledge(me, from, false);
        true
    }

    fn settle(&mut self, me: usize, from: usize, handled: u64) {
        let peer = self.peer(me, from);
        let settled = peer.messages.on_handled(handled).unwrap();
        peer.kept.retain(|number, _| !settled.contains(number));
    }

    fn refuse(&mut self, me: usize, from: usize, number: u64, reason: ReturnReason) {
        let handled = self.peer(me, from).messages.handled_to_send();
        self.carry(me, from, Frame::Returned { number, handled, reason });
    }

    fn reply(&mut self, me: usize, to: usize, answers: u64, is_known: bool) {
        let id = self.new_message();
        let peer = self.peer(me, to);
        let number = peer.messages.on_reply(7);
        peer.kept.insert(number, id);
        let handled = peer.messages.handled_to_send();
        self.carry(me, to, Frame::Reply { number, handled, answers, id, is_known });
    }

    fn acknowledge(&mut self, me: usize, to: usize, is_idle: bool) -> bool {
        let peer = self.peer(me, to);
        if !peer.messages.owes_acknowledgement(is_idle) {
            return false;
        }
        let handled = peer.messages.handled_to_send();
        self.carry(me, to, Frame::Acknowledgement { handled });
        true
    }

    /// An endpoint closes, or dies: its peers get what it has sent, then its end.
    fn end(&mut self, me: usize, end: PeerEnd) {
        let others: Vec<usize> = self.endpoints[me].peers.keys().copied().collect();
        self.endpoints[me].is_alive = false;
        for other in others {
            if end == PeerEnd::Closed {
                self.acknowledge(me, other, true);
            } else if self.endpoints[other].is_alive {
                // The last frames of a dead process may not have left it.
                let lost = self.random.below(3);
                let arriving = &mut self.peer(other, me).arriving;
                arriving.truncate(arriving.len().saturating_sub(lost));
            }
            self.carry(me, other, Frame::End(end));
        }
    }

    /// One random step; false if the chosen endpoint had nothing to do.
    fn step(&mut self) -> bool {
        let me = self.random.below(self.endpoints.len());
        if !self.endpoints[me].is_alive {
            return false;
        }
        let others: Vec<usize> = self.endpoints[me].peers.keys().copied().collect();
        let other = others[self.random.below(others.len())];
        match self.random.below(5) {
            0 | 1 => self.send_request(me),
            2 | 3 => self.handle(me, other),
            // An endpoint is idle when nothing has arrived and it cannot send.
            _ => {
                let has_arrived =
                    self.endpoints[me].peers.values().any(|peer| !peer.arriving.is_empty());
                !has_arrived && self.acknowledge(me, other, true)
            }
        }
    }

    fn is_done(&self) -> bool {
        self.endpoints.iter().filter(|endpoint| endpoint.is_alive).all(|endpoint| {
            let mut peers = endpoint.peers.values();
            endpoint.to_send.is_empty()
                && peers.all(|peer| peer.arriving.is_empty() && peer.messages.is_settled())
        })
    }

    /// Runs until every living endpoint has sent and settled everything.
    fn run(&mut self, seed: u64, ends: bool) {
        let mut steps = 0;
        while !self.is_done() {
            steps += 1;
            assert!(steps < STEPS_MAX, "schedule {seed} is stuck");
            if ends && self.random.below(400) == 0 {
                let me = self.random.below(self.endpoints.len());
                let end = [PeerEnd::Closed, PeerEnd::Lost][self.random.below(2)];
                if self.endpoints[me].is_alive {
                    self.end(me, end);
                }
            }
            self.step();
        }
    }
}

#[test]
fn no_schedule_of_messages_and_credits_is_stuck_or_loses_a_message() {
    for seed in 0..SCHEDULES / 2 {
        let mut network = Network::new(seed);
        network.run(seed, false);
        for (id, fate) in network.fates.iter().enumerate() {
            assert_eq!(fate.handled + fate.returned, 1, "message {id} of schedule {seed}");
        }
        for endpoint in &network.endpoints {
            assert!(endpoint.peers.values().all(|peer| peer.kept.is_empty()));
        }
    }
}

#[test]
fn ends_of_endpoints_leave_no_message_of_the_living_undecided() {
    let (mut closed, mut unsure) = (0, 0);
    for seed in 0..SCHEDULES / 2 {
        let mut network = Network::new(seed);
        let sent_by_living = network.run_with_ends(seed);
        for id in sent_by_living {
            let fate = network.fates[id as usize];
            assert!(fate.handled <= 1 && fate.returned <= 1, "message {id} of schedule {seed}");
            // Only a lost peer leaves it open whether a returned message was handled.
            let both = fate.handled + fate.returned == 2;
            assert!(!both || fate.is_return_unsure, "message {id} of schedule {seed}");
            closed += u32::from(fate.returned == 1 && !fate.is_return_unsure);
            unsure += u32::from(both);
        }
    }
    assert!(closed > 0 && unsure > 0, "the schedules have both kinds of returns");
}

impl Network {
    /// Runs with endpoints that end; returns the messages that no living endpoint keeps.
    fn run_with_ends(&mut self, seed: u64) -> Vec<u64> {
        self.run(seed, true);
        let dead = self.endpoints.iter().filter(|endpoint| !endpoint.is_alive);
        let kept_by_dead: Vec<u64> = dead
            .flat_map(|end| end.peers.values().flat_map(|p| p.kept.values().copied()))
            .collect();
        for endpoint in self.endpoints.iter().filter(|endpoint| endpoint.is_alive) {
            assert!(endpoint.peers.values().all(|peer| peer.kept.is_empty()), "schedule {seed}");
        }
        (0..self.fates.len() as u64).filter(|id| !kept_by_dead.contains(id)).collect()
    }
}

/// SplitMix64, for schedules that repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}
