//! Active messages between two ends: credits, acknowledgements, and which messages return.
//!
//! Both ends number the messages that they send to each other, and handle them in that order (the
//! carrier keeps it). Every message says how many messages of the other end its sender has handled,
//! so one number settles requests and replies alike; an end that sends nothing acknowledges
//! separately. A message that the other end did not handle is named in a return. Whatever is not
//! settled when the other end is gone returns, too: so each message is delivered or returned, and
//! never both, except that a lost end may have handled messages without a word.
//!
//! Requests need a credit, and get it back when they are settled. Replies, returns and
//! acknowledgements need none: there is at most one reply for each request. Handlers never wait,
//! and an end that waits for a credit handles what arrives, so no two ends wait for each other.
//! Compare Active Messages II (Mainwaring and Culler, 1995).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

/// Requests to one peer that may be unsettled, at most, whatever an end is configured with: the
/// other end refuses more.
pub const REQUESTS_MAX: u32 = 256;

/// Limits on what one end sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// Unsettled requests, at most: the credits. Between 1 and [`REQUESTS_MAX`].
    pub requests_max: u32,
    /// Bytes of data of unsettled requests, at most, or one request that is larger.
    pub request_bytes_max: u64,
    /// The largest data of one message, which both ends have agreed on.
    pub message_bytes_max: u64,
}

/// Why a message returned to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReason {
    /// The other end has closed its endpoint, and did not handle the message.
    NoEndpoint,
    /// The other end has no handler of this number for such messages.
    NoHandler,
    /// The other end has no region with this key.
    NoRegion,
    /// The data does not fit into the region, which has this length.
    RegionTooSmall {
        /// The length of the region.
        region_bytes: u64,
    },
    /// The handler was called, and declined.
    Declined,
    /// The data is larger than one message may be; it was not sent.
    TooLarge {
        /// The largest data of one message.
        bytes_max: u64,
    },
    /// The other end was lost. Whether it has handled the message is unknown.
    PeerLost,
}

/// How the other end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// It closed: all that it has handled was acknowledged before.
    Closed,
    /// It died, or cannot be reached.
    Lost,
}

impl PeerEnd {
    /// The reason for which messages to this end return.
    pub fn reason(self) -> ReturnReason {
        match self {
            PeerEnd::Closed => ReturnReason::NoEndpoint,
            PeerEnd::Lost => ReturnReason::PeerLost,
        }
    }
}

/// What to do with a message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendDecision {
    /// Send it now.
    Send,
    /// There is no credit: handle what arrives, then ask again.
    Wait,
    /// It cannot be delivered; return it.
    Return(ReturnReason),
}

/// How the other end broke the protocol; its connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolBreach {
    /// A message with another number than the next one.
    Number {
        /// The number of the message.
        number: u64,
        /// The number that was due.
        due: u64,
    },
    /// It says that it has handled fewer messages than before, or more than were sent.
    Handled(u64),
    /// It returns a message that was not sent, or is settled.
    Returned(u64),
    /// It replies to a message that is no request, or is settled.
    Answered(u64),
    /// It sends a request, though it has no credit before it has settled this many replies.
    Credits(u32),
}

/// A message that was sent and not settled.
#[derive(Clone, Copy, Debug)]
struct UnsettledMessage {
    number: u64,
    is_request: bool,
    bytes: u64,
}

/// The messages between this end and one peer, in both directions.
///
/// ```
/// use euphrates_policy::active_messages::{MessageLimits, PeerMessages, SendDecision};
///
/// let limits =
///     MessageLimits { requests_max: 1, request_bytes_max: 100, message_bytes_max: 100 };
/// let (mut here, mut there) = (PeerMessages::new(limits), PeerMessages::new(limits));
/// let request = here.on_request(8);
/// assert_eq!(here.request(8), SendDecision::Wait, "one credit");
/// there.on_request_arrived(request).expect("the next number");
/// let reply = there.on_reply(0);
/// let handled = there.handled_to_send();
/// here.on_reply_arrived(reply).expect("the next number");
/// here.on_reply_to(request).expect("an unsettled request");
/// assert_eq!(here.on_handled(handled), Ok(request..request + 1));
/// assert_eq!(here.request(8), SendDecision::Send);
/// ```
#[derive(Debug)]
pub struct PeerMessages {
    limits: MessageLimits,
    end: Option<PeerEnd>,
    /// Messages sent, which is the number of the next one.
    sent: u64,
    /// In the order of their numbers.
    unsettled: VecDeque<UnsettledMessage>,
    requests: u32,
    request_bytes: u64,
    /// Messages sent before this number are settled.
    settled: u64,
    /// Messages of the other end that this end has handled or returned.
    handled: u64,
    /// The last count of them that was sent.
    acknowledged: u64,
}

impl PeerMessages {
    /// No messages yet. The number of credits is brought into its bounds.
    pub fn new(limits: MessageLimits) -> PeerMessages {
        let requests_max = limits.requests_max.clamp(1, REQUESTS_MAX);
        PeerMessages {
            limits: MessageLimits { requests_max, ..limits },
            end: None,
            sent: 0,
            unsettled: VecDeque::new(),
            requests: 0,
            request_bytes: 0,
            settled: 0,
            handled: 0,
            acknowledged: 0,
        }
    }

    /// Whether a request with data of this length may be sent.
    pub fn request(&self, bytes: u64) -> SendDecision {
        let MessageLimits { requests_max, request_bytes_max, .. } = self.limits;
        match self.reply(bytes) {
            SendDecision::Send => {}
            other => return other,
        }
        let fits = self.requests == 0 || self.request_bytes + bytes <= request_bytes_max;
        if self.requests < requests_max && fits { SendDecision::Send } else { SendDecision::Wait }
    }

    /// Whether a reply with data of this length may be sent; replies need no credit.
    pub fn reply(&self, bytes: u64) -> SendDecision {
        let bytes_max = self.limits.message_bytes_max;
        match self.end {
            Some(end) => SendDecision::Return(end.reason()),
            None if bytes > bytes_max => SendDecision::Return(ReturnReason::TooLarge { bytes_max }),
            None => SendDecision::Send,
        }
    }

    /// A request is sent; returns its number.
    pub fn on_request(&mut self, bytes: u64) -> u64 {
        assert_eq!(self.request(bytes), SendDecision::Send, "a request without a credit");
        self.requests += 1;
        self.request_bytes += bytes;
        self.on_sent(true, bytes)
    }

    /// A reply is sent; returns its number.
    pub fn on_reply(&mut self, bytes: u64) -> u64 {
        assert_eq!(self.reply(bytes), SendDecision::Send, "a reply to an end that is gone");
        self.on_sent(false, bytes)
    }

    fn on_sent(&mut self, is_request: bool, bytes: u64) -> u64 {
        let number = self.sent;
        self.sent += 1;
        self.unsettled.push_back(UnsettledMessage { number, is_request, bytes });
        self.check();
        number
    }

    /// A request of the other end is handled now, or returned. Call it after `on_handled` of the
    /// same frame. At most as many replies are unsettled as the other end has requests, so an end
    /// that settles none cannot make this one keep replies without bound.
    pub fn on_request_arrived(&mut self, number: u64) -> Result<(), ProtocolBreach> {
        match self.replies() {
            REQUESTS_MAX.. => Err(ProtocolBreach::Credits(self.replies())),
            _ => self.on_arrived(number),
        }
    }

    /// A reply of the other end is handled now, or returned.
    pub fn on_reply_arrived(&mut self, number: u64) -> Result<(), ProtocolBreach> {
        self.on_arrived(number)
    }

    fn on_arrived(&mut self, number: u64) -> Result<(), ProtocolBreach> {
        if number != self.handled {
            return Err(ProtocolBreach::Number { number, due: self.handled });
        }
        self.handled += 1;
        Ok(())
    }

    /// The count of handled messages, to be sent with the next frame.
    pub fn handled_to_send(&mut self) -> u64 {
        self.acknowledged = self.handled;
        self.handled
    }

    /// Whether an acknowledgement is to be sent: for any handled message if `is_due`, when no
    /// message has carried the count for a while, and for every half of the credits otherwise.
    pub fn owes_acknowledgement(&self, is_due: bool) -> bool {
        let owed = self.handled - self.acknowledged;
        let half = u64::from(self.limits.requests_max.div_ceil(2));
        self.end.is_none() && owed > 0 && (is_due || owed >= half)
    }

    /// A reply to this request has arrived. Call it before `on_handled` of the same frame.
    pub fn on_reply_to(&self, request: u64) -> Result<(), ProtocolBreach> {
        match self.position(request) {
            Some(at) if self.unsettled[at].is_request => Ok(()),
            _ => Err(ProtocolBreach::Answered(request)),
        }
    }

    /// The other end has handled this many messages; returns the numbers that are settled now.
    /// Those among them that have returned before were settled then.
    pub fn on_handled(&mut self, handled: u64) -> Result<Range<u64>, ProtocolBreach> {
        if handled < self.settled || handled > self.sent {
            return Err(ProtocolBreach::Handled(handled));
        }
        while let Some(first) = self.unsettled.front().filter(|first| first.number < handled) {
            let first = *first;
            self.unsettled.pop_front();
            self.on_settled(first);
        }
        let settled = core::mem::replace(&mut self.settled, handled)..handled;
        self.check();
        Ok(settled)
    }

    /// The other end has returned a message. Call it before `on_handled` of the same frame.
    pub fn on_returned(&mut self, number: u64) -> Result<(), ProtocolBreach> {
        let at = self.position(number).ok_or(ProtocolBreach::Returned(number))?;
        let returned = self.unsettled.remove(at).expect("found above");
        self.on_settled(returned);
        self.check();
        Ok(())
    }

    /// The other end is gone; returns the numbers of the messages that return for it.
    pub fn on_end(&mut self, end: PeerEnd) -> Vec<u64> {
        self.end.get_or_insert(end);
        (self.requests, self.request_bytes) = (0, 0);
        self.unsettled.drain(..).map(|message| message.number).collect()
    }

    /// Whether the other end has settled everything that was sent to it, or is gone.
    pub fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// How the other end ended, if it has.
    pub fn end(&self) -> Option<PeerEnd> {
        self.end
    }

    /// Unsettled requests, each of which holds a credit.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Unsettled replies.
    pub fn replies(&self) -> u32 {
        self.unsettled.len() as u32 - self.requests
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.unsettled.binary_search_by_key(&number, |message| message.number).ok()
    }

    fn on_settled(&mut self, message: UnsettledMessage) {
        if message.is_request {
            self.requests -= 1;
            self.request_bytes -= message.bytes;
        }
    }

    fn check(&self) {
        assert!(self.requests <= self.limits.requests_max, "more requests than credits");
        assert!(self.settled <= self.sent && self.acknowledged <= self.handled);
        let first = self.unsettled.front().map_or(self.sent, |first| first.number);
        assert!(first >= self.settled, "a settled message is kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests_max: u32) -> MessageLimits {
        MessageLimits { requests_max, request_bytes_max: 1000, message_bytes_max: 2000 }
    }

    #[test]
    fn requests_wait_for_credits_and_bytes_but_one_may_be_large() {
        let mut peer = PeerMessages::new(limits(2));
        peer.on_request(1500);
        assert_eq!(peer.request(1), SendDecision::Wait, "bytes");
        assert_eq!(peer.on_handled(1), Ok(0..1));
        peer.on_request(500);
        peer.on_request(500);
        assert_eq!(peer.request(0), SendDecision::Wait, "credits");
        assert_eq!(peer.reply(2000), SendDecision::Send, "replies need none");
    }

    #[test]
    fn data_above_the_limit_returns_without_being_sent() {
        let peer = PeerMessages::new(limits(2));
        let too_large = SendDecision::Return(ReturnReason::TooLarge { bytes_max: 2000 });
        assert_eq!([peer.request(2001), peer.reply(2001)], [too_large; 2]);
    }

    #[test]
    fn returned_message_gives_its_credit_back_once() {
        let mut peer = PeerMessages::new(limits(3));
        for _ in 0..3 {
            peer.on_request(10);
        }
        assert_eq!(peer.on_returned(1), Ok(()));
        assert_eq!(peer.requests(), 2);
        assert_eq!(peer.on_returned(1), Err(ProtocolBreach::Returned(1)));
        assert_eq!(peer.on_handled(3), Ok(0..3));
        assert_eq!(peer.requests(), 0);
        assert_eq!(peer.on_returned(2), Err(ProtocolBreach::Returned(2)));
    }

    #[test]
    fn breaches_are_named() {
        let mut peer = PeerMessages::new(limits(3));
        peer.on_request(0);
        peer.on_reply(0);
        assert_eq!(peer.on_handled(3), Err(ProtocolBreach::Handled(3)));
        assert_eq!(peer.on_reply_to(1), Err(ProtocolBreach::Answered(1)), "a reply");
        assert_eq!(peer.on_reply_to(7), Err(ProtocolBreach::Answered(7)), "never sent");
        assert_eq!(peer.on_request_arrived(1), Err(ProtocolBreach::Number { number: 1, due: 0 }));
        assert_eq!(peer.on_handled(1), Ok(0..1));
        assert_eq!(peer.on_reply_to(0), Err(ProtocolBreach::Answered(0)), "settled");
        assert_eq!(peer.on_handled(0), Err(ProtocolBreach::Handled(0)), "fewer than before");
    }

    #[test]
    fn requests_of_an_end_that_settles_no_replies_are_a_breach() {
        let mut peer = PeerMessages::new(limits(4));
        for number in 0..u64::from(REQUESTS_MAX) {
            peer.on_request_arrived(number).unwrap();
            peer.on_reply(0);
        }
        let next = u64::from(REQUESTS_MAX);
        let breach = ProtocolBreach::Credits(REQUESTS_MAX);
        assert_eq!(peer.on_request_arrived(next), Err(breach));
        peer.on_handled(1).unwrap();
        assert_eq!(peer.on_request_arrived(next), Ok(()));
    }

    #[test]
    fn acknowledgements_are_due_when_idle_or_for_half_of_the_credits() {
        let mut peer = PeerMessages::new(limits(4));
        assert!(!peer.owes_acknowledgement(true));
        peer.on_request_arrived(0).unwrap();
        assert!(peer.owes_acknowledgement(true) && !peer.owes_acknowledgement(false));
        peer.on_reply_arrived(1).unwrap();
        assert!(peer.owes_acknowledgement(false));
        assert_eq!(peer.handled_to_send(), 2);
        assert!(!peer.owes_acknowledgement(true));
    }

    #[test]
    fn end_returns_what_is_unsettled_and_all_later_messages() {
        let mut peer = PeerMessages::new(limits(4));
        for _ in 0..3 {
            peer.on_request(0);
        }
        peer.on_handled(1).unwrap();
        assert_eq!(peer.on_end(PeerEnd::Lost), [1, 2]);
        assert!(peer.is_settled() && peer.on_end(PeerEnd::Closed).is_empty());
        assert_eq!(peer.request(0), SendDecision::Return(ReturnReason::PeerLost));
        assert_eq!(peer.end(), Some(PeerEnd::Lost), "the first end counts");
    }
}
