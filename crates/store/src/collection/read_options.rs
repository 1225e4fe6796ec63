//! How to read a collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use euphrates_flow::Exchange;

use crate::declustering::MirrorPolicy;
use crate::segment::BlockReadOptions;

/// The default bound on bytes of a collection on several disks that are claimed, read ahead and
/// held.
const WINDOW_BYTES_DEFAULT: usize = 256 << 20;

/// How to read a collection.
#[derive(Clone, Debug)]
pub struct CollectionReadOptions {
    /// As numbered runs in the order of writing; else in any order.
    pub is_stream: bool,
    /// The policy by which copies share the reading.
    pub mirrors: MirrorPolicy,
    /// For a collection on several disks: the bound on bytes claimed, read ahead and held, beyond a
    /// few blocks of each segment.
    pub window_bytes_max: usize,
    /// The columns, and the size and number of requests to one disk.
    pub options: BlockReadOptions,
    /// For a collection on several disks: the other processes that read it, and the workers that
    /// own disks.
    pub exchange: Option<(Arc<dyn Exchange>, BTreeMap<String, String>)>,
}

impl Default for CollectionReadOptions {
    fn default() -> CollectionReadOptions {
        CollectionReadOptions {
            is_stream: false,
            mirrors: MirrorPolicy::default(),
            window_bytes_max: WINDOW_BYTES_DEFAULT,
            options: BlockReadOptions::default(),
            exchange: None,
        }
    }
}
