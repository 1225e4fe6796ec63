//! Active messages as their senders see them.

use std::fmt;

use arrow::buffer::Buffer;
pub use euphrates_policy::active_messages::{REQUESTS_MAX, ReturnReason};

/// Words of 32 bits in every message.
pub const ARGUMENTS: usize = 8;
/// The data of a medium message, at most.
pub const MEDIUM_BYTES_MAX: usize = 64 << 10;

/// The number of a connection of an endpoint, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u32);

impl PeerId {
    /// The peer with this number, for callers that keep numbers.
    pub fn of_number(number: u32) -> PeerId {
        PeerId(number)
    }

    /// The number: 0 for the first connection of the endpoint.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// A place in a region of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPlace {
    /// The key of the region, which its owner has sent.
    pub key: u64,
    /// Where the data begins in the region, in bytes.
    pub offset: u64,
}

/// The data of a message. Clones of a buffer share its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageData {
    /// None: a short message.
    Short,
    /// Up to [`MEDIUM_BYTES_MAX`] bytes, which the handler sees while it runs.
    Medium(Buffer),
    /// Bytes that are placed into a region of the other end before the handler runs.
    Bulk(Buffer, RegionPlace),
}

/// A message to be sent, or one that has returned.
///
/// ```
/// use euphrates_wire::active::{MessageData, OutgoingMessage};
///
/// let short = OutgoingMessage::short(7, [1, 2, 3, 0, 0, 0, 0, 0]);
/// let medium = OutgoingMessage::medium(7, [0; 8], b"some bytes".to_vec());
/// assert_eq!((short.data_bytes(), medium.data_bytes()), (0, 10));
/// assert_eq!(short.data, MessageData::Short);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The number of the handler at the other end.
    pub handler: u32,
    /// The words that the handler gets.
    pub arguments: [u32; ARGUMENTS],
    /// The data that the handler gets, or that is placed before it runs.
    pub data: MessageData,
}

impl OutgoingMessage {
    /// A message without data.
    pub fn short(handler: u32, arguments: [u32; ARGUMENTS]) -> OutgoingMessage {
        OutgoingMessage { handler, arguments, data: MessageData::Short }
    }

    /// A message with data for the handler.
    pub fn medium(handler: u32, arguments: [u32; ARGUMENTS], data: Vec<u8>) -> OutgoingMessage {
        let data = MessageData::Medium(Buffer::from_vec(data));
        OutgoingMessage { handler, arguments, data }
    }

    /// A message with data for a region of the other end.
    pub fn bulk(
        handler: u32,
        arguments: [u32; ARGUMENTS],
        data: Buffer,
        place: RegionPlace,
    ) -> OutgoingMessage {
        OutgoingMessage { handler, arguments, data: MessageData::Bulk(data, place) }
    }

    /// The length of the data.
    pub fn data_bytes(&self) -> u64 {
        match &self.data {
            MessageData::Short => 0,
            MessageData::Medium(data) | MessageData::Bulk(data, _) => data.len() as u64,
        }
    }
}

/// A message that was not delivered, or whose peer was lost before it said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedMessage {
    /// The peer that it was for.
    pub to: PeerId,
    /// Whether it was a reply.
    pub is_reply: bool,
    /// The whole message.
    pub message: OutgoingMessage,
    /// Why it returned.
    pub reason: ReturnReason,
}

impl fmt::Display for ReturnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_reply { "reply" } else { "request" };
        let (bytes, handler) = (self.message.data_bytes(), self.message.handler);
        write!(f, "a {kind} for handler {handler} of {}: ", self.to)?;
        match self.reason {
            ReturnReason::NoEndpoint => write!(f, "its endpoint is closed"),
            ReturnReason::NoHandler => write!(f, "it has no such handler for a {kind}"),
            ReturnReason::NoRegion => write!(f, "it has no region with this key"),
            ReturnReason::RegionTooSmall { region_bytes } => {
                write!(f, "{bytes} bytes do not fit into its region of {region_bytes}")
            }
            ReturnReason::Declined => write!(f, "its handler declined"),
            ReturnReason::TooLarge { bytes_max } => {
                write!(f, "{bytes} bytes are more than the {bytes_max} of one message")
            }
            ReturnReason::PeerLost => write!(f, "it was lost, and may have handled it"),
        }
    }
}
