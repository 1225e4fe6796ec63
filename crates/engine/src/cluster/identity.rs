//! Names and greetings of the processes of a cluster, and their heartbeat timeouts.

use std::path::Path;
use std::time::Duration;

use euphrates_flow::{Cause, Error, Kind, Result};
use euphrates_wire::heartbeat::{self, ADAPTIVE_TIMEOUT_MAX};
use euphrates_wire::{Caps, Greeting, shared_memory};

/// The version of the program, which workers and masters must share.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// The name of every master.
pub(crate) const MASTER: &str = "master";

/// Refuses the name of masters for a worker: a flow would confuse the two.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name != MASTER {
        return Ok(());
    }
    let message =
        format!("a worker cannot be called `{MASTER}`, as the program that runs flows is");
    Err(Error::usage(message).remedy("call it something else: `euphrates worker --name NAME`"))
}

/// Refuses a path that is not UTF-8, since control messages are text.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    if path.to_str().is_some() {
        return Ok(());
    }
    let message = format!("workers cannot be told of {path:?}: its name is not UTF-8");
    Err(Error::usage(message).remedy("rename it, or make a link to it with a name that is UTF-8"))
}

/// Marks an error as caused by two processes that cannot connect.
pub(crate) fn parted(one: &str, other: &str, error: Error) -> Error {
    let error = error.at(format!("worker {other}"));
    // Other kinds (another version, another token) are refusals, not network faults.
    let is_unreachable = error.kind() == Kind::Resource;
    if is_unreachable { error.because(Cause::link(one, other, true)) } else { error }
}

/// The limit on silence of connections for batches: on a congested link, heartbeats are delayed
/// with the other frames.
pub(crate) fn batch_lane_timeout(lost_after: Option<Duration>) -> Duration {
    lost_after.map_or(ADAPTIVE_TIMEOUT_MAX, |lost_after| lost_after.max(ADAPTIVE_TIMEOUT_MAX))
}

/// The greeting of this process for a connection.
pub(crate) fn greeting(name: &str, purpose: &str, (flow, epoch): (u64, u32)) -> Greeting {
    // Users hold results that a master receives for as long as they like, and may fork.
    let abilities = if name == MASTER { vec![] } else { shared_memory::abilities() };
    Greeting {
        name: name.to_string(),
        purpose: purpose.to_string(),
        flow,
        epoch,
        lane: 0,
        program: PROGRAM.to_string(),
        silence_ms: heartbeat::advertised_timeout().as_millis() as u32,
        caps: Caps::KNOWN,
        abilities,
    }
}
