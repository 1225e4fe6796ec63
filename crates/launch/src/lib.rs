//! Runs programs at a worker for masters: starts them, forwards their standard streams, lists them,
//! stops them, and reaps them. Catapult (Millennium Sort, section 3.1) and GLUnix (Berkeley NOW)
//! launch programs on a cluster in this way.
//!
//! The crate does not depend on the transport: requests of a master are passed to a
//! [`MasterSession`], and notices to a [`ToMaster`].

mod entry;
mod guard;
pub mod host;
mod program;
mod protocol;
mod pump;
mod session;
mod spawn;
mod table;
mod usage;

pub use entry::{Id, LaunchOrder, Origin, OutputStream, ProgramEnd, ProgramEntry, ProgramState};
pub use program::ToMaster;
pub use protocol::{
    CHUNK_BYTES_MAX, LaunchRequest, Notice, ORDER_BYTES_MAX, PROGRAMS_MAX, STOP_GRACE,
    WINDOW_BYTES_MAX,
};
pub use session::MasterSession;
pub use table::{KillFlow, ProgramTable};
