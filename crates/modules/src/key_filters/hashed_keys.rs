//! The keys of a join's build side as a filter for the source of its probe side: their hashes, and
//! their ranges.
//!
//! Keys are compared and hashed by the join's own encoder, so what the join finds equal has one hash
//! here, whatever the types of both sides are.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::KeyFilter;
use euphrates_flow::{MemoryReservation, Result};

use super::bloom_filter::BloomFilter;
use crate::join::join_keys::JoinKeyEncoder;

/// The keys of all rows of a build side.
pub(crate) struct HashedKeys {
    /// The encoder of the probe side, for its key columns alone.
    pub(crate) encoder: JoinKeyEncoder,
    /// The hashes of the keys.
    pub(crate) hashes: BloomFilter,
    /// By key column.
    pub(crate) ranges: Vec<Option<ArrayRef>>,
    /// Whether there are no keys.
    pub(crate) is_empty: bool,
    /// What the hashes take of the memory of the join.
    #[expect(dead_code, reason = "dropped with the filter")]
    pub(crate) reservation: MemoryReservation,
}

impl KeyFilter for HashedKeys {
    fn matches(&self, keys: &[ArrayRef]) -> Result<BooleanArray> {
        let nulls = keys.iter().fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let field = |(at, column): (usize, &ArrayRef)| {
            Field::new(at.to_string(), column.data_type().clone(), true)
        };
        let schema = Schema::new(keys.iter().enumerate().map(field).collect::<Vec<_>>());
        let batch = RecordBatch::try_new(Arc::new(schema), keys.to_vec())?;
        let hashes = self.encoder.hashes(&self.encoder.columns(&batch)?)?;
        let found = self.hashes.may_have(&hashes);
        Ok(BooleanArray::new(nulls.map_or(found.clone(), |nulls| &found & nulls.inner()), None))
    }

    fn ranges(&self) -> &[Option<ArrayRef>] {
        &self.ranges
    }

    fn is_empty(&self) -> bool {
        self.is_empty
    }
}
