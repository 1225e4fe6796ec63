//! The simulation loop of a distributed queue: delivers messages, reads batches, consumes pieces.

use euphrates_policy::distributed::{
    Consumer, EndpointPosition, MessageQueue, Now, Peer, Piece, Producer, ToConsumer, ToProducer,
};

use super::scenario::{Draws, MS, QueueScenario, QueueSide};
use super::tally::Tally;
use crate::events::EventQueue;
use crate::fluid;
use crate::random::Random;
use crate::report::QueueReport;
use crate::speed::{SECOND_NS, SpeedCurve};

/// The size of a message without data, on a link of limited speed.
const MESSAGE_BYTES: u64 = 64;
/// Events per batch, at most. A run needs far fewer; one with more is a livelock.
const EVENTS_PER_BATCH_MAX: u64 = 10_000;

enum QueueEvent {
    Read(u32),
    ToConsumer(Peer, Peer, ToConsumer),
    ToProducer(Peer, Peer, ToProducer),
    Served(u32),
    WakeProducer(u32),
    WakeConsumer(u32),
    Dies(QueueSide, u32),
    DeathIsKnown(QueueSide, u32),
}

struct World<'a> {
    scenario: &'a QueueScenario,
    random: Random,
    events: EventQueue<QueueEvent>,
    producers: Vec<ProducerNode>,
    consumers: Vec<ConsumerNode>,
    to_consumers: MessageQueue<ToConsumer>,
    to_producers: MessageQueue<ToProducer>,
    tally: Tally,
    finished_ns: u64,
    undrained: u32,
}

struct ProducerNode {
    end: Producer,
    disk: SpeedCurve,
    latency_ns: u64,
    link: LinkState,
    /// Batches read so far.
    read: u64,
    /// The size of the batch that is being read.
    reading: Option<u64>,
    sizes: Random,
    wake_ns: u64,
    alive: bool,
    known_dead: bool,
    drained: bool,
}

struct ConsumerNode {
    end: Consumer,
    cpu: SpeedCurve,
    latency_ns: u64,
    link: LinkState,
    began_ns: u64,
    serving: Option<(Peer, Piece)>,
    wake_ns: u64,
    alive: bool,
    known_dead: bool,
}

/// When a link is free again in each direction.
#[derive(Clone, Copy, Default)]
struct LinkState {
    out_ns: u64,
    in_ns: u64,
}

/// Runs a queue that has been checked.
pub fn run(scenario: &QueueScenario, seed: u64) -> QueueReport {
    let mut world = World::new(scenario, seed);
    world.start();
    let events_max = scenario.batches * u64::from(scenario.producers) * EVENTS_PER_BATCH_MAX
        + 1000 * u64::from(scenario.producers + scenario.consumers);
    while world.undrained > 0 {
        let Some(event) = world.events.pop() else { break };
        world.on_event(event);
        assert!(world.events.count() < events_max, "it does not end");
    }
    world.report(seed)
}

impl<'a> World<'a> {
    fn new(scenario: &'a QueueScenario, seed: u64) -> World<'a> {
        let (m, n) = (scenario.producers, scenario.consumers);
        let policy = scenario.policy.policy();
        let position = |me| EndpointPosition { me, producers: m, consumers: n };
        let Draws { disks, sizes, cpus, random } = scenario.draws(seed);
        let disks = disks.into_iter().zip(sizes);
        let latencies = scenario.latencies(QueueSide::Producers);
        let producers =
            (0..m).zip(disks).zip(latencies).map(|((me, (disk, sizes)), latency_ns)| {
                let total = scenario.knows_left.then(|| total_bytes(scenario, sizes.clone()));
                let bytes_max = u64::from(scenario.ready_max) * scenario.batch_bytes;
                ProducerNode {
                    end: Producer::new(policy, position(me), bytes_max, total),
                    disk,
                    latency_ns,
                    link: LinkState::default(),
                    read: 0,
                    reading: None,
                    sizes,
                    wake_ns: u64::MAX,
                    alive: true,
                    known_dead: false,
                    drained: false,
                }
            });
        let producers: Vec<_> = producers.collect();
        let latencies = scenario.latencies(QueueSide::Consumers);
        let consumers =
            (0..n).zip(cpus).zip(latencies).map(|((me, cpu), latency_ns)| ConsumerNode {
                end: Consumer::new(policy, position(me)),
                cpu,
                latency_ns,
                link: LinkState::default(),
                began_ns: 0,
                serving: None,
                wake_ns: u64::MAX,
                alive: true,
                known_dead: false,
            });
        World {
            scenario,
            consumers: consumers.collect(),
            producers,
            random,
            events: EventQueue::default(),
            to_consumers: MessageQueue::default(),
            to_producers: MessageQueue::default(),
            tally: Tally::new(m, n, scenario.batches),
            finished_ns: 0,
            undrained: m,
        }
    }

    fn start(&mut self) {
        for death in &self.scenario.deaths {
            let at_ns = (death.at_ms * MS as f64) as u64;
            self.events.push(at_ns, QueueEvent::Dies(death.side, death.node));
        }
        for consumer in 0..self.scenario.consumers {
            let now = self.now();
            self.consumers[consumer as usize].end.on_start(now, &mut self.to_producers);
            self.after_consumer(consumer);
        }
        for producer in 0..self.scenario.producers {
            self.after_producer(producer);
        }
    }

    fn now(&mut self) -> Now {
        Now { ns: self.events.now_ns(), random: self.random.next_u64() }
    }

    fn on_event(&mut self, event: QueueEvent) {
        let now = self.now();
        match event {
            QueueEvent::Read(producer) => self.on_read(producer, now),
            QueueEvent::Served(consumer) => self.on_served(consumer, now),
            QueueEvent::ToConsumer(from, to, message) => {
                let node = &mut self.consumers[to as usize];
                if node.alive && !self.producers[from as usize].known_dead {
                    node.end.on_message(from, message, now, &mut self.to_producers);
                    self.tally.on_held(node.end.held());
                    self.after_consumer(to);
                }
            }
            QueueEvent::ToProducer(from, to, message) => {
                let node = &mut self.producers[to as usize];
                if node.alive && !self.consumers[from as usize].known_dead {
                    if let ToProducer::Finished(piece) = message {
                        self.tally.on_finished(to, piece);
                    }
                    node.end.on_message(from, message, now, &mut self.to_consumers);
                    self.after_producer(to);
                }
            }
            QueueEvent::WakeProducer(producer) => {
                let node = &mut self.producers[producer as usize];
                // A wake-up that has been replaced by another is ignored.
                if node.alive && node.wake_ns == now.ns {
                    node.wake_ns = u64::MAX;
                    node.end.on_wake(now, &mut self.to_consumers);
                    self.after_producer(producer);
                }
            }
            QueueEvent::WakeConsumer(consumer) => {
                let node = &mut self.consumers[consumer as usize];
                // A wake-up that has been replaced by another is ignored.
                if node.alive && node.wake_ns == now.ns {
                    node.wake_ns = u64::MAX;
                    node.end.on_wake(now, &mut self.to_producers);
                    self.after_consumer(consumer);
                }
            }
            QueueEvent::Dies(side, node) => self.on_dies(side, node),
            QueueEvent::DeathIsKnown(side, node) => self.on_death(side, node),
        }
    }

    fn on_read(&mut self, producer: u32, now: Now) {
        let node = &mut self.producers[producer as usize];
        if !node.alive {
            return;
        }
        let bytes = node.reading.take().expect("it was reading");
        node.end.on_ready(node.read, bytes, now, &mut self.to_consumers);
        node.read += 1;
        if node.read == self.scenario.batches {
            node.end.on_end(now, &mut self.to_consumers);
        }
        self.after_producer(producer);
    }

    fn on_served(&mut self, consumer: u32, now: Now) {
        let node = &mut self.consumers[consumer as usize];
        if node.alive {
            node.serving = None;
            self.finished_ns = now.ns;
            self.tally.busy[consumer as usize] += now.ns - node.began_ns;
            node.end.on_finished(now, &mut self.to_producers);
            self.after_consumer(consumer);
        }
    }

    /// Sends a producer's messages and starts its next read, after every call of its endpoint.
    fn after_producer(&mut self, producer: u32) {
        let now_ns = self.events.now_ns();
        let node = &mut self.producers[producer as usize];
        let next = node.sizes.clone();
        let more = node.reading.is_none() && node.read < self.scenario.batches;
        if more {
            let bytes = next_bytes(self.scenario, &mut node.sizes);
            if node.end.may_accept(bytes) {
                node.reading = Some(bytes);
                if let Some(done_ns) = node.disk.done_at(now_ns, bytes) {
                    self.events.push(done_ns, QueueEvent::Read(producer));
                }
            } else {
                node.sizes = next;
            }
        }
        if !node.drained && node.end.is_drained() {
            node.drained = true;
            self.undrained -= 1;
        }
        if let Some(at_ns) = node.end.wake_at_ns().filter(|&at_ns| at_ns < node.wake_ns) {
            node.wake_ns = at_ns.max(now_ns);
            self.events.push(node.wake_ns, QueueEvent::WakeProducer(producer));
        }
        for (to, message) in self.to_consumers.drain() {
            self.tally.on_to_consumer(&message);
            let bytes = match message {
                ToConsumer::Give { piece, .. } => piece.bytes,
                _ => MESSAGE_BYTES,
            };
            let other = &mut self.consumers[to as usize];
            let latency_ns = node.latency_ns + other.latency_ns;
            let speed = self.scenario.link_bytes_per_second;
            let at_ns = carry(now_ns, bytes, latency_ns, speed, &mut node.link, &mut other.link);
            self.events.push(at_ns, QueueEvent::ToConsumer(producer, to, message));
        }
    }

    /// Sends a consumer's messages and starts its next piece, after every call of its endpoint.
    fn after_consumer(&mut self, consumer: u32) {
        let now = self.now();
        let node = &mut self.consumers[consumer as usize];
        if node.serving.is_none() {
            node.serving = node.end.begin(now, &mut self.to_producers);
            if let Some((_, piece)) = node.serving {
                node.began_ns = now.ns;
                self.tally.last_begun[consumer as usize] = now.ns;
                let work = work_of(self.scenario, piece.bytes, &mut self.random);
                if let Some(done_ns) = node.cpu.done_at_exact(now.ns, work) {
                    self.events.push(done_ns, QueueEvent::Served(consumer));
                }
            }
        }
        if let Some(at_ns) = node.end.wake_at_ns().filter(|&at_ns| at_ns < node.wake_ns) {
            node.wake_ns = at_ns.max(now.ns);
            self.events.push(node.wake_ns, QueueEvent::WakeConsumer(consumer));
        }
        for (to, message) in self.to_producers.drain() {
            self.tally.on_to_producer(&message);
            let other = &mut self.producers[to as usize];
            let latency_ns = node.latency_ns + other.latency_ns;
            let speed = self.scenario.link_bytes_per_second;
            let (mine, its) = (&mut node.link, &mut other.link);
            let at_ns = carry(now.ns, MESSAGE_BYTES, latency_ns, speed, mine, its);
            self.events.push(at_ns, QueueEvent::ToProducer(consumer, to, message));
        }
    }

    fn on_dies(&mut self, side: QueueSide, node: u32) {
        match side {
            QueueSide::Producers => self.producers[node as usize].alive = false,
            QueueSide::Consumers => self.consumers[node as usize].alive = false,
        }
        let delay_ns = (self.scenario.latency_us * 10_000.0) as u64;
        self.events.push(self.events.now_ns() + delay_ns, QueueEvent::DeathIsKnown(side, node));
    }

    fn on_death(&mut self, side: QueueSide, dead: u32) {
        match side {
            QueueSide::Producers => {
                let node = &mut self.producers[dead as usize];
                node.known_dead = true;
                if !std::mem::replace(&mut node.drained, true) {
                    self.undrained -= 1;
                }
                for consumer in 0..self.scenario.consumers {
                    let now = self.now();
                    let node = &mut self.consumers[consumer as usize];
                    if node.alive {
                        node.end.on_death(dead, now, &mut self.to_producers);
                        self.after_consumer(consumer);
                    }
                }
            }
            QueueSide::Consumers => {
                self.consumers[dead as usize].known_dead = true;
                for producer in 0..self.scenario.producers {
                    let now = self.now();
                    let node = &mut self.producers[producer as usize];
                    if node.alive {
                        node.end.on_death(dead, now, &mut self.to_consumers);
                        self.after_producer(producer);
                    }
                }
            }
        }
    }

    fn report(&self, seed: u64) -> QueueReport {
        let scenario = self.scenario;
        let living = |producer: &u32| self.producers[*producer as usize].alive;
        for producer in (0..scenario.producers).filter(living) {
            assert!(self.tally.is_whole(producer), "producer {producer}: not all is worked off");
        }
        let batches = scenario.batches * u64::from(scenario.producers);
        let bound_ns = self.bound_ns();
        let ms = |ns: u64| ns as f64 / MS as f64;
        let busy: u64 = self.tally.busy.iter().sum();
        let time = self.finished_ns.max(1) as f64 * f64::from(scenario.consumers);
        let (messages, control) = self.tally.messages();
        let first_idle_ns = self.tally.last_begun.iter().copied().min().unwrap_or(0);
        QueueReport {
            seed,
            completed_ms: ms(self.finished_ns),
            bound_ms: ms(bound_ns),
            fraction: bound_ns as f64 / self.finished_ns.max(1) as f64,
            idle: 1.0 - busy as f64 / time,
            tail_ms: ms(self.finished_ns.saturating_sub(first_idle_ns)),
            slowest_batch_ms: self.slowest_batch_ms(),
            batches,
            pieces: self.tally.pieces,
            messages_per_batch: control as f64 / batches.max(1) as f64,
            messages,
            held_pieces_max: self.tally.held_pieces_max,
            held_bytes_max: self.tally.held_bytes_max,
            events: self.events.count(),
        }
    }

    /// The fluid bound for the nodes that live to the end.
    fn bound_ns(&self) -> u64 {
        let read = |node: &ProducerNode| node.end.ledger().total_bytes();
        let producers: Vec<_> = self.producers.iter().filter(|node| node.alive).collect();
        let producers: Vec<_> = producers.iter().map(|node| (&node.disk, read(node))).collect();
        let consumers = self.consumers.iter().filter(|node| node.alive);
        let consumers: Vec<_> = consumers.map(|node| &node.cpu).collect();
        fluid::flow_done_at(&producers, &consumers).unwrap_or(u64::MAX)
    }

    fn slowest_batch_ms(&self) -> f64 {
        let speeds = self.producers.iter().map(|node| &node.disk);
        let speeds = speeds.chain(self.consumers.iter().map(|node| &node.cpu));
        let slowest = speeds.map(SpeedCurve::slowest).filter(|&speed| speed > 0).min().unwrap_or(0);
        self.scenario.batch_bytes as f64 * 1000.0 / slowest.max(1) as f64
    }
}

/// The arrival time of a message. Unlimited links only delay; limited ones carry one message after
/// the other, independently in both directions.
fn carry(
    now_ns: u64,
    bytes: u64,
    latency_ns: u64,
    bytes_per_second: Option<u64>,
    from: &mut LinkState,
    to: &mut LinkState,
) -> u64 {
    let Some(speed) = bytes_per_second else { return now_ns + latency_ns };
    let takes_ns = (u128::from(bytes) * u128::from(SECOND_NS)).div_ceil(u128::from(speed)) as u64;
    from.out_ns = from.out_ns.max(now_ns) + takes_ns;
    to.in_ns = (from.out_ns + latency_ns).max(to.in_ns + takes_ns);
    to.in_ns
}

/// Draws the size of a producer's next batch.
fn next_bytes(scenario: &QueueScenario, sizes: &mut Random) -> u64 {
    let spread = (scenario.batch_bytes as f64 * scenario.batch_spread) as u64;
    scenario.batch_bytes - if spread > 0 { sizes.below(spread + 1) } else { 0 }
}

fn total_bytes(scenario: &QueueScenario, mut sizes: Random) -> u64 {
    (0..scenario.batches).map(|_| next_bytes(scenario, &mut sizes)).sum()
}

/// The work of a piece, in bytes times 10^9.
fn work_of(scenario: &QueueScenario, bytes: u64, random: &mut Random) -> u128 {
    let work = u128::from(bytes) * u128::from(SECOND_NS);
    if scenario.work_spread == 0.0 {
        return work;
    }
    let spread = (scenario.work_spread * 1e6) as u64;
    work * u128::from(1_000_000 - spread + random.below(2 * spread + 1)) / 1_000_000
}
