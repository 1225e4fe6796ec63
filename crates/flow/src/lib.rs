//! The model of flows: modules, ports, queues, documents, checks. The engine executes them.

pub mod batch;
mod byte_mask;
pub mod check;
pub mod code;
pub mod depth;
pub mod document;
pub mod error;
pub mod long_rows;
pub mod module;
pub mod nested;
mod owner;
pub mod perturbation;
mod plain_layout;
pub mod ports;
pub mod sample_limit;
pub mod setup;
mod shape;
pub mod size;
pub mod spec;

pub use batch::{
    BATCH_BYTES_TARGET, BATCH_ROWS_MAX, array_bytes, batch_bytes, batch_rows, is_whole, new_batch,
    split_batch,
};
pub use byte_mask::{BLOCK_BYTES, byte_mask};
pub use document::{Document, QueueKind};
pub use error::refusals::Refusals;
pub use error::row::Row;
pub use error::{Cause, Error, Kind, Result};
pub use error::{row, secrets};
pub use module::{
    Bound, Configure, ExchangeServer, Inputs, InstanceFactory, Module, PlacementConstraint, Sink,
};
pub use owner::{Owner, PerProcess, sync};
pub use perturbation::Perturbation;
pub use plain_layout::{converted_batches, converted_schema};
pub use ports::partitioned::{Partition, Partitioned};
pub use ports::{Parcel, Ports, RunIndex, Taken};
pub use ports::{brake, metrics, tap};
pub use setup::cache_grant::CacheGrant;
pub use setup::claim_gate::ClaimGate;
pub use setup::memory::{MemoryAccount, MemoryReservation};
pub use setup::threads::spawn_named;
pub use setup::{
    Batches, CANCEL_POLL_INTERVAL, Cancel, Coordination, DecisionRef, Exchange, GatherName,
    NoExchange, Setup,
};
pub use shape::{InputOrder, Shape};
pub use spec::{Effect, MemoryDemand, ModuleSpec, PortNames, RecoveryClass, Registry};
