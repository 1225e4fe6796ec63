//! Queues between modules: admission, scheduling of runs, distributed queues, flow control.

pub mod active_messages;
pub mod distributed;
pub mod extents;
pub mod queue;
pub mod runs;
pub mod window;
