//! Rows as bytes, and back.
//!
//! A row is: validity bits of the nullable columns, values of the fixed-width columns, lengths of
//! the others (a byte each), then their bytes, one behind the other. Rows are what is held, so they
//! are kept small: a length that needs more than a byte stands in front of its value, and decimals
//! whose digits fit are eight bytes. Rows are written and read a tile at a time: within a tile
//! column by column, so that each loop knows its column's width and all it touches is in the first
//! cache.

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};
use euphrates_io::buffer::{copy_freely, pool};

use source::Source;
use target::Target;

mod source;
mod target;

/// Rows of a few hundred bytes each, so many that a tile fills half of a first cache.
const TILE_ROWS: usize = 64;
/// In place of a length: four bytes in front of the value hold it.
const LONG: u8 = u8::MAX;
const LONG_BYTES: usize = size_of::<u32>();
/// Decimals of so many digits fit into eight bytes.
const SHORT_DECIMAL_DIGITS_MAX: u8 = 18;

/// Where each column stands in a row.
pub struct RowFormat {
    cells: Vec<Cell>,
    /// Those cells whose values have no one length.
    variable: Vec<usize>,
    /// The bytes of validity bits.
    bits_bytes: usize,
    /// The bytes in front of the values of variable length.
    head_bytes: usize,
}

struct Cell {
    column: usize,
    data_type: DataType,
    kind: Kind,
    /// Its validity bit, if it is nullable.
    bit: Option<Bit>,
    /// Where its value, or its value's length, begins.
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fixed {
        width: usize,
    },
    /// A decimal in eight bytes.
    ShortDecimal,
    Boolean,
    Variable,
}

/// A bit of a row.
#[derive(Clone, Copy)]
struct Bit {
    byte: usize,
    mask: u8,
}

impl Kind {
    fn of(data_type: &DataType) -> Option<Kind> {
        use DataType::*;
        match data_type {
            Boolean => Some(Kind::Boolean),
            Decimal128(digits, _) if *digits <= SHORT_DECIMAL_DIGITS_MAX => {
                Some(Kind::ShortDecimal)
            }
            FixedSizeBinary(width) if *width > 0 => Some(Kind::Fixed { width: *width as usize }),
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => Some(Kind::Variable),
            other => other.primitive_width().map(|width| Kind::Fixed { width }),
        }
    }

    fn head_bytes(self) -> usize {
        match self {
            Kind::Fixed { width } => width,
            Kind::ShortDecimal => size_of::<i64>(),
            Kind::Boolean | Kind::Variable => 1,
        }
    }
}

impl RowFormat {
    /// Whether rows can hold columns of this type.
    pub fn holds(data_type: &DataType) -> bool {
        Kind::of(data_type).is_some()
    }

    /// Rows of these columns.
    pub fn new(schema: &Schema, columns: &[usize]) -> RowFormat {
        let is_nullable = |column: &&usize| schema.field(**column).is_nullable();
        let bits_bytes = columns.iter().filter(is_nullable).count().div_ceil(8);
        let (mut bits, mut head_bytes) = (0, bits_bytes);
        let mut cells = Vec::with_capacity(columns.len());
        for column in columns {
            let field = schema.field(*column);
            let kind = Kind::of(field.data_type()).expect("rows hold this type");
            let bit = Bit { byte: bits / 8, mask: 1 << (bits % 8) };
            let bit = field.is_nullable().then_some(bit);
            let data_type = field.data_type().clone();
            cells.push(Cell { column: *column, data_type, kind, bit, at: head_bytes });
            bits += usize::from(bit.is_some());
            head_bytes += kind.head_bytes();
        }
        let variable = (0..cells.len()).filter(|cell| cells[*cell].kind == Kind::Variable);
        let variable = variable.collect();
        RowFormat { cells, variable, bits_bytes, head_bytes }
    }

    /// The rows of a batch. Fails when they are larger than 2 GiB together, or when a decimal has
    /// more digits than its type says.
    pub fn pack(&self, batch: &RecordBatch) -> Result<BinaryArray> {
        let source = |cell: &Cell| Source::new(cell.kind, batch.column(cell.column));
        let sources: Vec<Source> = self.cells.iter().map(source).collect::<Result<_>>()?;
        let starts = self.starts(&sources, batch.num_rows())?;
        let mut packed = pool().take(starts[batch.num_rows()] as usize)?;
        let out = &mut packed[..];
        for first in (0..batch.num_rows()).step_by(TILE_ROWS) {
            let tile = first..(first + TILE_ROWS).min(batch.num_rows());
            // From the first row to the last: short values are copied with what is behind them.
            for row in tile.clone() {
                self.put_variable(&sources, row, starts[row] as usize, out);
            }
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

    /// Where each row begins, and the last one ends.
    fn starts(&self, sources: &[Source], rows: usize) -> Result<Vec<i32>> {
        let mut lengths = vec![self.head_bytes; rows];
        for cell in &self.variable {
            sources[*cell].add_lengths(&mut lengths);
        }
        let mut starts = Vec::with_capacity(rows + 1);
        let mut end = 0i32;
        starts.push(end);
        for length in lengths {
            let next = i32::try_from(length).ok().and_then(|length| end.checked_add(length));
            end = next.ok_or_else(|| Error::failed("a batch would hold more than 2 GiB"))?;
            starts.push(end);
        }
        Ok(starts)
    }

    /// Writes a row's values of variable length and their lengths, and says that nothing is null.
    fn put_variable(&self, sources: &[Source], row: usize, start: usize, out: &mut [u8]) {
        out[start..start + self.bits_bytes].fill(u8::MAX);
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

    /// The columns of rows, in the order they were given to `new`.
    pub fn unpack(&self, rows: &BinaryArray) -> Result<Vec<ArrayRef>> {
        let (starts, bytes) = (&rows.value_offsets()[..rows.len()], rows.values().as_slice());
        let sums = self.variable_bytes(starts, bytes);
        let target = |(cell, sum): (&Cell, _)| Target::new(cell.kind, starts.len(), sum);
        let targets = self.cells.iter().zip(sums).map(target);
        let mut targets: Vec<Target> = targets.collect::<Result<_>>()?;
        let mut ats = [0; TILE_ROWS];
        for starts in starts.chunks(TILE_ROWS) {
            let ats = &mut ats[..starts.len()];
            ats.iter_mut().zip(starts).for_each(|(at, s)| *at = *s as usize + self.head_bytes);
            for (cell, target) in self.cells.iter().zip(&mut targets) {
                target.take(cell.at, starts, bytes, ats);
            }
        }
        let nulls = |cell: &Cell| cell.bit.and_then(|bit| nulls(bit, starts, bytes));
        let filled = self.cells.iter().zip(targets);
        Ok(filled.map(|(cell, target)| target.finish(&cell.data_type, nulls(cell))).collect())
    }

    /// The value of the column that was given first, whose values must be of variable length and
    /// never null, in the row that begins here.
    #[inline(always)]
    pub fn first<'a>(&self, bytes: &'a [u8], start: usize) -> &'a [u8] {
        let mut at = start + self.head_bytes;
        let length = length(bytes, start + self.cells[0].at, &mut at);
        &bytes[at..at + length]
    }

    /// The bytes a row has at least.
    pub fn row_bytes_min(&self) -> usize {
        self.head_bytes
    }

    /// For each cell, the bytes of its values of variable length in these rows.
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

/// The length of a value: `at` says where the value begins, behind it if it is long.
#[inline(always)]
fn length(bytes: &[u8], length_at: usize, at: &mut usize) -> usize {
    match bytes[length_at] {
        LONG => {
            let length = bytes[*at..*at + LONG_BYTES].try_into().expect("four bytes");
            *at += LONG_BYTES;
            u32::from_le_bytes(length) as usize
        }
        short => short.into(),
    }
}

fn nulls(bit: Bit, starts: &[i32], bytes: &[u8]) -> Option<NullBuffer> {
    let is_valid = |row: usize| bytes[starts[row] as usize + bit.byte] & bit.mask != 0;
    let valid = BooleanBuffer::collect_bool(starts.len(), is_valid);
    Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests;
