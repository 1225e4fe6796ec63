//! The shape of a module: its ports, and its order requirement.

use serde::{Deserialize, Serialize};

/// How a module depends on the order of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputOrder {
    /// No order: batches may arrive in any order, and the output is unordered.
    Any,
    /// It needs no order, but takes whole runs where there are any, and repeats them on the output.
    Keeps,
    /// It needs the whole stream in order, so it has one instance.
    Ordered,
}

/// Ports and order of a module whose configuration decides them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Names of its inputs.
    pub inputs: Vec<String>,
    /// Names of its outputs.
    pub outputs: Vec<String>,
    /// The module's order requirement.
    pub order: InputOrder,
    /// Whether more than one instance is possible.
    pub parallel: bool,
}
