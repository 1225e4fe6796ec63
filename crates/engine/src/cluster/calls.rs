//! What a worker's instances ask of the table of their flow, which is with the master: every
//! question is a call.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Commons, Error, Result};
use parking_lot::Mutex;

use super::control::Tell;
use super::sender::ControlSender;
use crate::run::coordination::await_reply;

/// The commons, for instances away from the table.
pub struct Calls {
    master: ControlSender<Tell>,
    cancel: Arc<Cancel>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Sender<Vec<Vec<u8>>>>>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

impl Calls {
    /// Of a part of this master's; waiting ends with the flow.
    pub fn new(master: ControlSender<Tell>, cancel: Arc<Cancel>) -> Calls {
        Calls { master, cancel, next: AtomicU64::new(0), waiting: Mutex::default() }
    }

    fn call(&self, tell: impl FnOnce(u64) -> Tell, body: Vec<Buffer>) -> Result<Vec<Vec<u8>>> {
        let call = self.next.fetch_add(1, Relaxed);
        let (to, from) = channel();
        self.waiting.lock().insert(call, to);
        self.master.send(&tell(call), body);
        await_reply(&from, &self.cancel)
    }

    fn number(&self, tell: impl FnOnce(u64) -> Tell) -> Result<u64> {
        let values = self.call(tell, vec![])?;
        let number = values.first().and_then(|value| value.as_slice().try_into().ok());
        number.map(u64::from_le_bytes).ok_or_else(|| Error::corrupt("a number that is none"))
    }

    /// The master has answered a call.
    pub fn answer(&self, call: u64, values: Vec<Vec<u8>>) {
        if let Some(to) = self.waiting.lock().remove(&call) {
            // Whoever asked may have been cancelled.
            let _ = to.send(values);
        }
    }
}

impl Commons for Calls {
    fn next(&self, name: &str) -> Result<u64> {
        let name = name.to_string();
        self.number(|call| Tell::Next { call, name })
    }

    fn given(&self, name: &str) -> Result<u64> {
        let name = name.to_string();
        self.number(|call| Tell::Given { call, name })
    }

    fn gather(
        &self,
        name: &str,
        member: usize,
        members: usize,
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        let name = name.to_string();
        let tell = |call| Tell::Bring { call, name, member: (member, members) };
        self.call(tell, vec![Buffer::from_vec(value)])
    }

    fn learn(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let name = name.to_string();
        self.call(|call| Tell::Learn { call, name }, vec![])
    }
}
