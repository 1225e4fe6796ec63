//! Definition levels of flat columns: which rows have a value.

use arrow::buffer::NullBuffer;

use super::thrift::put_varint;

/// The levels as a page has them: their length, then one run of ones or the bits of the nulls.
pub fn levels(rows: usize, nulls: Option<&NullBuffer>) -> Vec<u8> {
    let mut runs = vec![];
    match nulls {
        None => {
            put_varint(&mut runs, (rows as u32) << 1);
            runs.push(1);
        }
        Some(nulls) => {
            let bits = nulls.inner().sliced();
            let groups = rows.div_ceil(8);
            put_varint(&mut runs, (groups as u32) << 1 | 1);
            runs.extend_from_slice(&bits[..groups]);
        }
    }
    let mut levels = (runs.len() as u32).to_le_bytes().to_vec();
    levels.append(&mut runs);
    levels
}
