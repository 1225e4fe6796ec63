//! The options of a new collection.

use euphrates_flow::DecisionRef;

use crate::catalog::CopyLayout;
use crate::segment::BlockCompression;

/// How to create a collection.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The disks' names; empty for the home's own disk.
    pub disks: Vec<String>,
    /// Copies of each segment, each on another disk.
    pub copies: usize,
    /// The placement of mirrors; `chained` if it is not given.
    pub layout: Option<CopyLayout>,
    /// Whether it may replace an existing collection.
    pub overwrite: bool,
    /// The compression of blocks.
    pub compression: Option<BlockCompression>,
    /// The identifier of this execution of the flow; no other execution has it.
    pub run_id: String,
    /// The record that decides whether it is published, if it is not the flow's only output.
    pub decision: Option<DecisionRef>,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            disks: vec![],
            copies: 1,
            layout: None,
            overwrite: false,
            compression: None,
            run_id: String::new(),
            decision: None,
        }
    }
}
