//! The rows of one side, as they are held, written to scratch and sent: the hash of the key, and
//! all columns that are needed in one piece.
//!
//! A row that matches is somewhere in memory, so fetching it waits, once for each place it lies
//! at: its columns lie together (see `sort/layout.rs`). Columns that have no place in rows stay
//! columns. Of a dictionary the values are held: each piece would have all of it otherwise, in
//! memory, on disk and in what comes out.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, UInt64Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use euphrates_flow::Result;

use super::keys::Keys;
use super::plan::SidePlan;
use crate::sort::rows::RowFormat;

/// What is held of a row.
const HASH: &str = "__hash";
const ROW: &str = "__row";
/// The cells beside columns.
const CHECK: &str = "__check";
const PLACE: &str = "__place";

/// How rows of one side are held.
pub struct SideRows {
    keys: Keys,
    needed: Vec<usize>,
    /// For each column that is needed, where it is held, and its type outside.
    homes: Vec<(Home, DataType)>,
    /// What rows are made of.
    cells: SchemaRef,
    format: RowFormat,
    held: SchemaRef,
}

#[derive(Clone, Copy)]
enum Home {
    Cell(usize),
    Column(usize),
}

/// Rows on their way through a table.
pub struct Rows {
    /// The hashes of their keys.
    pub hashes: ScalarBuffer<u64>,
    /// What must be equal besides, if hashes do not say it all.
    pub checks: Option<BinaryArray>,
    /// The columns that are needed.
    pub columns: Vec<ArrayRef>,
}

impl SideRows {
    /// Of this side.
    pub fn new(side: &SidePlan) -> Result<SideRows> {
        let keys = Keys::new(side)?;
        let check = (!keys.are_hashes()).then(|| Field::new(CHECK, DataType::Binary, false));
        let mut cells: Vec<FieldRef> = check.into_iter().map(Arc::new).collect();
        let mut held: Vec<FieldRef> = vec![
            Arc::new(Field::new(HASH, DataType::UInt64, false)),
            Arc::new(Field::new(ROW, DataType::Binary, false)),
        ];
        let mut homes = vec![];
        for column in &side.needed {
            let field = &side.schema.fields()[*column];
            let inside = held_field(field);
            let (list, home): (_, fn(usize) -> Home) = match RowFormat::holds(inside.data_type()) {
                true => (&mut cells, Home::Cell),
                false => (&mut held, Home::Column),
            };
            homes.push((home(list.len()), field.data_type().clone()));
            list.push(inside);
        }
        // Rows are told apart by where they begin.
        if cells.is_empty() && !side.needed.is_empty() {
            cells.push(Arc::new(Field::new(PLACE, DataType::Boolean, false)));
        }
        let cells = Arc::new(Schema::new(cells));
        let all: Vec<usize> = (0..cells.fields().len()).collect();
        let format = RowFormat::new(&cells, &all);
        let held = Arc::new(Schema::new(held));
        Ok(SideRows { keys, needed: side.needed.clone(), homes, cells, format, held })
    }

    /// The keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// How rows are laid out.
    pub fn format(&self) -> &RowFormat {
        &self.format
    }

    /// The schema of what is held.
    pub fn held(&self) -> &SchemaRef {
        &self.held
    }

    /// The needed columns of a batch of the input.
    pub fn columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.needed.iter().map(|column| batch.column(*column).clone()).collect()
    }

    /// The rows of a batch, whose keys are not null.
    pub fn take(&self, batch: &RecordBatch) -> Result<Rows> {
        let keys = self.keys.encode(batch)?;
        let columns = self.columns(batch);
        Ok(Rows { hashes: keys.hashes.into(), checks: keys.checks, columns })
    }

    /// Rows, as they are held.
    pub fn pack(&self, rows: Rows) -> Result<RecordBatch> {
        let Rows { hashes, checks, columns } = rows;
        let count = hashes.len();
        let mut cells: Vec<ArrayRef> = checks.into_iter().map(|c| Arc::new(c) as _).collect();
        let mut others: Vec<ArrayRef> = vec![];
        for ((home, data_type), column) in self.homes.iter().zip(columns) {
            let (list, schema, at) = match home {
                Home::Cell(at) => (&mut cells, &self.cells, *at),
                Home::Column(at) => (&mut others, &self.held, *at),
            };
            let inside = schema.field(at).data_type();
            list.push(if inside == data_type { column } else { cast(&column, inside)? });
        }
        if cells.len() < self.cells.fields().len() {
            cells.push(Arc::new(BooleanArray::from(vec![false; count])));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let cells = RecordBatch::try_new_with_options(self.cells.clone(), cells, &options)?;
        let mut held: Vec<ArrayRef> =
            vec![Arc::new(UInt64Array::new(hashes, None)), Arc::new(self.format.pack(&cells)?)];
        held.append(&mut others);
        Ok(RecordBatch::try_new(self.held.clone(), held)?)
    }

    /// Rows that were held.
    pub fn unpack(&self, held: &RecordBatch) -> Result<Rows> {
        let mut cells = self.format.unpack(bytes_of(held))?;
        let columns = self.arrange(&cells, &held.columns()[2..])?;
        let checks = (!self.keys.are_hashes()).then(|| cells.swap_remove(0));
        let checks = checks.map(|checks| checks.as_binary::<i32>().clone());
        let hashes = held.column(0).as_primitive::<UInt64Type>().values().clone();
        Ok(Rows { hashes, checks, columns })
    }

    /// The needed columns, from the cells of rows and the columns beside them.
    pub fn arrange(&self, cells: &[ArrayRef], others: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let column = |(home, data_type): &(Home, DataType)| {
            let inside = match home {
                Home::Cell(cell) => &cells[*cell],
                Home::Column(column) => &others[*column - 2],
            };
            let is_same = inside.data_type() == data_type;
            Ok(if is_same { inside.clone() } else { cast(inside, data_type)? })
        };
        self.homes.iter().map(column).collect()
    }
}

/// A column as it is held. Any row of a dictionary may look at a null.
fn held_field(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Dictionary(_, values) if can_encode(values) => {
            let held = field.as_ref().clone().with_data_type(values.as_ref().clone());
            Arc::new(held.with_nullable(true))
        }
        _ => field.clone(),
    }
}

/// Whether values of this type can be made a dictionary again.
fn can_encode(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || data_type.is_floating()
        || matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// The rows of a batch that is held.
pub fn bytes_of(held: &RecordBatch) -> &BinaryArray {
    held.column(1).as_binary()
}
