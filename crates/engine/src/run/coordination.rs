//! Coordination of the instances of a flow: shared counters, and all-gather of values. The master
//! has one table for each flow; instances in other processes access it by messages.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use euphrates_flow::{Cancel, Coordination, Error, GatherName, Result};
use parking_lot::{Mutex, MutexGuard};

/// The value of a counter that has been exhausted: more than units of any flow, and far enough from
/// the end of its type for all claims that follow.
const EXHAUSTED: u64 = 1 << 62;

/// The values of all members in their order, or `None` if one has left before all had contributed.
pub type GatheredValues = Option<Vec<Vec<u8>>>;

/// Receives the values once all have contributed or one has left.
pub type GatherReply = Box<dyn FnOnce(GatheredValues) + Send>;

/// Counters and gathered values, by name.
#[derive(Default)]
pub struct CoordinationTable {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The values of the counters.
    counters: HashMap<String, u64>,
    /// By module.
    gathers: HashMap<String, ModuleGathers>,
}

/// The all-gathers of one module.
#[derive(Default)]
struct ModuleGathers {
    /// Whether an instance contributes to none any more, because its consumers have had enough.
    /// They are the consumers of all instances, so what is not complete by then needs no result.
    /// Modules before a pairwise queue, whose instances have one consumer each, are never left.
    is_left: bool,
    by_name: HashMap<String, AllGather>,
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

    /// Sets a counter behind all numbers that are in use, so that no claim by it finds a unit.
    pub fn exhaust(&self, name: &str) {
        self.state.lock().counters.insert(name.to_string(), EXHAUSTED);
    }

    /// Contributes the value of one member. Every member receives the values of all.
    pub fn contribute(
        &self,
        name: GatherName<'_>,
        (member, members): (usize, usize),
        value: Vec<u8>,
        reply: GatherReply,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let of_module = state.of_module(name.module);
        let gather = of_module.by_name.entry(name.name.to_string()).or_default();
        if gather.values.is_empty() {
            gather.values = vec![None; members];
        }
        let slot = gather.values.get_mut(member).filter(|slot| slot.is_none());
        let GatherName { module, name } = name;
        let wrong =
            || Error::failed(format!("member {member} came to {module}/{name} out of place"));
        let slot = slot.ok_or_else(wrong)?;
        // What is not complete when an instance leaves never is.
        if !of_module.is_left {
            *slot = Some(value);
        }
        gather.replies.push(reply);
        answer(state, module, name);
        Ok(())
    }

    /// Receives the values of all members without contributing one.
    pub fn observe(&self, name: GatherName<'_>, reply: GatherReply) {
        let mut state = self.state.lock();
        let gathers = &mut state.of_module(name.module).by_name;
        gathers.entry(name.name.to_string()).or_default().replies.push(reply);
        answer(state, name.module, name.name);
    }

    /// Ends all gathers of a module that are not complete, now and later.
    pub fn leave_gathers(&self, module: &str) {
        let mut state = self.state.lock();
        let gathers = state.of_module(module);
        gathers.is_left = true;
        let waiting = gathers.by_name.values_mut().flat_map(|gather| gather.replies.drain(..));
        let waiting: Vec<GatherReply> = waiting.collect();
        drop(state);
        waiting.into_iter().for_each(|reply| reply(None));
    }
}

impl State {
    fn of_module(&mut self, module: &str) -> &mut ModuleGathers {
        self.gathers.entry(module.to_string()).or_default()
    }
}

/// Answers all that wait for an all-gather that is complete or has been left. The values are kept
/// for later observers.
fn answer(mut state: MutexGuard<'_, State>, module: &str, name: &str) {
    let gathers = state.of_module(module);
    let is_left = gathers.is_left;
    let Some(gather) = gathers.by_name.get_mut(name) else { return };
    let values = match gather.is_complete() {
        true => Some(gather.values.iter().flatten().cloned().collect::<Vec<_>>()),
        false if is_left => None,
        false => return,
    };
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
        gather: GatherName<'_>,
        member: (usize, usize),
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        let (reply, from) = waiting();
        self.table.contribute(gather, member, value, reply)?;
        self.cancel.receive(&from)?.ok_or_else(Error::closed)
    }

    fn observe(&self, gather: GatherName<'_>) -> Result<Vec<Vec<u8>>> {
        let (reply, from) = waiting();
        self.table.observe(gather, reply);
        self.cancel.receive(&from)?.ok_or_else(Error::closed)
    }

    fn leave_gathers(&self, module: &str) {
        self.table.leave_gathers(module);
    }
}

fn waiting() -> (GatherReply, Receiver<GatheredValues>) {
    let (to, from) = channel();
    let reply = Box::new(move |values| {
        // The instance may have been cancelled meanwhile.
        let _ = to.send(values);
    });
    (reply, from)
}

#[cfg(test)]
mod tests {
    use euphrates_flow::Kind;

    use super::*;

    const V: GatherName<'static> = GatherName { module: "m", name: "v" };

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
                    let values = local.all_gather(V, (member, 4), vec![member as u8]).unwrap();
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
            std::thread::spawn(move || local.observe(V).unwrap())
        };
        assert_eq!(local.all_gather(V, (0, 1), vec![7]).unwrap(), [[7]]);
        assert_eq!(early.join().unwrap(), [[7]]);
        assert_eq!(local.observe(V).unwrap(), [[7]]);
    }

    #[test]
    fn cancelled_flow_ends_gather_and_members_contribute_once() {
        let (table, cancel) = (Arc::new(CoordinationTable::default()), Arc::new(Cancel::default()));
        let local = LocalCoordination::new(table.clone(), cancel.clone());
        cancel.cancel();
        assert!(local.all_gather(V, (0, 2), vec![]).is_err());
        assert!(table.contribute(V, (0, 2), vec![], Box::new(|_| ())).is_err());
        assert!(table.contribute(V, (2, 2), vec![], Box::new(|_| ())).is_err());
    }
    #[test]
    fn gathers_of_a_module_end_when_a_member_leaves_before_all_contribute() {
        let table = Arc::new(CoordinationTable::default());
        let local = LocalCoordination::new(table.clone(), Arc::new(Cancel::default()));
        let complete = GatherName { name: "complete", ..V };
        assert_eq!(local.all_gather(complete, (0, 1), vec![7]).unwrap(), [[7]]);
        let (reply, waits) = waiting();
        table.contribute(V, (0, 3), vec![], reply).unwrap();
        let (reply, observes) = waiting();
        table.observe(V, reply);
        let elsewhere = GatherName { module: "m/v", name: "v" };
        let (reply, unaffected) = waiting();
        table.contribute(elsewhere, (0, 2), vec![1], reply).unwrap();

        local.leave_gathers("m");
        assert_eq!([waits.recv().unwrap(), observes.recv().unwrap()], [None, None]);
        // Later members and gathers, too: none waits for the one that has left.
        for member in [1, 2] {
            let ended = local.all_gather(V, (member, 3), vec![]).unwrap_err();
            assert_eq!(ended.kind(), Kind::Closed);
        }
        let later = GatherName { name: "later", ..V };
        assert_eq!(local.all_gather(later, (0, 2), vec![]).unwrap_err().kind(), Kind::Closed);
        assert_eq!(local.observe(later).unwrap_err().kind(), Kind::Closed);
        // What was complete, and other modules, keep their values.
        assert_eq!(local.observe(complete).unwrap(), [[7]]);
        assert_eq!(local.all_gather(elsewhere, (1, 2), vec![2]).unwrap(), [[1], [2]]);
        assert_eq!(unaffected.recv().unwrap().unwrap(), [[1], [2]]);
    }
}
