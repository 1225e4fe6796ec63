//! Lists and kills the programs and flows on a cluster, for all its masters, like GLUnix's global
//! process list (Berkeley NOW). Every worker lists its own part.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use euphrates_launch::{LaunchRequest, Notice, ProgramEnd, ProgramEntry, STOP_GRACE};

use super::Cluster;
use super::control_connection::{WorkerEvent, WorkerHandle};

/// How long workers may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// All programs and flows, the oldest first.
pub fn list(cluster: &Cluster) -> Result<Vec<ProgramEntry>> {
    let mut all = vec![];
    Question::ask(cluster, &LaunchRequest::List).collect(ANSWER_WAIT, |worker, notice| {
        if let Notice::Listed { entries } = notice {
            let named = |entry| ProgramEntry { worker: worker.to_string(), ..entry };
            all.extend(entries.into_iter().map(named));
        }
    })?;
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.id.cmp(&b.id)));
    Ok(all)
}

/// A killed program or flow, and how a program has ended.
pub type Killed = (ProgramEntry, Option<ProgramEnd>);

/// Kills the programs and flows with these ids; all, if none is given. Those started meanwhile go
/// on.
pub fn kill(cluster: &Cluster, words: &[String], at_once: bool) -> Result<Vec<Killed>> {
    let entries = list(cluster)?;
    for word in words {
        if !entries.iter().any(|entry| entry.id.answers_to(word)) {
            let known: Vec<String> = entries.iter().map(|entry| entry.id.to_string()).collect();
            return Err(unknown("program or flow", word, known.iter().map(String::as_str)));
        }
    }
    let is_meant = |entry: &&ProgramEntry| {
        words.is_empty() || words.iter().any(|word| entry.id.answers_to(word))
    };
    let ids = entries.iter().filter(is_meant).map(|entry| entry.id).collect();
    let mut all = vec![];
    let question = Question::ask(cluster, &LaunchRequest::Kill { ids, at_once });
    question.collect(STOP_GRACE + ANSWER_WAIT, |worker, notice| {
        if let Notice::Killed { entry, end } = notice {
            all.push((ProgramEntry { worker: worker.to_string(), ..*entry }, end));
        }
    })?;
    all.sort_by_key(|(entry, _)| entry.id);
    Ok(all)
}

/// A request to all workers, and their answers.
struct Question {
    number: u64,
    handles: Vec<Arc<WorkerHandle>>,
    answers: Receiver<(usize, WorkerEvent<Notice>)>,
    /// By worker: the notices it still owes.
    due: Vec<Due>,
}

/// Notices about killed programs may come before their number.
#[derive(Clone, Copy, Default)]
struct Due {
    killed: usize,
    of: Option<usize>,
}

impl Question {
    fn ask(cluster: &Cluster, request: &LaunchRequest) -> Question {
        let (number, handles) = (cluster.next_flow(), cluster.roster.living());
        let (sender, answers) = channel();
        for (at, handle) in handles.iter().enumerate() {
            let sender = sender.clone();
            // The receiver may be gone.
            handle.listen_to_launch(number, move |event| drop(sender.send((at, event))));
            handle.launch(number, request, vec![]);
        }
        Question { number, due: vec![Due::default(); handles.len()], handles, answers }
    }

    /// Calls `on_notice` with each notice and the worker's name. Does not wait for a lost worker.
    fn collect(mut self, within: Duration, mut on_notice: impl FnMut(&str, Notice)) -> Result<()> {
        let deadline = Instant::now() + within;
        while let Some(silent) = self.due.iter().position(|due| due.of != Some(due.killed)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((at, event)) = self.answers.recv_timeout(left) else {
                let name = &self.handles[silent].member().name;
                return Err(Error::resource(format!("worker {name} does not answer")));
            };
            let due = &mut self.due[at];
            match event {
                WorkerEvent::Message(notice, _) => {
                    match &notice {
                        Notice::Listed { .. } => due.of = Some(0),
                        Notice::Killing { count } => due.of = Some(*count),
                        Notice::Killed { .. } => due.killed += 1,
                        _ => {}
                    }
                    on_notice(&self.handles[at].member().name, notice);
                }
                WorkerEvent::Draining => {}
                WorkerEvent::Lost(_) => due.of = Some(due.killed),
            }
        }
        Ok(())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.handles.iter().for_each(|handle| handle.forget_launch(self.number));
    }
}
