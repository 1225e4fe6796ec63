//! Who runs what on a cluster, and how to end it, whoever has started it: GLUnix's global list of
//! processes (Berkeley NOW). Every worker keeps its part; whoever asks puts them together.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use super::Cluster;
use super::handle::{Event, WorkerHandle};
use super::launch::{Ask, End, Entry, STOP_GRACE, Tell};

/// How long workers may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// All that runs, the oldest first.
pub fn list(cluster: &Cluster) -> Result<Vec<Entry>> {
    let mut all = vec![];
    Question::ask(cluster, &Ask::List).hear(ANSWER_WAIT, |worker, tell| {
        if let Tell::Listed { entries } = tell {
            let named = |entry| Entry { worker: worker.to_string(), ..entry };
            all.extend(entries.into_iter().map(named));
        }
    })?;
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.id.cmp(&b.id)));
    Ok(all)
}

/// What has been killed, and how it has ended if it was a program.
pub type Killed = (Entry, Option<End>);

/// Ends what is called so; all that runs, if nothing is said. What has started in the meantime
/// goes on.
pub fn kill(cluster: &Cluster, words: &[String], at_once: bool) -> Result<Vec<Killed>> {
    let entries = list(cluster)?;
    for word in words {
        if !entries.iter().any(|entry| entry.id.answers_to(word)) {
            let known: Vec<String> = entries.iter().map(|entry| entry.id.to_string()).collect();
            return Err(unknown("program or flow", word, known.iter().map(String::as_str)));
        }
    }
    let is_meant =
        |entry: &&Entry| words.is_empty() || words.iter().any(|word| entry.id.answers_to(word));
    let ids = entries.iter().filter(is_meant).map(|entry| entry.id).collect();
    let mut all = vec![];
    let question = Question::ask(cluster, &Ask::Kill { ids, at_once });
    question.hear(STOP_GRACE + ANSWER_WAIT, |worker, tell| {
        if let Tell::Killed { entry, end } = tell {
            all.push((Entry { worker: worker.to_string(), ..*entry }, end));
        }
    })?;
    all.sort_by_key(|(entry, _)| entry.id);
    Ok(all)
}

/// A question to all workers.
struct Question {
    number: u64,
    handles: Vec<Arc<WorkerHandle>>,
    answers: Receiver<(usize, Event<Tell>)>,
    /// What each has still to say.
    due: Vec<Due>,
}

/// What is killed may be told of before how many there are.
#[derive(Clone, Copy, Default)]
struct Due {
    killed: usize,
    of: Option<usize>,
}

impl Question {
    fn ask(cluster: &Cluster, ask: &Ask) -> Question {
        let (number, handles) = (cluster.next_flow(), cluster.living());
        let (tell, answers) = channel();
        for (at, handle) in handles.iter().enumerate() {
            let tell = tell.clone();
            // Whoever has asked may have lost patience.
            handle.listen_to_launch(number, move |event| drop(tell.send((at, event))));
            handle.launch(number, ask, vec![]);
        }
        Question { number, due: vec![Due::default(); handles.len()], handles, answers }
    }

    /// Hears all answers, with the worker's name. Who is lost has nothing more to say.
    fn hear(mut self, within: Duration, mut hear: impl FnMut(&str, Tell)) -> Result<()> {
        let deadline = Instant::now() + within;
        while let Some(silent) = self.due.iter().position(|due| due.of != Some(due.killed)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((at, event)) = self.answers.recv_timeout(left) else {
                let name = &self.handles[silent].member().name;
                return Err(Error::resource(format!("worker {name} does not answer")));
            };
            let due = &mut self.due[at];
            match event {
                Event::Told(tell, _) => {
                    match &tell {
                        Tell::Listed { .. } => due.of = Some(0),
                        Tell::Killing { count } => due.of = Some(*count),
                        Tell::Killed { .. } => due.killed += 1,
                        _ => {}
                    }
                    hear(&self.handles[at].member().name, tell);
                }
                Event::Lost(_) => due.of = Some(due.killed),
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
