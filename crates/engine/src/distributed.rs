//! The distributed queue between instances of several workers: the acts to the decisions of
//! `policy::distributed` (River 2.3.2).
//!
//! Every instance has an endpoint that decides, and a box for the letters other endpoints send it.
//! Nobody waits for an answer: whoever posts a letter hands it over on the spot if the other
//! endpoint is free; if not, the thread that is using that endpoint reads it before it leaves. So
//! letters between two endpoints arrive in the order in which they were sent, and no thread ever
//! holds two endpoints. Between machines the same letters will travel on the wire.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use euphrates_flow::{Cancel, Result};
use euphrates_policy::distributed::{Now, Peer, Place, Policy};

use clock::Clock;
pub use ends::{DistributedConsumer, DistributedProducer};
use post::{Address, Station};
use receiving::Receiving;
use sending::Sending;

mod clock;
mod ends;
mod post;
mod receiving;
mod sending;

/// A queue whose producers and consumers may be anywhere.
pub struct DistributedQueue {
    producers: Vec<Station<Sending>>,
    consumers: Vec<Station<Receiving>>,
    shared: Shared,
    cancel: Arc<Cancel>,
    bytes_max: usize,
    clock: Clock,
}

/// SplitMix64's increment: the policies mix it further.
const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What all endpoints of one process know.
struct Shared {
    began: Instant,
    calls: AtomicU64,
    /// Producers that may put more.
    producing: AtomicUsize,
    /// Consumers that may take more.
    consuming: AtomicUsize,
    /// Shares of batches that nobody has begun, and their bytes.
    unbegun: AtomicU64,
    unbegun_bytes: AtomicU64,
}

impl Shared {
    /// The time, and a number nobody can foresee but a replay.
    fn now(&self) -> Now {
        let ns = self.began.elapsed().as_nanos() as u64;
        let random = self.calls.fetch_add(RANDOM_STEP, SeqCst);
        Now { ns, random: random ^ (random >> 31) }
    }

    /// Whether nothing will ever be begun again.
    fn is_over(&self) -> bool {
        self.producing.load(SeqCst) == 0 && self.unbegun.load(SeqCst) == 0
    }
}

impl DistributedQueue {
    /// A queue for this many producers and consumers, decided by this policy. All ends must be
    /// made, and dropped when done: the queue ends when its producers are gone and all has been
    /// begun, and is closed when its consumers are gone.
    pub fn new(
        policy: Policy,
        bytes_max: usize,
        producers: usize,
        consumers: usize,
        cancel: Arc<Cancel>,
    ) -> Arc<DistributedQueue> {
        let place = |me: usize| Place {
            me: me as Peer,
            producers: producers as u32,
            consumers: consumers as u32,
        };
        // The bound is the queue's: what waits at consumers is bounded by the policy besides.
        let share = (bytes_max / producers.max(1)) as u64;
        let sending = |me| Station::new(Sending::new(policy, place(me), share));
        let receiving = |me| Station::new(Receiving::new(policy, place(me)));
        let began = Instant::now();
        let shared = Shared {
            began,
            calls: AtomicU64::new(0),
            producing: AtomicUsize::new(producers),
            consuming: AtomicUsize::new(consumers),
            unbegun: AtomicU64::new(0),
            unbegun_bytes: AtomicU64::new(0),
        };
        Arc::new_cyclic(|queue: &Weak<DistributedQueue>| DistributedQueue {
            producers: (0..producers).map(sending).collect(),
            consumers: (0..consumers).map(receiving).collect(),
            shared,
            cancel,
            bytes_max,
            clock: Clock::new(queue.clone(), began),
        })
    }

    /// The end of one producer; to be made once for each.
    pub fn producer(self: &Arc<Self>, me: usize) -> DistributedProducer {
        DistributedProducer::new(self.clone(), me as Peer)
    }

    /// The end of one consumer; to be made once for each.
    pub fn consumer(self: &Arc<Self>, me: usize) -> DistributedConsumer {
        DistributedConsumer::new(self.clone(), me as Peer)
    }

    /// Bytes waiting now, and the bound.
    pub fn fill(&self) -> (usize, usize) {
        (self.shared.unbegun_bytes.load(SeqCst) as usize, self.bytes_max)
    }

    /// Acts as a producer, then sees its letters delivered.
    fn send<R>(&self, me: Peer, act: impl FnOnce(&mut Sending, Now) -> R) -> R {
        let mut due = Vec::new();
        let done = self.producers[me as usize].act(self, me, &mut due, act);
        self.deliver(due);
        done
    }

    /// Acts as a consumer, then sees its letters delivered.
    fn receive<R>(&self, me: Peer, act: impl FnOnce(&mut Receiving, Now) -> R) -> R {
        let mut due = Vec::new();
        let done = self.consumers[me as usize].act(self, me, &mut due, act);
        self.deliver(due);
        done
    }

    /// Has whoever has letters read them, and those their letters go to.
    fn deliver(&self, mut due: Vec<Address>) {
        while let Some(address) = due.pop() {
            match address {
                Address::Producer(peer) => {
                    self.producers[peer as usize].settle(self, peer, &mut due);
                }
                Address::Consumer(peer) => {
                    self.consumers[peer as usize].settle(self, peer, &mut due);
                }
            }
        }
    }

    /// When nothing will come any more, whoever waits is told.
    fn tell_if_over(&self) {
        if self.shared.is_over() {
            self.consumers.iter().for_each(Station::wake);
        }
    }

    /// An endpoint's alarm has gone off.
    fn ring(&self, address: Address) {
        match address {
            Address::Producer(me) => {
                self.producers[me as usize].on_alarm();
                self.send(me, |end, now| end.on_wake(now));
            }
            Address::Consumer(me) => {
                self.consumers[me as usize].on_alarm();
                self.receive(me, |end, now| end.on_wake(now));
            }
        }
    }

    /// Waits until woken, or the flow is cancelled. The caller has registered itself.
    fn park(&self) -> Result<()> {
        self.cancel.check()?;
        thread::park();
        self.cancel.check()
    }
}

#[cfg(test)]
mod tests;
