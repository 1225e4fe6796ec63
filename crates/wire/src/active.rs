//! Active messages: each names a handler at the other end, which runs it with the message.
//!
//! An [`ActiveEndpoint`] has handlers by number, regions of memory, and connections to peers. A
//! *short* message has eight words of 32 bits; a *medium* one up to 64 KiB of data besides, which
//! the handler sees for as long as it runs; the data of a *bulk* message is placed into a region of
//! the other end before its handler runs. The handler of a request gets a [`ReplyToken`], with
//! which it replies once, declines, or does neither. The handler of a reply gets none, and handlers
//! run while their endpoint is borrowed, so none of them can send a request, wait for a credit, or
//! reply to a reply.
//!
//! `policy::active_messages` decides: credits, acknowledgements, and which messages return to their
//! sender. Frames of kind `Active` carry the messages over lanes, so they share authentication,
//! TLS, heartbeats and shared memory with everything else. Handlers run on the thread that calls
//! `poll`, `wait` or `request`. Compare Active Messages (von Eicken et al., 1992) and Active
//! Messages II (Mainwaring and Culler, 1995).

mod arrivals;
mod encoding;
mod endpoint;
mod handling;
mod message;
mod peer;
mod region;

pub use arrivals::Doorbell;
pub use encoding::{ActiveContent, ActiveMeta, DataKind, Envelope};
pub use endpoint::{ActiveEndpoint, ActiveOptions};
pub use handling::{ActiveMessage, ReplyToken};
pub use message::{
    ARGUMENTS, MEDIUM_BYTES_MAX, MessageData, OutgoingMessage, PeerId, REQUESTS_MAX, RegionPlace,
    ReturnReason, ReturnedMessage,
};
pub use region::Region;
