//! What a module's parts in several processes ask each other for: batches, made on demand and sent
//! as fast as they are taken; and what they tell each other without being asked.
//!
//! Whoever has had the answers of all others but one, and waits, tells that one so, which then
//! serves before it takes anything for itself (see `euphrates_policy::precedence`).

mod messages;
mod servers;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Batches, Cancel, Error, Exchange, Placed, Result, batch_bytes};
use euphrates_policy::precedence::Asked;
use euphrates_policy::window::{Receiver, Sender};
use euphrates_wire::Frame;
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::messages::{Word, read, write};
use self::servers::Servers;
use crate::queue::fetch_backlog::{Debts, LOOK};
use crate::queue::transport::{Ends, Transport, malformed, misdirected_from};
use crate::run::worker::caught;

/// Of one request, on their way or not taken yet.
const WINDOW_BYTES: u64 = 8 << 20;

/// One module's exchange, in one process.
pub struct ModuleExchange {
    transport: Transport,
    placed: Arc<dyn Placed>,
    others: Vec<usize>,
    /// Of the processes, by number.
    names: Arc<[String]>,
    cancel: Arc<Cancel>,
    next: AtomicU64,
    /// By number: what was asked for here.
    fetching: Mutex<HashMap<u64, Arc<Fetching>>>,
    served: Mutex<Served>,
    servers: Arc<Servers>,
    me: Weak<ModuleExchange>,
}

/// What is being given to others.
#[derive(Default)]
struct Served {
    /// By process and its number.
    serving: HashMap<(usize, u64), Arc<Serving>>,
    /// Those who wait for it, and for nothing else.
    awaited: HashSet<(usize, u64)>,
}

impl fmt::Debug for ModuleExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}

/// What has come of a request from one process.
struct Fetching {
    process: usize,
    number: u64,
    /// What all processes were asked for with it.
    asked: Arc<Mutex<Asked>>,
    state: Mutex<Come>,
    changed: Condvar,
}

struct Come {
    batches: VecDeque<(RecordBatch, u64)>,
    /// Of all batches that have come.
    bytes: u64,
    window: Receiver,
    end: Option<Result<()>>,
}

/// How far a request has been answered.
struct Serving {
    window: Mutex<(Sender, bool)>,
    changed: Condvar,
}

impl ModuleExchange {
    /// Between this process and others.
    pub fn new(
        transport: Transport,
        placed: Arc<dyn Placed>,
        (others, names): (Vec<usize>, Arc<[String]>),
        cancel: Arc<Cancel>,
    ) -> Arc<ModuleExchange> {
        Arc::new_cyclic(|me| ModuleExchange {
            transport,
            placed,
            others,
            names,
            cancel,
            next: AtomicU64::new(0),
            fetching: Mutex::default(),
            served: Mutex::default(),
            servers: Arc::default(),
            me: me.clone(),
        })
    }

    /// What came from another process.
    pub fn on_frame(&self, frame: &Frame) -> Result<()> {
        let (letter, batch) = self.transport.read(frame)?;
        let (word, number, rest) = read(letter).ok_or_else(malformed)?;
        let asker = frame.header.consumer as usize;
        misdirected_from(frame.header.consumer, self.names.len())?;
        match (word, batch) {
            (Word::Want { request }, None) => self.begin(asker, number, request),
            (Word::Taken { bytes }, None) => self.with_serving((asker, number), |window| {
                window.0.on_taken(bytes);
            }),
            (Word::Leave, None) => self.with_serving((asker, number), |window| window.1 = true),
            (Word::Batch { bytes }, Some(batch)) => self.on_batch(number, batch, bytes, false),
            (Word::Last { bytes }, Some(batch)) => self.on_batch(number, batch, bytes, true),
            (Word::Hurry, None) => self.on_hurry((asker, number)),
            (Word::End, None) => self.end(number, Ok(())),
            (Word::Failed, None) => {
                let error = serde_json::from_slice(rest).unwrap_or_else(|_| malformed());
                self.end(number, Err(error));
            }
            (Word::Told, None) => self.placed.on_told(asker, rest, &frame.body)?,
            _ => return Err(malformed()),
        }
        Ok(())
    }

    fn on_batch(&self, number: u64, batch: RecordBatch, bytes: u64, is_last: bool) {
        // Whoever asked may have gone.
        let fetching = self.fetching.lock().get(&number).cloned();
        if let Some(fetching) = fetching {
            let mut come = fetching.state.lock();
            come.window.on_come(bytes);
            come.bytes += bytes;
            come.batches.push_back((batch, bytes));
            drop(come);
            match is_last {
                true => self.end(number, Ok(())),
                false => {
                    fetching.changed.notify_one();
                }
            }
        }
    }

    /// Nothing more comes of a request.
    fn end(&self, number: u64, end: Result<()>) {
        let fetching = self.fetching.lock().get(&number).cloned();
        if let Some(fetching) = fetching {
            let mut come = fetching.state.lock();
            come.end = Some(end);
            let bytes = come.bytes;
            drop(come);
            fetching.asked.lock().on_answered(bytes, self.debts().now());
            fetching.changed.notify_one();
        }
    }

    fn on_hurry(&self, key: (usize, u64)) {
        let mut served = self.served.lock();
        // It may have gone out meanwhile.
        if served.serving.contains_key(&key) && served.awaited.insert(key) {
            self.debts().on_awaited();
        }
    }

    fn on_served(&self, key: (usize, u64)) {
        let mut served = self.served.lock();
        served.serving.remove(&key);
        if served.awaited.remove(&key) {
            self.debts().on_given();
        }
    }

    fn with_serving(&self, key: (usize, u64), act: impl FnOnce(&mut (Sender, bool))) {
        let serving = self.served.lock().serving.get(&key).cloned();
        if let Some(serving) = serving {
            act(&mut serving.window.lock());
            serving.changed.notify_one();
        }
    }

    /// Answers a request, on a thread that nobody else needs meanwhile.
    fn begin(&self, asker: usize, number: u64, request: u64) {
        let Some(me) = self.me.upgrade() else { return };
        let window = Mutex::new((Sender::new(WINDOW_BYTES), false));
        let serving = Arc::new(Serving { window, changed: Condvar::new() });
        self.served.lock().serving.insert((asker, number), serving.clone());
        let answer = move || {
            let answered = caught(|| me.answer(asker, number, request, &serving));
            me.on_served((asker, number));
            if let Err(error) = answered {
                me.fail(asker, number, &error);
            }
        };
        if let Err(error) = self.servers.give(Box::new(answer)) {
            self.fail(asker, number, &error);
        }
    }

    fn fail(&self, asker: usize, number: u64, error: &Error) {
        let text = serde_json::to_string(error).unwrap_or_default();
        self.say(asker, asker, Word::Failed, number, &text);
    }

    fn answer(&self, asker: usize, number: u64, request: u64, serving: &Serving) -> Result<()> {
        let ends = self.ends(asker, number);
        let mut batches = self.placed.serve(request)?;
        let mut made = self.servers.make(|| batches.next()).transpose()?;
        while let Some(batch) = made {
            let bytes = batch_bytes(&batch) as u64;
            let mut window = serving.window.lock();
            while !window.0.may_send(bytes) && !window.1 {
                self.cancel.check()?;
                serving.changed.wait_for(&mut window, LOOK);
            }
            if window.1 {
                return Ok(());
            }
            window.0.on_sent(bytes);
            drop(window);
            made = self.servers.make(|| batches.next()).transpose()?;
            let is_last = made.is_none();
            let word = if is_last { Word::Last { bytes } } else { Word::Batch { bytes } };
            self.transport.send_batch(asker, ends, &write(word, number, b""), &batch);
            if is_last {
                return Ok(());
            }
        }
        self.say(asker, asker, Word::End, number, "");
        Ok(())
    }

    fn debts(&self) -> &Debts {
        self.transport.debts()
    }

    /// The asker is named on the consuming side, whichever way a letter goes; his requests, which
    /// have nothing to do with each other, take lanes of their own.
    fn ends(&self, asker: usize, number: u64) -> Ends {
        Ends { producer: number as u32, consumer: asker as u32 }
    }

    fn say(&self, to: usize, asker: usize, word: Word, number: u64, text: &str) {
        self.transport.send(to, self.ends(asker, number), write(word, number, text.as_bytes()));
    }
}

/// The exchange, as instances have it.
#[derive(Debug)]
pub struct ExchangeHandle(pub Arc<ModuleExchange>);

impl Exchange for ExchangeHandle {
    fn others(&self) -> Vec<usize> {
        self.0.others.clone()
    }

    fn me(&self) -> usize {
        self.0.transport.me()
    }

    fn name(&self, process: usize) -> &str {
        self.0.names.get(process).map(String::as_str).unwrap_or_default()
    }

    fn tell(&self, process: usize, letter: &[u8], body: Vec<Buffer>) {
        // Named on the consuming side, as who asks is.
        let (ends, letter) = (self.0.ends(self.me(), 0), write(Word::Told, 0, letter));
        self.0.transport.send_bytes(process, ends, letter, body);
    }

    fn fetch(&self, request: u64) -> Result<Vec<Batches>> {
        let others = &self.0.others;
        let asked = Arc::new(Mutex::new(Asked::new(others.len(), self.0.debts().now())));
        let fetch = |other: &usize| self.fetch_from(*other, request, asked.clone());
        Ok(others.iter().map(fetch).collect())
    }

    fn may_take(&self, is_shared: bool) -> Result<bool> {
        self.0.debts().may_take(is_shared, &self.0.cancel)
    }
}

impl ExchangeHandle {
    fn fetch_from(&self, process: usize, request: u64, asked: Arc<Mutex<Asked>>) -> Batches {
        let exchange = self.0.clone();
        let number = exchange.next.fetch_add(1, Relaxed);
        let window = Receiver::new(WINDOW_BYTES);
        let state = Mutex::new(Come { batches: VecDeque::new(), bytes: 0, window, end: None });
        let changed = Condvar::new();
        let fetching = Arc::new(Fetching { process, number, asked, state, changed });
        exchange.fetching.lock().insert(number, fetching.clone());
        let me = exchange.transport.me();
        exchange.say(process, me, Word::Want { request }, number, "");
        Box::new(Fetch { exchange, fetching, has_hurried: false, is_over: false })
    }
}

/// What comes of a request.
struct Fetch {
    exchange: Arc<ModuleExchange>,
    fetching: Arc<Fetching>,
    has_hurried: bool,
    is_over: bool,
}

impl Fetch {
    fn wait(&mut self) -> Result<Option<RecordBatch>> {
        let Fetching { process, number, asked, state, changed } = &*self.fetching;
        let mut come: MutexGuard<'_, Come> = state.lock();
        loop {
            if let Some((batch, bytes)) = come.batches.pop_front() {
                if let Some(bytes) = come.window.on_taken(bytes)
                    && come.end.is_none()
                {
                    let me = self.exchange.transport.me();
                    self.exchange.say(*process, me, Word::Taken { bytes }, *number, "");
                }
                return Ok(Some(batch));
            }
            match come.end.take() {
                Some(Ok(())) => return Ok(None),
                Some(Err(error)) => return Err(error),
                None => {}
            }
            self.exchange.cancel.check()?;
            if !self.has_hurried && asked.lock().is_late(come.bytes, self.exchange.debts().now()) {
                self.has_hurried = true;
                let me = self.exchange.transport.me();
                self.exchange.say(*process, me, Word::Hurry, *number, "");
            }
            changed.wait_for(&mut come, LOOK);
        }
    }
}

impl Iterator for Fetch {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.is_over {
            return None;
        }
        let next = self.wait().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let Fetching { process, number, .. } = &*self.fetching;
        self.exchange.fetching.lock().remove(number);
        if !self.is_over {
            let me = self.exchange.transport.me();
            self.exchange.say(*process, me, Word::Leave, *number, "");
        }
    }
}
