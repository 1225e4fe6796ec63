//! Batches and letters between processes: one protocol over whatever carries bytes.
//!
//! `frame` is what travels, `link` sends and receives it over any stream. `connection` and
//! `listener` make streams between ends that have shown each other who they are (`greeting`,
//! `handshake`, `secret`, `tls`), `lane` is a connection in use, and `silence` is how long one end
//! of it may say nothing.

pub mod address;
pub mod block;
pub mod connection;
pub mod frame;
pub mod greeting;
pub mod handshake;
pub mod lane;
pub mod letter;
pub mod link;
pub mod listener;
pub mod secret;
pub mod silence;
mod stream;
mod tls;

pub use address::Address;
pub use connection::{Closer, Connection, Keys, Security, dial};
pub use frame::{Caps, Header, Kind};
pub use greeting::Greeting;
pub use lane::Lane;
pub use link::{Frame, Receiver, Sender};
pub use listener::Listener;
pub use secret::Secret;
pub use stream::{ReadHalf, WriteHalf};
