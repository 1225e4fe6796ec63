//! Events for the page. Each topic keeps its newest state only, and each stream remembers the
//! number of the last event that it has sent. A slow reader therefore skips states, and needs no
//! buffer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::http::error::{ApiError, Result};

/// The largest number of open streams.
const STREAMS_MAX: usize = 8;
/// Topics that are kept besides `progress`; the oldest is dropped first.
const OTHER_TOPICS_MAX: usize = 64;

/// The newest state of each topic.
pub struct Events {
    topics: Mutex<Topics>,
    newest: watch::Sender<u64>,
    streams: Arc<Semaphore>,
    /// Runs that have not ended, with the modification time of the progress published last.
    live: Mutex<BTreeMap<String, Option<SystemTime>>>,
    /// Distinguishes event numbers of this server from those of another.
    server: String,
}

#[derive(Default)]
struct Topics {
    number: u64,
    /// By event and subject: the number of the newest state, and the state.
    states: BTreeMap<(&'static str, String), (u64, String)>,
}

impl Default for Events {
    fn default() -> Events {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Events {
            topics: Mutex::default(),
            newest: watch::channel(0).0,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            live: Mutex::default(),
            server: format!("{:x}", now.as_micros()),
        }
    }
}

impl Events {
    /// A permit for a new stream; an error if too many are open.
    pub fn open_stream(&self) -> Result<OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            ApiError::too_many(format!("{STREAMS_MAX} tabs are open already")).remedy("close one")
        })
    }

    /// A receiver that is notified of new events.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The runs that have not ended, with the modification time of the progress published last.
    pub fn live(&self) -> BTreeMap<String, Option<SystemTime>> {
        self.live.lock().clone()
    }

    /// Records the modification time of the progress published last.
    pub fn set_published(&self, id: &str, written: Option<SystemTime>) {
        if let Some(published) = self.live.lock().get_mut(id) {
            *published = written;
        }
    }

    /// Publishes no more progress of these runs.
    pub fn unfollow(&self, ended: &BTreeSet<String>) {
        self.live.lock().retain(|id, _| !ended.contains(id));
    }

    /// Publishes the progress of a run from now on.
    pub fn follow(&self, id: &str) {
        self.live.lock().insert(id.to_string(), None);
        self.publish("runs", "", &json!({}));
    }

    /// Publishes the progress of the running ones, some of which another server may have started.
    pub fn follow_running(&self, runs: &[Value]) {
        let mut live = self.live.lock();
        let running = runs.iter().filter(|run| run["state"] == "running");
        for id in running.filter_map(|run| run["id"].as_str()) {
            live.entry(id.to_string()).or_default();
        }
    }

    /// Sets the state of a topic.
    pub fn publish(&self, event: &'static str, of: &str, state: &Value) {
        let mut topics = self.topics.lock();
        topics.number += 1;
        let number = topics.number;
        topics.states.insert((event, of.to_string()), (number, state.to_string()));
        topics.drop_oldest();
        drop(topics);
        self.newest.send_replace(number);
    }

    /// Removes a topic, if it exists.
    pub fn remove(&self, event: &'static str, of: &str) {
        self.topics.lock().states.remove(&(event, of.to_string()));
    }

    /// The events after number `seen` as text of the stream, and the number of the last event.
    pub fn since(&self, seen: u64) -> (String, u64) {
        let topics = self.topics.lock();
        let mut news: Vec<_> = topics.states.iter().filter(|(_, (at, _))| *at > seen).collect();
        news.sort_by_key(|(_, (at, _))| *at);
        let line = |((event, _), (at, state)): (&(&str, String), &(u64, String))| {
            format!("id: {}-{at}\nevent: {event}\ndata: {state}\n\n", self.server)
        };
        (news.into_iter().map(line).collect(), topics.number)
    }

    /// The number after which a new stream starts: the last event that its reader has received, or
    /// else the one before the progress of running flows.
    pub fn start_of(&self, headers: &HeaderMap) -> u64 {
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let received =
            last.and_then(|id| id.strip_prefix(&self.server)?.strip_prefix('-')?.parse().ok());
        received.unwrap_or_else(|| {
            // The list of runs has the outcome of ended runs.
            let topics = self.topics.lock();
            let running = topics.states.iter().filter(|((event, _), _)| *event == "progress");
            let first = running.map(|(_, (at, _))| *at).min();
            first.map_or(topics.number, |first| first - 1)
        })
    }
}

impl Topics {
    /// Removes the oldest topics above the limit, except `progress`.
    fn drop_oldest(&mut self) {
        while self.states.keys().filter(|(event, _)| *event != "progress").count()
            > OTHER_TOPICS_MAX
        {
            let others = self.states.iter().filter(|((event, _), _)| *event != "progress");
            let oldest = others.min_by_key(|(_, (at, _))| *at).map(|(topic, _)| topic.clone());
            if let Some(oldest) = oldest {
                self.states.remove(&oldest);
            }
        }
    }
}
