//! Guarantees of the distributed queue under random delays, speeds, drains and deaths.
//!
//! Every share of every batch is begun once and finished, no consumer exceeds its bound, and every
//! schedule ends.
//! A failing seed is printed; `DISTRIBUTED_SEED=n` replays it alone.

use std::collections::{BTreeMap, HashMap, HashSet};

use euphrates_policy::distributed::{
    Consumer, EndpointPosition, MessageQueue, Now, Peer, Piece, Policy, Producer, SHARES,
    ToConsumer, ToProducer, late_binding, push,
};

const SEEDS: u64 = 20_000;

#[test]
fn every_schedule_finishes_every_share_once() {
    if let Ok(seed) = std::env::var("DISTRIBUTED_SEED") {
        return World::new(seed.parse().expect("a number")).run();
    }
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| World::new(seed).run());
        if let Err(panic) = outcome {
            eprintln!("seed {seed} fails; replay it with DISTRIBUTED_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[derive(Debug)]
enum Event {
    Read(usize),
    ToConsumer(Peer, Peer, ToConsumer),
    ToProducer(Peer, Peer, ToProducer),
    Served(usize),
    WakeProducer(usize),
    WakeConsumer(usize),
    Holds(usize, bool),
    Dies(bool, usize),
    DeathIsKnown(bool, usize),
}

struct World {
    random: Random,
    policy: Policy,
    /// The spread of batch sizes, in bytes.
    spread: u64,
    producers: Vec<ProducerNode>,
    consumers: Vec<ConsumerNode>,
    events: BTreeMap<(u64, u64), Event>,
    now_ns: u64,
    pushed: u64,
    /// When the latest message between two endpoints arrives; the next one arrives no earlier.
    last_ns: HashMap<(bool, Peer, Peer), u64>,
    delay_max: u64,
    to_consumers: MessageQueue<ToConsumer>,
    to_producers: MessageQueue<ToProducer>,
    begun: HashMap<(Peer, u64), Vec<(Piece, Peer)>>,
    finished: HashMap<(Peer, u64), u32>,
}

struct ProducerNode {
    end: Producer,
    sizes: Vec<u64>,
    read: usize,
    is_reading: bool,
    read_ns: u64,
    wake_ns: u64,
    alive: bool,
    known_dead: bool,
}

struct ConsumerNode {
    end: Consumer,
    byte_ns: u64,
    serving: Option<(Peer, Piece)>,
    is_held: bool,
    wake_ns: u64,
    alive: bool,
    known_dead: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let policy = random_policy(&mut random);
        let (m, n) = (1 + random.below(6) as u32, 1 + random.below(6) as u32);
        let place = |me| EndpointPosition { me, producers: m, consumers: n };
        let bytes_max = 1 + random.below(2000);
        let knows = random.below(4) > 0;
        let spread = [1, 50, 999][random.below(3) as usize];
        let speed_max = [10, 1000, 100_000][random.below(3) as usize];
        let producers = (0..m).map(|me| {
            let batches = random.below(25);
            let sizes: Vec<u64> = (0..batches).map(|_| 1000 - random.below(spread)).collect();
            let total = knows.then(|| sizes.iter().sum());
            ProducerNode {
                end: Producer::new(policy, place(me), bytes_max, total),
                sizes,
                read: 0,
                is_reading: false,
                read_ns: 1 + random.below(speed_max * 500),
                wake_ns: u64::MAX,
                alive: true,
                known_dead: false,
            }
        });
        let mut producers: Vec<_> = producers.collect();
        let consumers = (0..n).map(|me| ConsumerNode {
            end: Consumer::new(policy, place(me)),
            byte_ns: 1 + random.below(speed_max),
            serving: None,
            is_held: false,
            wake_ns: u64::MAX,
            alive: true,
            known_dead: false,
        });
        let mut consumers: Vec<_> = consumers.collect();
        // Endpoints on one machine are near each other.
        let machines = 1 + random.below(4) as u32;
        if machines > 1 {
            let near = |me: usize, ends: u32| {
                (0..ends).filter(|end| end % machines == me as u32 % machines).collect()
            };
            let ends = producers.iter_mut().enumerate();
            ends.for_each(|(me, node)| node.end.set_near(near(me, n)));
            let ends = consumers.iter_mut().enumerate();
            ends.for_each(|(me, node)| node.end.set_near(near(me, m)));
        }
        World {
            consumers,
            producers,
            policy,
            spread,
            delay_max: 1 + random.below(speed_max * 1000),
            random,
            events: BTreeMap::new(),
            now_ns: 0,
            pushed: 0,
            last_ns: HashMap::new(),
            to_consumers: MessageQueue::default(),
            to_producers: MessageQueue::default(),
            begun: HashMap::new(),
            finished: HashMap::new(),
        }
    }

    fn run(mut self) {
        self.plan_deaths();
        for consumer in 0..self.consumers.len() {
            let now = self.now();
            self.consumers[consumer].end.on_start(now, &mut self.to_producers);
            self.after_consumer(consumer);
        }
        for producer in 0..self.producers.len() {
            if self.producers[producer].sizes.is_empty() {
                let now = self.now();
                self.producers[producer].end.on_end(now, &mut self.to_consumers);
            }
            self.after_producer(producer);
        }
        let drained = |node: &ProducerNode| !node.alive || node.end.is_drained();
        while !self.producers.iter().all(drained) {
            let ((at_ns, _), event) = self.events.pop_first().expect("it goes on to its end");
            self.now_ns = at_ns;
            self.on_event(event);
            assert!(self.pushed < 500_000, "it does not end");
        }
        for (me, node) in self.producers.iter().enumerate().filter(|(_, node)| node.alive) {
            for batch in 0..node.sizes.len() {
                let shares = self.finished.get(&(me as Peer, batch as u64));
                assert_eq!(shares, Some(&SHARES), "batch {batch} of {me}");
            }
        }
    }

    /// Random deaths and drains, except for one endpoint on each side.
    fn plan_deaths(&mut self) {
        let span = self.delay_max * 20;
        for (is_producer, count) in [(true, self.producers.len()), (false, self.consumers.len())] {
            for node in 1..count {
                if self.random.below(5) == 0 {
                    let at_ns = self.random.below(span);
                    self.push(at_ns, Event::Dies(is_producer, node));
                }
            }
        }
        for node in 1..self.consumers.len() {
            let (from_ns, until_ns) = (self.random.below(2 * span), self.random.below(2 * span));
            self.push(from_ns, Event::Holds(node, true));
            self.push(until_ns, Event::Holds(node, false));
        }
    }

    fn now(&mut self) -> Now {
        Now { ns: self.now_ns, random: self.random.next() }
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.events.insert((at_ns, self.pushed), event);
        self.pushed += 1;
    }

    fn on_event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Read(at) if self.producers[at].alive => {
                let node = &mut self.producers[at];
                node.is_reading = false;
                let bytes = node.sizes[node.read];
                node.end.on_ready(node.read as u64, bytes, now, &mut self.to_consumers);
                node.read += 1;
                if node.read == node.sizes.len() {
                    node.end.on_end(now, &mut self.to_consumers);
                }
                self.after_producer(at);
            }
            Event::ToConsumer(from, to, message) => {
                let to = to as usize;
                if self.consumers[to].alive && !self.producers[from as usize].known_dead {
                    let end = &mut self.consumers[to].end;
                    end.on_message(from, message, now, &mut self.to_producers);
                    self.after_consumer(to);
                }
            }
            Event::ToProducer(from, to, message) => {
                let at = to as usize;
                if self.producers[at].alive && !self.consumers[from as usize].known_dead {
                    if let ToProducer::Finished(piece) = message {
                        let shares = self.finished.entry((to, piece.batch)).or_default();
                        *shares += piece.to - piece.from;
                        assert!(*shares <= SHARES, "{piece:?} of {to} finished twice");
                    }
                    let end = &mut self.producers[at].end;
                    end.on_message(from, message, now, &mut self.to_consumers);
                    self.after_producer(at);
                }
            }
            Event::Served(at) if self.consumers[at].alive => {
                let node = &mut self.consumers[at];
                node.serving = None;
                node.end.on_finished(now, &mut self.to_producers);
                if self.random.below(10) == 0 {
                    node.byte_ns = 1 + self.random.below(node.byte_ns * 3);
                }
                self.after_consumer(at);
            }
            Event::WakeProducer(at)
                if self.producers[at].alive && self.producers[at].wake_ns == now.ns =>
            {
                self.producers[at].wake_ns = u64::MAX;
                self.producers[at].end.on_wake(now, &mut self.to_consumers);
                self.after_producer(at);
            }
            Event::WakeConsumer(at)
                if self.consumers[at].alive && self.consumers[at].wake_ns == now.ns =>
            {
                self.consumers[at].wake_ns = u64::MAX;
                self.consumers[at].end.on_wake(now, &mut self.to_producers);
                self.after_consumer(at);
            }
            Event::Holds(at, is_held) => {
                self.consumers[at].is_held =
                    is_held && matches!(self.policy, Policy::LateBinding(_));
                self.consumers[at].end.hold(is_held, now, &mut self.to_producers);
                self.after_consumer(at);
            }
            Event::Dies(is_producer, node) => {
                if is_producer {
                    self.producers[node].alive = false;
                } else {
                    self.consumers[node].alive = false;
                }
                let known_ns = self.now_ns + self.random.below(self.delay_max * 3);
                self.push(known_ns, Event::DeathIsKnown(is_producer, node));
            }
            Event::DeathIsKnown(true, node) => {
                self.producers[node].known_dead = true;
                for at in 0..self.consumers.len() {
                    let now = self.now();
                    self.consumers[at].end.on_death(node as Peer, now, &mut self.to_producers);
                    self.after_consumer(at);
                }
            }
            Event::DeathIsKnown(false, node) => {
                self.consumers[node].known_dead = true;
                for at in 0..self.producers.len() {
                    let now = self.now();
                    self.producers[at].end.on_death(node as Peer, now, &mut self.to_consumers);
                    self.after_producer(at);
                }
            }
            Event::Read(_) | Event::Served(_) | Event::WakeProducer(_) | Event::WakeConsumer(_) => {
            }
        }
    }

    fn after_producer(&mut self, at: usize) {
        let node = &mut self.producers[at];
        if node.alive && !node.is_reading && node.read < node.sizes.len() {
            let bytes = node.sizes[node.read];
            if node.end.may_accept(bytes) {
                node.is_reading = true;
                let at_ns = self.now_ns + node.read_ns;
                self.push(at_ns, Event::Read(at));
            }
        }
        let node = &mut self.producers[at];
        if let Some(at_ns) = node.end.wake_at_ns().filter(|&at_ns| at_ns < node.wake_ns) {
            node.wake_ns = at_ns.max(self.now_ns);
            self.push(at_ns.max(self.now_ns), Event::WakeProducer(at));
        }
        let messages: Vec<_> = self.to_consumers.drain().collect();
        for (to, message) in messages {
            let at_ns = self.arrival((true, at as Peer, to));
            self.push(at_ns, Event::ToConsumer(at as Peer, to, message));
        }
    }

    fn after_consumer(&mut self, at: usize) {
        let now = self.now();
        let node = &mut self.consumers[at];
        if node.alive
            && node.serving.is_none()
            && let Some((from, piece)) = node.end.begin(now, &mut self.to_producers)
        {
            node.serving = Some((from, piece));
            let lasts = piece.bytes * node.byte_ns;
            self.push(now.ns + lasts, Event::Served(at));
            self.on_begin(from, piece, at as Peer);
        }
        self.check_held(at);
        let node = &mut self.consumers[at];
        if let Some(at_ns) = node.end.wake_at_ns().filter(|&at_ns| at_ns < node.wake_ns) {
            node.wake_ns = at_ns.max(self.now_ns);
            self.push(at_ns.max(self.now_ns), Event::WakeConsumer(at));
        }
        let messages: Vec<_> = self.to_producers.drain().collect();
        let is_held = self.consumers[at].is_held;
        for (to, message) in messages {
            assert!(!is_held || !matches!(message, ToProducer::Request { .. }), "{at} is held");
            let at_ns = self.arrival((false, at as Peer, to));
            self.push(at_ns, Event::ToProducer(at as Peer, to, message));
        }
    }

    /// Asserts that no share is begun again while its first consumer lives.
    fn on_begin(&mut self, from: Peer, piece: Piece, by: Peer) {
        let before = self.begun.entry((from, piece.batch)).or_default();
        for &(other, id) in before.iter() {
            let overlaps = piece.from < other.to && other.from < piece.to;
            let is_again = overlaps && self.consumers[id as usize].alive;
            assert!(!is_again, "{piece:?} of {from}, begun by {id}, is begun by {by}");
        }
        before.push((piece, by));
    }

    fn check_held(&self, at: usize) {
        let held = self.consumers[at].end.held();
        let pieces_max = match self.policy {
            Policy::LateBinding(limits) => limits.slots_max.max(3),
            Policy::Sparrow { slots_max, .. } => slots_max,
            Policy::Push(
                push::PushChoice::Credit { credit_max }
                | push::PushChoice::Static { credit_max }
                | push::PushChoice::RoundRobin { credit_max }
                | push::PushChoice::ShortestOf { credit_max, .. },
            ) => credit_max * self.producers.len() as u32,
        };
        assert!(held.pieces <= pieces_max, "{held:?} at {at}, of {pieces_max} pieces");
        if let Policy::LateBinding(limits) = self.policy {
            // Three pieces are always allowed, and a requested one may be larger than all before.
            let bytes_max = limits.held_bytes_max + u64::from(pieces_max) * self.spread;
            assert!(held.bytes <= bytes_max || held.pieces <= 3, "{held:?} at {at}");
        }
    }

    fn arrival(&mut self, pair: (bool, Peer, Peer)) -> u64 {
        let at_ns = self.now_ns + self.random.below(self.delay_max);
        let last_ns = self.last_ns.entry(pair).or_default();
        *last_ns = at_ns.max(*last_ns);
        *last_ns
    }
}

fn random_policy(random: &mut Random) -> Policy {
    let credit_max = 1 + random.below(4) as u32;
    match random.below(10) {
        0 => Policy::Push(push::PushChoice::Credit { credit_max }),
        1 => Policy::Push(push::PushChoice::Static { credit_max }),
        2 => Policy::Push(push::PushChoice::RoundRobin { credit_max }),
        3 => {
            Policy::Push(push::PushChoice::ShortestOf { k: 1 + random.below(4) as u32, credit_max })
        }
        4 => Policy::Sparrow { reservations: credit_max, slots_max: 1 + random.below(4) as u32 },
        _ => Policy::LateBinding(late_binding::Limits {
            slots_max: random.below(9) as u32,
            held_bytes_max: random.below(4000),
            pieces_max: 1 + random.below(20) as u32,
        }),
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

#[test]
fn homes_cover_all_consumers_evenly() {
    for (m, n) in [(4, 4), (3, 7), (7, 3), (50, 1000), (1000, 50), (12, 18)] {
        let mut homes: HashMap<Peer, u32> = HashMap::new();
        let mut pairs = HashSet::new();
        let turns = 2 * n;
        for me in 0..m {
            let place = EndpointPosition { me, producers: m, consumers: n };
            let policy = Policy::LateBinding(late_binding::Limits::default());
            let mut producer = Producer::new(policy, place, u64::MAX, None);
            let mut out = MessageQueue::default();
            for batch in 0..u64::from(turns) {
                producer.on_ready(batch, 1, Now { ns: 0, random: batch }, &mut out);
                let (home, _) = out.drain().next().expect("a reservation at its home");
                *homes.entry(home).or_default() += 1;
                pairs.insert((me, home));
            }
        }
        assert!((0..n).all(|home| homes[&home] == 2 * m), "{m} x {n}: {homes:?}");
        assert_eq!(pairs.len() as u32, m * n, "{m} x {n}: everybody meets everybody");
    }
}
