//! Filters by the keys of a join, which the scan of its probe side asks.

pub(crate) mod bloom_filter;
pub(crate) mod build_keys;
pub(crate) mod join_filters;
pub(crate) mod key_bitmap;
pub(crate) mod key_ranges;
mod publisher;
mod single_key;
pub(crate) mod split_filter;
