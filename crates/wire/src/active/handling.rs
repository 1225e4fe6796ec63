//! Handlers of active messages, and what they may do.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use euphrates_flow::Result;
use euphrates_policy::active_messages::ReturnReason;

use super::encoding::{ActiveContent, ActiveMeta, DataKind, Envelope};
use super::message::{ARGUMENTS, OutgoingMessage, PeerId, RegionPlace, ReturnedMessage};
use super::peer::ActivePeer;
use super::region::RegionTable;

/// A message as its handler sees it.
#[derive(Clone, Copy, Debug)]
pub struct ActiveMessage<'a> {
    /// The peer that sent it.
    pub from: PeerId,
    /// Its words.
    pub arguments: [u32; ARGUMENTS],
    /// The data of a medium message, for as long as the handler runs.
    pub data: &'a [u8],
    /// Where the data of a bulk message has been placed, and its length.
    pub placed: Option<(RegionPlace, usize)>,
}

/// The right to reply to a request, once. Dropped, it acknowledges the request without a reply.
#[derive(Debug)]
pub struct ReplyToken<'a> {
    peer: &'a mut ActivePeer,
    request: u64,
    returned: &'a mut VecDeque<ReturnedMessage>,
}

impl ReplyToken<'_> {
    /// Replies to the sender of the request. Like a request, the reply is delivered or returned.
    pub fn reply(self, message: OutgoingMessage) {
        self.peer.reply(self.request, message, self.returned);
    }

    /// Returns the request to its sender, as if it had not been delivered.
    pub fn decline(self) {
        self.peer.send_back(self.request, ReturnReason::Declined);
    }
}

type RequestHandler = Box<dyn FnMut(ReplyToken<'_>, ActiveMessage<'_>) + Send>;
type ReplyHandler = Box<dyn FnMut(ActiveMessage<'_>) + Send>;
type ReturnHandler = Box<dyn FnMut(ReturnedMessage) + Send>;

/// The handlers of an endpoint.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) requests: HashMap<u32, RequestHandler>,
    pub(super) replies: HashMap<u32, ReplyHandler>,
    pub(super) returned: Option<ReturnHandler>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, replies) = (self.requests.keys(), self.replies.keys());
        let mut shown = f.debug_struct("Handlers");
        shown.field("requests", &requests).field("replies", &replies).finish_non_exhaustive()
    }
}

impl Handlers {
    /// Handles a frame of a peer: settles what it acknowledges, places its data, runs its handler.
    /// With `is_closing`, messages return instead. Fails if the frame breaks the protocol.
    pub fn on_frame(
        &mut self,
        peer: &mut ActivePeer,
        (meta, data): (&ActiveMeta, &[u8]),
        regions: &RegionTable,
        returned: &mut VecDeque<ReturnedMessage>,
        is_closing: bool,
    ) -> Result<()> {
        peer.on_frame(meta, returned)?;
        let (number, is_request, envelope) = match &meta.content {
            ActiveContent::Request { number, envelope } => (*number, true, envelope),
            ActiveContent::Reply { number, envelope, .. } => (*number, false, envelope),
            ActiveContent::Acknowledgement | ActiveContent::Returned { .. } => return Ok(()),
        };
        if is_closing && is_request {
            peer.send_back(number, ReturnReason::NoEndpoint);
            return Ok(());
        }
        let handled = if is_request {
            self.request(peer, (number, envelope), data, regions, returned)
        } else {
            self.reply(peer.id, envelope, data, regions)
        };
        if let Err(reason) = handled {
            peer.send_back(number, reason);
        }
        Ok(())
    }

    fn request(
        &mut self,
        peer: &mut ActivePeer,
        (number, envelope): (u64, &Envelope),
        data: &[u8],
        regions: &RegionTable,
        returned: &mut VecDeque<ReturnedMessage>,
    ) -> Result<(), ReturnReason> {
        let handler = self.requests.get_mut(&envelope.handler).ok_or(ReturnReason::NoHandler)?;
        let message = placed(peer.id, envelope, data, regions)?;
        handler(ReplyToken { peer, request: number, returned }, message);
        Ok(())
    }

    fn reply(
        &mut self,
        from: PeerId,
        envelope: &Envelope,
        data: &[u8],
        regions: &RegionTable,
    ) -> Result<(), ReturnReason> {
        let handler = self.replies.get_mut(&envelope.handler).ok_or(ReturnReason::NoHandler)?;
        handler(placed(from, envelope, data, regions)?);
        Ok(())
    }
}

/// Places the data of a bulk message; the message for its handler.
fn placed<'a>(
    from: PeerId,
    envelope: &Envelope,
    data: &'a [u8],
    regions: &RegionTable,
) -> Result<ActiveMessage<'a>, ReturnReason> {
    let arguments = envelope.arguments;
    match envelope.data {
        DataKind::Short | DataKind::Medium => {
            Ok(ActiveMessage { from, arguments, data, placed: None })
        }
        DataKind::Bulk(place) => {
            regions.place(place, data)?;
            Ok(ActiveMessage { from, arguments, data: &[], placed: Some((place, data.len())) })
        }
    }
}
