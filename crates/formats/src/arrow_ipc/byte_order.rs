//! Converts Arrow IPC messages of the other byte order to the native one before Arrow decodes them.
//!
//! Metadata is always little-endian; only buffers have the declared byte order. The column types,
//! in the order in which a message lists its buffers, determine how wide each value is.

use std::collections::HashMap;
use std::io::Read;

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, UnionMode};
use arrow::ipc::convert::IpcSchemaEncoder;
use arrow::ipc::{
    Buffer as Extent, CompressionType, DictionaryBatchBuilder, MessageBuilder, MessageHeader,
    MetadataVersion, RecordBatch, RecordBatchBuilder, Schema as IpcSchema,
};
use bytes::Bytes;
use euphrates_flow::{Error, Result};

use crate::arrow_ipc::validation::{check_batch, message};

/// Buffers begin at multiples of this many bytes.
const ALIGN_BYTES: usize = 64;

/// A view of at most this many bytes stores them inline.
const INLINE_BYTES: u32 = 12;

/// The unit of a buffer whose bytes are reversed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwapUnit {
    /// Single bytes: nothing is reversed.
    Byte,
    /// Values of this width in bytes.
    Bytes(usize),
    /// A month-day-nano interval: 4, 4 and 8 bytes.
    MonthDayNano,
    /// A 16-byte view of a string: a length, then inline bytes or a prefix with an offset.
    View,
}

/// The bytes that hold a schema, with its byte order field set to this machine's; `None` if it is
/// native already. Arrow fails to decode some types of a schema that declares the other order. The
/// flatbuffer begins at `base`.
pub fn declared_native(bytes: &[u8], base: usize, schema: &IpcSchema) -> Option<Vec<u8>> {
    if schema.endianness().equals_to_target_endianness() {
        return None;
    }
    let mut own = bytes.to_vec();
    let slot = usize::from(schema._tab.vtable().get(IpcSchema::VT_ENDIANNESS));
    let order_at = base + schema._tab.loc() + slot;
    if let (true, Some(order)) = (slot > 0, own.get_mut(order_at..order_at + 2)) {
        let native = u16::from(cfg!(target_endian = "big"));
        order.copy_from_slice(&native.to_le_bytes());
    }
    Some(own)
}

/// The types by which the messages of one schema are byte-swapped.
pub struct Swap {
    /// Types in buffer order, without the data buffers of views.
    columns: Vec<DataType>,
    /// The value type of each dictionary, by dictionary id.
    dictionaries: HashMap<i64, DataType>,
}

impl Swap {
    /// Collects the column and dictionary types of a schema.
    pub fn new(schema: &Schema) -> Swap {
        let mut dictionaries = HashMap::new();
        schema.fields().iter().for_each(|field| find_dictionaries(field, &mut dictionaries));
        let columns = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        Swap { columns, dictionaries }
    }

    /// The message in native byte order, with the length of its metadata.
    pub fn message(&self, bytes: &Bytes, metadata: usize) -> Result<(Bytes, usize)> {
        let message = message(bytes, metadata)?;
        let body = &bytes[metadata..];
        check_batch(&message, body)?;
        if let Some(batch) = message.header_as_record_batch() {
            let version = message.version();
            let (body, extents) = swapped(&self.columns, version, &batch, body)?;
            return Ok(rewritten(version, &batch, None, &extents, body));
        }
        let dictionary = message.header_as_dictionary_batch();
        let dictionary = dictionary.and_then(|dictionary| Some((dictionary, dictionary.data()?)));
        let Some((dictionary, batch)) = dictionary else {
            return Err(Error::corrupt("damaged Arrow IPC: a message is no batch"));
        };
        let values = self.dictionaries.get(&dictionary.id());
        let values = values.ok_or_else(|| Error::corrupt("a dictionary of no column"))?;
        let (types, version) = (std::slice::from_ref(values), message.version());
        let (body, extents) = swapped(types, version, &batch, body)?;
        let known = Some((dictionary.id(), dictionary.isDelta()));
        Ok(rewritten(version, &batch, known, &extents, body))
    }
}

/// The buffers of a batch in native byte order, decompressed.
fn swapped(
    types: &[DataType],
    version: MetadataVersion,
    batch: &RecordBatch,
    body: &[u8],
) -> Result<(Vec<u8>, Vec<Extent>)> {
    let mut views = batch.variadicBufferCounts().into_iter().flatten();
    let mut units = vec![];
    for data_type in types {
        find_units(data_type, version, &mut views, &mut units)?;
    }
    let codec = batch.compression().map(|compression| compression.codec());
    let buffers = batch.buffers().into_iter().flatten();
    let (mut swapped, mut extents) = (vec![], vec![]);
    for (buffer, unit) in buffers.zip(units) {
        // Validation has checked that the buffer lies within the body.
        let from = buffer.offset() as usize;
        let own = &body[from..from + buffer.length() as usize];
        let begin = swapped.len();
        match codec {
            Some(codec) if !own.is_empty() => decompress(codec, own, &mut swapped)?,
            _ => swapped.extend_from_slice(own),
        }
        unit.swap(&mut swapped[begin..]);
        extents.push(Extent::new(begin as i64, (swapped.len() - begin) as i64));
        swapped.resize(swapped.len().next_multiple_of(ALIGN_BYTES), 0);
    }
    Ok((swapped, extents))
}

/// Appends the units of a column's buffers, in message order.
fn find_units(
    data_type: &DataType,
    version: MetadataVersion,
    views: &mut impl Iterator<Item = i64>,
    units: &mut Vec<SwapUnit>,
) -> Result<()> {
    use DataType::*;
    use SwapUnit::*;
    let is_old = version < MetadataVersion::V5;
    match data_type {
        Null => {}
        Boolean | FixedSizeBinary(_) => units.extend([Byte, Byte]),
        Interval(IntervalUnit::MonthDayNano) => units.extend([Byte, MonthDayNano]),
        Interval(_) => units.extend([Byte, Bytes(4)]),
        Utf8 | Binary => units.extend([Byte, Bytes(4), Byte]),
        LargeUtf8 | LargeBinary => units.extend([Byte, Bytes(8), Byte]),
        Utf8View | BinaryView => {
            units.extend([Byte, View]);
            let count = views.next().ok_or_else(|| Error::corrupt("a column without views"))?;
            units.extend(std::iter::repeat_n(Byte, count as usize));
        }
        List(field) | Map(field, _) => {
            units.extend([Byte, Bytes(4)]);
            find_units(field.data_type(), version, views, units)?;
        }
        LargeList(field) => {
            units.extend([Byte, Bytes(8)]);
            find_units(field.data_type(), version, views, units)?;
        }
        ListView(field) => {
            units.extend([Byte, Bytes(4), Bytes(4)]);
            find_units(field.data_type(), version, views, units)?;
        }
        LargeListView(field) => {
            units.extend([Byte, Bytes(8), Bytes(8)]);
            find_units(field.data_type(), version, views, units)?;
        }
        FixedSizeList(field, _) => {
            units.push(Byte);
            find_units(field.data_type(), version, views, units)?;
        }
        Struct(fields) => {
            units.push(Byte);
            for field in fields {
                find_units(field.data_type(), version, views, units)?;
            }
        }
        Union(fields, mode) => {
            units.extend(is_old.then_some(Byte));
            units.push(Byte);
            units.extend((*mode == UnionMode::Dense).then_some(Bytes(4)));
            for (_, field) in fields.iter() {
                find_units(field.data_type(), version, views, units)?;
            }
        }
        RunEndEncoded(ends, values) => {
            find_units(ends.data_type(), version, views, units)?;
            find_units(values.data_type(), version, views, units)?;
        }
        Dictionary(keys, _) => find_units(keys, version, views, units)?,
        fixed => {
            let width = fixed.primitive_width();
            let width = width.ok_or_else(|| Error::corrupt(format!("{fixed} has no width")))?;
            units.extend([Byte, Bytes(width)]);
        }
    }
    Ok(())
}

impl SwapUnit {
    fn swap(self, bytes: &mut [u8]) {
        match self {
            SwapUnit::Byte | SwapUnit::Bytes(1) => {}
            SwapUnit::Bytes(width) => bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse),
            SwapUnit::MonthDayNano => bytes.chunks_exact_mut(16).for_each(|interval| {
                interval[..4].reverse();
                interval[4..8].reverse();
                interval[8..].reverse();
            }),
            SwapUnit::View => bytes.chunks_exact_mut(16).for_each(|view| {
                view[..4].reverse();
                let length = u32::from_ne_bytes([view[0], view[1], view[2], view[3]]);
                // A longer view: a 4-byte prefix, then buffer index and offset.
                if length > INLINE_BYTES {
                    view[8..12].reverse();
                    view[12..].reverse();
                }
            }),
        }
    }
}

fn find_dictionaries(field: &Field, found: &mut HashMap<i64, DataType>) {
    if let DataType::Dictionary(_, values) = field.data_type() {
        // Arrow's own decoder reads this deprecated field as well.
        #[allow(deprecated)]
        if let Some(id) = field.dict_id() {
            found.insert(id, values.as_ref().clone());
        }
    }
    find_within(field.data_type(), found);
}

fn find_within(data_type: &DataType, found: &mut HashMap<i64, DataType>) {
    use DataType::*;
    match data_type {
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _) => find_dictionaries(field, found),
        Struct(fields) => fields.iter().for_each(|field| find_dictionaries(field, found)),
        Union(fields, _) => fields.iter().for_each(|(_, field)| find_dictionaries(field, found)),
        RunEndEncoded(_, values) => find_dictionaries(values, found),
        Dictionary(_, values) => find_within(values, found),
        _ => {}
    }
}

/// Appends the decompressed buffer to `to`. `check_batch` has compared the declared length with
/// what the bytes can expand to.
fn decompress(codec: CompressionType, bytes: &[u8], to: &mut Vec<u8>) -> Result<()> {
    let wrong = |error: &dyn std::fmt::Display| {
        Error::corrupt(format!("damaged Arrow IPC: a compressed buffer: {error}"))
    };
    let Some((length, packed)) = bytes.split_first_chunk::<8>() else {
        return Err(wrong(&"it is cut short"));
    };
    let Ok(length) = u64::try_from(i64::from_le_bytes(*length)) else {
        to.extend_from_slice(packed);
        return Ok(());
    };
    let begin = to.len();
    let read = match codec {
        CompressionType::LZ4_FRAME => {
            lz4_flex::frame::FrameDecoder::new(packed).take(length + 1).read_to_end(to)
        }
        _ => zstd::stream::read::Decoder::new(packed)
            .and_then(|decoder| decoder.take(length + 1).read_to_end(to)),
    };
    read.map_err(|error| wrong(&error))?;
    match (to.len() - begin) as u64 == length {
        true => Ok(()),
        false => Err(wrong(&"it has another length than it says")),
    }
}

/// A message with this body: a dictionary batch if `dictionary` gives its id and whether it is a
/// delta, else a record batch.
fn rewritten(
    version: MetadataVersion,
    batch: &RecordBatch,
    dictionary: Option<(i64, bool)>,
    extents: &[Extent],
    body: Vec<u8>,
) -> (Bytes, usize) {
    let mut builder = IpcSchemaEncoder::new().schema_to_fb(&Schema::empty());
    builder.reset();
    let nodes: Vec<_> = batch.nodes().into_iter().flatten().copied().collect();
    let nodes = builder.create_vector(&nodes);
    let buffers = builder.create_vector(extents);
    let counts: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let counts = (!counts.is_empty()).then(|| builder.create_vector(&counts));
    let mut header = RecordBatchBuilder::new(&mut builder);
    header.add_length(batch.length());
    header.add_nodes(nodes);
    header.add_buffers(buffers);
    if let Some(counts) = counts {
        header.add_variadicBufferCounts(counts);
    }
    let data = header.finish();
    let (kind, header) = match dictionary {
        None => (MessageHeader::RecordBatch, data.as_union_value()),
        Some((id, is_delta)) => {
            let mut header = DictionaryBatchBuilder::new(&mut builder);
            header.add_id(id);
            header.add_data(data);
            header.add_isDelta(is_delta);
            (MessageHeader::DictionaryBatch, header.finish().as_union_value())
        }
    };
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(version);
    message.add_header_type(kind);
    message.add_bodyLength(body.len() as i64);
    message.add_header(header);
    let root = message.finish();
    builder.finish(root, None);
    let own = builder.finished_data();
    let metadata = (own.len() + 8).next_multiple_of(8);
    let mut bytes = vec![0xff; 4];
    bytes.extend_from_slice(&((metadata - 8) as u32).to_le_bytes());
    bytes.extend_from_slice(own);
    bytes.resize(metadata, 0);
    bytes.extend_from_slice(&body);
    (bytes.into(), metadata)
}
