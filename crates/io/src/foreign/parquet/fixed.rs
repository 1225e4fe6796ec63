//! Columns of fixed-size bytes, written as plain pages whose values are the Arrow buffers
//! themselves. The crate makes an object of every value, which is several times slower than the
//! disk.

use arrow::array::{Array, FixedSizeBinaryArray};
use arrow::buffer::{Buffer, NullBuffer};
use euphrates_flow::{BATCH_BYTES_TARGET, Result};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::thrift::{PageHeader, put_varint};
use super::write::failed;

/// Longer values have no minimum and maximum noted: a footer is no place for them.
const STATISTICS_BYTES_MAX: usize = 256;

/// A column chunk in the making.
pub struct FixedColumn {
    descr: ColumnDescPtr,
    width: usize,
    parts: Vec<Buffer>,
    bytes: usize,
    rows: usize,
    nulls: usize,
    range: Option<Range>,
}

/// The least and the greatest value.
struct Range {
    least: Vec<u8>,
    greatest: Vec<u8>,
}

impl FixedColumn {
    /// An empty column.
    pub fn new(descr: ColumnDescPtr) -> FixedColumn {
        let width = descr.type_length() as usize;
        FixedColumn { descr, width, parts: vec![], bytes: 0, rows: 0, nulls: 0, range: None }
    }

    /// The bytes of the pages so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the values as pages of about a megabyte.
    pub fn push(&mut self, array: &FixedSizeBinaryArray) -> Result<()> {
        let step = (2 * BATCH_BYTES_TARGET / self.width).max(1);
        for from in (0..array.len()).step_by(step) {
            self.page(&array.slice(from, step.min(array.len() - from)));
        }
        Ok(())
    }

    /// Moves the pages to `parts`; `offset` is where they will begin.
    pub fn finish(mut self, offset: i64, parts: &mut Vec<Buffer>) -> Result<ColumnChunkMetaData> {
        parts.append(&mut self.parts);
        let value = |bytes: Vec<u8>| FixedLenByteArray::from(ByteArray::from(bytes));
        let (least, greatest) = match self.range {
            Some(range) => (Some(value(range.least)), Some(value(range.greatest))),
            None => (None, None),
        };
        let nulls = Some(self.nulls as u64);
        let statistics = Statistics::fixed_len_byte_array(least, greatest, None, nulls, false);
        let metadata = ColumnChunkMetaData::builder(self.descr)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(self.bytes as i64)
            .set_total_uncompressed_size(self.bytes as i64)
            .set_data_page_offset(offset)
            .set_statistics(statistics);
        metadata.build().map_err(failed)
    }

    fn page(&mut self, array: &FixedSizeBinaryArray) {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let values = match nulls {
            None => array.values().clone(),
            Some(nulls) => present(array, nulls),
        };
        let levels =
            if self.descr.max_def_level() > 0 { levels(array.len(), nulls) } else { vec![] };
        self.note(&values);
        self.rows += array.len();
        self.nulls += array.null_count();
        let mut crc = crc32fast::Hasher::new();
        crc.update(&levels);
        crc.update(&values);
        let bytes = levels.len() + values.len();
        let mut header = PageHeader::plain(array.len(), bytes, crc.finalize());
        self.bytes += header.len() + bytes;
        header.extend_from_slice(&levels);
        self.parts.extend([Buffer::from_vec(header), values]);
    }

    /// Widens the range to these values.
    fn note(&mut self, values: &[u8]) {
        if self.width > STATISTICS_BYTES_MAX || values.is_empty() {
            return;
        }
        // Most values are told apart by their first eight bytes.
        let head = |value: &[u8]| {
            let mut head = [0; 8];
            let bytes = value.len().min(8);
            head[..bytes].copy_from_slice(&value[..bytes]);
            u64::from_be_bytes(head)
        };
        let first = &values[..self.width];
        let (mut least, mut greatest) = match &self.range {
            Some(range) => (&range.least[..], &range.greatest[..]),
            None => (first, first),
        };
        let (mut least_head, mut greatest_head) = (head(least), head(greatest));
        for value in values.chunks_exact(self.width) {
            let value_head = head(value);
            if value_head <= least_head && value < least {
                (least, least_head) = (value, value_head);
            }
            if value_head >= greatest_head && value > greatest {
                (greatest, greatest_head) = (value, value_head);
            }
        }
        self.range = Some(Range { least: least.to_vec(), greatest: greatest.to_vec() });
    }
}

/// The values that are not null.
fn present(array: &FixedSizeBinaryArray, nulls: &NullBuffer) -> Buffer {
    let width = array.value_length() as usize;
    let mut values = Vec::with_capacity((array.len() - nulls.null_count()) * width);
    for (from, to) in nulls.valid_slices() {
        values.extend_from_slice(&array.value_data()[from * width..to * width]);
    }
    Buffer::from_vec(values)
}

/// Definition levels: their length, then one run of ones or the bits of the null buffer.
fn levels(rows: usize, nulls: Option<&NullBuffer>) -> Vec<u8> {
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
