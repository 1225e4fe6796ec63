//! The layout of records during a sort.
//!
//! The output order of records differs from their input order, so copying a record causes a cache
//! miss, for each of its columns. The columns of wide records are therefore packed into rows as
//! they come in, which costs a copy in cache, and unpacked as they leave: one cache miss for a
//! record (Kuiper and Mühleisen, "These Rows Are Made for Sorting", ICDE 2023, 5). Keys stay
//! columns, because they are encoded as such.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, new_batch};
use euphrates_policy::sort::rows_pay;

use super::keys::key_layout::KeyColumn;
use super::row_format::{ColumnLocation, SortRowFormat};

/// Name of the column with the rows.
const ROW: &str = "__row";

/// How records are held between input and output.
pub(crate) struct RecordLayout {
    input: SchemaRef,
    output: SchemaRef,
    held: SchemaRef,
    keys: Vec<KeyColumn>,
    /// For each held column, the input's column; excludes those in rows.
    columns: Vec<usize>,
    /// For each output column, where it is held.
    homes: Vec<ColumnLocation>,
    format: Option<SortRowFormat>,
}

impl RecordLayout {
    /// The layout for records of `input`, whose first columns are the output, in a sort by `keys`.
    pub(crate) fn new(input: &SchemaRef, output: SchemaRef, keys: Vec<KeyColumn>) -> RecordLayout {
        let is_key = |column: &usize| keys.iter().any(|key| key.column == *column);
        let fits = |column: &usize| SortRowFormat::supports(input.field(*column).data_type());
        let in_rows = |column: &usize| !is_key(column) && fits(column);
        let (cells, columns): (Vec<usize>, Vec<usize>) =
            (0..input.fields().len()).partition(in_rows);
        let (cells, columns) = match rows_pay(cells.len()) {
            true => (cells, columns),
            false => (vec![], (0..input.fields().len()).collect()),
        };
        // Both lists are sorted.
        let position = |list: &[usize], column| list.binary_search(&column).ok();
        let homes = (0..output.fields().len()).map(|column| match position(&columns, column) {
            Some(held) => ColumnLocation::Column(held),
            None => {
                ColumnLocation::Cell(position(&cells, column).expect("held as a column or in rows"))
            }
        });
        let homes = homes.collect();
        let format = (!cells.is_empty()).then(|| SortRowFormat::new(input, &cells));
        let row = format.as_ref().map(|_| Arc::new(Field::new(ROW, DataType::Binary, false)));
        let fields = columns.iter().map(|column| input.fields()[*column].clone()).chain(row);
        let held = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let keys = keys.into_iter().map(|key| {
            let column = position(&columns, key.column).expect("keys are held as columns");
            KeyColumn { column, ..key }
        });
        let keys = keys.collect();
        RecordLayout { input: input.clone(), output, held, keys, columns, homes, format }
    }

    pub(crate) fn input(&self) -> &SchemaRef {
        &self.input
    }

    /// The schema of held records.
    pub(crate) fn held(&self) -> &SchemaRef {
        &self.held
    }

    /// The keys, as columns of the input.
    pub(crate) fn input_keys(&self) -> Vec<KeyColumn> {
        let of_input = |key: &KeyColumn| KeyColumn { column: self.columns[key.column], ..*key };
        self.keys.iter().map(of_input).collect()
    }

    /// The keys, as columns of the held schema.
    pub(crate) fn keys(&self) -> &[KeyColumn] {
        &self.keys
    }

    /// Converts an input batch to the held schema.
    pub(crate) fn pack(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(format) = &self.format else { return Ok(batch) };
        let rows: ArrayRef = Arc::new(format.pack(&batch)?);
        let columns = self.columns.iter().map(|column| batch.column(*column).clone());
        let columns = columns.chain([rows]).collect();
        Ok(RecordBatch::try_new(self.held.clone(), columns)?)
    }

    /// Converts a held batch to the output schema.
    pub(crate) fn unpack(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let cells = match &self.format {
            None => vec![],
            Some(format) => {
                let rows = batch.columns().last().expect("the rows");
                let rows: &BinaryArray = rows.as_any().downcast_ref().expect("rows are bytes");
                format.unpack(rows)?
            }
        };
        let columns = self.homes.iter().map(|home| match home {
            ColumnLocation::Column(column) => batch.column(*column).clone(),
            ColumnLocation::Cell(cell) => cells[*cell].clone(),
        });
        let output = self.output.clone();
        Ok(new_batch(output, columns.collect(), batch.num_rows())?)
    }
}
