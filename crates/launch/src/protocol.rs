//! Messages between a master and the program table of a worker.
//!
//! They are JSON in frames whose headers have the number of the launch. Output of programs is sent
//! as frame bodies, within a window that the master extends (credit-based flow control). A program
//! that writes without end therefore neither fills memory nor delays control messages: it blocks at
//! its pipe.

use std::time::Duration;

use euphrates_flow::Error;
use serde::{Deserialize, Serialize};

use crate::entry::{Id, LaunchOrder, Origin, OutputStream, ProgramEnd, ProgramEntry};

/// The most bytes of a program's output or input in one frame.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// The most bytes in flight to or from one program.
pub const WINDOW_BYTES_MAX: usize = 4 * CHUNK_BYTES_MAX;
/// The most programs that one worker runs at one time: each has a thread and several descriptors.
pub const PROGRAMS_MAX: usize = 128;
/// The longest order: the system passes little more to a program.
pub const ORDER_BYTES_MAX: usize = 4 << 20;
/// How long a program may take to exit after an interrupt.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// A request of a master.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum LaunchRequest {
    /// Introduces the master; sent once, before all others.
    Introduce {
        /// The process of the master.
        origin: Origin,
    },
    /// Starts programs with these numbers.
    Launch {
        /// The program to run.
        order: LaunchOrder,
        /// The master's name for the worker.
        worker: String,
        /// The numbers of the programs here, among all of the launch.
        ranks: Vec<usize>,
        /// The number of programs and of workers of the launch.
        size: (usize, usize),
    },
    /// Extends the window of a program's output.
    Allow {
        /// The program's number in the launch.
        rank: usize,
        /// Bytes added to the window.
        bytes: usize,
    },
    /// Writes the body to a program's input; an empty body closes it.
    Feed {
        /// The program's number in the launch.
        rank: usize,
    },
    /// Stops the programs of the launch.
    Stop {
        /// By force at once, without an interrupt first.
        at_once: bool,
    },
    /// Lists all programs and flows.
    List,
    /// Stops programs and flows of any master.
    Kill {
        /// Their ids in the list.
        ids: Vec<Id>,
        /// By force at once, without an interrupt first.
        at_once: bool,
    },
}

/// A notice of a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "tell")]
pub enum Notice {
    /// All programs of the launch run.
    Started,
    /// None of the programs of the launch runs.
    Refused {
        /// The reason for that.
        error: Error,
    },
    /// The body is output of a program.
    Wrote {
        /// The program's number in the launch.
        rank: usize,
        /// The stream written to.
        stream: OutputStream,
    },
    /// A program has read input.
    Read {
        /// The program's number in the launch.
        rank: usize,
        /// Bytes it has read.
        bytes: usize,
    },
    /// A program has ended, and all its output was sent.
    Ended {
        /// The program's number in the launch.
        rank: usize,
        /// Its exit status, or its loss.
        end: ProgramEnd,
    },
    /// All programs and flows of the worker.
    Listed {
        /// Their entries, in no particular order.
        entries: Vec<ProgramEntry>,
    },
    /// The number of programs and flows to be killed here; each is notified.
    Killing {
        /// The number of notices.
        count: usize,
    },
    /// A program or flow was killed.
    Killed {
        /// Its entry before the end.
        entry: Box<ProgramEntry>,
        /// How a program has ended.
        end: Option<ProgramEnd>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let env = [("A".to_string(), "é\n".to_string())].into();
        let order = LaunchOrder {
            program: "x".into(),
            arguments: vec![String::new(), "y z".into()],
            env,
            cwd: Some("/tmp".into()),
            is_detached: false,
            has_stdin: true,
        };
        let worker = "w1".to_string();
        let request =
            LaunchRequest::Launch { order: order.clone(), worker, ranks: vec![1, 2], size: (4, 2) };
        let text = serde_json::to_vec(&request).unwrap();
        let decoded: LaunchRequest = serde_json::from_slice(&text).unwrap();
        let LaunchRequest::Launch { order: decoded, ranks, .. } = decoded else {
            panic!("{decoded:?}")
        };
        assert_eq!((decoded, ranks), (order, vec![1, 2]));
        let notice = Notice::Ended { rank: 1, end: ProgramEnd::Killed(9) };
        let text = serde_json::to_vec(&notice).unwrap();
        let decoded: Notice = serde_json::from_slice(&text).unwrap();
        assert!(
            matches!(decoded, Notice::Ended { rank: 1, end: ProgramEnd::Killed(9) }),
            "{decoded:?}"
        );
        assert!(serde_json::from_slice::<LaunchRequest>(br#"{"ask": "dance"}"#).is_err());
    }
}
