//! Follows the workers that join a cluster while a flow runs.

use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use euphrates_flow::Owner;
use parking_lot::{Condvar, Mutex};

use crate::cluster::Cluster;

/// How often a cluster is asked for workers that have joined.
const JOIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The growth of one flow.
pub(crate) struct Growth {
    /// When the instances of the present attempt were started.
    pub started: Instant,
    /// The time that the start of the attempt has taken.
    pub start_cost: Duration,
    /// The workers that join the next attempt, once the claims of the present one have been ended.
    pub joining: Option<Vec<String>>,
    _newcomers: NewcomerThread,
}

impl Growth {
    /// Follows the workers that join a cluster. Fails without a thread for it.
    pub fn new(cluster: Weak<Cluster>, start_cost: Duration) -> std::io::Result<Growth> {
        let _newcomers = NewcomerThread::start(cluster)?;
        Ok(Growth { started: Instant::now(), start_cost, joining: None, _newcomers })
    }

    /// Another attempt has begun.
    pub fn on_attempt(&mut self, start_cost: Duration) {
        (self.started, self.start_cost, self.joining) = (Instant::now(), start_cost, None);
    }
}

/// Lets workers that have joined enter the roster, until it is dropped. Dropping it waits for the
/// thread, so that no thread holds the cluster when its program closes it.
struct NewcomerThread {
    has_ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    owner: Owner,
}

impl NewcomerThread {
    fn start(cluster: Weak<Cluster>) -> std::io::Result<NewcomerThread> {
        let has_ended = Arc::<(Mutex<bool>, Condvar)>::default();
        let ended = has_ended.clone();
        let poll = move || {
            let (has_ended, changed) = &*ended;
            loop {
                let mut has_ended = has_ended.lock();
                if !*has_ended {
                    changed.wait_for(&mut has_ended, JOIN_POLL_INTERVAL);
                }
                if *has_ended {
                    return;
                }
                drop(has_ended);
                let Some(cluster) = cluster.upgrade() else { return };
                cluster.admit_newcomers();
                cluster.revive();
            }
        };
        let thread = Some(thread::Builder::new().name("newcomers".into()).spawn(poll)?);
        Ok(NewcomerThread { has_ended, thread, owner: Owner::here() })
    }
}

impl Drop for NewcomerThread {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        let (has_ended, changed) = &*self.has_ended;
        *has_ended.lock() = true;
        changed.notify_all();
        // A panic of the thread ends the growth of the flow, and nothing else.
        self.thread.take().map(JoinHandle::join).into_iter().for_each(drop);
    }
}
