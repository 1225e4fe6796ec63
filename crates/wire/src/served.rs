//! Folders of disks that a worker serves to programs on other machines.
//!
//! A client has one **session** with a worker, a lane with heartbeats: as long as it lasts, the
//! worker keeps the files that the client has open and the folders that it holds. Requests go over
//! connections of their own, one at a time on each, so a request needs no thread of its own at the
//! client, and content is received where it is wanted. When the session ends, at either end, all
//! its connections are closed: a worker that is dead or stopped is a lost disk within the timeout
//! of heartbeats, and what a dead client holds is free within the same time.

mod calls;
mod client;
mod content_memory;
mod folder;
mod grants;
mod protocol;
mod server;
mod session;

pub use client::offers;
pub use folder::{ServedConnector, lent_by};
pub use protocol::{FILE_REQUESTS, FILES, FolderOffer, WorkerOffer};
pub use server::{FileServer, SharedFolder};
