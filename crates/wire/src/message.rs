//! Encoding of the messages between the endpoints of a queue: a few bytes in a frame.

use euphrates_policy::distributed::{Piece, Stock, ToConsumer, ToProducer};

/// Bytes that encode no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A message of one side of a queue to the other.
///
/// ```
/// use euphrates_policy::distributed::{Piece, ToProducer};
/// use euphrates_wire::message::Message;
///
/// let finished = ToProducer::Finished(Piece::whole(7, 1000));
/// let mut bytes = vec![];
/// finished.write(&mut bytes);
/// assert_eq!(ToProducer::read(&bytes), Ok(finished));
/// bytes.push(0);
/// assert!(ToProducer::read(&bytes).is_err(), "more than the message");
/// ```
pub trait Message: Sized {
    /// Appends the encoded message to `out`.
    fn write(&self, out: &mut Vec<u8>);
    /// Decodes a message that takes up all of `bytes`.
    fn read(bytes: &[u8]) -> Result<Self, Malformed>;
}

impl Message for ToConsumer {
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            ToConsumer::Reserve(stock) => put_stock(out, 0, stock),
            ToConsumer::Give { piece, stock, waited } => {
                put_stock(out, if waited { 2 } else { 1 }, stock);
                put_piece(out, piece);
            }
            ToConsumer::Wait(stock) => put_stock(out, 3, stock),
            ToConsumer::None(stock) => put_stock(out, 4, stock),
            ToConsumer::Dismiss(stock) => put_stock(out, 5, stock),
            ToConsumer::Recall(piece) => put_numbered(out, 6, piece),
        }
    }

    fn read(bytes: &[u8]) -> Result<ToConsumer, Malformed> {
        let mut rest = UndecodedBytes(bytes);
        let [number] = rest.take()?;
        let message = match number {
            0 => ToConsumer::Reserve(rest.stock()?),
            1 | 2 => {
                let stock = rest.stock()?;
                ToConsumer::Give { piece: rest.piece()?, stock, waited: number == 2 }
            }
            3 => ToConsumer::Wait(rest.stock()?),
            4 => ToConsumer::None(rest.stock()?),
            5 => ToConsumer::Dismiss(rest.stock()?),
            6 => ToConsumer::Recall(rest.piece()?),
            _ => return Err(Malformed),
        };
        rest.end(message)
    }
}

impl Message for ToProducer {
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            ToProducer::Request { mib_ns, answer_ns, left_typical, wait } => {
                out.push(if wait { 1 } else { 0 });
                [mib_ns, answer_ns, left_typical].iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
            ToProducer::Withdraw => out.push(2),
            ToProducer::Finished(piece) => put_numbered(out, 3, piece),
            ToProducer::Returned(piece) => put_numbered(out, 4, piece),
            ToProducer::Kept(piece) => put_numbered(out, 5, piece),
        }
    }

    fn read(bytes: &[u8]) -> Result<ToProducer, Malformed> {
        let mut rest = UndecodedBytes(bytes);
        let [number] = rest.take()?;
        let message = match number {
            0 | 1 => ToProducer::Request {
                mib_ns: rest.u64()?,
                answer_ns: rest.u64()?,
                left_typical: rest.u64()?,
                wait: number == 1,
            },
            2 => ToProducer::Withdraw,
            3 => ToProducer::Finished(rest.piece()?),
            4 => ToProducer::Returned(rest.piece()?),
            5 => ToProducer::Kept(rest.piece()?),
            _ => return Err(Malformed),
        };
        rest.end(message)
    }
}

fn put_stock(out: &mut Vec<u8>, number: u8, stock: Stock) {
    out.push(number);
    out.extend(stock.ready.to_le_bytes());
    out.extend(stock.left_bytes.to_le_bytes());
}

fn put_numbered(out: &mut Vec<u8>, number: u8, piece: Piece) {
    out.push(number);
    put_piece(out, piece);
}

fn put_piece(out: &mut Vec<u8>, piece: Piece) {
    out.extend(piece.batch.to_le_bytes());
    out.extend(piece.from.to_le_bytes());
    out.extend(piece.to.to_le_bytes());
    out.extend(piece.bytes.to_le_bytes());
}

/// The bytes that are left to decode.
struct UndecodedBytes<'a>(&'a [u8]);

impl UndecodedBytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn stock(&mut self) -> Result<Stock, Malformed> {
        Ok(Stock { ready: self.u32()?, left_bytes: self.u64()? })
    }

    /// Decodes a piece, which must not be empty and must lie within its batch.
    fn piece(&mut self) -> Result<Piece, Malformed> {
        let (batch, from, to) = (self.u64()?, self.u32()?, self.u32()?);
        let piece = Piece { batch, from, to, bytes: self.u64()? };
        let whole = Piece::whole(batch, piece.bytes);
        if piece.from < piece.to && piece.to <= whole.to { Ok(piece) } else { Err(Malformed) }
    }

    fn end<T>(&self, message: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(message) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_policy::distributed::SHARES;
    use proptest::prelude::*;

    fn piece() -> impl Strategy<Value = Piece> {
        (any::<u64>(), 0..SHARES, 1..=SHARES, any::<u64>())
            .prop_filter("not empty", |(_, from, to, _)| from < to)
            .prop_map(|(batch, from, to, bytes)| Piece { batch, from, to, bytes })
    }

    fn stock() -> impl Strategy<Value = Stock> {
        any::<(u32, u64)>().prop_map(|(ready, left_bytes)| Stock { ready, left_bytes })
    }

    fn to_consumer() -> impl Strategy<Value = ToConsumer> {
        let give = (piece(), stock(), any::<bool>());
        prop_oneof![
            stock().prop_map(ToConsumer::Reserve),
            give.prop_map(|(piece, stock, waited)| ToConsumer::Give { piece, stock, waited }),
            stock().prop_map(ToConsumer::Wait),
            stock().prop_map(ToConsumer::None),
            stock().prop_map(ToConsumer::Dismiss),
            piece().prop_map(ToConsumer::Recall),
        ]
    }

    fn to_producer() -> impl Strategy<Value = ToProducer> {
        let request = any::<(u64, u64, u64, bool)>();
        prop_oneof![
            request.prop_map(|(mib_ns, answer_ns, left_typical, wait)| ToProducer::Request {
                mib_ns,
                answer_ns,
                left_typical,
                wait
            }),
            Just(ToProducer::Withdraw),
            piece().prop_map(ToProducer::Finished),
            piece().prop_map(ToProducer::Returned),
            piece().prop_map(ToProducer::Kept),
        ]
    }

    fn written(message: &impl Message) -> Vec<u8> {
        let mut bytes = vec![];
        message.write(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn messages_roundtrip(down in to_consumer(), up in to_producer()) {
            prop_assert_eq!(ToConsumer::read(&written(&down)), Ok(down));
            prop_assert_eq!(ToProducer::read(&written(&up)), Ok(up));
        }

        #[test]
        fn truncated_or_overlong_is_malformed(message in to_consumer(), cut in 0..40_usize) {
            let mut bytes = written(&message);
            bytes.push(0);
            prop_assert_eq!(ToConsumer::read(&bytes), Err(Malformed));
            let short = &bytes[..cut.min(bytes.len() - 2)];
            prop_assert_eq!(ToConsumer::read(short), Err(Malformed));
        }

        #[test]
        fn bytes_are_a_message_or_malformed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = ToConsumer::read(&bytes) {
                prop_assert_eq!(written(&message), bytes.clone());
            }
            if let Ok(message) = ToProducer::read(&bytes) {
                prop_assert_eq!(written(&message), bytes);
            }
        }
    }
}
