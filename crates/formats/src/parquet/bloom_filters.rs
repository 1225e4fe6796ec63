//! Bloom filters of row groups, which tell that a column lacks a value.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use bytes::Bytes;
use euphrates_device::blob::Blob;
use euphrates_policy::predicate::{Bounds, Facts};
use parquet::basic::Type;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::format::guarded;
use crate::predicate::{ComparedColumn, ComparedValue, RowPredicate, may_pass};

/// Whether any row of a row group may pass a filter with this predicate, as far as Bloom filters
/// tell. Those that cannot be read tell nothing.
pub fn may_pass_any(
    blob: Arc<Blob>,
    group: &RowGroupMetaData,
    schema: &Schema,
    predicate: &RowPredicate,
) -> bool {
    may_pass(predicate, &GroupFilters { blob, group, schema, read: RefCell::default() })
}

/// Whether the row group has any Bloom filter.
pub fn has_some(group: &RowGroupMetaData) -> bool {
    group.columns().iter().any(|column| column.bloom_filter_offset().is_some())
}

struct GroupFilters<'a> {
    blob: Arc<Blob>,
    group: &'a RowGroupMetaData,
    schema: &'a Schema,
    /// The filters that have been read, by leaf column.
    read: RefCell<BTreeMap<usize, Option<Sbbf>>>,
}

impl Facts<ComparedColumn, ComparedValue> for GroupFilters<'_> {
    fn bounds(&self, _: &ComparedColumn) -> Option<&Bounds<ComparedValue>> {
        None
    }

    fn lacks(&self, column: &ComparedColumn, value: &ComparedValue) -> bool {
        let name = std::slice::from_ref(&column.name);
        let is_own = |leaf: &ColumnChunkMetaData| leaf.column_path().parts() == name;
        let Some(leaf) = self.group.columns().iter().position(is_own) else { return false };
        let Ok(field) = self.schema.field_with_name(&column.name) else { return false };
        let chunk = self.group.column(leaf);
        let mut read = self.read.borrow_mut();
        let filter = read.entry(leaf).or_insert_with(|| self.filter(chunk));
        let may_have =
            |filter: &Sbbf| check(filter, chunk.column_type(), field.data_type(), column, value);
        // A filter of no blocks makes the crate panic.
        let checked = guarded(|| Ok(filter.as_ref().and_then(may_have)));
        checked.is_ok_and(|may_have| may_have == Some(false))
    }
}

impl GroupFilters<'_> {
    fn filter(&self, chunk: &ColumnChunkMetaData) -> Option<Sbbf> {
        // Its header tells the number of blocks; if the length in the footer differed, values would
        // be looked up in wrong blocks.
        let chunk = chunk.clone().into_builder().set_bloom_filter_length(None).build().ok()?;
        let source = FileSource(self.blob.clone());
        guarded(|| Ok(Sbbf::read_from_column_chunk(&chunk, &source).ok().flatten())).ok()?
    }
}

/// Whether the filter may have a value; `None` if the value is not compared in the type in which
/// the filter has hashed it.
fn check(
    filter: &Sbbf,
    stored: Type,
    own: &DataType,
    column: &ComparedColumn,
    value: &ComparedValue,
) -> Option<bool> {
    use DataType::*;
    let is_text = |one: &DataType| {
        one.is_string() || matches!(one, Dictionary(_, values) if values.is_string())
    };
    match (stored, value) {
        (Type::BYTE_ARRAY, ComparedValue::Bytes(bytes)) => {
            let is_same = is_text(own) && is_text(&column.data_type) || *own == column.data_type;
            is_same.then(|| filter.check(bytes.as_slice()))
        }
        (_, ComparedValue::Whole(value)) if *own == column.data_type => match (stored, own) {
            (Type::INT32, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 | Date32) => {
                Some(filter.check(&(*value as i32)))
            }
            (Type::INT64, Int64 | UInt64) => Some(filter.check(&(*value as i64))),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a file for the crate; a length beyond the end is cut.
pub struct FileSource(pub Arc<Blob>);

impl Length for FileSource {
    fn len(&self) -> u64 {
        self.0.bytes()
    }
}

impl ChunkReader for FileSource {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Cursor<Bytes>, ParquetError> {
        self.get_bytes(start, usize::MAX).map(Cursor::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let left = self.0.bytes().saturating_sub(start);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        self.0.read_at(start, length).map_err(|error| ParquetError::External(Box::new(error)))
    }
}
