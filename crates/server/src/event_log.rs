//! The event log of a flow: a file with one JSON object a line, each written at once, so that the
//! log of a killed process is complete up to its last line, which may be torn.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use euphrates_engine::observe::observer::{FlowEvent, FlowObserver};
use euphrates_engine::observe::totals::ModuleTotals;
use euphrates_flow::check::CheckedFlow;
use euphrates_flow::{Document, Error, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::flow_map::drawn_module;
use crate::runs::view::failure;

/// The version of the format: raised when a reader of the former one would misread it.
pub const FORMAT: u32 = 1;
/// The largest log that is read, in bytes.
const READ_BYTES_MAX: u64 = 1 << 30;

/// An observer that appends each event to a file.
pub struct EventLog {
    file: Mutex<File>,
    /// Set when a write has failed: the log ends there, and the flow continues.
    has_failed: AtomicBool,
    /// By queue of the checked flow: its consumer in the document.
    consumers: OnceLock<Vec<String>>,
}

impl EventLog {
    /// Creates the file, which only its owner can read, since the document of a flow may name
    /// secrets. An existing file is replaced.
    ///
    /// ```
    /// use euphrates_server::event_log::EventLog;
    /// use std::path::Path;
    ///
    /// let refused = EventLog::create(Path::new("/proc/no/log.jsonl")).err().unwrap();
    /// assert!(refused.to_string().contains("/proc/no/log.jsonl"));
    /// assert!(refused.advice().is_some());
    /// ```
    pub fn create(path: &Path) -> Result<EventLog> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path);
        let file = file.map_err(|error| Error::os("write the event log", path, &error))?;
        let (file, has_failed) = (Mutex::new(file), AtomicBool::new(false));
        Ok(EventLog { file, has_failed, consumers: OnceLock::new() })
    }

    fn append(&self, kind: &str, mut event: Value) {
        if self.has_failed.load(Relaxed) {
            return;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        event["time"] = json!(now.as_secs_f64());
        event["kind"] = json!(kind);
        // One call for each line, so that no reader sees half of one while the process lives.
        if self.file.lock().write_all(format!("{event}\n").as_bytes()).is_err() {
            self.has_failed.store(true, Relaxed);
        }
    }
}

impl FlowObserver for EventLog {
    fn on_event(&self, event: &FlowEvent<'_>) {
        let of_module = |module: &ModuleTotals| json!({"module": module.id, "totals": module});
        match event {
            FlowEvent::Started { document, flow, totals } => {
                let _ = self.consumers.set(consumers(document, flow));
                let document: Value = serde_json::from_str(&document.to_json()).unwrap_or_default();
                let started = json!({
                    "format": FORMAT,
                    "version": env!("CARGO_PKG_VERSION"),
                    "pid": std::process::id(),
                    "document": document,
                    "totals": totals,
                });
                self.append("started", started);
            }
            FlowEvent::WorkerJoined(name) => self.append("worker_joined", json!({"worker": name})),
            FlowEvent::WorkerLost(name) => self.append("worker_lost", json!({"worker": name})),
            FlowEvent::ModuleStarted(module) => self.append("module_started", of_module(module)),
            FlowEvent::ModuleFinished(module) => self.append("module_finished", of_module(module)),
            FlowEvent::SpillBegan(module) => self.append("spill_began", of_module(module)),
            FlowEvent::SlowBegan(slow) => {
                self.append("slow_began", json!({"component": slow.name, "factor": slow.factor}));
            }
            FlowEvent::SlowEnded(name) => self.append("slow_ended", json!({"component": name})),
            FlowEvent::Progress { totals, live } => {
                let mut live = json!(live);
                let queues = live["queues"].as_array_mut().into_iter().flatten();
                for (queue, to) in queues.zip(self.consumers.get().into_iter().flatten()) {
                    queue["to"][0] = json!(to);
                }
                self.append("progress", json!({"totals": totals, "live": live}));
            }
            FlowEvent::Restarted { cause, cost } => {
                self.append("restarted", json!({"cause": cause, "restarts": cost}));
            }
            FlowEvent::Committed => self.append("committed", json!({})),
            FlowEvent::Finished(report) => {
                self.append("finished", json!({"report": report, "page": report.to_string()}));
            }
            FlowEvent::Failed(error) => self.append("failed", json!({"error": failure(error)})),
        }
    }
}

/// By queue of the checked flow: its consumer in the document.
fn consumers(document: &Document, flow: &CheckedFlow) -> Vec<String> {
    let drawn = |node| drawn_module(document, (&flow.nodes, &flow.edges), node);
    flow.edges.iter().map(|edge| drawn(edge.to.0).to_string()).collect()
}

/// The events of a log, in their order. A last line that is torn is left out; any other line that
/// is no event is an error.
pub fn read_events(path: &Path) -> Result<Vec<Value>> {
    let failed = |error| Error::os("read", path, &error);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = vec![];
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes[..whole].split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let event = |(number, line): (usize, &[u8])| {
        let event: Option<Value> = serde_json::from_slice(line).ok();
        event.filter(|event| event["kind"].is_string()).ok_or_else(|| {
            let message = format!("line {} of {} is no event", number + 1, path.display());
            Error::corrupt(message).remedy("name a file that `--event-log` has written")
        })
    };
    lines.map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_last_line_is_left_out_and_other_lines_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = EventLog::create(&path).unwrap();
        log.on_event(&FlowEvent::WorkerJoined("w\"1\n"));
        log.on_event(&FlowEvent::Committed);
        let whole = std::fs::read_to_string(&path).unwrap();
        assert_eq!(whole.lines().count(), 2);
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole.as_bytes()[..end]).unwrap();
            let events = read_events(&path).unwrap();
            assert_eq!(events.len(), whole[..end].matches('\n').count(), "{end}");
        }
        assert_eq!(read_events(&path).unwrap()[0]["worker"], "w\"1\n");
        std::fs::write(&path, format!("torn{whole}")).unwrap();
        let error = read_events(&path).unwrap_err();
        assert!(error.message().starts_with("line 1 of "), "{error}");
    }
}
