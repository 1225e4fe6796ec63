//! Refused callers, and why, as lines for a log. A stranger causes them, so their number, their
//! length and their characters are bounded here, before anybody prints them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use arrow::temporal_conversions::timestamp_s_to_datetime;
use euphrates_policy::quota::Quota;

/// Lines that are printed in a second; of the others the next second tells the number.
pub const LINES_PER_SECOND_MAX: usize = 10;
/// Characters of a line behind its time.
const LINE_MAX: usize = 256;

/// Refusals that have not been printed.
#[derive(Debug)]
pub struct Refusals(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The first of them, and when each was added.
    first: VecDeque<(SystemTime, String)>,
    /// How many more there were.
    more: u64,
    quota: Quota,
}

impl Default for Refusals {
    fn default() -> Refusals {
        let quota = Quota::new(LINES_PER_SECOND_MAX as u64);
        Refusals(Mutex::new(State { first: VecDeque::new(), more: 0, quota }))
    }
}

impl Refusals {
    /// Somebody was refused: who, by address and what was asked for, and why.
    pub fn add(&self, who: &str, why: &str) {
        let mut state = self.lock();
        // More than that are never printed at once.
        if state.first.len() == LINES_PER_SECOND_MAX {
            state.more += 1;
            return;
        }
        let line = printable(&format!("refused {who}: {why}"));
        state.first.push_back((SystemTime::now(), line));
    }

    /// The lines to print now. To be asked for a few times a second, whether there are any or not.
    pub fn lines(&self, now: SystemTime) -> Vec<String> {
        let mut state = self.lock();
        let count = state.first.len() as u64 + std::mem::take(&mut state.more);
        let print = state.quota.on_messages(seconds(now) as u64, count);
        let first = std::mem::take(&mut state.first);
        let left_out =
            (print.left_out > 0).then(|| format!("{} refused {} more", time(now), print.left_out));
        let lines = first.into_iter().take(print.messages as usize);
        left_out.into_iter().chain(lines.map(|(at, line)| format!("{} {line}", time(at)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}

/// In UTC, as ISO 8601 has it.
fn time(time: SystemTime) -> String {
    let known = timestamp_s_to_datetime(seconds(time));
    known.map_or_else(String::new, |time| format!("{time:?}Z"))
}

/// Without characters that a terminal obeys or that begin a new line, and no longer than a line.
fn printable(text: &str) -> String {
    let mut line = String::new();
    for letter in text.chars() {
        match letter {
            ' '..='~' if letter != '\\' => line.push(letter),
            // Escaped also beyond ASCII: some of it turns the direction of a line.
            letter => line.extend(letter.escape_default()),
        }
        if line.len() >= LINE_MAX {
            line.truncate(LINE_MAX);
            return line + "...";
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_are_few_short_and_of_plain_characters() {
        let refusals = Refusals::default();
        refusals.add("10.0.0.1:7 GET /\x1b[2J\n\u{202e}", &"x".repeat(5000));
        let now = SystemTime::now();
        let lines = refusals.lines(now);
        assert_eq!(lines.len(), 1);
        let expected = "refused 10.0.0.1:7 GET /\\u{1b}[2J\\n\\u{202e}: xxx";
        assert_eq!(lines[0].split_once("Z ").unwrap().1[..expected.len()], *expected);
        assert!(lines[0].len() < 300 && lines[0].ends_with("x..."), "{}", lines[0]);
        (0..1000).for_each(|_| refusals.add("10.0.0.1:7", "no"));
        let lines = refusals.lines(now);
        assert_eq!(lines.len(), LINES_PER_SECOND_MAX - 1);
        let lines = refusals.lines(now + Duration::from_secs(1));
        assert!(lines.len() == 1 && lines[0].ends_with("refused 991 more"), "{lines:?}");
    }

    #[test]
    fn times_are_of_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(930_830_400);
        assert_eq!(time(at), "1999-07-01T12:00:00Z");
    }
}
