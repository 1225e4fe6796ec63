//! Keys of dictionaries: each value of a dictionary is hashed once, not each row.
//!
//! Batches of one row group share a dictionary, so its keys are kept from batch to batch.

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use super::join_keys::{Encoded, JoinKeyEncoder};

/// The keys of the last dictionary.
#[derive(Default)]
pub(crate) struct DictionaryKeys {
    last: Option<(ArrayRef, Encoded)>,
    /// Values that have been encoded, and rows that have been seen.
    encoded: usize,
    rows: usize,
}

impl DictionaryKeys {
    /// The keys of the values of a batch's dictionary; `None` if the rows are to be encoded
    /// instead: there is no dictionary, or batches bring many values for few rows.
    pub(crate) fn of(
        &mut self,
        encoder: &JoinKeyEncoder,
        batch: &RecordBatch,
    ) -> Result<Option<&Encoded>> {
        let Some((values, _)) = encoder.dictionary(batch) else { return Ok(None) };
        self.rows += batch.num_rows();
        let is_same = |(last, _): &(ArrayRef, Encoded)| last.to_data().ptr_eq(&values.to_data());
        if !self.last.as_ref().is_some_and(is_same) {
            if self.encoded + values.len() > self.rows {
                return Ok(None);
            }
            self.encoded += values.len();
            self.last = Some((values.clone(), encoder.encode_values(values)?));
        }
        Ok(self.last.as_ref().map(|(_, keys)| keys))
    }
}
