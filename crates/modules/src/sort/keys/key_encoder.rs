//! Sort keys as integers: the bits of the key above the row id.
//!
//! Sorting moves 16-byte integers instead of records (NOW-Sort, 6.5; AlphaSort before it). A key
//! is *exact* if the types of its columns leave room for the row id: then comparing integers
//! compares keys. Other keys are encoded by an *adapted* layout, chosen by the values that come
//! first (`key_survey`); most of their ties are equal keys, and those that may not be are resolved
//! by the whole row encoding. Of keys that begin with a list or a struct, the first 96 bits of the
//! row encoding are kept.

use std::cmp::Ordering;
use std::sync::OnceLock;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use euphrates_flow::{Error, Result};

use super::columns_encoder::{ColumnsEncoder, is_tied};
use super::key_bits::key_bits;
use super::key_decoder::KeyDecoder;
use super::key_layout::{ColumnCode, KeyColumn, KeyLayout};
use super::key_survey::survey;
use super::owned_keys::OwnedKey;
use crate::canonical_floats::canonical_floats;

/// Bits of a row id: the batch in the upper, the row within it in the lower 16.
const ID_BITS_MAX: u32 = 32;
/// With fewer bits, too few batches could be numbered.
const ID_BITS_MIN: u32 = 30;

/// Encodes the key columns of batches as integers.
pub(crate) struct KeyEncoder {
    columns: Vec<KeyColumn>,
    nullable: Vec<bool>,
    id_bits: u32,
    /// Present unless keys are exact by their types.
    converter: Option<RowConverter>,
    /// Set before keys are encoded.
    coding: OnceLock<KeyCoding>,
}

/// How keys are encoded.
enum KeyCoding {
    Columns(ColumnsEncoder),
    /// By the first 96 bits of the row encoding.
    Rows,
}

/// The keys of a batch, in its order.
pub(crate) struct EncodedKeys {
    /// Key bits above the row id.
    pub(crate) packed: Vec<u128>,
    /// The full row encodings, if some keys must be compared by them.
    pub(crate) rows: Option<Rows>,
}

impl KeyEncoder {
    /// An encoder whose keys are exact, or the first bits of row encodings: by the types alone.
    pub(crate) fn new(schema: &Schema, columns: Vec<KeyColumn>) -> Result<KeyEncoder> {
        let encoder = KeyEncoder::adaptive(schema, columns)?;
        encoder.coding.get_or_init(|| KeyCoding::Rows);
        Ok(encoder)
    }

    /// An encoder whose layout is chosen by a first batch, unless keys are exact by their types:
    /// by `settle`, before any key is encoded.
    pub(crate) fn adaptive(schema: &Schema, columns: Vec<KeyColumn>) -> Result<KeyEncoder> {
        let fields = || columns.iter().map(|key| schema.field(key.column));
        // A dictionary's values may be null in a column that is not.
        let is_dictionary = |field: &Field| matches!(field.data_type(), DataType::Dictionary(..));
        let nullable = fields().map(|field| field.is_nullable() || is_dictionary(field));
        let nullable: Vec<bool> = nullable.collect();
        let codes = fields().zip(&nullable).map(|(field, nullable)| {
            let bits = key_bits(field.data_type())?;
            Some(ColumnCode::Full { bits, nullable: *nullable })
        });
        let layout = codes.collect::<Option<_>>().map(KeyLayout::of_types);
        let coding = OnceLock::new();
        let exact = layout.filter(|layout| layout.bits() + ID_BITS_MIN <= 128);
        let id_bits =
            exact.as_ref().map_or(ID_BITS_MAX, |by_types| (128 - by_types.bits()).min(ID_BITS_MAX));
        let converter = match exact {
            Some(layout) => {
                let encoder = ColumnsEncoder::new(layout, columns.clone());
                coding.get_or_init(|| KeyCoding::Columns(encoder));
                None
            }
            None => Some(converter(schema, &columns)?),
        };
        Ok(KeyEncoder { columns, nullable, id_bits, converter, coding })
    }

    /// An encoder of the same keys, in other columns.
    pub(crate) fn with_columns(
        &self,
        schema: &Schema,
        columns: Vec<KeyColumn>,
    ) -> Result<KeyEncoder> {
        let encoder = KeyEncoder::adaptive(schema, columns)?;
        encoder.settle(&self.settled())?;
        Ok(encoder)
    }

    /// Whether the layout is still to be chosen.
    pub(crate) fn is_open(&self) -> bool {
        self.coding.get().is_none()
    }

    /// A layout by the values of a batch, to `settle`.
    pub(crate) fn propose(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let layout = survey(batch, &self.columns, &self.nullable)?;
        Ok(layout.map_or(vec![], |layout| layout.to_bytes()))
    }

    /// Chooses the layout, if it is open. All processes of a sort must choose one.
    pub(crate) fn settle(&self, proposed: &[u8]) -> Result<()> {
        if proposed.is_empty() || !self.is_open() {
            self.coding();
            return Ok(());
        }
        let layout = KeyLayout::from_bytes(proposed);
        let layout = layout.filter(|layout| layout.codes().len() <= self.columns.len());
        let layout =
            layout.ok_or_else(|| Error::corrupt("the layout of sort keys is malformed"))?;
        let encoder = ColumnsEncoder::new(layout, self.columns.clone());
        self.coding.get_or_init(|| KeyCoding::Columns(encoder));
        Ok(())
    }

    /// The layout to `settle` elsewhere; empty if it is open, of row encodings, or of the types.
    pub(crate) fn settled(&self) -> Vec<u8> {
        match self.coding.get() {
            Some(KeyCoding::Columns(encoder)) if !self.is_exact() => encoder.layout.to_bytes(),
            _ => vec![],
        }
    }

    /// How keys are encoded: by rows, if nothing else has been chosen.
    fn coding(&self) -> &KeyCoding {
        self.coding.get_or_init(|| KeyCoding::Rows)
    }

    /// The maximum number of batches that row ids can number.
    pub(crate) fn batches_max(&self) -> usize {
        1 << (self.id_bits - 16)
    }

    /// Whether comparing integers compares keys.
    pub(crate) fn is_exact(&self) -> bool {
        self.converter.is_none()
    }

    /// Whether a key with these bits may differ from another with the same.
    pub(crate) fn is_tied(&self, bits: u128) -> bool {
        match self.coding() {
            KeyCoding::Columns(encoder) => encoder.layout.may_tie() && is_tied(bits),
            KeyCoding::Rows => true,
        }
    }

    /// The keys of a batch of at most 65536 rows, with number `number`.
    pub(crate) fn encode(&self, batch: &RecordBatch, number: usize) -> Result<EncodedKeys> {
        self.encode_into(batch, number, vec![])
    }

    /// Like `encode`, into a buffer whose content is replaced: with little memory every new buffer
    /// of a batch is mapped, touched page by page and unmapped, which costs more than encoding.
    pub(crate) fn encode_into(
        &self,
        batch: &RecordBatch,
        number: usize,
        mut buffer: Vec<u128>,
    ) -> Result<EncodedKeys> {
        debug_assert!(batch.num_rows() <= 1 << 16);
        if number >= self.batches_max() {
            // A larger number would overflow into the key bits.
            let remedy = "give the flow more memory, or sort by fewer columns";
            return Err(Error::resource("a sort would hold too many batches").remedy(remedy));
        }
        let (mut packed, rows) = match self.coding() {
            KeyCoding::Columns(encoder) => {
                let keys = encoder.encode(batch, buffer)?;
                (keys.bits, if keys.any_tied { Some(self.rows(batch)?) } else { None })
            }
            KeyCoding::Rows => {
                let rows = self.rows(batch)?;
                buffer.clear();
                buffer.extend(rows.iter().map(|row| first_96_bits(row.data())));
                (buffer, Some(rows))
            }
        };
        let base = (number as u128) << 16;
        for (row, packed) in packed.iter_mut().enumerate() {
            *packed = (*packed << self.id_bits) | base | row as u128;
        }
        Ok(EncodedKeys { packed, rows })
    }

    /// The row encodings of a batch's keys.
    fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let converter = self.converter.as_ref().expect("keys that may tie have a row encoding");
        let column = |key: &KeyColumn| canonical_floats(batch.column(key.column));
        let columns: Vec<ArrayRef> = self.columns.iter().map(column).collect();
        Ok(converter.convert_columns(&columns)?)
    }

    /// A decoder that reads a column's values from keys of which none is tied, which avoids
    /// fetching the rows. `None` for floats, nested columns, and columns not whole in the key.
    pub(crate) fn decoder(&self, schema: &Schema, column: usize) -> Option<KeyDecoder> {
        let position = self.columns.iter().position(|key| key.column == column)?;
        let KeyCoding::Columns(ColumnsEncoder { layout, .. }) = self.coding() else { return None };
        let code = layout.codes().get(position)?;
        let shift = layout.bits_behind(position + 1) + self.id_bits;
        KeyDecoder::new(schema.field(column).data_type(), code, shift, &self.columns[position])
    }

    /// Whether all columns of a schema can be decoded from keys of which none is tied.
    pub(crate) fn has_all(&self, schema: &Schema) -> bool {
        (0..schema.fields().len()).all(|column| self.decoder(schema, column).is_some())
    }

    /// The range of a key, of `ranges` ranges of equal size that divide all possible keys of this
    /// type.
    pub(crate) fn range_of(&self, packed: u128, ranges: u32) -> u32 {
        let width = match self.coding() {
            KeyCoding::Columns(encoder) => encoder.layout.bits(),
            KeyCoding::Rows => 128 - ID_BITS_MAX,
        };
        let bits = self.bits(packed);
        // The upper 64 bits of the key suffice.
        let first = if width > 64 { bits >> (width - 64) } else { bits << (64 - width) };
        ((first * u128::from(ranges)) >> 64) as u32
    }

    /// Number of bits of a row id.
    pub(crate) fn id_bits(&self) -> u32 {
        self.id_bits
    }

    /// The row id: batch << 16 | row.
    pub(crate) fn id(&self, packed: u128) -> u32 {
        (packed & ((1 << self.id_bits) - 1)) as u32
    }

    /// The key bits without the row id.
    pub(crate) fn bits(&self, packed: u128) -> u128 {
        packed >> self.id_bits
    }

    /// The key with its row in batch `batch`.
    pub(crate) fn with_batch(&self, packed: u128, batch: usize) -> u128 {
        let row = u128::from(self.id(packed) & 0xffff);
        (self.bits(packed) << self.id_bits) | ((batch as u128) << 16) | row
    }

    /// The key with its batch number increased by `offset`.
    pub(crate) fn renumber(&self, packed: u128, offset: usize) -> u128 {
        packed + ((offset as u128) << 16)
    }

    /// Compares two keys without their row ids. `rows` returns the row encodings of a batch.
    pub(crate) fn compare<'a>(
        &self,
        (a, b): (u128, u128),
        rows: impl Fn(usize) -> Option<&'a Rows> + Copy,
    ) -> Ordering {
        let bits = self.bits(a);
        match bits.cmp(&self.bits(b)) {
            Ordering::Equal if self.is_tied(bits) => self.whole(a, rows).cmp(self.whole(b, rows)),
            order => order,
        }
    }

    /// The full row encoding of a tied key; empty if it is exact.
    pub(crate) fn whole<'a>(
        &self,
        packed: u128,
        rows: impl Fn(usize) -> Option<&'a Rows>,
    ) -> &'a [u8] {
        if !self.is_tied(self.bits(packed)) {
            return &[];
        }
        let id = self.id(packed);
        let rows = rows((id >> 16) as usize).expect("batches of tied keys have row encodings");
        rows.row((id & 0xffff) as usize).data()
    }

    /// Compares a key with a kept one.
    pub(crate) fn compare_owned<'a>(
        &self,
        packed: u128,
        owned: &OwnedKey,
        rows: impl Fn(usize) -> Option<&'a Rows>,
    ) -> Ordering {
        let bits = self.bits(packed);
        match bits.cmp(&owned.bits) {
            Ordering::Equal if self.is_tied(bits) => {
                owned.compare_whole(bits, self.whole(packed, rows))
            }
            order => order,
        }
    }
}

fn converter(schema: &Schema, columns: &[KeyColumn]) -> Result<RowConverter> {
    let fields = columns.iter().map(|key| {
        let options = arrow::compute::SortOptions {
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        SortField::new_with_options(schema.field(key.column).data_type().clone(), options)
    });
    RowConverter::new(fields.collect()).map_err(|error| {
        Error::usage(format!("cannot sort by this column: {error}"))
            .remedy("sort by a number, text, date or binary column")
    })
}

fn first_96_bits(key: &[u8]) -> u128 {
    let mut first = [0u8; 16];
    let length = key.len().min(12);
    first[4..4 + length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn too_many_batches_are_refused() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let key = KeyColumn { column: 0, descending: false, nulls_first: false };
        let encoder = KeyEncoder::new(&batch.schema(), vec![key]).unwrap();
        let last = encoder.batches_max() - 1;
        assert_eq!(encoder.encode(&batch, last).unwrap().packed.len(), 1);
        let error = encoder.encode(&batch, last + 1).err().unwrap();
        assert!(error.to_string().contains("too many batches"), "{error}");
    }
}
