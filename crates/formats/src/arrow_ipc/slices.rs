//! Reads large uncompressed record batches in slices of rows.
//!
//! Many programs write a table as one batch of gigabytes. The bytes of a slice are located in each
//! buffer by row number (fixed widths, bits) or by the offsets of the slice's first and last row,
//! so a slice costs one read per buffer of the projected columns. Columns of other layouts (views,
//! dictionaries, unions, run-end encoding) are read with their whole batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ipc::RecordBatch as Header;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Kind, Result, new_batch};

use crate::format::guarded;
use euphrates_device::blob::Blob;

/// A batch of at most this size is read in one piece.
const WHOLE_BYTES_MAX: u64 = 8 << 20;

/// Bytes of a slice of a larger batch: from a local file, and from a remote one.
const STEP_BYTES: u64 = 4 * BATCH_BYTES_TARGET as u64;
const REMOTE_STEP_BYTES: u64 = 16 << 20;

/// Iterates over the slices of one record batch.
pub struct Slices {
    blob: Arc<Blob>,
    schema: SchemaRef,
    columns: Vec<SlicedColumn>,
    rows: usize,
    /// Rows per slice, halved when a slice exceeds `bytes_max`.
    step: usize,
    /// The first row of the next slice.
    at: usize,
    /// The most bytes that a slice reads of one buffer.
    bytes_max: usize,
}

/// The buffers and children of a column, as extents of the file.
struct SlicedColumn {
    data_type: DataType,
    rows: usize,
    /// The validity buffer, which may be empty, then the others in Arrow's order.
    buffers: Vec<Extent>,
    children: Vec<SlicedColumn>,
}

/// The file that buffers are read from, and the most bytes to read of one buffer.
struct BufferSource<'a> {
    blob: &'a Blob,
    bytes_max: usize,
}

/// Offset and length of a buffer in the file.
#[derive(Clone, Copy)]
struct Extent {
    offset: u64,
    bytes: u64,
}

impl Slices {
    /// Slices the batch with this header, whose body begins at the given offset of the file,
    /// projected to `columns` of the schema. `None` if the batch is small or has a layout that is
    /// read whole. A row that has more than `bytes_max` in one buffer is a resource error, raised
    /// before the read.
    pub fn of(
        blob: &Arc<Blob>,
        (begin, bytes): (u64, u64),
        header: &Header,
        own: &SchemaRef,
        wanted: &[usize],
        bytes_max: usize,
    ) -> Option<Slices> {
        if bytes <= WHOLE_BYTES_MAX || header.compression().is_some() {
            return None;
        }
        let rows = usize::try_from(header.length()).ok()?;
        let nodes = header.nodes()?.iter().map(|node| usize::try_from(node.length()).ok());
        let extents = header.buffers()?.iter().map(|buffer| {
            let (at, length) = (buffer.offset().try_into().ok()?, buffer.length().try_into().ok()?);
            let is_within = u64::checked_add(at, length)? <= bytes;
            is_within.then_some(Extent { offset: begin + at, bytes: length })
        });
        let mut layout = HeaderLayout { nodes, extents };
        let fields = own.fields().iter();
        let all: Option<Vec<SlicedColumn>> =
            fields.map(|field| layout.column(field.data_type())).collect();
        let mut all: Vec<Option<SlicedColumn>> = all?.into_iter().map(Some).collect();
        let columns = wanted.iter().map(|at| all.get_mut(*at)?.take());
        let columns = columns.collect::<Option<Vec<SlicedColumn>>>()?;
        if columns.iter().any(|column| column.rows != rows) {
            return None;
        }
        let schema = Arc::new(own.project(wanted).ok()?);
        let step_bytes = if blob.is_remote() { REMOTE_STEP_BYTES } else { STEP_BYTES };
        let held = columns.iter().map(SlicedColumn::bytes).sum::<u64>().max(1);
        let step = (rows as u128 * u128::from(step_bytes) / u128::from(held)).max(1) as usize;
        Some(Slices { blob: blob.clone(), schema, columns, rows, step, at: 0, bytes_max })
    }

    fn slice(&self, begin: usize, end: usize) -> Result<RecordBatch> {
        let source = BufferSource { blob: &self.blob, bytes_max: self.bytes_max };
        let columns = self.columns.iter().map(|column| column.read(&source, begin, end));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        new_batch(self.schema.clone(), columns, end - begin).map_err(Error::corrupt)
    }
}

impl Iterator for Slices {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.at >= self.rows {
            return None;
        }
        let begin = self.at;
        loop {
            let end = self.rows.min(begin.saturating_add(self.step));
            let slice = guarded(|| self.slice(begin, end));
            // Rows differ in length: some slices exceed their share of the bytes, so slices become
            // shorter.
            if self.step > 1 && slice.as_ref().is_err_and(|error| error.kind() == Kind::Resource) {
                self.step = (end - begin).div_ceil(2);
                continue;
            }
            self.at = if slice.is_ok() { end } else { self.rows };
            return Some(slice);
        }
    }
}

/// Field nodes and buffers in the order of a header, depth first.
struct HeaderLayout<N, E> {
    nodes: N,
    extents: E,
}

impl<N: Iterator<Item = Option<usize>>, E: Iterator<Item = Option<Extent>>> HeaderLayout<N, E> {
    fn column(&mut self, data_type: &DataType) -> Option<SlicedColumn> {
        use DataType::*;
        let rows = self.nodes.next()??;
        let (buffers, children): (usize, Vec<&DataType>) = match data_type {
            Null => (0, vec![]),
            Boolean | FixedSizeBinary(_) => (2, vec![]),
            Utf8 | Binary | LargeUtf8 | LargeBinary => (3, vec![]),
            List(field) | LargeList(field) | Map(field, _) => (2, vec![field.data_type()]),
            FixedSizeList(field, _) => (1, vec![field.data_type()]),
            Struct(fields) => (1, fields.iter().map(|field| field.data_type()).collect()),
            other => (other.primitive_width().map(|_| 2)?, vec![]),
        };
        let buffers = (0..buffers).map(|_| self.extents.next()?).collect::<Option<Vec<_>>>()?;
        let children = children.into_iter().map(|child| self.column(child));
        let children = children.collect::<Option<Vec<_>>>()?;
        Some(SlicedColumn { data_type: data_type.clone(), rows, buffers, children })
    }
}

impl SlicedColumn {
    fn bytes(&self) -> u64 {
        let own = self.buffers.iter().map(|buffer| buffer.bytes).sum::<u64>();
        own + self.children.iter().map(SlicedColumn::bytes).sum::<u64>()
    }

    /// Reads the values of rows `begin..end`.
    fn read(&self, source: &BufferSource, begin: usize, end: usize) -> Result<ArrayRef> {
        use DataType::*;
        if begin > end || end > self.rows {
            return Err(short());
        }
        // Bits are read in whole bytes, so the range is widened to multiples of 8.
        let from = begin / 8 * 8;
        let bits = |buffer: &Extent| buffer.read(source, from / 8, end.div_ceil(8));
        let validity = self.buffers.first().filter(|buffer| buffer.bytes > 0 && end > from);
        let builder = ArrayData::builder(self.data_type.clone())
            .len(end - from)
            .null_bit_buffer(validity.map(bits).transpose()?)
            .align_buffers(true);
        let rest = self.buffers.get(1..).unwrap_or_default();
        let builder = match (&self.data_type, rest) {
            (Null, _) => builder,
            (Boolean, [values]) => builder.add_buffer(bits(values)?),
            (Utf8 | Binary, [offsets, data]) => {
                let (offsets, first, last) = offsets.offsets::<4>(source, from, end)?;
                builder.add_buffer(offsets).add_buffer(data.read(source, first, last)?)
            }
            (LargeUtf8 | LargeBinary, [offsets, data]) => {
                let (offsets, first, last) = offsets.offsets::<8>(source, from, end)?;
                builder.add_buffer(offsets).add_buffer(data.read(source, first, last)?)
            }
            (LargeList(_), [offsets]) => {
                let (offsets, first, last) = offsets.offsets::<8>(source, from, end)?;
                builder.add_buffer(offsets).add_child_data(self.child(source, first, last)?)
            }
            (List(_) | Map(..), [offsets]) => {
                let (offsets, first, last) = offsets.offsets::<4>(source, from, end)?;
                builder.add_buffer(offsets).add_child_data(self.child(source, first, last)?)
            }
            (FixedSizeList(_, size), []) => {
                let size = usize::try_from(*size).map_err(|_| short())?;
                let child = self.child(source, from * size, end * size)?;
                builder.add_child_data(child)
            }
            (Struct(_), []) => {
                let children = self.children.iter().map(|child| child.read(source, from, end));
                let children = children.map(|child| Ok(child?.to_data()));
                builder.child_data(children.collect::<Result<_>>()?)
            }
            (FixedSizeBinary(width), [values]) => {
                let width = usize::try_from(*width).map_err(|_| short())?;
                builder.add_buffer(values.read(source, from * width, end * width)?)
            }
            (other, [values]) => {
                let width = other.primitive_width().ok_or_else(short)?;
                builder.add_buffer(values.read(source, from * width, end * width)?)
            }
            _ => return Err(short()),
        };
        let all = make_array(builder.build().map_err(Error::corrupt)?);
        Ok(all.slice(begin - from, end - begin))
    }

    /// Reads a range of the only child.
    fn child(&self, source: &BufferSource, begin: usize, end: usize) -> Result<ArrayData> {
        let child = self.children.first().ok_or_else(short)?;
        Ok(child.read(source, begin, end)?.to_data())
    }
}

impl Extent {
    /// Reads the bytes `from..to` of the buffer.
    fn read(&self, source: &BufferSource, from: usize, to: usize) -> Result<Buffer> {
        if from > to || to as u64 > self.bytes {
            return Err(short());
        }
        if to - from > source.bytes_max {
            return Err(long(to - from, source.bytes_max));
        }
        Ok(Buffer::from(source.blob.read_at(self.offset + from as u64, to - from)?))
    }

    /// Reads the offsets of some rows, rebased to begin at 0, with the range of the values they
    /// refer to. An offset has `W` bytes.
    fn offsets<const W: usize>(
        &self,
        source: &BufferSource,
        from: usize,
        end: usize,
    ) -> Result<(Buffer, usize, usize)> {
        let strange = || Error::corrupt("damaged Arrow IPC: offsets that do not rise");
        if from == end {
            return Ok((Buffer::from_vec(vec![0u8; W]), 0, 0));
        }
        let raw = self.read(source, from * W, (end + 1) * W)?;
        let value = |bytes: &[u8]| match W {
            4 => bytes.first_chunk().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
            _ => bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
        };
        let (first, last) = (value(&raw), value(&raw[raw.len() - W..]));
        let (first, last) = (first.ok_or_else(short)?, last.ok_or_else(short)?);
        let mut moved = Vec::with_capacity(raw.len());
        for bytes in raw.chunks_exact(W) {
            let offset = value(bytes).filter(|offset| (first..=last).contains(offset));
            let offset = offset.ok_or_else(strange)? - first;
            moved.extend_from_slice(&offset.to_le_bytes()[..W]);
        }
        let unsigned = |offset: i64| usize::try_from(offset).map_err(|_| strange());
        Ok((Buffer::from_vec(moved), unsigned(first)?, unsigned(last)?))
    }
}

fn long(bytes: usize, bytes_max: usize) -> Error {
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    let message = format!(
        "a row has more than {:.1} MiB in a column, and reading may take {:.1} MiB",
        mib(bytes),
        mib(bytes_max)
    );
    Error::resource(message).remedy("give the flow more memory (`memory=`)")
}

fn short() -> Error {
    Error::corrupt("damaged Arrow IPC: a buffer is shorter than its column")
}
