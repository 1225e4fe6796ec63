//! The caches of the workers that read the same files: each split has a home, the worker that reads
//! it first and caches its bytes; whoever else reads it asks the home.
//!
//! Homes have shares of the splits as large as their shares of the memory, so that all of it is
//! used (`euphrates_policy::caching::rendezvous`). A free worker takes splits of others, and gets
//! their bytes from the home's memory instead of the origin.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use euphrates_device::blob::Owned;
use euphrates_device::read_cache::{HomeAnswer, ObjectRange, PeerCaches, RemoteReads};
use euphrates_flow::module::{ExchangeServer, not_prepared};
use euphrates_flow::{CANCEL_POLL_INTERVAL, Cancel, Error, Exchange, Result, Setup};
use euphrates_formats::Dataset;
use euphrates_policy::caching::peer_timeouts::{ANSWER_TIMEOUT, PeerTimeouts};
use euphrates_policy::caching::rendezvous::{homes, identity};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The cache of this process, for the other processes with instances of a scan.
pub(crate) struct SharedCache {
    reads: Arc<RemoteReads>,
    bytes_max: u64,
    schema: SchemaRef,
    /// `None` inside if all instances are in this process.
    peers: OnceLock<Option<Arc<CachePeers>>>,
}

impl SharedCache {
    /// The cache through which `reads` reads, of at most these bytes, for a scan of this schema.
    pub(crate) fn new(reads: Arc<RemoteReads>, bytes_max: u64, schema: SchemaRef) -> SharedCache {
        SharedCache { reads, bytes_max, schema, peers: OnceLock::new() }
    }

    /// Joins the caches of the other processes.
    pub(crate) fn join(&self, setup: &Setup) {
        let peers = self.peers.get_or_init(|| CachePeers::new(setup));
        self.reads.share(peers.clone().map(|peers| peers as Arc<dyn PeerCaches>));
    }

    /// Leaves them, which breaks the cycle between the exchange and the scan.
    pub(crate) fn leave(&self) {
        self.reads.share(None);
    }

    /// The homes of the splits, if there are other processes. Every instance calls it once.
    pub(crate) fn homes(&self, setup: &Setup, dataset: &Dataset) -> Result<Option<&SplitHomes>> {
        let Some(Some(peers)) = self.peers.get() else { return Ok(None) };
        peers.homes(setup, dataset, self.bytes_max).map(Some)
    }
}

/// No batches are fetched: caches exchange messages.
impl ExchangeServer for SharedCache {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn on_message(&self, process: usize, message: &[u8], body: &Buffer) -> Result<()> {
        let peers = self.peers.get().and_then(Option::as_ref).ok_or_else(not_prepared)?;
        peers.on_message(&self.reads, process, message, body)
    }
}

/// The caches of the other processes, as this one reaches them.
#[derive(Debug)]
struct CachePeers {
    exchange: Arc<dyn Exchange>,
    cancel: Arc<Cancel>,
    homes: OnceLock<SplitHomes>,
    timeouts: Mutex<PeerTimeouts>,
    began: Instant,
    /// Requests of this process without an answer yet, by number.
    pending: Mutex<HashMap<u64, Sender<HomeAnswer>>>,
    next: AtomicU64,
}

/// The homes of all splits.
#[derive(Debug)]
pub(crate) struct SplitHomes {
    /// The splits of each process that has instances of the scan.
    pub(crate) lists: Vec<Vec<usize>>,
    /// Which of them is that of this process.
    pub(crate) own: usize,
    /// Where the splits of a file begin, and the process that is their home, in ascending order.
    by_file: HashMap<String, Vec<(u64, usize)>>,
}

#[derive(Debug, Serialize, Deserialize)]
enum CacheMessage {
    /// Asks the home of a range for its bytes.
    Request {
        number: u64,
        range: ObjectRange,
    },
    /// The answer; the bytes follow.
    Cached {
        number: u64,
    },
    Missing {
        number: u64,
        is_wanted: bool,
    },
    /// A range for its home, read from the origin; the bytes follow.
    Offer {
        range: ObjectRange,
    },
}

impl CachePeers {
    /// The peers of an instance; `None` if all instances are in its process.
    fn new(setup: &Setup) -> Option<Arc<CachePeers>> {
        let others = setup.exchange.others();
        let processes = others.iter().max().map(|&last| last + 1)?;
        Some(Arc::new(CachePeers {
            exchange: setup.exchange.clone(),
            cancel: setup.cancel.clone(),
            homes: OnceLock::new(),
            timeouts: Mutex::new(PeerTimeouts::new(processes)),
            began: Instant::now(),
            pending: Mutex::default(),
            next: AtomicU64::new(0),
        }))
    }

    /// The homes of the splits. All instances exchange the memory of their processes' caches, so
    /// every process computes the same.
    fn homes(&self, setup: &Setup, dataset: &Dataset, cache_bytes: u64) -> Result<&SplitHomes> {
        let own = (self.exchange.me() as u64, cache_bytes);
        let values = setup.all_gather("caches", serde_json::to_vec(&own).unwrap_or_default())?;
        let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
        for value in values {
            let malformed = |_| Error::corrupt("the size of a cache is malformed");
            let (process, bytes) = serde_json::from_slice(&value).map_err(malformed)?;
            memory.insert(process, bytes);
        }
        let me = self.exchange.me();
        Ok(self.homes.get_or_init(|| SplitHomes::new(dataset, &memory, me)))
    }

    /// Handles a message of another process.
    fn on_message(
        &self,
        reads: &RemoteReads,
        process: usize,
        message: &[u8],
        body: &Buffer,
    ) -> Result<()> {
        let malformed = |_| Error::corrupt("a message between caches is malformed");
        match serde_json::from_slice(message).map_err(malformed)? {
            CacheMessage::Request { number, range } => match reads.cached(&range) {
                Ok(parts) => {
                    let parts = parts.into_iter().map(Buffer::from).collect();
                    self.send(process, &CacheMessage::Cached { number }, parts);
                }
                Err(is_wanted) => {
                    self.send(process, &CacheMessage::Missing { number, is_wanted }, vec![]);
                }
            },
            CacheMessage::Cached { number } => {
                self.on_answer(process, number, HomeAnswer::Cached(bytes_of(body)));
            }
            CacheMessage::Missing { number, is_wanted } => {
                self.on_answer(process, number, HomeAnswer::Missing { is_wanted });
            }
            CacheMessage::Offer { range } => reads.accept(&range, &bytes_of(body)),
        }
        Ok(())
    }

    fn on_answer(&self, process: usize, number: u64, answer: HomeAnswer) {
        self.timeouts.lock().on_answer(process);
        // The request may have timed out.
        if let Some(pending) = self.pending.lock().remove(&number) {
            let _ = pending.send(answer);
        }
    }

    fn send(&self, process: usize, message: &CacheMessage, body: Vec<Buffer>) {
        let message = serde_json::to_vec(message).unwrap_or_default();
        self.exchange.send(process, &message, body);
    }
}

impl PeerCaches for CachePeers {
    fn home(&self, address: &str, offset: u64) -> Option<usize> {
        let splits = self.homes.get()?.by_file.get(address)?;
        let after = splits.partition_point(|&(begin, _)| begin <= offset);
        // What is before the first split, and behind the last one, goes with that split.
        let &(_, home) = splits.get(after.saturating_sub(1))?;
        (home != self.exchange.me()).then_some(home)
    }

    fn request(&self, home: usize, range: &ObjectRange) -> Result<HomeAnswer> {
        let missing = HomeAnswer::Missing { is_wanted: false };
        if !self.timeouts.lock().may_ask(home, self.began.elapsed()) {
            return Ok(missing);
        }
        let number = self.next.fetch_add(1, Relaxed);
        let (sender, answer) = channel();
        self.pending.lock().insert(number, sender);
        self.send(home, &CacheMessage::Request { number, range: range.clone() }, vec![]);
        let asked = Instant::now();
        while asked.elapsed() < ANSWER_TIMEOUT {
            match answer.recv_timeout(CANCEL_POLL_INTERVAL) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => self.cancel.check()?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.pending.lock().remove(&number);
        self.timeouts.lock().on_timeout(home, self.began.elapsed());
        Ok(missing)
    }

    fn offer(&self, home: usize, range: &ObjectRange, bytes: Bytes) {
        self.send(home, &CacheMessage::Offer { range: range.clone() }, vec![Buffer::from(bytes)]);
    }
}

impl SplitHomes {
    /// The homes of the splits of a dataset, given the bytes of the cache of each process.
    fn new(dataset: &Dataset, memory: &BTreeMap<u64, u64>, me: usize) -> SplitHomes {
        let processes: Vec<usize> = memory.keys().map(|&process| process as usize).collect();
        let splits = 0..dataset.splits();
        let block = |split: usize| {
            let (file, begin) = dataset.place(split);
            (identity(file.as_bytes(), b"", begin), dataset.weight(split..split + 1))
        };
        let blocks: Vec<(u64, u64)> = splits.clone().map(block).collect();
        let memory: Vec<u64> = memory.values().copied().collect();
        let mut lists = vec![vec![]; processes.len()];
        let mut by_file: HashMap<String, Vec<(u64, usize)>> = HashMap::new();
        for (split, home) in splits.zip(homes(&blocks, &memory)) {
            lists[home].push(split);
            let (file, begin) = dataset.place(split);
            by_file.entry(file.to_string()).or_default().push((begin, processes[home]));
        }
        by_file.values_mut().for_each(|splits| splits.sort_unstable());
        let own = processes.iter().position(|&process| process == me).unwrap_or(0);
        SplitHomes { lists, own, by_file }
    }
}

fn bytes_of(body: &Buffer) -> Bytes {
    Bytes::from_owner(Owned(body.clone()))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use euphrates_flow::{Batches, Kind};

    use super::*;

    /// An exchange of three processes, of which this one is number 1, that collects what it sends.
    #[derive(Debug, Default)]
    struct RecordedExchange(Mutex<Vec<(usize, Vec<u8>, usize)>>);

    impl Exchange for RecordedExchange {
        fn others(&self) -> Vec<usize> {
            vec![0, 2]
        }

        fn me(&self) -> usize {
            1
        }

        fn name(&self, _: usize) -> &str {
            ""
        }

        fn send(&self, process: usize, message: &[u8], body: Vec<Buffer>) {
            let bytes = body.iter().map(Buffer::len).sum();
            self.0.lock().push((process, message.to_vec(), bytes));
        }

        fn fetch(&self, _: u64) -> Result<Vec<Batches>> {
            Ok(vec![])
        }

        fn may_take(&self, _: bool) -> Result<bool> {
            Ok(true)
        }
    }

    fn peers() -> (Arc<RecordedExchange>, Arc<CachePeers>) {
        let exchange = Arc::new(RecordedExchange::default());
        let setup = Setup { exchange: exchange.clone(), ..crate::testing::setup() };
        (exchange, CachePeers::new(&setup).unwrap())
    }

    fn range(bytes: std::ops::Range<u64>) -> ObjectRange {
        ObjectRange { address: "http://host/n.csv".into(), content: "9 \"tag\"".into(), bytes }
    }

    fn message(message: &CacheMessage) -> Vec<u8> {
        serde_json::to_vec(message).unwrap()
    }

    #[test]
    fn range_belongs_to_the_home_of_the_split_in_which_it_begins() {
        let (_, peers) = peers();
        assert_eq!(peers.home("a", 7), None, "no homes are known yet");
        let by_file = HashMap::from([("a".to_string(), vec![(4, 0), (10, 1), (20, 2)])]);
        peers.homes.set(SplitHomes { lists: vec![], own: 1, by_file }).unwrap();
        let home = |offset| peers.home("a", offset);
        assert_eq!([0, 4, 9].map(home), [Some(0); 3], "the header goes with the first split");
        assert_eq!([10, 19].map(home), [None; 2], "this process is the home");
        assert_eq!([20, 1000].map(home), [Some(2); 2]);
        assert_eq!(peers.home("b", 10), None);
    }

    #[test]
    fn answer_reaches_the_request_and_late_ones_are_dropped() {
        let (exchange, peers) = peers();
        let reads = RemoteReads::new(None);
        let answer = thread::scope(|scope| {
            let asking = scope.spawn(|| peers.request(2, &range(0..5)));
            while exchange.0.lock().is_empty() {
                thread::yield_now();
            }
            let cached = message(&CacheMessage::Cached { number: 0 });
            peers.on_message(&reads, 2, &cached, &Buffer::from(b"bytes")).unwrap();
            // It may come twice.
            peers.on_message(&reads, 2, &cached, &Buffer::from(b"other")).unwrap();
            asking.join().unwrap().unwrap()
        });
        assert_eq!(answer, HomeAnswer::Cached(Bytes::from("bytes")));
        let sent = exchange.0.lock().remove(0);
        assert_eq!((sent.0, sent.2), (2, 0));
    }

    #[test]
    fn cancelled_flow_ends_a_request_that_nobody_answers() {
        let (exchange, peers) = peers();
        thread::scope(|scope| {
            let asking = scope.spawn(|| peers.request(0, &range(0..5)));
            while exchange.0.lock().is_empty() {
                thread::yield_now();
            }
            peers.cancel.cancel();
            assert_eq!(asking.join().unwrap().unwrap_err().kind(), Kind::Interrupted);
        });
    }

    #[test]
    fn ranges_of_unknown_objects_are_missing_and_not_wanted() {
        let (exchange, peers) = peers();
        let reads = RemoteReads::new(None);
        let request = CacheMessage::Request { number: 7, range: range(0..5) };
        peers.on_message(&reads, 0, &message(&request), &Buffer::from(b"")).unwrap();
        let (to, answer, bytes) = exchange.0.lock().remove(0);
        assert_eq!((to, bytes), (0, 0));
        assert_eq!(answer, message(&CacheMessage::Missing { number: 7, is_wanted: false }));
        let offer = CacheMessage::Offer { range: range(0..4) };
        peers.on_message(&reads, 0, &message(&offer), &Buffer::from(b"bytes")).unwrap();
        let error = peers.on_message(&reads, 0, b"{}", &Buffer::from(b"")).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}
