//! Encodes the messages of a queue to ends in other processes: messages as frames, batches as
//! blocks.
//!
//! A batch is sent from its own buffers and decoded in the slab it was received in. Its checksum is
//! computed where it is encoded and compared where it is decoded, whatever carried it.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{ClaimGate, Error, Result};
use euphrates_policy::distributed::Peer;
use euphrates_store::segment::{
    BlockDecoder, BlockEncoder, EncodedBlock, message_of_schema, schema_of_message,
};
use euphrates_wire::{Frame, FrameKind, block};
use parking_lot::Mutex;

use super::fetch_backlog::FetchBacklog;
use super::network::{FrameHead, Network};

/// Sends messages of one queue, and decodes messages that arrive for it.
pub struct Transport {
    network: Arc<Network>,
    /// The queue's number, the same in all processes.
    queue: u32,
    schema: SchemaRef,
    decoder: BlockDecoder,
    /// Encoders not in use.
    encoders: Mutex<Vec<BlockEncoder>>,
    /// Holds back the requests of consumers in this process.
    claims: Arc<ClaimGate>,
}

/// The two ends that a frame names, whichever of them sends it. In an exchange, `producer` is the
/// number of the request and `consumer` the requesting process.
#[derive(Clone, Copy, Debug)]
pub struct FrameEnds {
    /// The number of the end on the producing side.
    pub producer: Peer,
    /// The number of the end on the consuming side.
    pub consumer: Peer,
}

impl Transport {
    /// For the queue with this number, whose batches have this schema.
    pub fn new(network: Arc<Network>, queue: u32, schema: SchemaRef) -> Transport {
        // The decoder numbers dictionaries as the encoded schema does. A schema that cannot be
        // encoded fails when its first batch is sent.
        let numbered = message_of_schema(&schema).and_then(|message| schema_of_message(&message));
        let decoder = BlockDecoder::new(&numbered.unwrap_or_else(|_| schema.clone()), None);
        let (encoders, claims) = Default::default();
        Transport { network, queue, schema, decoder, encoders, claims }
    }

    /// The same, with a gate for the requests of consumers in this process.
    pub fn with_claims(self, claims: Arc<ClaimGate>) -> Transport {
        Transport { claims, ..self }
    }

    /// Whether consumers in this process leave what they have not requested to those in others.
    pub fn holds_consumers(&self) -> bool {
        self.claims.is_held()
    }

    /// Holds the consumers in this process, or releases them.
    #[cfg(test)]
    pub fn hold_consumers(&self, is_held: bool) {
        self.claims.hold(is_held);
    }

    /// Which worker this is.
    pub fn me(&self) -> usize {
        self.network.me()
    }

    /// The fetch backlog of this process.
    pub fn fetch_backlog(&self) -> &FetchBacklog {
        self.network.fetch_backlog()
    }

    /// Sends a message to an end at this worker.
    pub fn send(&self, worker: usize, ends: FrameEnds, message: Vec<u8>) {
        self.network.send(worker, self.head(FrameKind::Message, ends), message, vec![]);
    }

    /// Sends a message with a body that is no batch.
    pub fn send_bytes(&self, worker: usize, ends: FrameEnds, message: Vec<u8>, body: Vec<Buffer>) {
        self.network.send(worker, self.head(FrameKind::Message, ends), message, body);
    }

    /// Sends a message with a batch. A batch that cannot be encoded fails the flow.
    pub fn send_batch(&self, worker: usize, ends: FrameEnds, message: &[u8], batch: &RecordBatch) {
        match self.encode(batch) {
            Ok(encoded) => {
                let mut meta = Vec::with_capacity(64 + message.len());
                block::write(&encoded.block, &mut meta);
                meta.extend_from_slice(message);
                self.network.send(worker, self.head(FrameKind::Batch, ends), meta, encoded.parts);
            }
            Err(error) => self.network.fail(error),
        }
    }

    /// The message of a frame, and its batch if there is one.
    pub fn decode<'a>(&self, frame: &'a Frame) -> Result<(&'a [u8], Option<RecordBatch>)> {
        if frame.header.kind != FrameKind::Batch {
            return Ok((&frame.meta, None));
        }
        let body_bytes = frame.body.len() as u64;
        let (block, message) = block::read(&frame.meta, body_bytes).map_err(|_| malformed())?;
        block.check(&frame.body)?;
        Ok((message, Some(self.decoder.decode(&block, &frame.body)?)))
    }

    fn head(&self, kind: FrameKind, FrameEnds { producer, consumer }: FrameEnds) -> FrameHead {
        FrameHead { kind, queue: self.queue, producer, consumer }
    }

    fn encode(&self, batch: &RecordBatch) -> Result<EncodedBlock> {
        let free = self.encoders.lock().pop();
        let mut encoder = match free {
            Some(encoder) => encoder,
            None => BlockEncoder::new(self.schema.clone(), None)?,
        };
        let encoded = encoder.encode(batch)?;
        self.encoders.lock().push(encoder);
        Ok(encoded)
    }
}

/// The error for a malformed message.
pub fn malformed() -> Error {
    Error::corrupt("a message that cannot be read")
}

/// Fails for a message from an end beyond the last.
pub fn misdirected_from(end: Peer, ends: usize) -> Result<()> {
    let unknown = || Error::corrupt(format!("a message came from end {end} of {ends}"));
    if (end as usize) < ends { Ok(()) } else { Err(unknown()) }
}

/// The error for a message to an end in another process.
pub fn misdirected(what: &str) -> Error {
    Error::corrupt(format!("a message came for {what} that is not here"))
}
