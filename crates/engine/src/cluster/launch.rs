//! Any program on the workers of a cluster: started, heard, listed, stopped. So did Catapult
//! (Millennium Sort, section 3.1) and GLUnix (Berkeley NOW).
//!
//! What a master and a worker say to each other about it is here: JSON in frames of a kind of its
//! own, on the connection that controls flows, with the number of the launch in their headers.
//! What a program writes comes home as bodies of frames, never more than its master has allowed.
//! So a program that floods neither grows anybody's memory nor stands before the words of a flow:
//! it waits at its pipe. On the worker's side is `launch/`, on the master's `launching.rs`.

mod guard;
mod program;
pub(super) mod programs;
mod pump;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use euphrates_flow::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine;

/// The most in one frame of what a program wrote, or is to read.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// The most that is on its way from, or to, one program at one time.
pub const WINDOW_BYTES_MAX: usize = 4 * CHUNK_BYTES_MAX;
/// Programs that one worker runs at one time: each has a thread and a few descriptors.
pub const PROGRAMS_MAX: usize = 128;
/// The most that is said of what is to be run: programs can be given little more.
pub const ORDER_BYTES_MAX: usize = 4 << 20;
/// The most of a program's words, or a flow's name, in a list.
const WHAT_CHARACTERS_MAX: usize = 500;
/// What a program that is to stop may still take.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// What is to be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// A path, or a name that is looked for in the worker's `PATH`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables besides those of the worker.
    pub env: BTreeMap<String, String>,
    /// Where it works; where the worker does, if it is not said.
    pub cwd: Option<PathBuf>,
    /// It stays when its master goes; what it writes to its standard streams is lost.
    pub is_detached: bool,
    /// It reads what its master sends, and not nothing.
    pub has_stdin: bool,
}

impl Order {
    /// As somebody would write it.
    pub fn line(&self) -> String {
        let words: Vec<&str> =
            [&self.program].into_iter().chain(&self.arguments).map(String::as_str).collect();
        shortened(&words.join(" "))
    }
}

/// As much of a text as a list has room for.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(WHAT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Who has started something: the process of a master.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of its machine.
    pub host: String,
    /// Whose it is.
    pub user: String,
    /// Its number there.
    pub pid: u32,
}

impl Origin {
    /// This process.
    pub fn here() -> Origin {
        Origin { host: machine::name(), user: machine::user(), pid: std::process::id() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.host, self.pid)
    }
}

/// What a master wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum Ask {
    /// To be known: said once, before anything else.
    Introduce {
        /// Who it is.
        origin: Origin,
    },
    /// Programs with these numbers.
    Launch {
        /// What is to be run.
        order: Order,
        /// What the master calls the worker.
        worker: String,
        /// The numbers of the programs here, of all the programs of the launch.
        ranks: Vec<usize>,
        /// Programs and workers of the launch.
        size: (usize, usize),
    },
    /// More of what a program writes.
    Allow {
        /// Which.
        rank: usize,
        /// How much more.
        bytes: usize,
    },
    /// Have a program read the body; if that is empty, the end.
    Feed {
        /// Which.
        rank: usize,
    },
    /// Have the launch's programs stop.
    Stop {
        /// At once, and not with a word before.
        at_once: bool,
    },
    /// A list of all that runs.
    List,
    /// Have what somebody has started stop.
    Kill {
        /// Which: what it is called in a list.
        ids: Vec<Id>,
        /// At once, and not with a word before.
        at_once: bool,
    },
}

/// What a worker tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "tell")]
pub enum Tell {
    /// The programs run.
    Started,
    /// They do not; none of them.
    Refused {
        /// Why.
        error: Error,
    },
    /// A program has written the body.
    Wrote {
        /// Which.
        rank: usize,
        /// Where.
        stream: Stream,
    },
    /// A program has read this much of what was fed.
    Read {
        /// Which.
        rank: usize,
        /// How much.
        bytes: usize,
    },
    /// A program is no more, and all that it wrote has been told.
    Ended {
        /// Which.
        rank: usize,
        /// How.
        end: End,
    },
    /// All that runs.
    Listed {
        /// One after the other.
        entries: Vec<Entry>,
    },
    /// So many of those that were to be killed are here; each will be told of.
    Killing {
        /// How many.
        count: usize,
    },
    /// One has been killed.
    Killed {
        /// What it was.
        entry: Box<Entry>,
        /// How a program has ended.
        end: Option<End>,
    },
}

/// Where a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a program has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// With its worker, for this reason.
    Lost(Error),
}

impl End {
    /// As shells count: 128 and the signal. Who is lost has no code; the launch fails as anything
    /// does that lacks a resource.
    pub fn exit_code(&self) -> u8 {
        match self {
            // The system keeps eight bits.
            End::Exited(code) => *code as u8,
            End::Killed(signal) => 128_u8.wrapping_add(*signal as u8),
            End::Lost(_) => euphrates_flow::Kind::Resource.exit_code(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited(code) => write!(f, "exited with {code}"),
            End::Killed(signal) => write!(f, "was killed by signal {signal}"),
            End::Lost(_) => f.write_str("is lost"),
        }
    }
}

/// What something that runs is called: the number of a flow or a launch, and of the program in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id {
    /// Of the flow, or the launch.
    pub number: u64,
    /// Which program of the launch.
    pub rank: Option<usize>,
}

impl Id {
    /// Whether this is what is written: a launch stands for all its programs.
    pub fn answers_to(&self, word: &str) -> bool {
        let whole = Id { rank: None, ..*self };
        self.to_string() == word || whole.to_string() == word
    }
}

/// The half of the number that differs from one thing to the next.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.number as u32)?;
        self.rank.map_or(Ok(()), |rank| write!(f, ".{rank}"))
    }
}

/// Something that runs at a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// What it is called.
    pub id: Id,
    /// The worker; the master fills it in, who gave it its name.
    #[serde(default)]
    pub worker: String,
    /// Whether it is a flow.
    pub is_flow: bool,
    /// The program with its arguments, or the flow.
    pub what: String,
    /// How it stands.
    pub state: State,
    /// Who has started it.
    pub origin: Origin,
    /// Its process, if it has one of its own.
    pub pid: Option<u32>,
    /// How long it has run.
    pub seconds: f64,
    /// What it has computed, with all that it has started; of a flow, its instances.
    pub cpu_seconds: f64,
    /// The memory it holds. That of flows is the worker's.
    pub memory_bytes: Option<u64>,
}

impl Entry {
    /// As programs outside read it.
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

/// How something that runs stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    Running,
    /// It has been told to stop.
    Stopping,
    /// It is no more, but not all that it wrote has been read.
    Ended,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Running => "running",
            State::Stopping => "stopping",
            State::Ended => "ended",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::control;

    #[test]
    fn a_launch_is_called_by_the_half_that_differs_and_its_programs_by_their_rank() {
        let id = Id { number: 0x0123_4567_89ab_cdef, rank: Some(3) };
        assert_eq!(id.to_string(), "89abcdef.3");
        assert!(id.answers_to("89abcdef") && id.answers_to("89abcdef.3"));
        assert!(!id.answers_to("89abcdef.1") && !id.answers_to("89abcde"));
        let flow = Id { number: 5, rank: None };
        assert!(flow.answers_to("00000005") && !flow.answers_to("00000005.0"));
    }

    #[test]
    fn a_list_has_room_for_so_much_of_a_program() {
        let order = Order { program: "é".into(), ..Order::default() };
        assert_eq!(order.line(), "é");
        let order = Order { arguments: vec!["é".repeat(1000)], ..order };
        assert_eq!(order.line(), format!("é {}…", "é".repeat(WHAT_CHARACTERS_MAX - 2)));
    }

    #[test]
    fn ends_have_the_codes_that_shells_give_them() {
        assert_eq!(End::Exited(0).exit_code(), 0);
        assert_eq!(End::Exited(3).exit_code(), 3);
        assert_eq!(End::Killed(9).exit_code(), 137);
        assert_eq!(End::Lost(Error::resource("gone")).exit_code(), 4);
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        let env = [("A".to_string(), "é\n".to_string())].into();
        let order = Order {
            program: "x".into(),
            arguments: vec![String::new(), "y z".into()],
            env,
            cwd: Some("/tmp".into()),
            is_detached: false,
            has_stdin: true,
        };
        let worker = "w1".to_string();
        let ask = Ask::Launch { order: order.clone(), worker, ranks: vec![1, 2], size: (4, 2) };
        let heard: Ask = control::read(&control::write(&ask)).unwrap();
        let Ask::Launch { order: heard, ranks, .. } = heard else { panic!("{heard:?}") };
        assert_eq!((heard, ranks), (order, vec![1, 2]));
        let tell = Tell::Ended { rank: 1, end: End::Killed(9) };
        let heard: Tell = control::read(&control::write(&tell)).unwrap();
        assert!(matches!(heard, Tell::Ended { rank: 1, end: End::Killed(9) }), "{heard:?}");
        assert!(control::read::<Ask>(br#"{"ask": "dance"}"#).is_err());
    }
}
