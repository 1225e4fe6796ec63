//! Row layout of one side, in memory, on scratch and when sent: the hash of the key, and all needed
//! columns in one row.
//!
//! Fetching a matching row costs a cache miss for each place it lies at, so its columns lie
//! together (see `sort/record_layout.rs`). Types that the row format does not support stay columns.
//! Dictionaries are replaced by their values; otherwise each piece would hold the whole dictionary,
//! in memory, on disk and in the output.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, UInt64Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, new_batch};

use super::dictionary_keys::DictionaryKeys;
use super::join_keys::{Encoded, JoinKeyEncoder};
use super::plan::SidePlan;
use crate::sort::row_format::{ColumnLocation, SortRowFormat};

/// The columns of held rows.
const HASH: &str = "__hash";
const ROW: &str = "__row";
/// Additional cells of a row.
const CHECK: &str = "__check";
const PLACEHOLDER: &str = "__placeholder";

/// The layout of one side.
pub(crate) struct SideLayout {
    keys: JoinKeyEncoder,
    needed: Vec<usize>,
    /// Where each needed column is stored, and its type in the output.
    homes: Vec<(ColumnLocation, DataType)>,
    /// The schema of a row's cells.
    cells: SchemaRef,
    format: SortRowFormat,
    held: SchemaRef,
}

/// Rows with their keys.
pub(crate) struct KeyedRows {
    /// The keys of the rows, or of the values of their dictionary.
    pub(crate) keys: Encoded,
    /// For each row, the position of its key.
    pub(crate) codes: Option<ScalarBuffer<i32>>,
    /// The columns that the output or the condition needs.
    pub(crate) columns: Vec<ArrayRef>,
}

impl KeyedRows {
    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.codes.as_ref().map_or(self.keys.hashes.len(), |codes| codes.len())
    }

    /// The hash of a row's key.
    #[inline(always)]
    pub(crate) fn hash(&self, row: usize) -> u64 {
        self.keys.hashes[self.key(row)]
    }

    /// The bytes of a row's key; `None` if its hash is unique.
    #[inline(always)]
    pub(crate) fn check(&self, row: usize) -> Option<&[u8]> {
        self.keys.checks.as_ref().map(|checks| checks.value(self.key(row)))
    }

    #[inline(always)]
    fn key(&self, row: usize) -> usize {
        self.codes.as_ref().map_or(row, |codes| codes[row] as usize)
    }
}

impl SideLayout {
    /// The layout of this side.
    pub(crate) fn new(side: &SidePlan) -> Result<SideLayout> {
        let keys = JoinKeyEncoder::new(side)?;
        let check = (!keys.has_unique_hashes()).then(|| Field::new(CHECK, DataType::Binary, false));
        let mut cells: Vec<FieldRef> = check.into_iter().map(Arc::new).collect();
        let mut held: Vec<FieldRef> = vec![
            Arc::new(Field::new(HASH, DataType::UInt64, false)),
            Arc::new(Field::new(ROW, DataType::Binary, false)),
        ];
        let mut homes = vec![];
        for column in &side.needed {
            let field = &side.schema.fields()[*column];
            let inside = held_field(field);
            let (list, home): (_, fn(usize) -> ColumnLocation) =
                match SortRowFormat::supports(inside.data_type()) {
                    true => (&mut cells, ColumnLocation::Cell),
                    false => (&mut held, ColumnLocation::Column),
                };
            homes.push((home(list.len()), field.data_type().clone()));
            list.push(inside);
        }
        // Gathered rows are identified by their offsets, so rows whose columns are needed must not
        // be empty. If no column is needed, only hashes matter, and rows stay empty.
        if cells.is_empty() && !side.needed.is_empty() {
            cells.push(Arc::new(Field::new(PLACEHOLDER, DataType::Boolean, false)));
        }
        let cells = Arc::new(Schema::new(cells));
        let all: Vec<usize> = (0..cells.fields().len()).collect();
        let format = SortRowFormat::new(&cells, &all);
        let held = Arc::new(Schema::new(held));
        Ok(SideLayout { keys, needed: side.needed.clone(), homes, cells, format, held })
    }

    pub(crate) fn keys(&self) -> &JoinKeyEncoder {
        &self.keys
    }

    /// The format of the rows.
    pub(crate) fn format(&self) -> &SortRowFormat {
        &self.format
    }

    /// Whether no column is needed, but the keys.
    pub(crate) fn has_no_columns(&self) -> bool {
        self.homes.is_empty()
    }

    /// The types of the needed columns.
    pub(crate) fn types(&self) -> impl Iterator<Item = &DataType> {
        self.homes.iter().map(|(_, data_type)| data_type)
    }

    /// The schema of held rows.
    pub(crate) fn held(&self) -> &SchemaRef {
        &self.held
    }

    /// The needed columns of a batch of the input.
    pub(crate) fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.needed.iter().map(|column| batch.column(*column).clone()).collect()
    }

    /// The rows of a batch, whose keys are not null.
    pub(crate) fn take(&self, batch: &RecordBatch) -> Result<KeyedRows> {
        let keys = self.keys.encode(batch)?;
        Ok(KeyedRows { keys, codes: None, columns: self.columns(batch) })
    }

    /// The rows of a batch, whose keys are not null, with the keys of its dictionary if it has one.
    pub(crate) fn take_encoded(
        &self,
        batch: &RecordBatch,
        dictionary: &mut DictionaryKeys,
    ) -> Result<KeyedRows> {
        let Some(keys) = dictionary.of(&self.keys, batch)? else { return self.take(batch) };
        let codes = self.keys.dictionary(batch).map(|(_, codes)| codes.clone());
        Ok(KeyedRows { keys: keys.clone(), codes, columns: self.columns(batch) })
    }

    /// The rows of a batch in the held layout. Their keys must not be null.
    pub(crate) fn pack(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Encoded { hashes, checks } = self.keys.encode(batch)?;
        let (columns, count) = (self.columns(batch), batch.num_rows());
        let mut cells: Vec<ArrayRef> = checks.into_iter().map(|c| Arc::new(c) as _).collect();
        let mut others: Vec<ArrayRef> = vec![];
        for ((home, data_type), column) in self.homes.iter().zip(columns) {
            let (list, schema, at) = match home {
                ColumnLocation::Cell(at) => (&mut cells, &self.cells, *at),
                ColumnLocation::Column(at) => (&mut others, &self.held, *at),
            };
            let inside = schema.field(at).data_type();
            list.push(if inside == data_type { column } else { cast(&column, inside)? });
        }
        if cells.len() < self.cells.fields().len() {
            cells.push(Arc::new(BooleanArray::from(vec![false; count])));
        }
        let cells = new_batch(self.cells.clone(), cells, count)?;
        let mut held: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::new(hashes, None)), Arc::new(self.format.pack(&cells)?)];
        held.append(&mut others);
        Ok(RecordBatch::try_new(self.held.clone(), held)?)
    }

    /// Takes held rows apart into hashes, keys and columns.
    pub(crate) fn unpack(&self, held: &RecordBatch) -> Result<KeyedRows> {
        let mut cells = self.format.unpack(bytes_of(held))?;
        let columns = self.arrange(&cells, &held.columns()[2..])?;
        let checks = (!self.keys.has_unique_hashes()).then(|| cells.swap_remove(0));
        let checks = checks.map(|checks| checks.as_binary::<i32>().clone());
        let hashes = held.column(0).as_primitive::<UInt64Type>().values().clone();
        Ok(KeyedRows { keys: Encoded { hashes, checks }, codes: None, columns })
    }

    /// The needed columns, from the cells of rows and the remaining columns.
    pub(crate) fn arrange(&self, cells: &[ArrayRef], others: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let column = |(home, data_type): &(ColumnLocation, DataType)| {
            let inside = match home {
                ColumnLocation::Cell(cell) => &cells[*cell],
                ColumnLocation::Column(column) => &others[*column - 2],
            };
            let is_same = inside.data_type() == data_type;
            Ok(if is_same { inside.clone() } else { cast(inside, data_type)? })
        };
        self.homes.iter().map(column).collect()
    }
}

/// The stored form of a column. Dictionary values may be null in any row.
fn held_field(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Dictionary(_, values) if can_encode(values) => {
            let held = field.as_ref().clone().with_data_type(values.as_ref().clone());
            Arc::new(held.with_nullable(true))
        }
        _ => field.clone(),
    }
}

/// Whether values of this type can be cast to a dictionary again.
pub(super) fn can_encode(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || data_type.is_floating()
        || matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// The rows of a held batch.
pub(crate) fn bytes_of(held: &RecordBatch) -> &BinaryArray {
    held.column(1).as_binary()
}
