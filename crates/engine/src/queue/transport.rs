//! A queue's way to its ends in other processes: letters as frames, batches as blocks.
//!
//! A batch goes out of its own buffers and is decoded in the slab it came into. Its checksum is
//! made where it is encoded and compared where it is decoded, whatever carried it.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};
use euphrates_io::segment::{
    BlockDecoder, BlockEncoder, EncodedBlock, message_of_schema, schema_of_message,
};
use euphrates_policy::distributed::Peer;
use euphrates_wire::{Frame, Kind, block};
use parking_lot::Mutex;

use crate::queue::fetch_backlog::Debts;
use crate::queue::network::{Head, Network};

/// The way to other processes.
pub struct Transport {
    network: Arc<Network>,
    /// The queue's number, the same in all processes.
    queue: u32,
    schema: SchemaRef,
    decoder: BlockDecoder,
    /// Those that nobody uses at this moment.
    encoders: Mutex<Vec<BlockEncoder>>,
}

/// The ends that a letter is between, as its frame names them.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// On the producing side.
    pub producer: Peer,
    /// On the consuming side.
    pub consumer: Peer,
}

impl Transport {
    /// Of the queue with this number, through which batches of this schema go.
    pub fn new(network: Arc<Network>, queue: u32, schema: SchemaRef) -> Transport {
        // Its dictionaries have the numbers they have in what is sent; what cannot be numbered
        // cannot be sent either.
        let numbered = message_of_schema(&schema).and_then(|message| schema_of_message(&message));
        let decoder = BlockDecoder::new(&numbered.unwrap_or_else(|_| schema.clone()), None);
        Transport { network, queue, schema, decoder, encoders: Mutex::default() }
    }

    /// Which worker this is.
    pub fn me(&self) -> usize {
        self.network.me()
    }

    /// What this process owes the others.
    pub fn debts(&self) -> &Debts {
        self.network.debts()
    }

    /// Sends a letter to an end at this worker.
    pub fn send(&self, worker: usize, ends: Ends, letter: Vec<u8>) {
        self.network.send(worker, self.head(Kind::Letter, ends), letter, vec![]);
    }

    /// Sends a letter with bytes that need not be a batch.
    pub fn send_bytes(&self, worker: usize, ends: Ends, letter: Vec<u8>, body: Vec<Buffer>) {
        self.network.send(worker, self.head(Kind::Letter, ends), letter, body);
    }

    /// Sends a letter with a batch. If that cannot be, the flow ends.
    pub fn send_batch(&self, worker: usize, ends: Ends, letter: &[u8], batch: &RecordBatch) {
        match self.encode(batch) {
            Ok(encoded) => {
                let mut meta = Vec::with_capacity(64 + letter.len());
                block::write(&encoded.block, &mut meta);
                meta.extend_from_slice(letter);
                self.network.send(worker, self.head(Kind::Batch, ends), meta, encoded.parts);
            }
            Err(error) => self.network.fail(error),
        }
    }

    /// What came: the letter, and the batch if there is one.
    pub fn read<'a>(&self, frame: &'a Frame) -> Result<(&'a [u8], Option<RecordBatch>)> {
        if frame.header.kind != Kind::Batch {
            return Ok((&frame.meta, None));
        }
        let body_bytes = frame.body.len() as u64;
        let (block, letter) = block::read(&frame.meta, body_bytes).map_err(|_| malformed())?;
        block.check(&frame.body)?;
        Ok((letter, Some(self.decoder.decode(&block, &frame.body)?)))
    }

    fn head(&self, kind: Kind, Ends { producer, consumer }: Ends) -> Head {
        Head { kind, queue: self.queue, producer, consumer }
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

/// The error for a letter that says nothing that could be understood.
pub fn malformed() -> Error {
    Error::corrupt("a letter that cannot be read")
}

/// Fails for a letter from an end that there is not.
pub fn misdirected_from(end: Peer, ends: usize) -> Result<()> {
    let unknown = || Error::corrupt(format!("a letter came from end {end} of {ends}"));
    if (end as usize) < ends { Ok(()) } else { Err(unknown()) }
}

/// The error for a letter to an end that is not here.
pub fn misdirected(what: &str) -> Error {
    Error::corrupt(format!("a letter came for {what} that is not here"))
}
