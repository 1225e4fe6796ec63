//! What the instances of a flow agree on: numbers dealt one by one, and values brought together.
//! There is one table for a flow, with its master; instances elsewhere ask by letters.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use euphrates_flow::{Cancel, Commons, Error, Result};
use parking_lot::{Mutex, MutexGuard};

/// How often who waits for others looks whether the flow was cancelled.
const LOOK: Duration = Duration::from_millis(50);

/// Gets the values of all members, when they are there.
pub type Reply = Box<dyn FnOnce(Vec<Vec<u8>>) + Send>;

/// Numbers and values by name.
#[derive(Default)]
pub struct Table {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many numbers of each name.
    given: HashMap<String, u64>,
    gatherings: HashMap<String, Gathering>,
}

/// Of values that are brought, or are waited for.
#[derive(Default)]
struct Gathering {
    /// One a member, as soon as one has come.
    values: Vec<Option<Vec<u8>>>,
    replies: Vec<Reply>,
}

impl Gathering {
    fn is_complete(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(Option::is_some)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Table")
    }
}

impl Table {
    /// The next number of this name.
    pub fn next(&self, name: &str) -> u64 {
        let mut state = self.state.lock();
        match state.given.get_mut(name) {
            Some(given) => {
                *given += 1;
                *given - 1
            }
            None => {
                state.given.insert(name.to_string(), 1);
                0
            }
        }
    }

    /// How many numbers of this name have been given.
    pub fn given(&self, name: &str) -> u64 {
        self.state.lock().given.get(name).copied().unwrap_or_default()
    }

    /// One of so many members brings its value; all get those of all, when the last has come.
    pub fn bring(
        &self,
        name: &str,
        (member, members): (usize, usize),
        value: Vec<u8>,
        reply: Reply,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let gathering = state.gatherings.entry(name.to_string()).or_default();
        if gathering.values.is_empty() {
            gathering.values = vec![None; members];
        }
        let place = gathering.values.get_mut(member).filter(|place| place.is_none());
        let wrong = || Error::failed(format!("member {member} came to {name} out of place"));
        *place.ok_or_else(wrong)? = Some(value);
        gathering.replies.push(reply);
        answer(state, name);
        Ok(())
    }

    /// Somebody who is no member gets the values of all, when the last has come.
    pub fn learn(&self, name: &str, reply: Reply) {
        let mut state = self.state.lock();
        state.gatherings.entry(name.to_string()).or_default().replies.push(reply);
        answer(state, name);
    }
}

/// Tells the values of a gathering to those who wait for them, if all have come. They stay, for
/// those who come to learn them later.
fn answer(mut state: MutexGuard<'_, State>, name: &str) {
    let Some(gathering) = state.gatherings.get_mut(name).filter(|all| all.is_complete()) else {
        return;
    };
    let values: Vec<Vec<u8>> = gathering.values.iter().flatten().cloned().collect();
    let replies = std::mem::take(&mut gathering.replies);
    drop(state);
    replies.into_iter().for_each(|reply| reply(values.clone()));
}

/// The table, for instances in its own process.
#[derive(Debug)]
pub struct Here {
    table: Arc<Table>,
    cancel: Arc<Cancel>,
}

impl Here {
    /// Waiting ends with the flow.
    pub fn new(table: Arc<Table>, cancel: Arc<Cancel>) -> Here {
        Here { table, cancel }
    }
}

impl Commons for Here {
    fn next(&self, name: &str) -> Result<u64> {
        Ok(self.table.next(name))
    }

    fn given(&self, name: &str) -> Result<u64> {
        Ok(self.table.given(name))
    }

    fn gather(
        &self,
        name: &str,
        member: usize,
        members: usize,
        value: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        let (reply, from) = waiting();
        self.table.bring(name, (member, members), value, reply)?;
        await_reply(&from, &self.cancel)
    }

    fn learn(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let (reply, from) = waiting();
        self.table.learn(name, reply);
        await_reply(&from, &self.cancel)
    }
}

fn waiting() -> (Reply, Receiver<Vec<Vec<u8>>>) {
    let (to, from) = channel();
    let reply = Box::new(move |values| {
        // Whoever asked may have been cancelled meanwhile.
        let _ = to.send(values);
    });
    (reply, from)
}

/// Waits for an answer, as long as the flow goes on and somebody may give one.
pub fn await_reply<T>(from: &Receiver<T>, cancel: &Cancel) -> Result<T> {
    loop {
        match from.recv_timeout(LOOK) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => cancel.check()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::interrupted()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_dealt_once_and_values_come_in_the_order_of_members() {
        let table = Arc::new(Table::default());
        let cancel = Arc::new(Cancel::default());
        let threads: Vec<_> = (0..4)
            .map(|member| {
                let here = Here::new(table.clone(), cancel.clone());
                std::thread::spawn(move || {
                    let numbers: Vec<u64> = (0..100).map(|_| here.next("n").unwrap()).collect();
                    let values = here.gather("v", member, 4, vec![member as u8]).unwrap();
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
    fn who_is_no_member_learns_what_all_have_brought_before_or_after() {
        let table = Arc::new(Table::default());
        let here = Here::new(table.clone(), Arc::new(Cancel::default()));
        let early = {
            let here = Here::new(table, Arc::new(Cancel::default()));
            std::thread::spawn(move || here.learn("v").unwrap())
        };
        assert_eq!(here.gather("v", 0, 1, vec![7]).unwrap(), [[7]]);
        assert_eq!(early.join().unwrap(), [[7]]);
        assert_eq!(here.learn("v").unwrap(), [[7]]);
    }

    #[test]
    fn who_waits_for_others_ends_with_the_flow_and_nobody_comes_twice() {
        let (table, cancel) = (Arc::new(Table::default()), Arc::new(Cancel::default()));
        let here = Here::new(table.clone(), cancel.clone());
        cancel.cancel();
        assert!(here.gather("v", 0, 2, vec![]).is_err());
        assert!(table.bring("v", (0, 2), vec![], Box::new(|_| ())).is_err());
        assert!(table.bring("v", (2, 2), vec![], Box::new(|_| ())).is_err());
    }
}
