//! Encoding of active messages: the meta of their frames, whose body is the data.
//!
//! The meta begins with the operation, the kind of data, the reason of a return, a zero byte, the
//! number of the handler, the count of handled messages, and the number of the message: 24 bytes.
//! A message has the number of the request that it answers and its words besides, and a bulk one
//! its place; a return has a detail of its reason. All numbers are little-endian.

use euphrates_flow::{Error, Result};
use euphrates_policy::active_messages::ReturnReason;

use super::message::{ARGUMENTS, MEDIUM_BYTES_MAX, MessageData, OutgoingMessage, RegionPlace};

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ACKNOWLEDGEMENT: u8 = 3;
const RETURNED: u8 = 4;

/// What a frame says of active messages.
///
/// ```
/// use euphrates_wire::active::{ActiveContent, ActiveMeta};
///
/// let meta = ActiveMeta { handled: 7, content: ActiveContent::Acknowledgement };
/// assert_eq!(ActiveMeta::read(&meta.encode(), 0)?, meta);
/// assert!(ActiveMeta::read(&meta.encode(), 1).is_err(), "it has no data");
/// assert!(ActiveMeta::read(&meta.encode()[1..], 0).is_err(), "cut off");
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveMeta {
    /// How many messages of the other end its sender has handled.
    pub handled: u64,
    /// The message, if it is one.
    pub content: ActiveContent,
}

/// The content of a frame: a request, a reply, an acknowledgement, or the return of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveContent {
    /// A message to a handler of requests.
    Request {
        /// The number of this message.
        number: u64,
        /// Its handler and words.
        envelope: Envelope,
    },
    /// A message to a handler of replies.
    Reply {
        /// The number of this message.
        number: u64,
        /// The number of the request.
        answers: u64,
        /// Its handler and words.
        envelope: Envelope,
    },
    /// The count of handled messages alone.
    Acknowledgement,
    /// A message of the other end was not handled.
    Returned {
        /// The number of that message.
        number: u64,
        /// Why it was not.
        reason: ReturnReason,
    },
}

/// All of a message but its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The number of the handler.
    pub handler: u32,
    /// The words of the message.
    pub arguments: [u32; ARGUMENTS],
    /// What the body of the frame is.
    pub data: DataKind,
}

/// What the body of a message's frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// It is empty.
    Short,
    /// It is for the handler.
    Medium,
    /// It is for this place.
    Bulk(RegionPlace),
}

impl Envelope {
    /// The envelope of a message.
    pub fn of(message: &OutgoingMessage) -> Envelope {
        let data = match message.data {
            MessageData::Short => DataKind::Short,
            MessageData::Medium(_) => DataKind::Medium,
            MessageData::Bulk(_, place) => DataKind::Bulk(place),
        };
        Envelope { handler: message.handler, arguments: message.arguments, data }
    }
}

impl ActiveMeta {
    /// Encodes it; every content has one encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let mut begin = |operation, kind, reason, handler: u32, number: u64| {
            out.extend([operation, kind, reason, 0]);
            out.extend(handler.to_le_bytes());
            out.extend(self.handled.to_le_bytes());
            out.extend(number.to_le_bytes());
        };
        match &self.content {
            ActiveContent::Acknowledgement => begin(ACKNOWLEDGEMENT, 0, 0, 0, 0),
            ActiveContent::Returned { number, reason } => {
                let (reason, detail) = code_of(*reason);
                begin(RETURNED, 0, reason, 0, *number);
                out.extend(detail.to_le_bytes());
            }
            ActiveContent::Request { number, envelope } => {
                begin(REQUEST, kind_of(envelope), 0, envelope.handler, *number);
                put_envelope(&mut out, 0, envelope);
            }
            ActiveContent::Reply { number, answers, envelope } => {
                begin(REPLY, kind_of(envelope), 0, envelope.handler, *number);
                put_envelope(&mut out, *answers, envelope);
            }
        }
        out
    }

    /// Decodes the meta of a frame with a body of this length. Fails if it is malformed, or the
    /// body is not one for it.
    pub fn read(meta: &[u8], body_bytes: u64) -> Result<ActiveMeta> {
        let mut fields = Fields(meta);
        let [operation, kind, reason, spare] = fields.take()?;
        let handler = u32::from_le_bytes(fields.take()?);
        let handled = fields.number()?;
        let number = fields.number()?;
        let is_message = matches!(operation, REQUEST | REPLY);
        if spare != 0 || !is_message && (kind != 0 || handler != 0 || body_bytes != 0) {
            return Err(malformed());
        }
        let content = match operation {
            ACKNOWLEDGEMENT if reason == 0 && number == 0 => ActiveContent::Acknowledgement,
            RETURNED => {
                let reason = reason_of(reason, fields.number()?)?;
                ActiveContent::Returned { number, reason }
            }
            REQUEST | REPLY if reason == 0 => {
                let answers = fields.number()?;
                let envelope = fields.envelope(handler, kind, body_bytes)?;
                match operation {
                    REPLY => ActiveContent::Reply { number, answers, envelope },
                    _ if answers == 0 => ActiveContent::Request { number, envelope },
                    _ => return Err(malformed()),
                }
            }
            _ => return Err(malformed()),
        };
        if !fields.0.is_empty() {
            return Err(malformed());
        }
        Ok(ActiveMeta { handled, content })
    }
}

fn kind_of(envelope: &Envelope) -> u8 {
    match envelope.data {
        DataKind::Short => 0,
        DataKind::Medium => 1,
        DataKind::Bulk(_) => 2,
    }
}

fn put_envelope(out: &mut Vec<u8>, answers: u64, envelope: &Envelope) {
    out.extend(answers.to_le_bytes());
    out.extend(envelope.arguments.iter().flat_map(|word| word.to_le_bytes()));
    if let DataKind::Bulk(place) = envelope.data {
        out.extend(place.key.to_le_bytes());
        out.extend(place.offset.to_le_bytes());
    }
}

/// The code of a reason that one end sends to the other, and its detail.
fn code_of(reason: ReturnReason) -> (u8, u64) {
    match reason {
        ReturnReason::NoEndpoint => (1, 0),
        ReturnReason::NoHandler => (2, 0),
        ReturnReason::NoRegion => (3, 0),
        ReturnReason::RegionTooSmall { region_bytes } => (4, region_bytes),
        ReturnReason::Declined => (5, 0),
        ReturnReason::TooLarge { .. } | ReturnReason::PeerLost => {
            unreachable!("the sender finds these itself")
        }
    }
}

fn reason_of(code: u8, detail: u64) -> Result<ReturnReason> {
    match (code, detail) {
        (1, 0) => Ok(ReturnReason::NoEndpoint),
        (2, 0) => Ok(ReturnReason::NoHandler),
        (3, 0) => Ok(ReturnReason::NoRegion),
        (4, region_bytes) => Ok(ReturnReason::RegionTooSmall { region_bytes }),
        (5, 0) => Ok(ReturnReason::Declined),
        _ => Err(malformed()),
    }
}

/// The rest of a meta.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*field)
    }

    fn number(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn envelope(&mut self, handler: u32, kind: u8, body_bytes: u64) -> Result<Envelope> {
        let mut arguments = [0; ARGUMENTS];
        for argument in &mut arguments {
            *argument = u32::from_le_bytes(self.take()?);
        }
        let data = match kind {
            0 if body_bytes == 0 => DataKind::Short,
            1 if body_bytes <= MEDIUM_BYTES_MAX as u64 => DataKind::Medium,
            2 => DataKind::Bulk(RegionPlace { key: self.number()?, offset: self.number()? }),
            _ => return Err(malformed()),
        };
        Ok(Envelope { handler, arguments, data })
    }
}

fn malformed() -> Error {
    Error::corrupt("an active message that cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn envelope() -> impl Strategy<Value = Envelope> {
        let place = any::<(u64, u64)>().prop_map(|(key, offset)| RegionPlace { key, offset });
        let data = prop_oneof![
            Just(DataKind::Short),
            Just(DataKind::Medium),
            place.prop_map(DataKind::Bulk)
        ];
        (any::<u32>(), any::<[u32; ARGUMENTS]>(), data)
            .prop_map(|(handler, arguments, data)| Envelope { handler, arguments, data })
    }

    fn content() -> impl Strategy<Value = ActiveContent> {
        let reasons = (1..=5_u8, any::<u64>())
            .prop_map(|(code, detail)| reason_of(code, if code == 4 { detail } else { 0 }));
        prop_oneof![
            Just(ActiveContent::Acknowledgement),
            (any::<u64>(), envelope())
                .prop_map(|(number, envelope)| ActiveContent::Request { number, envelope }),
            (any::<(u64, u64)>(), envelope()).prop_map(|((number, answers), envelope)| {
                ActiveContent::Reply { number, answers, envelope }
            }),
            (any::<u64>(), reasons).prop_map(|(number, reason)| {
                ActiveContent::Returned { number, reason: reason.expect("a reason that is sent") }
            }),
        ]
    }

    proptest! {
        #[test]
        fn metas_roundtrip_and_have_one_encoding(handled: u64, content in content()) {
            let meta = ActiveMeta { handled, content };
            let bytes = meta.encode();
            prop_assert_eq!(ActiveMeta::read(&bytes, 0).unwrap(), meta);
            for cut in 0..bytes.len() {
                prop_assert!(ActiveMeta::read(&bytes[..cut], 0).is_err());
            }
            prop_assert!(ActiveMeta::read(&[&bytes[..], &[0]].concat(), 0).is_err());
        }

        #[test]
        fn accepted_bytes_are_those_of_their_meaning(
            bytes in proptest::collection::vec(0..6_u8, 24..90),
        ) {
            if let Ok(meta) = ActiveMeta::read(&bytes, 0) {
                prop_assert_eq!(meta.encode(), bytes);
            }
        }
    }

    #[test]
    fn body_must_be_of_the_kind() {
        let meta = |data| {
            let envelope = Envelope { handler: 1, arguments: [0; ARGUMENTS], data };
            let content = ActiveContent::Request { number: 0, envelope };
            ActiveMeta { handled: 0, content }.encode()
        };
        let limit = MEDIUM_BYTES_MAX as u64;
        assert!(ActiveMeta::read(&meta(DataKind::Short), 1).is_err());
        assert!(ActiveMeta::read(&meta(DataKind::Medium), limit).is_ok());
        assert!(ActiveMeta::read(&meta(DataKind::Medium), limit + 1).is_err());
        let place = RegionPlace { key: 1, offset: 2 };
        assert!(ActiveMeta::read(&meta(DataKind::Bulk(place)), limit + 1).is_ok());
    }
}
