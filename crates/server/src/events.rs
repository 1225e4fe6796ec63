//! One stream of events for each tab. What is kept of a topic is its newest state, and every stream
//! remembers what it has told: who reads slowly misses what was in between, and costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use euphrates_flow::Error;
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::record::{PROGRESS, Record};
use crate::refusal::{Refusal, Result};
use crate::routes::response;
use crate::{Studio, lock};

/// Streams at once.
const STREAMS_MAX: usize = 8;
/// The pause between two messages of a stream: four a second.
const PAUSE: Duration = Duration::from_millis(250);
/// A stream that says nothing for so long says that it is there.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Topics that are kept of what is over.
const OVER_MAX: usize = 64;

/// What there is to tell.
pub struct Events {
    topics: Mutex<Topics>,
    newest: watch::Sender<u64>,
    streams: Arc<Semaphore>,
    /// Runs that have not ended, and when each told last how it goes.
    live: Mutex<BTreeMap<String, Option<SystemTime>>>,
    /// Which server this is: numbers of another mean nothing here.
    server: String,
}

#[derive(Default)]
struct Topics {
    number: u64,
    /// By event and whom it is about: the number of its newest state, and that.
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
    /// There is a new run, or one of another server that is still running.
    pub fn follow(&self, id: &str) {
        lock(&self.live).insert(id.to_string(), None);
        self.tell("runs", "", &json!({}));
    }

    /// Somebody looks at runs, some of which may be another server's.
    pub fn look_out_for(&self, runs: &[Value]) {
        let mut live = lock(&self.live);
        let running = runs.iter().filter(|run| run["state"] == "running");
        for id in running.filter_map(|run| run["id"].as_str()) {
            live.entry(id.to_string()).or_default();
        }
    }

    /// A topic has a new state.
    fn tell(&self, event: &'static str, of: &str, state: &Value) {
        let mut topics = lock(&self.topics);
        topics.number += 1;
        let number = topics.number;
        topics.states.insert((event, of.to_string()), (number, state.to_string()));
        topics.forget();
        drop(topics);
        self.newest.send_replace(number);
    }

    fn drop_topic(&self, event: &'static str, of: &str) {
        lock(&self.topics).states.remove(&(event, of.to_string()));
    }

    /// What a stream that has told everything up to a number has to tell, and up to which number
    /// that is.
    fn since(&self, seen: u64) -> (String, u64) {
        let topics = lock(&self.topics);
        let mut news: Vec<_> = topics.states.iter().filter(|(_, (at, _))| *at > seen).collect();
        news.sort_by_key(|(_, (at, _))| *at);
        let line = |((event, _), (at, state)): (&(&str, String), &(u64, String))| {
            format!("id: {}-{at}\nevent: {event}\ndata: {state}\n\n", self.server)
        };
        (news.into_iter().map(line).collect(), topics.number)
    }

    /// Where a stream begins: behind what its reader has heard, or with how things are now.
    fn begin(&self, headers: &HeaderMap) -> u64 {
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let heard =
            last.and_then(|id| id.strip_prefix(&self.server)?.strip_prefix('-')?.parse().ok());
        heard.unwrap_or_else(|| {
            // What is going on is told at once; what is over is in the list of runs.
            let topics = lock(&self.topics);
            let going_on = topics.states.iter().filter(|((event, _), _)| *event == "progress");
            let first = going_on.map(|(_, (at, _))| *at).min();
            first.map_or(topics.number, |first| first - 1)
        })
    }
}

impl Topics {
    /// Forgets what was over first.
    fn forget(&mut self) {
        while self.states.keys().filter(|(event, _)| *event != "progress").count() > OVER_MAX {
            let over = self.states.iter().filter(|((event, _), _)| *event != "progress");
            let oldest = over.min_by_key(|(_, (at, _))| *at).map(|(topic, _)| topic.clone());
            if let Some(oldest) = oldest {
                self.states.remove(&oldest);
            }
        }
    }
}

/// `GET /api/events`
pub fn stream(studio: &Arc<Studio>, headers: &HeaderMap) -> Result<Response> {
    let permit = studio.events.streams.clone().try_acquire_owned().map_err(|_| {
        Refusal::too_many(format!("{STREAMS_MAX} tabs are open already")).remedy("close one")
    })?;
    let seen = studio.events.begin(headers);
    let news = studio.events.newest.subscribe();
    let tab = Tab { studio: Arc::downgrade(studio), news, seen, last: None, _permit: permit };
    let body = stream::unfold(tab, |mut tab| async {
        let text = tab.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), tab))
    });
    Ok(response(StatusCode::OK, "text/event-stream", Body::from_stream(body)))
}

/// One stream. It is asked for more when what it gave has been taken.
struct Tab {
    studio: Weak<Studio>,
    news: watch::Receiver<u64>,
    seen: u64,
    last: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Tab {
    async fn next(&mut self) -> Option<String> {
        let Some(last) = self.last.replace(Instant::now()) else {
            return Some("retry: 1000\n\n".into());
        };
        let deadline = last + SILENCE_MAX;
        sleep(PAUSE.saturating_sub(last.elapsed())).await;
        loop {
            self.news.borrow_and_update();
            let (text, seen) = self.studio.upgrade()?.events.since(self.seen);
            self.seen = seen;
            if !text.is_empty() {
                self.last = Some(Instant::now());
                return Some(text);
            }
            match timeout_at(deadline, self.news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => {
                    self.last = Some(Instant::now());
                    return Some(": here\n\n".into());
                }
            }
        }
    }
}

/// Looks four times a second how runs go, and every second at files, until the server ends.
pub fn watch(studio: &Arc<Studio>) -> euphrates_flow::Result<()> {
    for id in studio.runs.ids() {
        if let Ok(record) = studio.runs.record(&id)
            && studio.runs.is_running(&id, &record)
        {
            studio.events.follow(&id);
        }
    }
    let studio = Arc::downgrade(studio);
    let watch = move || {
        let mut looks = 0_u64;
        while let Some(studio) = studio.upgrade() {
            look_at_runs(&studio);
            if looks.is_multiple_of(4) {
                studio.runs.reap();
                for path in studio.watched.changed(&studio.root) {
                    studio.events.tell("file", &path, &json!({"path": path}));
                }
            }
            looks += 1;
            drop(studio);
            std::thread::sleep(PAUSE);
        }
    };
    let thread = std::thread::Builder::new().name("events".into()).spawn(watch);
    thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
    Ok(())
}

fn look_at_runs(studio: &Studio) {
    let events = &studio.events;
    let live: BTreeMap<String, Option<SystemTime>> = lock(&events.live).clone();
    let mut over = BTreeSet::new();
    for (id, told) in live {
        let Ok(record) = studio.runs.record(&id) else {
            over.insert(id);
            continue;
        };
        let end = studio.runs.end(&id, &record);
        tell_progress(events, &id, &record, told);
        let Some(end) = end else { continue };
        let mut ended = json!({"run": id, "state": end["state"]});
        if let Some(error) = end.get("error") {
            ended["error"] = error.clone();
        }
        events.drop_topic("progress", &id);
        events.tell("ended", &id, &ended);
        if let Some(report) = end.get("report").filter(|report| !report.is_null()) {
            events.tell("report", &id, &json!({"run": id, "report": report}));
        }
        events.tell("runs", "", &json!({}));
        over.insert(id);
    }
    lock(&events.live).retain(|id, _| !over.contains(id));
}

fn tell_progress(events: &Events, id: &str, record: &Record, told: Option<SystemTime>) {
    let written = record.written(PROGRESS);
    if written.is_none() || written == told {
        return;
    }
    // Read and written anew: what is sent is one line of JSON, whatever lies there.
    if let Some(progress) = record.read(PROGRESS) {
        if let Some(known) = lock(&events.live).get_mut(id) {
            *known = written;
        }
        events.tell("progress", id, &progress);
    }
}
