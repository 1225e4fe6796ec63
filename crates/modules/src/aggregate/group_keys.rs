//! Group keys: hashes, and the values to compare when hashes are equal.
//!
//! The hash of a single numeric or temporal column of at most eight bytes is unique, because mixing
//! is a bijection (`hashing.rs`), so only null must be distinguished. Keys of a few fixed-width
//! columns are packed into sixteen bytes. A single text is compared where it lies; other keys are
//! copied into as many bytes as they need, text behind its length, so that equal keys have equal
//! bytes.

use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray, LargeBinaryArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType};
use euphrates_flow::Result;

use crate::batches::array_values::fixed_values;
use crate::canonical_floats::canonical_floats;
use crate::partitioning::hashing::hash_rows;

/// Maximum bytes of a packed key.
pub(crate) const PACKED_BYTES_MAX: usize = 16;
/// Stands for null in place of a length.
const NULL: u32 = u32::MAX;

/// How keys of given types are compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyForm {
    /// No keys: all rows are one group.
    Nothing,
    /// One column, whose hash is unique to its value.
    Hash,
    /// Columns of these widths, packed, with a null bit each.
    Packed(Vec<usize>),
    /// One column of text or bytes of any length.
    Text,
    /// The bytes of all columns, concatenated.
    Bytes,
}

/// The keys of a batch.
pub(crate) struct GroupKeys {
    pub(crate) columns: Vec<ArrayRef>,
    /// The hash of each row over all columns.
    pub(crate) hashes: Vec<u64>,
    /// The values to compare when hashes are equal.
    pub(crate) checks: Checks,
}

/// The values to compare when hashes are equal.
pub(crate) enum Checks {
    /// Null or not; values need no comparison.
    Nulls(Option<NullBuffer>),
    Packed(Vec<u128>),
    Text(LargeBinaryArray),
    /// Bytes: row *i* has those from the *i*-th end to the next.
    Bytes(Vec<usize>, Vec<u8>),
}

impl KeyForm {
    /// The form for columns of these types.
    pub(crate) fn of(types: &[DataType]) -> KeyForm {
        use DataType::{Binary, LargeBinary, LargeUtf8, Utf8};
        let widths: Option<Vec<usize>> = types.iter().map(width).collect();
        match (types, widths) {
            ([], _) => KeyForm::Nothing,
            ([DataType::Decimal128(digits, _)], _) if *digits <= 18 => KeyForm::Hash,
            ([DataType::FixedSizeBinary(_)], _) => KeyForm::Bytes,
            ([Utf8 | LargeUtf8 | Binary | LargeBinary], _) => KeyForm::Text,
            ([_], Some(widths)) if widths[0] <= size_of::<u64>() => KeyForm::Hash,
            // One byte holds the null bits.
            (_, Some(widths))
                if widths.len() <= 8 && widths.iter().sum::<usize>() < PACKED_BYTES_MAX =>
            {
                KeyForm::Packed(widths)
            }
            _ => KeyForm::Bytes,
        }
    }

    /// The keys in these columns of `rows` rows, which are plain (see `plain`).
    pub(crate) fn keys(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<GroupKeys> {
        let hashes = match self {
            KeyForm::Nothing => vec![0; rows],
            _ => hash_rows(&columns)?,
        };
        self.keys_with(columns, hashes)
    }

    /// Like `keys`, with known hashes.
    pub(crate) fn keys_with(&self, columns: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<GroupKeys> {
        let checks = match self {
            KeyForm::Nothing => Checks::Nulls(None),
            KeyForm::Hash => {
                Checks::Nulls(columns[0].nulls().filter(|nulls| nulls.null_count() > 0).cloned())
            }
            KeyForm::Packed(widths) => Checks::Packed(pack(&columns, widths, hashes.len())),
            KeyForm::Text => Checks::Text(byte_column(&columns[0])?.as_binary().clone()),
            KeyForm::Bytes => bytes(&columns, hashes.len())?,
        };
        Ok(GroupKeys { columns, hashes, checks })
    }
}

impl GroupKeys {
    /// The first row of each run of neighbouring rows with equal keys, and the run of each row.
    pub(crate) fn runs(&self) -> (Vec<u32>, Vec<u32>) {
        let same = |row: usize| self.hashes[row - 1] == self.hashes[row];
        match &self.checks {
            Checks::Nulls(None) => self.runs_where(same),
            Checks::Nulls(Some(nulls)) => {
                self.runs_where(|row| same(row) && nulls.is_valid(row - 1) == nulls.is_valid(row))
            }
            Checks::Packed(values) => {
                self.runs_where(|row| same(row) && values[row - 1] == values[row])
            }
            Checks::Text(values) => self.runs_where(|row| {
                same(row)
                    && values.is_valid(row - 1) == values.is_valid(row)
                    && (values.is_null(row) || values.value(row - 1) == values.value(row))
            }),
            Checks::Bytes(ends, bytes) => {
                let value = |row: usize| &bytes[ends[row]..ends[row + 1]];
                self.runs_where(|row| same(row) && value(row - 1) == value(row))
            }
        }
    }

    #[inline(always)]
    fn runs_where(&self, continues: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<u32>) {
        let rows = self.hashes.len();
        let (mut firsts, mut numbers) = (Vec::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            if row == 0 || !continues(row) {
                firsts.push(row as u32);
            }
            numbers.push(firsts.len() as u32 - 1);
        }
        (firsts, numbers)
    }
}

/// The type of a key or argument column, without its dictionary.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        other => other.clone(),
    }
}

/// The column without its dictionary, in canonical form: equal values have equal bytes.
pub(crate) fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Dictionary(_, values) => plain(&cast(column, values)?)?,
        _ => canonical_floats(column),
    })
}

/// The bytes of a value, if all values of the type have the same number.
pub(crate) fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => Some(*width as usize),
        DataType::Boolean => None,
        other => other.primitive_width(),
    }
}

/// Packs values side by side into fields of these widths; the last byte holds the null bits. A
/// value may be wider than its field if the excess bytes are zero.
pub(crate) fn pack(columns: &[ArrayRef], widths: &[usize], rows: usize) -> Vec<u128> {
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

/// Concatenates the bytes of all columns for each row.
fn bytes(columns: &[ArrayRef], rows: usize) -> Result<Checks> {
    let columns: Vec<ArrayRef> = columns.iter().map(byte_column).collect::<Result<_>>()?;
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
    let mut cursors = ends[..rows].to_vec();
    for column in &columns {
        match width(column.data_type()) {
            Some(width) => write_fixed(column, width, &mut cursors, &mut bytes),
            None => write_bytes(column.as_binary::<i64>(), &mut cursors, &mut bytes),
        }
    }
    Ok(Checks::Bytes(ends, bytes))
}

/// A column as bytes, of fixed or of variable width.
fn byte_column(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Null => arrow::array::new_null_array(&DataType::Int8, column.len()),
        DataType::Boolean => cast(column, &DataType::Int8)?,
        other if width(other).is_some() => column.clone(),
        _ => cast(column, &DataType::LargeBinary)?,
    })
}

fn write_fixed(column: &ArrayRef, width: usize, cursors: &mut [usize], out: &mut [u8]) {
    let values = fixed_values(column, width);
    for (row, cursor) in cursors.iter_mut().enumerate() {
        if column.is_valid(row) {
            out[*cursor] = 1;
            out[*cursor + 1..][..width].copy_from_slice(&values[row * width..][..width]);
        }
        *cursor += width + 1;
    }
}

fn write_bytes<T: ByteArrayType>(
    column: &GenericByteArray<T>,
    cursors: &mut [usize],
    out: &mut [u8],
) {
    let (offsets, values) = (column.value_offsets(), column.value_data());
    for (row, cursor) in cursors.iter_mut().enumerate() {
        let length = valid_length(column, row);
        let prefix = if column.is_valid(row) { length as u32 } else { NULL };
        out[*cursor..][..4].copy_from_slice(&prefix.to_le_bytes());
        *cursor += 4;
        out[*cursor..][..length].copy_from_slice(&values[offsets[row].as_usize()..][..length]);
        *cursor += length;
    }
}

/// The length of a value; 0 for null.
#[inline(always)]
fn valid_length<T: ByteArrayType>(column: &GenericByteArray<T>, row: usize) -> usize {
    let offsets = column.value_offsets();
    match column.is_valid(row) {
        true => offsets[row + 1].as_usize() - offsets[row].as_usize(),
        false => 0,
    }
}
