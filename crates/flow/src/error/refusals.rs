//! Log lines about rejected connections. Untrusted peers cause them, so their number, length and
//! characters are restricted before they are printed.

use std::collections::VecDeque;
use std::time::SystemTime;

use arrow::temporal_conversions::timestamp_s_to_datetime;
use euphrates_policy::log_limiter::Quota;
use parking_lot::Mutex;

/// Maximum lines printed per second; the number of lines left out is printed in the next second.
pub(crate) const LINES_PER_SECOND_MAX: usize = 10;
/// Characters of a line behind its time after which it is cut and `...` is added.
const LINE_MAX: usize = 256;

/// Refusals that have not been printed yet.
///
/// ```
/// use euphrates_flow::Refusals;
/// use std::time::SystemTime;
///
/// let refusals = Refusals::default();
/// (0..12).for_each(|_| refusals.add("10.0.0.9", "no token"));
/// let lines = refusals.lines(SystemTime::UNIX_EPOCH);
/// assert_eq!(lines.len(), 10, "per second");
/// assert!(lines[0].ends_with("refused 10.0.0.9: no token"));
/// ```
#[derive(Debug)]
pub struct Refusals(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The first lines, with the time of each.
    first: VecDeque<(SystemTime, String)>,
    /// The number of refusals beyond `first`.
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
    /// Adds a refusal: `who` is the address and the request, `why` the reason.
    pub fn add(&self, who: &str, why: &str) {
        let mut state = self.0.lock();
        // No more lines are printed at once.
        if state.first.len() == LINES_PER_SECOND_MAX {
            state.more += 1;
            return;
        }
        let line = printable(&format!("refused {who}: {why}"));
        state.first.push_back((SystemTime::now(), line));
    }

    /// The lines to print now. Must be polled a few times a second, also without refusals, so that
    /// the number of lines left out is printed.
    pub fn lines(&self, now: SystemTime) -> Vec<String> {
        let mut state = self.0.lock();
        let count = state.first.len() as u64 + std::mem::take(&mut state.more);
        let print = state.quota.on_messages(seconds(now) as u64, count);
        let first = std::mem::take(&mut state.first);
        let left_out =
            (print.left_out > 0).then(|| format!("{} refused {} more", time(now), print.left_out));
        let lines = first.into_iter().take(print.messages as usize);
        left_out.into_iter().chain(lines.map(|(at, line)| format!("{} {line}", time(at)))).collect()
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}

/// The time in UTC, in ISO 8601.
fn time(time: SystemTime) -> String {
    let known = timestamp_s_to_datetime(seconds(time));
    known.map_or_else(String::new, |time| format!("{time:?}Z"))
}

/// The text with control characters, line breaks, backslashes and all non-ASCII characters escaped,
/// cut to the length of a line.
fn printable(text: &str) -> String {
    let mut line = String::new();
    for letter in text.chars() {
        match letter {
            ' '..='~' if letter != '\\' => line.push(letter),
            // Escapes non-ASCII characters too, since some change the reading direction.
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
    fn log_lines_are_bounded_and_printable() {
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
    fn times_are_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(930_830_400);
        assert_eq!(time(at), "1999-07-01T12:00:00Z");
    }
}
