//! The wire protocol: frames with batches and messages between processes, over any byte stream.
//!
//! `frame` defines the header, `link` sends and receives frames over any stream, and `message` and
//! `block` encode their content. `connection` and `listener` open streams between ends that have
//! authenticated each other (`greeting`, `handshake`, `secret`, `tls`). A `lane` is a connection in
//! use, with the threads that read and write it; `heartbeat` is the timeout that this end needs.
//! `shared_memory` has bodies of frames in memory that both ends map. `served` has the folders of
//! disks that workers serve, at both ends. `active` has active messages: handlers at other ends,
//! and messages that return to their sender.

pub mod active;
pub mod address;
pub mod block;
pub mod connection;
pub mod frame;
pub mod greeting;
pub mod handshake;
pub mod heartbeat;
pub mod lane;
pub mod link;
pub mod listener;
pub mod message;
pub mod secret;
pub mod served;
pub mod shared_memory;
mod stream;
mod tls;

pub use address::Address;
pub use connection::{Closer, Connection, FlowSecrets, Security, dial};
pub use frame::{Caps, FrameKind, Header};
pub use greeting::Greeting;
pub use lane::Lane;
pub use link::{Frame, FrameReceiver, FrameSender};
pub use listener::Listener;
pub use secret::Secret;
pub use stream::{ReadHalf, WriteHalf};
