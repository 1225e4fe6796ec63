//! What a flow is: modules, ports, queues, documents. Nothing here runs anything.

pub mod batch;
pub mod brake;
mod cause;
pub mod check;
pub mod code;
pub mod depth;
pub mod document;
pub mod draw;
pub mod error;
pub mod metrics;
pub mod module;
mod owner;
pub mod partitioned;
pub mod perturbation;
pub mod ports;
pub mod refusals;
pub mod row;
pub mod runs;
pub mod secrets;
pub mod setup;
pub mod size;
pub mod spec;
pub mod tap;
pub mod turns;

pub use batch::{
    BATCH_BYTES_TARGET, BATCH_ROWS_MAX, array_bytes, batch_bytes, batch_rows, is_whole, split_batch,
};
pub use cause::Cause;
pub use document::{Document, QueueKind};
pub use error::{Error, Kind, Result};
pub use module::{Module, Placed, Spread};
pub use owner::Owner;
pub use partitioned::{Partition, Partitioned};
pub use perturbation::Perturbation;
pub use ports::{Parcel, Ports, RunIndex, Taken};
pub use refusals::Refusals;
pub use row::Row;
pub use runs::{decoded, without_runs};
pub use setup::{Batches, Cancel, Commons, DecisionRef, Exchange, NoExchange, Setup};
pub use spec::{Effect, ModuleSpec, Order, PortNames, Registry, Shape};
