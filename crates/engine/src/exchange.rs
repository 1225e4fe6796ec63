//! What a module's parts in several processes ask each other for: batches, made on demand and sent
//! as fast as they are taken; and what they tell each other without being asked.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Batches, Cancel, Error, Exchange, Placed, Result, batch_bytes};
use euphrates_policy::window::{Receiver, Sender};
use euphrates_wire::Frame;

use crate::mailbox::lock;
use crate::transport::{Ends, Transport, malformed, misdirected_from};
use crate::worker::caught;

/// Of one request, on their way or not taken yet.
const WINDOW_BYTES: u64 = 8 << 20;
/// How often who waits looks whether the flow was cancelled.
const LOOK: Duration = Duration::from_millis(50);

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
    /// By process and its number: what is being given.
    serving: Mutex<HashMap<(usize, u64), Arc<Serving>>>,
    me: Weak<ModuleExchange>,
}

impl fmt::Debug for ModuleExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}

/// What has come of a request.
struct Fetching {
    process: usize,
    number: u64,
    state: Mutex<Come>,
    changed: Condvar,
}

struct Come {
    batches: VecDeque<(RecordBatch, u64)>,
    window: Receiver,
    end: Option<Result<()>>,
}

/// How far a request has been answered.
struct Serving {
    window: Mutex<(Sender, bool)>,
    changed: Condvar,
}

/// A letter: what, and of which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Want {
        request: u64,
    },
    Batch {
        bytes: u64,
    },
    End,
    Failed,
    Taken {
        bytes: u64,
    },
    Leave,
    /// For the module, which alone can read what follows.
    Told,
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
            serving: Mutex::default(),
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
            (Word::Batch { bytes }, Some(batch)) => self.with_fetching(number, |come| {
                come.window.on_come(bytes);
                come.batches.push_back((batch, bytes));
            }),
            (Word::End, None) => self.with_fetching(number, |come| come.end = Some(Ok(()))),
            (Word::Failed, None) => {
                let error = serde_json::from_slice(rest).unwrap_or_else(|_| malformed());
                self.with_fetching(number, |come| come.end = Some(Err(error)));
            }
            (Word::Told, None) => self.placed.on_told(asker, rest, &frame.body)?,
            _ => return Err(malformed()),
        }
        Ok(())
    }

    fn with_fetching(&self, number: u64, act: impl FnOnce(&mut Come)) {
        // Whoever asked may have gone.
        let fetching = lock(&self.fetching).get(&number).cloned();
        if let Some(fetching) = fetching {
            act(&mut lock(&fetching.state));
            fetching.changed.notify_one();
        }
    }

    fn with_serving(&self, key: (usize, u64), act: impl FnOnce(&mut (Sender, bool))) {
        let serving = lock(&self.serving).get(&key).cloned();
        if let Some(serving) = serving {
            act(&mut lock(&serving.window));
            serving.changed.notify_one();
        }
    }

    /// Answers a request, on a thread of its own.
    fn begin(&self, asker: usize, number: u64, request: u64) {
        let Some(me) = self.me.upgrade() else { return };
        let window = Mutex::new((Sender::new(WINDOW_BYTES), false));
        let serving = Arc::new(Serving { window, changed: Condvar::new() });
        lock(&self.serving).insert((asker, number), serving.clone());
        let answer = move || {
            let answered = caught(|| me.answer(asker, number, request, &serving));
            lock(&me.serving).remove(&(asker, number));
            match answered {
                Ok(()) => me.say(asker, asker, Word::End, number, ""),
                Err(error) => me.fail(asker, number, &error),
            }
        };
        if let Err(error) = thread::Builder::new().name("exchange".into()).spawn(answer) {
            let error = Error::resource(format!("cannot start a thread: {error}"));
            self.fail(asker, number, &error);
        }
    }

    fn fail(&self, asker: usize, number: u64, error: &Error) {
        let text = serde_json::to_string(error).unwrap_or_default();
        self.say(asker, asker, Word::Failed, number, &text);
    }

    fn answer(&self, asker: usize, number: u64, request: u64, serving: &Serving) -> Result<()> {
        let ends = self.ends(asker, number);
        for batch in self.placed.serve(request)? {
            let batch = batch?;
            let bytes = batch_bytes(&batch) as u64;
            let mut window = lock(&serving.window);
            while !window.0.may_send(bytes) && !window.1 {
                self.cancel.check()?;
                window = match serving.changed.wait_timeout(window, LOOK) {
                    Ok((window, _)) => window,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
            if window.1 {
                return Ok(());
            }
            window.0.on_sent(bytes);
            drop(window);
            let letter = write(Word::Batch { bytes }, number, b"");
            self.transport.send_batch(asker, ends, &letter, &batch);
        }
        Ok(())
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

    fn fetch(&self, process: usize, request: u64) -> Result<Batches> {
        let exchange = self.0.clone();
        let number = exchange.next.fetch_add(1, Relaxed);
        let window = Receiver::new(WINDOW_BYTES);
        let state = Mutex::new(Come { batches: VecDeque::new(), window, end: None });
        let fetching = Arc::new(Fetching { process, number, state, changed: Condvar::new() });
        lock(&exchange.fetching).insert(number, fetching.clone());
        let me = exchange.transport.me();
        exchange.say(process, me, Word::Want { request }, number, "");
        Ok(Box::new(Fetch { exchange, fetching, is_over: false }))
    }
}

/// What comes of a request.
struct Fetch {
    exchange: Arc<ModuleExchange>,
    fetching: Arc<Fetching>,
    is_over: bool,
}

impl Fetch {
    fn wait(&self) -> Result<Option<RecordBatch>> {
        let Fetching { process, number, state, changed } = &*self.fetching;
        let mut come: MutexGuard<'_, Come> = lock(state);
        loop {
            if let Some((batch, bytes)) = come.batches.pop_front() {
                if let Some(bytes) = come.window.on_taken(bytes) {
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
            come = match changed.wait_timeout(come, LOOK) {
                Ok((come, _)) => come,
                Err(poisoned) => poisoned.into_inner().0,
            };
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
        lock(&self.exchange.fetching).remove(number);
        if !self.is_over {
            let me = self.exchange.transport.me();
            self.exchange.say(*process, me, Word::Leave, *number, "");
        }
    }
}

fn write(word: Word, number: u64, rest: &[u8]) -> Vec<u8> {
    let (kind, value) = match word {
        Word::Want { request } => (0_u8, request),
        Word::Batch { bytes } => (1, bytes),
        Word::End => (2, 0),
        Word::Failed => (3, 0),
        Word::Taken { bytes } => (4, bytes),
        Word::Leave => (5, 0),
        Word::Told => (6, 0),
    };
    let mut out = Vec::with_capacity(17 + rest.len());
    out.push(kind);
    out.extend(number.to_le_bytes());
    out.extend(value.to_le_bytes());
    out.extend_from_slice(rest);
    out
}

fn read(bytes: &[u8]) -> Option<(Word, u64, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let value = u64::from_le_bytes(*value);
    let word = match kind {
        0 => Word::Want { request: value },
        1 => Word::Batch { bytes: value },
        2 => Word::End,
        3 => Word::Failed,
        4 => Word::Taken { bytes: value },
        5 => Word::Leave,
        6 => Word::Told,
        _ => return None,
    };
    Some((word, u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let words = [
            Word::Want { request: 7 },
            Word::Batch { bytes: 8 },
            Word::End,
            Word::Failed,
            Word::Taken { bytes: 9 },
            Word::Leave,
            Word::Told,
        ];
        for word in words {
            assert_eq!(read(&write(word, 3, b"rest")), Some((word, 3, &b"rest"[..])));
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[9; 17]), None);
    }

    #[test]
    fn an_error_is_told_in_words_that_both_ends_know() {
        let error = Error::corrupt("torn").at("a run").remedy("write it again");
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&text).unwrap().to_string(), error.to_string());
    }
}
