//! An endpoint of active messages: connections, handlers, requests, polling, closing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use euphrates_policy::active_messages::{MessageLimits, PeerEnd, REQUESTS_MAX};

use super::arrivals::{ArrivalQueue, Doorbell, PeerEvent};
use super::handling::{ActiveMessage, Handlers, ReplyToken};
use super::message::{OutgoingMessage, PeerId, ReturnReason, ReturnedMessage};
use super::peer::ActivePeer;
use super::region::{Region, RegionTable};
use crate::address::Address;
use crate::connection::{Connection, FlowSecrets, Security, dial};
use crate::frame::Caps;
use crate::greeting::Greeting;
use crate::listener::Listener;
use crate::secret::Secret;
use crate::shared_memory;

/// The purpose in the greetings of endpoints.
const PURPOSE: &str = "active";
/// Meta of a frame, at most; a Bye has the text of an error.
const META_BYTES_MAX: u32 = 4 << 10;
/// Ends of peers that are remembered, at most.
const ENDS_MAX: usize = 1024;

/// How an endpoint sends and listens.
#[derive(Clone, Debug)]
pub struct ActiveOptions {
    /// How TCP is secured.
    pub security: Security,
    /// Unsettled requests to one peer, at most: between 1 and [`REQUESTS_MAX`].
    pub requests_max: u32,
    /// Bytes of data of unsettled requests to one peer, at most, or one request that is larger.
    pub request_bytes_max: u64,
    /// The largest data of one message that this end accepts; the other end may accept less.
    pub message_bytes_max: u64,
    /// The heartbeat timeout, if not the default.
    pub lost_after: Option<Duration>,
}

impl Default for ActiveOptions {
    fn default() -> ActiveOptions {
        ActiveOptions {
            security: Security::Tls,
            requests_max: 64,
            request_bytes_max: 64 << 20,
            message_bytes_max: 64 << 20,
            lost_after: None,
        }
    }
}

/// An endpoint. Dropping it closes its connections as `close` does, without waiting.
///
/// ```
/// use std::sync::mpsc::channel;
/// use std::time::{Duration, Instant};
/// use euphrates_wire::Secret;
/// use euphrates_wire::active::{ActiveEndpoint, ActiveOptions, OutgoingMessage};
///
/// let secret = Secret::random()?;
/// let here = "127.0.0.1:0".parse()?;
/// let mut server = ActiveEndpoint::bind("w0", Some(&here), &secret, ActiveOptions::default())?;
/// server.on_request(1, |token, message| {
///     let sum = message.data.iter().map(|byte| u32::from(*byte)).sum();
///     token.reply(OutgoingMessage::short(2, [sum, 0, 0, 0, 0, 0, 0, 0]));
/// });
/// let address = server.address().expect("it listens").clone();
/// std::thread::spawn(move || while server.wait(None).is_ok() {});
///
/// let mut client = ActiveEndpoint::bind("w1", None, &secret, ActiveOptions::default())?;
/// let (sums, answers) = channel();
/// client.on_reply(2, move |message| sums.send(message.arguments[0]).unwrap_or(()));
/// let peer = client.connect(&address, Duration::from_secs(10))?;
/// client.request(peer, OutgoingMessage::medium(1, [0; 8], vec![1, 2, 3]))?;
/// while client.unsettled_requests() > 0 {
///     client.wait(Some(Instant::now() + Duration::from_secs(10)))?;
/// }
/// assert_eq!(answers.try_recv()?, 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ActiveEndpoint {
    me: Greeting,
    secret: Secret,
    options: ActiveOptions,
    listener: Option<Listener>,
    arrivals: Arc<ArrivalQueue>,
    /// Events that have been taken from the queue and not handled yet.
    events: VecDeque<(PeerId, PeerEvent)>,
    peers: BTreeMap<PeerId, ActivePeer>,
    /// Peers whose messages this end has handled without saying so.
    owing: BTreeSet<PeerId>,
    /// How peers ended, the latest ones.
    ends: VecDeque<(PeerId, PeerEnd, Option<Error>)>,
    handlers: Handlers,
    regions: RegionTable,
    returned: VecDeque<ReturnedMessage>,
    phase: EndpointPhase,
}

/// How far an endpoint has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointPhase {
    Open,
    /// Requests that arrive return; it waits until its own are settled.
    Draining,
    /// It has said Bye.
    HungUp,
}

impl ActiveEndpoint {
    /// An endpoint called `name`, which is also the name in its certificate. It listens at the
    /// address, if there is one; ends that know the secret may connect.
    pub fn bind(
        name: &str,
        address: Option<&Address>,
        secret: &Secret,
        options: ActiveOptions,
    ) -> Result<ActiveEndpoint> {
        if !(1..=REQUESTS_MAX).contains(&options.requests_max) {
            let message = format!("{} requests at a time", options.requests_max);
            return Err(Error::usage(message).remedy(format!("allow 1 to {REQUESTS_MAX}")));
        }
        // A worker with the same token speaks another protocol, so it has another key.
        let secret = secret.derive("active messages");
        let me = greeting(name, &options);
        me.encode()?;
        let arrivals: Arc<ArrivalQueue> = Arc::default();
        let listen = |address| listen(address, &me, &secret, &options, &arrivals);
        let listener = address.map(listen).transpose()?;
        Ok(ActiveEndpoint {
            me,
            secret,
            options,
            listener,
            arrivals,
            events: VecDeque::new(),
            peers: BTreeMap::new(),
            owing: BTreeSet::new(),
            ends: VecDeque::new(),
            handlers: Handlers::default(),
            regions: RegionTable::default(),
            returned: VecDeque::new(),
            phase: EndpointPhase::Open,
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> Option<&Address> {
        self.listener.as_ref().map(Listener::address)
    }

    /// Connects to another endpoint. Fails if it is not reached and authenticated within `within`.
    pub fn connect(&mut self, address: &Address, within: Duration) -> Result<PeerId> {
        let connection = dial(address, &self.me, &self.secret, self.options.security, within)?;
        let (id, lane) = self.arrivals.start(connection, self.options.lost_after, false)?;
        let lane = lane.expect("a lane that is not announced");
        self.peers.insert(id, ActivePeer::new(id, lane, limits(&self.options)));
        Ok(id)
    }

    /// The connected peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.peers.keys().copied()
    }

    /// The name of a connected peer.
    pub fn peer_name(&self, peer: PeerId) -> Option<&str> {
        self.peers.get(&peer).map(|peer| peer.name.as_str())
    }

    /// The latest peers that were lost, and why.
    pub fn losses(&self) -> impl Iterator<Item = (PeerId, &Error)> {
        self.ends.iter().filter_map(|(id, _, error)| Some((*id, error.as_ref()?)))
    }

    /// Sets the handler of requests with this number. It replies with its token, declines, or drops
    /// it. Everything that arrives waits while it runs.
    pub fn on_request(
        &mut self,
        handler: u32,
        run: impl FnMut(ReplyToken<'_>, ActiveMessage<'_>) + Send + 'static,
    ) {
        self.handlers.requests.insert(handler, Box::new(run));
    }

    /// Sets the handler of replies with this number.
    pub fn on_reply(&mut self, handler: u32, run: impl FnMut(ActiveMessage<'_>) + Send + 'static) {
        self.handlers.replies.insert(handler, Box::new(run));
    }

    /// Sets the handler of messages that return. Without one, `poll` fails for such a message.
    pub fn on_returned(&mut self, run: impl FnMut(ReturnedMessage) + Send + 'static) {
        self.handlers.returned = Some(Box::new(run));
    }

    /// A region of zeros for bulk messages of peers, which need its key.
    pub fn register(&mut self, bytes: usize) -> Result<Region> {
        self.regions.register(bytes)
    }

    /// Ends a region: messages for it return from now on. False if it has ended before.
    pub fn unregister(&mut self, region: &Region) -> bool {
        self.regions.unregister(region.key())
    }

    /// Sends a request. While there is no credit, handles what arrives. Whatever keeps the request
    /// from its handler, it returns; so errors are those of `poll`, and of an unknown peer.
    pub fn request(&mut self, to: PeerId, message: OutgoingMessage) -> Result<()> {
        let mut waiting = self.try_request(to, message)?;
        while let Some(message) = waiting {
            self.wait(None)?;
            waiting = self.try_request(to, message)?;
        }
        Ok(())
    }

    /// As `request`, but gives the message back if there is no credit.
    pub fn try_request(
        &mut self,
        to: PeerId,
        message: OutgoingMessage,
    ) -> Result<Option<OutgoingMessage>> {
        if let Some(peer) = self.peers.get_mut(&to) {
            let waiting = peer.request(message, &mut self.returned);
            if !peer.messages().owes_acknowledgement(true) {
                self.owing.remove(&to);
            }
            return Ok(waiting);
        }
        if !self.arrivals.has_started(to) {
            return Err(Error::usage(format!("{to} is of another endpoint"))
                .remedy("use what `connect` of this endpoint returned"));
        }
        let end = self.ends.iter().find(|(id, ..)| *id == to).map(|(_, end, _)| *end);
        let reason = end.map_or(ReturnReason::PeerLost, PeerEnd::reason);
        self.returned.push_back(ReturnedMessage { to, is_reply: false, message, reason });
        Ok(None)
    }

    /// Requests that no peer has settled yet.
    pub fn unsettled_requests(&self) -> usize {
        self.peers.values().map(|peer| peer.messages().requests() as usize).sum()
    }

    /// Handles what has arrived, and returns how much that was. Handlers run here.
    pub fn poll(&mut self) -> Result<usize> {
        if self.events.is_empty() {
            self.arrivals.take(&mut self.events);
        }
        // What was handled before this call, and not acknowledged by a message since, is due.
        let due = std::mem::take(&mut self.owing);
        let mut count = 0;
        while let Some((peer, event)) = self.events.pop_front() {
            count += 1;
            self.on_event(peer, event);
        }
        self.acknowledge(due);
        while let Some(returned) = self.returned.pop_front() {
            count += 1;
            match &mut self.handlers.returned {
                Some(run) => run(returned),
                None => {
                    return Err(Error::failed(format!("a message returned, {returned}"))
                        .remedy("set a handler of messages that return"));
                }
            }
        }
        Ok(count)
    }

    /// Waits until something arrives and handles it, as `poll` does; 0 at the deadline.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<usize> {
        loop {
            let count = self.poll()?;
            if count > 0 || !self.arrivals.wait(deadline) {
                return Ok(count);
            }
        }
    }

    /// A handle that waits for arrivals on a thread that does not hold the endpoint.
    pub fn doorbell(&self) -> Doorbell {
        Doorbell(self.arrivals.clone())
    }

    /// Closes the endpoint: returns the requests that still arrive, waits until peers have settled
    /// its own messages, and ends the connections. What is unsettled at the deadline returns as
    /// lost.
    pub fn close(mut self, deadline: Instant) -> Result<()> {
        self.phase = EndpointPhase::Draining;
        self.listener = None;
        while self.peers.values().any(|peer| !peer.messages().is_settled())
            && self.wait(Some(deadline))? > 0
        {}
        self.hang_up();
        while !self.peers.is_empty() && self.wait(Some(deadline))? > 0 {}
        let left: Vec<PeerId> = self.peers.keys().copied().collect();
        left.into_iter().for_each(|peer| self.on_end(peer, PeerEnd::Lost, None));
        self.poll().map(drop)
    }

    fn on_event(&mut self, id: PeerId, event: PeerEvent) {
        match event {
            // Dropping the lane closes it.
            PeerEvent::Connected(_) if self.phase == EndpointPhase::HungUp => {}
            PeerEvent::Connected(lane) => {
                self.peers.insert(id, ActivePeer::new(id, lane, limits(&self.options)));
            }
            PeerEvent::Frame(meta, frame) => {
                let Some(peer) = self.peers.get_mut(&id) else { return };
                let content = (&meta, frame.body.as_slice());
                let (regions, returned) = (&self.regions, &mut self.returned);
                let is_closing = self.phase != EndpointPhase::Open;
                let handled = self.handlers.on_frame(peer, content, regions, returned, is_closing);
                match handled {
                    Err(error) => peer.lane().cut_for(error),
                    Ok(()) if peer.acknowledge(false) => drop(self.owing.remove(&id)),
                    Ok(()) => drop(self.owing.insert(id)),
                }
            }
            PeerEvent::Breach(error) => {
                if let Some(peer) = self.peers.get(&id) {
                    peer.lane().cut_for(error);
                }
            }
            PeerEvent::Ended(Ok(())) if self.phase != EndpointPhase::HungUp => {
                self.on_end(id, PeerEnd::Closed, None);
            }
            PeerEvent::Ended(end) => self.on_end(id, PeerEnd::Lost, end.err()),
        }
    }

    fn on_end(&mut self, id: PeerId, end: PeerEnd, error: Option<Error>) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.owing.remove(&id);
        peer.on_end(end, &mut self.returned);
        if self.ends.len() == ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back((id, end, error));
    }

    fn acknowledge(&mut self, due: BTreeSet<PeerId>) {
        for id in due {
            self.owing.remove(&id);
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.acknowledge(true);
            }
        }
    }

    /// Acknowledges what is handled, and says Bye.
    fn hang_up(&mut self) {
        self.phase = EndpointPhase::HungUp;
        let due = std::mem::take(&mut self.owing);
        self.acknowledge(due);
        self.peers.values().for_each(|peer| peer.lane().close());
    }
}

impl Drop for ActiveEndpoint {
    fn drop(&mut self) {
        self.listener = None;
        self.hang_up();
        self.arrivals.close();
    }
}

impl fmt::Debug for ActiveEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ActiveEndpoint");
        shown.field("name", &self.me.name).field("handlers", &self.handlers);
        shown.field("peers", &self.peers).finish_non_exhaustive()
    }
}

fn greeting(name: &str, options: &ActiveOptions) -> Greeting {
    Greeting {
        name: name.into(),
        purpose: PURPOSE.into(),
        flow: 0,
        epoch: 0,
        lane: 0,
        program: env!("CARGO_PKG_VERSION").into(),
        silence_ms: 0,
        caps: Caps { meta_bytes_max: META_BYTES_MAX, body_bytes_max: options.message_bytes_max },
        abilities: shared_memory::abilities(),
    }
    .silent_for(options.lost_after)
}

fn limits(options: &ActiveOptions) -> MessageLimits {
    MessageLimits {
        requests_max: options.requests_max,
        request_bytes_max: options.request_bytes_max,
        message_bytes_max: options.message_bytes_max,
    }
}

fn listen(
    address: &Address,
    me: &Greeting,
    secret: &Secret,
    options: &ActiveOptions,
    arrivals: &Arc<ArrivalQueue>,
) -> Result<Listener> {
    let secret = secret.clone();
    let keys: Arc<FlowSecrets> = Arc::new(move |flow| (flow == 0).then(|| secret.clone()));
    let (arrivals, lost_after) = (arrivals.clone(), options.lost_after);
    let on = move |connection: Connection| {
        let closer = connection.closer();
        let is_endpoint = connection.peer.purpose == PURPOSE;
        if !is_endpoint || arrivals.start(connection, lost_after, true).is_err() {
            closer.close();
        }
    };
    Listener::bind(address, me.clone(), keys, options.security, on)
}
