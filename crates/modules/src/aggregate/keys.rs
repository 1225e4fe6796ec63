//! Keys of groups: hashes, and what must be equal besides.
//!
//! A single column of at most eight bytes is its hash: mixing loses nothing (`hashing.rs`), so only
//! null must be told apart. Keys of a few short columns are packed into sixteen bytes; others into
//! as many bytes as they need, text behind its length, so that equal keys have equal bytes.

use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType};
use euphrates_flow::Result;

use crate::equal::with_equal_bytes;
use crate::hashing::hash_rows;
use crate::sort::values::fixed_values;

/// Bytes of a packed key at most.
pub const PACKED_BYTES_MAX: usize = 16;
/// In place of a length: null.
const NULL: u32 = u32::MAX;

/// How keys of these types are told apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// There are none: all rows are one group.
    Nothing,
    /// One column whose hash is its value.
    Hash,
    /// Columns of these widths, packed, and a bit for each that is null.
    Packed(Vec<usize>),
    /// Columns one behind the other.
    Bytes,
}

/// Keys of a batch.
pub struct Keys {
    /// The columns.
    pub columns: Vec<ArrayRef>,
    /// The hashes of all of them.
    pub hashes: Vec<u64>,
    /// What must be equal besides.
    pub checks: Checks,
}

/// What must be equal besides hashes.
pub enum Checks {
    /// Nothing but whether they are null.
    Nulls(Option<NullBuffer>),
    /// Packed values.
    Packed(Vec<u128>),
    /// Bytes, that of row *i* from the *i*-th end to the next.
    Bytes(Vec<usize>, Vec<u8>),
}

impl Form {
    /// For columns of these types.
    pub fn of(types: &[DataType]) -> Form {
        let widths: Option<Vec<usize>> = types.iter().map(width).collect();
        match (types, widths) {
            ([], _) => Form::Nothing,
            ([DataType::Decimal128(digits, _)], _) if *digits <= 18 => Form::Hash,
            ([DataType::FixedSizeBinary(_)], _) => Form::Bytes,
            ([_], Some(widths)) if widths[0] <= size_of::<u64>() => Form::Hash,
            // One byte has the bits of nulls.
            (_, Some(widths))
                if widths.len() <= 8 && widths.iter().sum::<usize>() < PACKED_BYTES_MAX =>
            {
                Form::Packed(widths)
            }
            _ => Form::Bytes,
        }
    }

    /// The keys in these columns of so many rows, which are plain (see `plain`).
    pub fn keys(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<Keys> {
        let hashes = match self {
            Form::Nothing => vec![0; rows],
            _ => hash_rows(&columns)?,
        };
        self.keys_with(columns, hashes)
    }

    /// The same, whose hashes are known.
    pub fn keys_with(&self, columns: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<Keys> {
        let checks = match self {
            Form::Nothing => Checks::Nulls(None),
            Form::Hash => {
                Checks::Nulls(columns[0].nulls().filter(|nulls| nulls.null_count() > 0).cloned())
            }
            Form::Packed(widths) => Checks::Packed(pack(&columns, widths, hashes.len())),
            Form::Bytes => bytes(&columns, hashes.len())?,
        };
        Ok(Keys { columns, hashes, checks })
    }
}

/// The type of a column of keys or values without its dictionary.
pub fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        other => other.clone(),
    }
}

/// A column without its dictionary, in which equal values have equal bytes.
pub fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Dictionary(_, values) => plain(&cast(column, values)?)?,
        _ => with_equal_bytes(column),
    })
}

/// The bytes of a value, if all values of this type have as many.
pub fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => Some(*width as usize),
        DataType::Boolean => None,
        other => other.primitive_width(),
    }
}

/// Values side by side, each in a place of so many bytes, and in the last one which are null. A
/// value may have more bytes than its place if these are zero.
pub fn pack(columns: &[ArrayRef], widths: &[usize], rows: usize) -> Vec<u128> {
    let mut packed = vec![0u128; rows];
    let mut at = 0;
    for (number, (column, width)) in columns.iter().zip(widths).enumerate() {
        let own = self::width(column.data_type()).unwrap_or(*width);
        let values = fixed_values(column, own);
        match own {
            1 => pack_one::<1>(&values, at, &mut packed),
            2 => pack_one::<2>(&values, at, &mut packed),
            4 => pack_one::<4>(&values, at, &mut packed),
            8 => pack_one::<8>(&values, at, &mut packed),
            width => {
                for (key, value) in packed.iter_mut().zip(values.chunks_exact(width.max(1))) {
                    let mut wide = [0; PACKED_BYTES_MAX];
                    wide[..width].copy_from_slice(value);
                    *key |= u128::from_le_bytes(wide) << (at * 8);
                }
            }
        }
        if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            let value = u128::MAX.checked_shr(128 - *width as u32 * 8).unwrap_or(0) << (at * 8);
            for (row, valid) in nulls.iter().enumerate() {
                if !valid {
                    packed[row] = packed[row] & !value | 1 << (120 + number);
                }
            }
        }
        at += width;
    }
    packed
}

fn pack_one<const WIDTH: usize>(values: &[u8], at: usize, packed: &mut [u128]) {
    for (key, value) in packed.iter_mut().zip(values.as_chunks::<WIDTH>().0) {
        let mut wide = [0; PACKED_BYTES_MAX];
        wide[..WIDTH].copy_from_slice(value);
        *key |= u128::from_le_bytes(wide) << (at * 8);
    }
}

/// Values of all columns, one behind the other.
fn bytes(columns: &[ArrayRef], rows: usize) -> Result<Checks> {
    let columns: Vec<ArrayRef> = columns.iter().map(spelled).collect::<Result<_>>()?;
    let mut ends = vec![0usize; rows + 1];
    for column in &columns {
        let lengths = &mut ends[1..];
        match width(column.data_type()) {
            Some(width) => lengths.iter_mut().for_each(|length| *length += width + 1),
            None => {
                let values = column.as_binary::<i64>();
                for (row, length) in lengths.iter_mut().enumerate() {
                    *length += size_of::<u32>() + valid_length(values, row);
                }
            }
        }
    }
    for row in 0..rows {
        ends[row + 1] += ends[row];
    }
    let mut bytes = vec![0; ends[rows]];
    let mut places = ends[..rows].to_vec();
    for column in &columns {
        match width(column.data_type()) {
            Some(width) => write_fixed(column, width, &mut places, &mut bytes),
            None => write_bytes(column.as_binary::<i64>(), &mut places, &mut bytes),
        }
    }
    Ok(Checks::Bytes(ends, bytes))
}

/// A column as bytes: of one width, or each value with its own.
fn spelled(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Null => arrow::array::new_null_array(&DataType::Int8, column.len()),
        DataType::Boolean => cast(column, &DataType::Int8)?,
        other if width(other).is_some() => column.clone(),
        _ => cast(column, &DataType::LargeBinary)?,
    })
}

fn write_fixed(column: &ArrayRef, width: usize, places: &mut [usize], out: &mut [u8]) {
    let values = fixed_values(column, width);
    for (row, place) in places.iter_mut().enumerate() {
        if column.is_valid(row) {
            out[*place] = 1;
            out[*place + 1..][..width].copy_from_slice(&values[row * width..][..width]);
        }
        *place += width + 1;
    }
}

fn write_bytes<T: ByteArrayType>(
    column: &GenericByteArray<T>,
    places: &mut [usize],
    out: &mut [u8],
) {
    let (offsets, values) = (column.value_offsets(), column.value_data());
    for (row, place) in places.iter_mut().enumerate() {
        let length = valid_length(column, row);
        let told = if column.is_valid(row) { length as u32 } else { NULL };
        out[*place..][..4].copy_from_slice(&told.to_le_bytes());
        *place += 4;
        out[*place..][..length].copy_from_slice(&values[offsets[row].as_usize()..][..length]);
        *place += length;
    }
}

/// The length of a value; a null has none, whatever lies behind it.
#[inline(always)]
fn valid_length<T: ByteArrayType>(column: &GenericByteArray<T>, row: usize) -> usize {
    let offsets = column.value_offsets();
    match column.is_valid(row) {
        true => offsets[row + 1].as_usize() - offsets[row].as_usize(),
        false => 0,
    }
}
