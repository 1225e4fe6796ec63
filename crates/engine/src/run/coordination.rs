//! Coordination of the instances of a flow: shared counters, and all-gather of values. The master
//! has one table for each flow; instances in other processes access it by messages.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use euphrates_flow::{Cancel, Coordination, Error, Result};
use parking_lot::{Mutex, MutexGuard};

/// Receives the values of all members, once all have contributed.
pub type GatherReply = Box<dyn FnOnce(Vec<Vec<u8>>) + Send>;

/// Counters and gathered values, by name.
#[derive(Default)]
pub struct CoordinationTable {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The values of the counters.
    counters: HashMap<String, u64>,
    gathers: HashMap<String, AllGather>,
}

/// Contributions to one all-gather, and replies that wait for it.
#[derive(Default)]
struct AllGather {
    /// By member; empty before the first contribution.
    values: Vec<Option<Vec<u8>>>,
    replies: Vec<GatherReply>,
}

impl AllGather {
    fn is_complete(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(Option::is_some)
    }
}

impl fmt::Debug for CoordinationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoordinationTable")
    }
}

impl CoordinationTable {
    /// Increments a counter and returns the value before.
    pub fn fetch_add(&self, name: &str) -> u64 {
        let mut state = self.state.lock();
        let count = state.counters.entry(name.to_string()).or_default();
        *count += 1;
        *count - 1
    }

    /// The value of a counter.
    pub fn load(&self, name: &str) -> u64 {
        self.state.lock().counters.get(name).copied().unwrap_or_default()
    }

    /// Contributes the value of one member. Every member receives the values of all.
    pub fn contribute(
        &self,
        name: &str,
        (member, members): (usize, usize),
        value: Vec<u8>,
        reply: GatherReply,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let gather = state.gathers.entry(name.to_string()).or_default();
        if gather.values.is_empty() {
            gather.values = vec![None; members];
        }
        let slot = gather.values.get_mut(member).filter(|slot| slot.is_none());
        let wrong = || Error::failed(format!("member {member} came to {name} out of place"));
        *slot.ok_or_else(wrong)? = Some(value);
        gather.replies.push(reply);
        answer(state, name);
        Ok(())
    }

    /// Receives the values of all members without contributing one.
    pub fn observe(&self, name: &str, reply: GatherReply) {
        let mut state = self.state.lock();
        state.gathers.entry(name.to_string()).or_default().replies.push(reply);
        answer(state, name);
    }
}

/// Sends the values of a complete all-gather to all that wait. The values are kept for later
/// observers.
fn answer(mut state: MutexGuard<'_, State>, name: &str) {
    let Some(gather) = state.gathers.get_mut(name).filter(|all| all.is_complete()) else {
        return;
    };
    let values: Vec<Vec<u8>> = gather.values.iter().flatten().cloned().collect();
    let replies = std::mem::take(&mut gather.replies);
    drop(state);
    replies.into_iter().for_each(|reply| reply(values.clone()));
}

/// Coordination for instances in the process of the table.
#[derive(Debug)]
pub struct LocalCoordination {
    table: Arc<CoordinationTable>,
    cancel: Arc<Cancel>,
}

impl LocalCoordination {
    /// Coordination by this table. Waiting ends when the flow is cancelled.
    pub fn new(table: Arc<CoordinationTable>, cancel: Arc<Cancel>) -> LocalCoordination {
        LocalCoordination { table, cancel }
    }
}

impl Coordination for LocalCoordination {
    fn fetch_add(&self, name: &str) -> Result<u64> {
        Ok(self.table.fetch_add(name))
    }

    fn load(&self, name: &str) -> Result<u64> {
        Ok(self.table.load(name))
    }

    fn all_gather(
        &self,
        name: &str,
        member: usize,
        members: usize,
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        let (reply, from) = waiting();
        self.table.contribute(name, (member, members), value, reply)?;
        self.cancel.receive(&from)
    }

    fn observe(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let (reply, from) = waiting();
        self.table.observe(name, reply);
        self.cancel.receive(&from)
    }
}

fn waiting() -> (GatherReply, Receiver<Vec<Vec<u8>>>) {
    let (to, from) = channel();
    let reply = Box::new(move |values| {
        // The instance may have been cancelled meanwhile.
        let _ = to.send(values);
    });
    (reply, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_values_are_unique_and_gathered_values_are_ordered() {
        let table = Arc::new(CoordinationTable::default());
        let cancel = Arc::new(Cancel::default());
        let threads: Vec<_> = (0..4)
            .map(|member| {
                let local = LocalCoordination::new(table.clone(), cancel.clone());
                std::thread::spawn(move || {
                    let numbers: Vec<u64> =
                        (0..100).map(|_| local.fetch_add("n").unwrap()).collect();
                    let values = local.all_gather("v", member, 4, vec![member as u8]).unwrap();
                    assert_eq!(values, [[0], [1], [2], [3]]);
                    numbers
                })
            })
            .collect();
        let mut all: Vec<u64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..400));
    }

    #[test]
    fn observer_receives_values_contributed_before_or_after() {
        let table = Arc::new(CoordinationTable::default());
        let local = LocalCoordination::new(table.clone(), Arc::new(Cancel::default()));
        let early = {
            let local = LocalCoordination::new(table, Arc::new(Cancel::default()));
            std::thread::spawn(move || local.observe("v").unwrap())
        };
        assert_eq!(local.all_gather("v", 0, 1, vec![7]).unwrap(), [[7]]);
        assert_eq!(early.join().unwrap(), [[7]]);
        assert_eq!(local.observe("v").unwrap(), [[7]]);
    }

    #[test]
    fn cancelled_flow_ends_gather_and_members_contribute_once() {
        let (table, cancel) = (Arc::new(CoordinationTable::default()), Arc::new(Cancel::default()));
        let local = LocalCoordination::new(table.clone(), cancel.clone());
        cancel.cancel();
        assert!(local.all_gather("v", 0, 2, vec![]).is_err());
        assert!(table.contribute("v", (0, 2), vec![], Box::new(|_| ())).is_err());
        assert!(table.contribute("v", (2, 2), vec![], Box::new(|_| ())).is_err());
    }
}
