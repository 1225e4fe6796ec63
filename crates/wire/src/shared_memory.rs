//! Bodies of frames in memory that both ends of a unix socket map, so that the kernel copies none.
//!
//! The sender makes slabs: memory files, sealed so that they keep their size and that the other end
//! can map them only to read. It offers a slab with a frame that passes the files (`SCM_RIGHTS`);
//! the receiver accepts it by writing a word of a second file, the return words. The body of a
//! large message or batch is then copied to an extent of a slab, and a frame says where it is. The
//! receiver reads it in place, and returns the extent when the last reference is dropped, by
//! writing the extent's ticket to its return word. So an extent needs no message to be returned,
//! and no lock. `policy::extents` decides where a body goes. If no extent is free, or the other end
//! has not accepted a slab, the body goes through the socket, so nothing waits for an extent.
//!
//! The receiver checks a slab's seals and size, and that every extent lies within its slab. The
//! sender does not trust the return words: a wrong one makes it overwrite what that receiver reads.
//! What a sender writes after it has sent a frame is not detected: both ends run the same version,
//! as the same user, and have authenticated each other.

pub mod announcement;
mod memory_file;
mod receiving;
mod sending;

use std::sync::OnceLock;

use crate::greeting::Greeting;
use crate::stream::Socket;

pub(crate) use receiving::SlabReceiver;
pub(crate) use sending::SlabSender;

/// The ability of an end that maps slabs, in its greeting.
const ABILITY: &str = "shared-memory";
/// The slabs of one direction of a connection, in bytes.
pub const SLABS_BYTES_MAX: u64 = 64 << 20;
/// Bodies of fewer bytes go through the socket.
pub const PLACED_BYTES_MIN: usize = 16 << 10;
/// The variable of the environment that turns shared memory off.
const VARIABLE: &str = "EUPHRATES_SHARED_MEMORY";

/// The abilities of this process for its greetings: shared memory, unless the system refuses it, or
/// `EUPHRATES_SHARED_MEMORY=off` is set.
pub fn abilities() -> Vec<String> {
    match refusal() {
        None => vec![ABILITY.into()],
        Some(_) => vec![],
    }
}

/// Why this process does not share memory with others; `None` if it does.
pub fn refusal() -> Option<&'static str> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let refusal = REFUSAL.get_or_init(|| {
        if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
            return Some(format!("{VARIABLE} is off"));
        }
        memory_file::probe().err().map(|error| format!("the system refuses memory files: {error}"))
    });
    refusal.as_deref()
}

/// Whether the ends of an authenticated connection share memory: both can, and the other end of the
/// unix socket is a process of this user. `peer` has the abilities of both.
pub(crate) fn is_agreed(socket: &Socket, peer: &Greeting) -> bool {
    peer.abilities.iter().any(|ability| ability == ABILITY) && socket.is_of_this_user()
}

#[cfg(test)]
mod tests;
