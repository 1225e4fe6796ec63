//! The protocol between a worker and a child process with user code: messages in JSON, and batches
//! in the block format of segments. The child sends one request at a time and waits for the reply.

use std::io::{Read, Write};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_flow::{Error, MemoryAccount, Result, Setup, Shape};
use euphrates_store::segment::{BlockDecoder, BlockEncoder, message_of_schema, schema_of_message};
use euphrates_wire::{Frame, FrameKind, FrameReceiver, FrameSender, Header, block};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Messages of the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum WorkerMessage {
    /// Configure a module in the process.
    Configure {
        /// The name of its spec.
        module: String,
        /// The configuration of the module.
        config: Value,
    },
    /// Check the module, given the schemas of its inputs.
    Check {
        /// By input, as IPC messages.
        inputs: Vec<Vec<u8>>,
    },
    /// Run an instance of the configured module.
    Run(Box<InstanceSetup>),
    /// The next batch, which is in the body.
    Batch,
    /// No batch is available now.
    Empty,
    /// The input has ended.
    End,
    /// The reply to `Select`.
    Ready {
        /// The input that is ready; none if there are no inputs.
        input: Option<usize>,
    },
    /// The number that a shared counter had.
    Number {
        /// The number.
        number: u64,
    },
    /// The request was carried out.
    Done,
    /// There was no room; the worker keeps the batch for `PutKept`.
    Refused,
    /// The request failed with an error.
    Failed {
        /// The error that the ports raise in the child.
        error: Error,
    },
    /// The flow was cancelled; sent without a request.
    Stop,
}

/// The part of an instance's setup that its process needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InstanceSetup {
    module: String,
    worker: String,
    instance: usize,
    instances: usize,
    memory_bytes: usize,
    budget_bytes: usize,
    scratch: Vec<std::path::PathBuf>,
    home: std::path::PathBuf,
    run_id: String,
    /// Whether each input has partitions.
    pub keyed: Vec<bool>,
    /// Rows of the input that went to earlier processes.
    pub rows_before: usize,
}

impl InstanceSetup {
    /// The part of this setup; `keyed` says of each input whether it has partitions.
    pub fn of(setup: &Setup, keyed: Vec<bool>) -> InstanceSetup {
        InstanceSetup {
            module: setup.module.clone(),
            worker: setup.worker.clone(),
            instance: setup.instance,
            instances: setup.instances,
            memory_bytes: setup.memory.even_share_bytes(),
            budget_bytes: setup.budget_bytes,
            scratch: setup.scratch.clone(),
            home: setup.home.clone(),
            run_id: setup.run_id.clone(),
            keyed,
            rows_before: 0,
        }
    }

    /// The setup in the child process, with `defaults` for what is not sent.
    pub fn setup(&self, defaults: Setup) -> Setup {
        Setup {
            module: self.module.clone(),
            worker: self.worker.clone(),
            instance: self.instance,
            instances: self.instances,
            memory: MemoryAccount::alone(self.memory_bytes),
            budget_bytes: self.budget_bytes,
            scratch: self.scratch.clone(),
            home: self.home.clone(),
            run_id: self.run_id.clone(),
            ..defaults
        }
    }
}

/// Messages of the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum ChildMessage {
    /// The module is configured.
    Configured {
        /// Its ports, if its configuration defines them.
        shape: Option<Shape>,
    },
    /// The schemas of its outputs.
    Checked {
        /// By output, as IPC messages.
        outputs: Vec<Vec<u8>>,
        /// Whether it numbers runs itself.
        numbers_runs: bool,
    },
    /// Placing or checking failed.
    Unfit {
        /// The error of the check.
        error: Error,
    },
    /// The next batch of an input.
    Take {
        /// The position of the input.
        input: usize,
        /// Whether to wait for a batch.
        wait: bool,
    },
    /// The next partition of an input.
    Partition {
        /// The position of the input.
        input: usize,
    },
    /// Wait until one of these inputs is ready.
    Select {
        /// The positions of the inputs.
        inputs: Vec<usize>,
    },
    /// Put the batch in the body, if there is room.
    Put {
        /// The position of the output.
        output: usize,
    },
    /// Put the refused batch, and wait for room.
    PutKept {
        /// The position of the output.
        output: usize,
    },
    /// Begin a run on an output.
    BeginRun {
        /// The position of the output.
        output: usize,
        /// The number of the run.
        run: u64,
    },
    /// End the run of an output.
    EndRun {
        /// The position of the output.
        output: usize,
    },
    /// Count rows that a source read from outside the flow.
    Count {
        /// The number of rows.
        rows: usize,
        /// Their size in memory.
        bytes: usize,
    },
    /// Take the next number of a counter that the instances of the module share.
    FetchAdd {
        /// The name of the counter.
        name: String,
    },
    /// The module has returned.
    Ended {
        /// The error that it returned.
        error: Option<Error>,
    },
}

/// Encodes and decodes the batches of one port.
pub struct Codec {
    encoder: BlockEncoder,
    decoder: BlockDecoder,
}

impl Codec {
    /// A codec for batches of this schema.
    pub fn new(schema: &SchemaRef) -> Result<Codec> {
        let numbered = schema_of_message(&message_of_schema(schema)?)?;
        let decoder = BlockDecoder::new(&numbered, None);
        Ok(Codec { encoder: BlockEncoder::new(schema.clone(), None)?, decoder })
    }

    /// Decodes the batch in a frame.
    pub fn decode(&self, frame: &Frame) -> Result<RecordBatch> {
        let read = block::read(&frame.meta, frame.body.len() as u64);
        let (block, _) = read.map_err(|_| Error::corrupt("a batch that cannot be read"))?;
        self.decoder.decode(&block, &frame.body)
    }
}

/// Encodes schemas as IPC messages.
pub fn encode_schemas(schemas: &[SchemaRef]) -> Result<Vec<Vec<u8>>> {
    schemas.iter().map(|schema| message_of_schema(schema)).collect()
}

/// Decodes schemas from IPC messages.
pub fn decode_schemas(messages: &[Vec<u8>]) -> Result<Vec<SchemaRef>> {
    messages.iter().map(|message| schema_of_message(message)).collect()
}

/// Sends a message, optionally with a batch.
pub fn send<W: Write>(
    sender: &mut FrameSender<W>,
    message: &impl Serialize,
    batch: Option<(&mut Codec, &RecordBatch)>,
) -> Result<()> {
    let json = serde_json::to_vec(message).map_err(Error::failed)?;
    let sent = match batch {
        // Pickled functions may be large, and the meta of a frame is limited.
        None => sender.send(Header::of(FrameKind::Control), &[], &[Buffer::from_vec(json)]),
        Some((codec, batch)) => {
            let encoded = codec.encoder.encode(batch)?;
            let mut meta = Vec::with_capacity(64 + json.len());
            block::write(&encoded.block, &mut meta);
            meta.extend_from_slice(&json);
            sender.send(Header::of(FrameKind::Batch), &meta, &encoded.parts)
        }
    };
    sent.map_err(|error| {
        Error::resource(format!("the process that runs user code is gone: {error}"))
    })
}

/// Receives a message and its frame, which may hold a batch; `None` at the end of the stream.
pub fn receive<R: Read, M: DeserializeOwned>(
    receiver: &mut FrameReceiver<R>,
) -> Result<Option<(M, Frame)>> {
    let Some(frame) = receiver.receive()? else { return Ok(None) };
    let json = match frame.header.kind {
        FrameKind::Batch => frame.meta.get(block::BLOCK_BYTES..).unwrap_or_default(),
        _ => frame.body.as_slice(),
    };
    let malformed = |error| Error::corrupt(format!("a message that cannot be read: {error}"));
    let message = serde_json::from_slice(json).map_err(malformed)?;
    Ok(Some((message, frame)))
}
