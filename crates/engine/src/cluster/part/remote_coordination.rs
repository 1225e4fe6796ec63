//! Shared counters and all-gather for instances on a worker: each operation is a remote call to the
//! master, which holds their state.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Coordination, Error, GatherName, Result};
use parking_lot::Mutex;

use crate::cluster::control::ControlEvent;
use crate::cluster::sender::ControlSender;
use crate::run::coordination::GatheredValues;

/// Sends calls to the master, and waits for the replies.
pub struct RemoteCoordination {
    master: ControlSender<ControlEvent>,
    cancel: Arc<Cancel>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Sender<GatheredValues>>>,
}

impl fmt::Debug for RemoteCoordination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteCoordination")
    }
}

impl RemoteCoordination {
    /// Calls to the master of a part; waiting ends when the flow is cancelled.
    pub fn new(master: ControlSender<ControlEvent>, cancel: Arc<Cancel>) -> RemoteCoordination {
        RemoteCoordination { master, cancel, next: AtomicU64::new(0), waiting: Mutex::default() }
    }

    fn call(
        &self,
        event: impl FnOnce(u64) -> ControlEvent,
        body: Vec<Buffer>,
    ) -> Result<Vec<Vec<u8>>> {
        let call = self.next.fetch_add(1, Relaxed);
        let (to, from) = channel();
        self.waiting.lock().insert(call, to);
        self.master.send(&event(call), body);
        self.cancel.receive(&from)?.ok_or_else(Error::closed)
    }

    fn number(&self, event: impl FnOnce(u64) -> ControlEvent) -> Result<u64> {
        let values = self.call(event, vec![])?;
        let number = values.first().and_then(|value| value.as_slice().try_into().ok());
        number.map(u64::from_le_bytes).ok_or_else(|| Error::corrupt("a number that is none"))
    }

    /// Delivers the master's reply to a call; `None` if an instance has left the all-gather.
    pub fn answer(&self, call: u64, values: GatheredValues) {
        if let Some(to) = self.waiting.lock().remove(&call) {
            // The caller may have been cancelled.
            let _ = to.send(values);
        }
    }
}

impl Coordination for RemoteCoordination {
    fn fetch_add(&self, name: &str) -> Result<u64> {
        let name = name.to_string();
        self.number(|call| ControlEvent::FetchAdd { call, name })
    }

    fn load(&self, name: &str) -> Result<u64> {
        let name = name.to_string();
        self.number(|call| ControlEvent::Load { call, name })
    }

    fn all_gather(
        &self,
        gather: GatherName<'_>,
        member: (usize, usize),
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        let (module, name) = (gather.module.to_string(), gather.name.to_string());
        let event = |call| ControlEvent::Contribute { call, module, name, member };
        self.call(event, vec![Buffer::from_vec(value)])
    }

    fn observe(&self, gather: GatherName<'_>) -> Result<Vec<Vec<u8>>> {
        let (module, name) = (gather.module.to_string(), gather.name.to_string());
        self.call(|call| ControlEvent::Observe { call, module, name }, vec![])
    }

    fn leave_gathers(&self, module: &str) {
        self.master.send(&ControlEvent::LeaveGathers { module: module.to_string() }, vec![]);
    }
}
