//! A peer of an endpoint: its lane, what is unsettled, and the messages kept until they are.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use euphrates_flow::{Error, Result};
use euphrates_policy::active_messages::{
    MessageLimits, PeerEnd, PeerMessages, ProtocolBreach, ReturnReason, SendDecision,
};

use super::arrivals::PeerLane;
use super::encoding::{ActiveContent, ActiveMeta, Envelope};
use super::message::{MEDIUM_BYTES_MAX, MessageData, OutgoingMessage, PeerId, ReturnedMessage};
use crate::frame::{FrameKind, Header};
use crate::lane::Lane;

/// A connected peer.
#[derive(Debug)]
pub(super) struct ActivePeer {
    pub(super) id: PeerId,
    pub(super) name: String,
    carrier: PeerLane,
    messages: PeerMessages,
    /// Unsettled messages, in the order of their numbers.
    kept: VecDeque<KeptMessage>,
}

/// A message that returns unless it is settled.
#[derive(Debug)]
struct KeptMessage {
    number: u64,
    is_reply: bool,
    message: OutgoingMessage,
}

impl ActivePeer {
    pub fn new(id: PeerId, carrier: PeerLane, limits: MessageLimits) -> ActivePeer {
        let peer = carrier.lane.peer();
        let message_bytes_max = limits.message_bytes_max.min(peer.caps.body_bytes_max);
        let limits = MessageLimits { message_bytes_max, ..limits };
        let (name, messages) = (peer.name.clone(), PeerMessages::new(limits));
        ActivePeer { id, name, carrier, messages, kept: VecDeque::new() }
    }

    pub fn lane(&self) -> &Lane {
        &self.carrier.lane
    }

    pub fn messages(&self) -> &PeerMessages {
        &self.messages
    }

    /// Sends a request; without a credit, gives it back.
    pub fn request(
        &mut self,
        message: OutgoingMessage,
        returned: &mut VecDeque<ReturnedMessage>,
    ) -> Option<OutgoingMessage> {
        let bytes = message.data_bytes();
        match too_large(&message).unwrap_or_else(|| self.messages.request(bytes)) {
            SendDecision::Wait => return Some(message),
            SendDecision::Return(reason) => {
                returned.push_back(self.returned(message, false, reason))
            }
            SendDecision::Send => {
                let number = self.messages.on_request(bytes);
                let envelope = Envelope::of(&message);
                self.send(ActiveContent::Request { number, envelope }, Some(&message));
                self.kept.push_back(KeptMessage { number, is_reply: false, message });
            }
        }
        None
    }

    /// Sends the reply to a request.
    pub fn reply(
        &mut self,
        answers: u64,
        message: OutgoingMessage,
        returned: &mut VecDeque<ReturnedMessage>,
    ) {
        let bytes = message.data_bytes();
        match too_large(&message).unwrap_or_else(|| self.messages.reply(bytes)) {
            SendDecision::Wait => unreachable!("replies need no credit"),
            SendDecision::Return(reason) => {
                returned.push_back(self.returned(message, true, reason))
            }
            SendDecision::Send => {
                let number = self.messages.on_reply(bytes);
                let envelope = Envelope::of(&message);
                self.send(ActiveContent::Reply { number, answers, envelope }, Some(&message));
                self.kept.push_back(KeptMessage { number, is_reply: true, message });
            }
        }
    }

    /// Returns a message of the other end to it.
    pub fn send_back(&mut self, number: u64, reason: ReturnReason) {
        self.send(ActiveContent::Returned { number, reason }, None);
    }

    /// Sends an acknowledgement if one is due; false if this end owes one that is not due yet.
    pub fn acknowledge(&mut self, is_due: bool) -> bool {
        if self.messages.owes_acknowledgement(is_due) {
            self.send(ActiveContent::Acknowledgement, None);
        }
        !self.messages.owes_acknowledgement(true)
    }

    fn send(&mut self, content: ActiveContent, message: Option<&OutgoingMessage>) {
        let body = match message.map(|message| &message.data) {
            None | Some(MessageData::Short) => vec![],
            Some(MessageData::Medium(data) | MessageData::Bulk(data, _)) => vec![data.clone()],
        };
        let meta = ActiveMeta { handled: self.messages.handled_to_send(), content };
        self.carrier.lane.send(Header::of(FrameKind::Active), meta.encode(), body);
    }

    /// Settles what a frame says of this end's messages, and counts its message as handled.
    pub fn on_frame(
        &mut self,
        meta: &ActiveMeta,
        returned: &mut VecDeque<ReturnedMessage>,
    ) -> Result<()> {
        self.carrier.frames_waiting.fetch_sub(1, Relaxed);
        match meta.content {
            ActiveContent::Reply { answers, .. } => self.messages.on_reply_to(answers),
            ActiveContent::Returned { number, .. } => self.messages.on_returned(number),
            ActiveContent::Request { .. } | ActiveContent::Acknowledgement => Ok(()),
        }
        .map_err(breach)?;
        if let ActiveContent::Returned { number, reason } = meta.content {
            let message = self.take_kept(number);
            returned.extend(message.map(|kept| self.returned(kept.message, kept.is_reply, reason)));
        }
        let settled = self.messages.on_handled(meta.handled).map_err(breach)?;
        while self.kept.front().is_some_and(|kept| kept.number < settled.end) {
            self.kept.pop_front();
        }
        match meta.content {
            ActiveContent::Request { number, .. } => self.messages.on_request_arrived(number),
            ActiveContent::Reply { number, .. } => self.messages.on_reply_arrived(number),
            ActiveContent::Acknowledgement | ActiveContent::Returned { .. } => Ok(()),
        }
        .map_err(breach)
    }

    /// The peer is gone: returns what is unsettled.
    pub fn on_end(&mut self, end: PeerEnd, returned: &mut VecDeque<ReturnedMessage>) {
        for number in self.messages.on_end(end) {
            let message = self.take_kept(number);
            let reason = end.reason();
            returned.extend(message.map(|kept| self.returned(kept.message, kept.is_reply, reason)));
        }
    }

    fn take_kept(&mut self, number: u64) -> Option<KeptMessage> {
        let at = self.kept.binary_search_by_key(&number, |kept| kept.number).ok()?;
        self.kept.remove(at)
    }

    fn returned(
        &self,
        message: OutgoingMessage,
        is_reply: bool,
        reason: ReturnReason,
    ) -> ReturnedMessage {
        ReturnedMessage { to: self.id, is_reply, message, reason }
    }
}

/// The decision about data that is too large for the kind of message.
fn too_large(message: &OutgoingMessage) -> Option<SendDecision> {
    let MessageData::Medium(data) = &message.data else { return None };
    let bytes_max = MEDIUM_BYTES_MAX as u64;
    (data.len() > MEDIUM_BYTES_MAX)
        .then_some(SendDecision::Return(ReturnReason::TooLarge { bytes_max }))
}

fn breach(breach: ProtocolBreach) -> Error {
    match breach {
        ProtocolBreach::Number { number, due } => {
            Error::corrupt(format!("active message {number} where {due} was due"))
        }
        ProtocolBreach::Handled(count) => {
            Error::corrupt(format!("{count} active messages handled, which cannot be"))
        }
        ProtocolBreach::Returned(number) => {
            Error::corrupt(format!("active message {number} returned, which is not unsettled"))
        }
        ProtocolBreach::Answered(number) => {
            Error::corrupt(format!("a reply to active message {number}, no unsettled request"))
        }
        ProtocolBreach::Credits(replies) => {
            Error::corrupt(format!("a request where {replies} replies are not acknowledged"))
        }
    }
}
