//! The types of launches and lists: orders, entries of running programs and flows, exit statuses.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use euphrates_flow::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::host;

/// The longest command line or flow name in a list.
const WHAT_CHARACTERS_MAX: usize = 500;

/// The order to run a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// A path, or a name to be found in the worker's `PATH`.
    pub program: String,
    /// The arguments, without the program.
    pub arguments: Vec<String>,
    /// Environment variables besides the worker's.
    pub env: BTreeMap<String, String>,
    /// The working directory; the worker's if absent.
    pub cwd: Option<PathBuf>,
    /// It continues when its master disconnects; its output is discarded.
    pub is_detached: bool,
    /// Its standard input is sent by the master; otherwise it is empty.
    pub has_stdin: bool,
}

impl LaunchOrder {
    /// The command line, shortened for a list.
    ///
    /// ```
    /// use euphrates_launch::LaunchOrder;
    ///
    /// let arguments = ["-c", "exit 3"].map(String::from).to_vec();
    /// let order = LaunchOrder { program: "sh".into(), arguments, ..LaunchOrder::default() };
    /// assert_eq!(order.line(), "sh -c exit 3");
    /// let long = LaunchOrder { program: "x".repeat(1000), ..order };
    /// assert_eq!(long.line().chars().count(), 501, "500, and an ellipsis");
    /// ```
    pub fn line(&self) -> String {
        let words: Vec<&str> =
            [&self.program].into_iter().chain(&self.arguments).map(String::as_str).collect();
        shortened(&words.join(" "))
    }
}

/// A text shortened to what a list has room for.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(WHAT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// The process of the master that has started something.
///
/// ```
/// use euphrates_launch::Origin;
///
/// let origin = Origin { host: "node7".into(), user: "ada".into(), pid: 42 };
/// assert_eq!(origin.to_string(), "ada@node7:42");
/// assert_eq!(Origin::here().pid, std::process::id());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of its machine.
    pub host: String,
    /// The name of its user.
    pub user: String,
    /// The process number there.
    pub pid: u32,
}

impl Origin {
    /// The origin of what this process starts.
    pub fn here() -> Origin {
        Origin { host: host::machine_name(), user: host::user_name(), pid: std::process::id() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.host, self.pid)
    }
}

/// A stream that a program writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// The standard output stream.
    Stdout,
    /// The standard error stream.
    Stderr,
}

/// How a program has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// It has exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It was lost with its worker, for this reason.
    Lost(Error),
}

impl ProgramEnd {
    /// The code as shells count: 128 plus the signal. A lost program has no code; the launch fails
    /// as for any missing resource.
    ///
    /// ```
    /// use euphrates_launch::ProgramEnd;
    ///
    /// assert_eq!(ProgramEnd::Exited(3).exit_code(), 3);
    /// let killed = ProgramEnd::Killed(9);
    /// assert_eq!((killed.exit_code(), &*killed.to_string()), (137, "was killed by signal 9"));
    /// ```
    pub fn exit_code(&self) -> u8 {
        match self {
            // The system keeps eight bits.
            ProgramEnd::Exited(code) => *code as u8,
            ProgramEnd::Killed(signal) => 128_u8.wrapping_add(*signal as u8),
            ProgramEnd::Lost(_) => euphrates_flow::Kind::Resource.exit_code(),
        }
    }
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramEnd::Exited(code) => write!(f, "exited with {code}"),
            ProgramEnd::Killed(signal) => write!(f, "was killed by signal {signal}"),
            ProgramEnd::Lost(_) => f.write_str("is lost"),
        }
    }
}

/// The id of something that runs: the number of a flow or launch, and the program's number in it.
///
/// ```
/// use euphrates_launch::Id;
///
/// let third = Id { number: 0xabc, rank: Some(2) };
/// assert_eq!(third.to_string(), "00000abc.2");
/// assert!(third.answers_to("00000abc.2") && third.answers_to("00000abc"));
/// assert!(!third.answers_to("00000abc.1"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id {
    /// The number of the flow or launch.
    pub number: u64,
    /// The program's number in the launch.
    pub rank: Option<usize>,
}

impl Id {
    /// Whether a written id denotes this: the id of a launch denotes all its programs.
    pub fn answers_to(&self, word: &str) -> bool {
        let whole = Id { rank: None, ..*self };
        self.to_string() == word || whole.to_string() == word
    }
}

/// The lower half of the number, which differs between launches.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.number as u32)?;
        self.rank.map_or(Ok(()), |rank| write!(f, ".{rank}"))
    }
}

/// A program or flow that runs at a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramEntry {
    /// Its id in lists.
    pub id: Id,
    /// The name of the worker, which the master fills in.
    #[serde(default)]
    pub worker: String,
    /// Whether it is a flow.
    pub is_flow: bool,
    /// The command line, or the name of the flow.
    pub what: String,
    /// Whether it runs, or has ended.
    pub state: ProgramState,
    /// The process that has started it.
    pub origin: Origin,
    /// The number of its process, if it has one of its own.
    pub pid: Option<u32>,
    /// Seconds since its start.
    pub seconds: f64,
    /// CPU seconds, of a program with all its children, of a flow with its instances here.
    pub cpu_seconds: f64,
    /// The memory in use; absent for flows, which use the worker's.
    pub memory_bytes: Option<u64>,
}

impl ProgramEntry {
    /// The entry in JSON, as other programs read it.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "worker": self.worker,
            "kind": if self.is_flow { "flow" } else { "program" },
            "what": self.what,
            "state": self.state,
            "host": self.origin.host,
            "user": self.origin.user,
            "started_by": self.origin.pid,
            "pid": self.pid,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "memory_bytes": self.memory_bytes,
        })
    }
}

/// The state of a program or flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramState {
    /// Started and not asked to stop.
    Running,
    /// Asked to stop, and not ended.
    Stopping,
    /// Ended, with output that was not read yet.
    Ended,
}

impl fmt::Display for ProgramState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProgramState::Running => "running",
            ProgramState::Stopping => "stopping",
            ProgramState::Ended => "ended",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_half_of_the_number_and_the_rank() {
        let id = Id { number: 0x0123_4567_89ab_cdef, rank: Some(3) };
        assert_eq!(id.to_string(), "89abcdef.3");
        assert!(id.answers_to("89abcdef") && id.answers_to("89abcdef.3"));
        assert!(!id.answers_to("89abcdef.1") && !id.answers_to("89abcde"));
        let flow = Id { number: 5, rank: None };
        assert!(flow.answers_to("00000005") && !flow.answers_to("00000005.0"));
    }

    #[test]
    fn long_command_lines_are_shortened() {
        let order = LaunchOrder { program: "é".into(), ..LaunchOrder::default() };
        assert_eq!(order.line(), "é");
        let order = LaunchOrder { arguments: vec!["é".repeat(1000)], ..order };
        assert_eq!(order.line(), format!("é {}…", "é".repeat(WHAT_CHARACTERS_MAX - 2)));
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!(ProgramEnd::Exited(0).exit_code(), 0);
        assert_eq!(ProgramEnd::Exited(3).exit_code(), 3);
        assert_eq!(ProgramEnd::Killed(9).exit_code(), 137);
        assert_eq!(ProgramEnd::Lost(Error::resource("gone")).exit_code(), 4);
    }
}
