//! Packs columns into rows of bytes, and unpacks them.
//!
//! A row is: validity bits of the nullable columns, values of the fixed-width columns, lengths of
//! the others (a byte each), then their bytes. Rows are kept small, since they are held in memory:
//! a length that needs more than a byte precedes its value, and decimals whose digits fit have
//! eight bytes. Rows are written and read in tiles: within a tile column by column, so that each
//! loop has a constant width and stays in the first-level cache.

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use euphrates_device::buffer::{copy_freely, pool};
use euphrates_flow::{Error, Result};

mod cell;
mod source;
mod target;

use self::cell::{Bit, CellKind, LONG, LONG_BYTES, length};
use self::source::InputColumn;
use self::target::ColumnBuilder;

/// Where a column of held rows is stored.
#[derive(Clone, Copy)]
pub(crate) enum ColumnLocation {
    /// In the encoded rows, at this cell.
    Cell(usize),
    /// Beside them, as this column.
    Column(usize),
}

/// Rows of a tile: at a few hundred bytes each, it fills half of a first-level cache.
const TILE_ROWS: usize = 64;

/// The position of each column in a row.
pub(crate) struct SortRowFormat {
    cells: Vec<RowCell>,
    /// The cells of variable length.
    variable: Vec<usize>,
    /// Bytes of the validity bits.
    bits_bytes: usize,
    /// Bytes before the values of variable length.
    head_bytes: usize,
}

struct RowCell {
    column: usize,
    data_type: DataType,
    kind: CellKind,
    /// Its validity bit, if the column is nullable.
    bit: Option<Bit>,
    /// The offset of its value, or of its value's length.
    at: usize,
}

impl SortRowFormat {
    /// Whether rows can hold columns of this type.
    pub(crate) fn supports(data_type: &DataType) -> bool {
        CellKind::of(data_type).is_some()
    }

    /// The format for these columns.
    pub(crate) fn new(schema: &Schema, columns: &[usize]) -> SortRowFormat {
        let is_nullable = |column: &&usize| schema.field(**column).is_nullable();
        let bits_bytes = columns.iter().filter(is_nullable).count().div_ceil(8);
        let (mut bits, mut head_bytes) = (0, bits_bytes);
        let mut cells = Vec::with_capacity(columns.len());
        for column in columns {
            let field = schema.field(*column);
            let kind = CellKind::of(field.data_type()).expect("rows hold this type");
            let bit = Bit { byte: bits / 8, mask: 1 << (bits % 8) };
            let bit = field.is_nullable().then_some(bit);
            let data_type = field.data_type().clone();
            cells.push(RowCell { column: *column, data_type, kind, bit, at: head_bytes });
            bits += usize::from(bit.is_some());
            head_bytes += kind.head_bytes();
        }
        let variable = (0..cells.len()).filter(|cell| cells[*cell].kind == CellKind::Variable);
        let variable = variable.collect();
        SortRowFormat { cells, variable, bits_bytes, head_bytes }
    }

    /// Packs the rows of a batch. Fails if they exceed 2 GiB, or if a decimal has more digits than
    /// its type.
    pub(crate) fn pack(&self, batch: &RecordBatch) -> Result<BinaryArray> {
        let source = |cell: &RowCell| InputColumn::new(cell.kind, batch.column(cell.column));
        let sources: Vec<InputColumn> = self.cells.iter().map(source).collect::<Result<_>>()?;
        let starts = self.starts(&sources, batch.num_rows())?;
        let mut packed = pool().take(starts[batch.num_rows()] as usize)?;
        let out = &mut packed[..];
        for first in (0..batch.num_rows()).step_by(TILE_ROWS) {
            let tile = first..(first + TILE_ROWS).min(batch.num_rows());
            if !self.variable.is_empty() {
                // In the order of rows: short values are copied with the bytes behind them.
                for row in tile.clone() {
                    self.put_variable(&sources, row, starts[row] as usize, out);
                }
            }
            self.put_valid(&starts[tile.clone()], out);
            for (cell, source) in self.cells.iter().zip(&sources) {
                source.put_fixed(cell.at, first, &starts[tile.clone()], out);
                if let Some(bit) = cell.bit {
                    source.put_nulls(bit, first, &starts[tile.clone()], out);
                }
            }
        }
        let starts = OffsetBuffer::new(ScalarBuffer::from(starts));
        Ok(BinaryArray::new(starts, packed.into_arrow(), None))
    }

    /// The offset of each row, and the end of the last one.
    fn starts(&self, sources: &[InputColumn], rows: usize) -> Result<Vec<i32>> {
        let too_large = || Error::failed("a batch would hold more than 2 GiB");
        if self.variable.is_empty() {
            let bytes =
                rows.checked_mul(self.head_bytes).filter(|bytes| *bytes <= i32::MAX as usize);
            bytes.ok_or_else(too_large)?;
            return Ok((0..=rows).map(|row| (row * self.head_bytes) as i32).collect());
        }
        let mut lengths = vec![self.head_bytes; rows];
        for cell in &self.variable {
            sources[*cell].add_lengths(&mut lengths);
        }
        let mut starts = Vec::with_capacity(rows + 1);
        let mut end = 0i32;
        starts.push(end);
        for length in lengths {
            let next = i32::try_from(length).ok().and_then(|length| end.checked_add(length));
            end = next.ok_or_else(too_large)?;
            starts.push(end);
        }
        Ok(starts)
    }

    /// Marks all values of rows as valid.
    fn put_valid(&self, starts: &[i32], out: &mut [u8]) {
        for byte in 0..self.bits_bytes {
            starts.iter().for_each(|start| out[*start as usize + byte] = u8::MAX);
        }
    }

    /// Writes a row's values of variable length with their lengths.
    fn put_variable(&self, sources: &[InputColumn], row: usize, start: usize, out: &mut [u8]) {
        let mut at = start + self.head_bytes;
        for &cell in &self.variable {
            let (bytes, from, length) = sources[cell].bytes(row);
            let length_at = start + self.cells[cell].at;
            out[length_at] = u8::try_from(length).unwrap_or(LONG);
            if length >= LONG.into() {
                out[at..at + LONG_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
                at += LONG_BYTES;
            }
            copy_freely(bytes, from, out, at, length);
            at += length;
        }
    }

    /// Unpacks the columns of rows, in the order given to `new`.
    pub(crate) fn unpack(&self, rows: &BinaryArray) -> Result<Vec<ArrayRef>> {
        let (starts, bytes) = (&rows.value_offsets()[..rows.len()], rows.values().as_slice());
        let sums = self.variable_bytes(starts, bytes);
        let target = |(cell, sum): (&RowCell, _)| ColumnBuilder::new(cell.kind, starts.len(), sum);
        let targets = self.cells.iter().zip(sums).map(target);
        let mut targets: Vec<ColumnBuilder> = targets.collect::<Result<_>>()?;
        let mut ats = [0; TILE_ROWS];
        for starts in starts.chunks(TILE_ROWS) {
            let ats = &mut ats[..starts.len()];
            ats.iter_mut().zip(starts).for_each(|(at, s)| *at = *s as usize + self.head_bytes);
            for (cell, target) in self.cells.iter().zip(&mut targets) {
                target.take(cell.at, starts, bytes, ats);
            }
        }
        let nulls = |cell: &RowCell| cell.bit.and_then(|bit| nulls(bit, starts, bytes));
        let filled = self.cells.iter().zip(targets);
        Ok(filled.map(|(cell, target)| target.finish(&cell.data_type, nulls(cell))).collect())
    }

    /// The value of the first column, which must be of variable length and never null, in the row
    /// at this offset.
    #[inline(always)]
    pub(crate) fn first<'a>(&self, bytes: &'a [u8], start: usize) -> &'a [u8] {
        let mut at = start + self.head_bytes;
        let length = length(bytes, start + self.cells[0].at, &mut at);
        &bytes[at..at + length]
    }

    /// The minimum bytes of a row.
    pub(crate) fn row_bytes_min(&self) -> usize {
        self.head_bytes
    }

    /// Bytes of a row if all have as many; `None` if they differ.
    pub(crate) fn fixed_bytes(&self) -> Option<usize> {
        (self.variable.is_empty() && self.head_bytes > 0).then_some(self.head_bytes)
    }

    /// For each cell, the total bytes of its variable-length values in these rows.
    fn variable_bytes(&self, starts: &[i32], bytes: &[u8]) -> Vec<usize> {
        let mut sums = vec![0; self.cells.len()];
        for start in starts {
            let start = *start as usize;
            let mut at = start + self.head_bytes;
            for &cell in &self.variable {
                let length = length(bytes, start + self.cells[cell].at, &mut at);
                sums[cell] += length;
                at += length;
            }
        }
        sums
    }
}

fn nulls(bit: Bit, starts: &[i32], bytes: &[u8]) -> Option<NullBuffer> {
    let is_valid = |row: usize| bytes[starts[row] as usize + bit.byte] & bit.mask != 0;
    let valid = BooleanBuffer::collect_bool(starts.len(), is_valid);
    Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests;
