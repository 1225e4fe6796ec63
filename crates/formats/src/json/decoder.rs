//! Decodes JSON records: Arrow's decoder reads uncertain values as text, and `values::parsing`
//! converts these to their types.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, StructArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use arrow::record_batch::RecordBatch;
use euphrates_flow::depth::JsonDepth;
use euphrates_flow::{Error, Result, new_batch};
use memchr::{memchr, memchr2};

use crate::columns_by_name::ColumnsByName;
use crate::json::escapes::{PAIR_BYTES, TextPiece, first_piece};
use crate::json::value_boundaries::{DocumentLayout, Scanner};
use crate::text::limits::HELD_TEXT_BYTES_MAX;
use crate::text::limits::TEXT_BYTES_MAX;
use crate::text::row_format::{RowDecoder, RowFormat};
use crate::values::parsing;
use crate::values::parsing::TypeOrigin;

/// How the records of a JSON file are decoded.
pub struct JsonRows {
    schema: SchemaRef,
    /// The schema for Arrow's decoder: text where a value may not fit its type.
    texts: SchemaRef,
    /// Whether a field that `texts` lacks is an error.
    is_strict: bool,
    layout: DocumentLayout,
    /// Whether the records are values of the first column of `texts`, rather than objects.
    are_values: bool,
    /// Names of the columns whose types the user gave.
    given: Arc<HashSet<String>>,
}

impl JsonRows {
    /// Decodes to this schema, which must have every field: any other field is an error, as it
    /// would be lost silently.
    pub fn whole(schema: SchemaRef) -> JsonRows {
        let texts = Arc::new(texts_of(schema.fields().iter()));
        JsonRows {
            schema,
            texts,
            is_strict: true,
            layout: DocumentLayout::Lines,
            are_values: false,
            given: Arc::default(),
        }
    }

    /// Decodes records that are values into the file's only column, if it is projected.
    pub fn values(schema: SchemaRef, file: &Schema) -> JsonRows {
        let wanted = schema.fields().iter().chain(file.fields()).take(1);
        let texts = Arc::new(texts_of(wanted));
        JsonRows {
            schema,
            texts,
            is_strict: true,
            layout: DocumentLayout::Documents,
            are_values: true,
            given: Arc::default(),
        }
    }

    /// Sets the layout of the records in the text.
    pub fn in_layout(self, layout: DocumentLayout) -> JsonRows {
        JsonRows { layout, ..self }
    }

    /// The same, with the names of the columns whose types were not inferred.
    pub fn with_given_types(self, given: Arc<HashSet<String>>) -> JsonRows {
        JsonRows { given, ..self }
    }

    /// Decodes a projection of a file with these fields. Columns outside of the projection are
    /// skipped; an unknown field within a projected object is an error. Arrow's decoder is strict
    /// everywhere or nowhere, so if an object is projected, it decodes all columns of the file. If
    /// the user has `chosen` the columns, columns that the sample lacks are skipped too.
    pub fn of_file(schema: SchemaRef, file: &Schema, chosen: bool) -> JsonRows {
        let wanted = schema.fields().iter();
        let places = ColumnsByName::new(&schema);
        let is_left_out = |field: &&FieldRef| places.get(field.name()).is_none();
        let mut left_out = file.fields().iter().filter(is_left_out).peekable();
        let has_objects = wanted.clone().any(|field| has_object(field.data_type()));
        if (chosen || left_out.peek().is_some()) && !has_objects {
            let texts = Arc::new(texts_of(wanted));
            return JsonRows { is_strict: false, texts, ..JsonRows::whole(schema.clone()) };
        }
        let texts = Arc::new(texts_of(wanted.chain(left_out)));
        JsonRows { texts, ..JsonRows::whole(schema.clone()) }
    }
}

fn texts_of<'a>(fields: impl Iterator<Item = &'a FieldRef>) -> Schema {
    Schema::new(fields.map(as_text).collect::<Fields>())
}

/// Whether values of this type contain objects with named fields.
fn has_object(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Struct(_) => true,
        List(field) | LargeList(field) | FixedSizeList(field, _) => has_object(field.data_type()),
        // A map accepts any key.
        Map(entries, _) => match entries.data_type() {
            Struct(fields) => fields.iter().skip(1).any(|field| has_object(field.data_type())),
            _ => false,
        },
        _ => false,
    }
}

impl RowFormat for JsonRows {
    type Decoder = JsonDecoder;

    fn decoder(&self, rows: usize, _: bool) -> Result<JsonDecoder> {
        let (texts, are_values, is_strict) = (self.texts.clone(), self.are_values, self.is_strict);
        let build = Box::new(move || {
            let builder = match are_values {
                true => ReaderBuilder::new_with_field(texts.fields()[0].clone()),
                false => ReaderBuilder::new(texts.clone()),
            };
            let builder = builder.with_batch_size(rows).with_coerce_primitive(true);
            Ok(builder.with_strict_mode(is_strict).build_decoder()?)
        });
        let (decoder, schema, depth) = (build()?, self.schema.clone(), JsonDepth::default());
        let given = self.given.clone();
        Ok(JsonDecoder { build, decoder, schema, given, depth, held: vec![], ready: 0, taken: 0 })
    }

    fn of_columns(&self, columns: Range<usize>) -> Option<JsonRows> {
        if self.are_values {
            return None;
        }
        let schema = Arc::new(self.schema.project(&columns.collect::<Vec<_>>()).ok()?);
        let whole = JsonRows::whole(schema);
        let given = self.given.clone();
        Some(JsonRows { is_strict: false, layout: self.layout, given, ..whole })
    }

    fn record_end(&self, bytes: &[u8]) -> usize {
        match self.layout {
            DocumentLayout::Lines => memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1),
            DocumentLayout::Documents => Scanner::default().end(bytes).unwrap_or(bytes.len()),
        }
    }
}

/// Decodes JSON bytes into batches.
pub struct JsonDecoder {
    /// Makes a fresh Arrow decoder with the same settings.
    build: Box<dyn Fn() -> Result<Decoder> + Send>,
    decoder: Decoder,
    /// Bytes of the current batch.
    taken: usize,
    schema: SchemaRef,
    /// Names of the columns whose types the user gave.
    given: Arc<HashSet<String>>,
    depth: JsonDepth,
    /// Bytes taken in and not decoded yet: a character in place of its escape, or the beginning of
    /// an escape.
    held: Vec<u8>,
    /// How many of the held bytes can be decoded as they are.
    ready: usize,
}

/// Bytes that are searched for escapes per step.
const STEP_BYTES: usize = 64 << 10;

impl JsonDecoder {
    fn decode_plain(&mut self, bytes: &[u8]) -> Result<usize> {
        self.decoder.decode(bytes).map_err(|error| malformed(&error))
    }

    /// Decodes the held bytes; `false` if the batch is full first.
    fn decode_ready(&mut self) -> Result<bool> {
        while self.ready > 0 {
            let held = std::mem::take(&mut self.held);
            let decoded = self.decode_plain(&held[..self.ready]);
            self.held = held;
            let decoded = decoded?;
            if decoded == 0 {
                return Ok(false);
            }
            self.held.drain(..decoded);
            self.ready -= decoded;
        }
        Ok(true)
    }

    /// Replaces an escape by its character.
    fn hold(&mut self, character: char, escape_bytes: usize) {
        let text = character.to_string().into_bytes();
        self.ready = text.len();
        self.held.splice(..escape_bytes, text);
    }

    /// Decodes as many of these bytes as possible, with surrogate pairs in place of their escapes.
    fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        loop {
            if !self.decode_ready()? {
                return Ok(0);
            }
            if self.held.is_empty() {
                break;
            }
            match first_piece(&self.held)? {
                TextPiece::Plain(plain) => self.ready = plain,
                TextPiece::Pair(character, escape_bytes) => self.hold(character, escape_bytes),
                // The input ends here, so no byte completes the escape.
                TextPiece::Open if bytes.is_empty() => self.ready = self.held.len(),
                TextPiece::Open => {
                    let more = &bytes[..bytes.len().min(PAIR_BYTES)];
                    self.held.extend_from_slice(more);
                    return Ok(more.len());
                }
            }
        }
        let bytes = &bytes[..bytes.len().min(STEP_BYTES)];
        match first_piece(bytes)? {
            TextPiece::Plain(plain) => self.decode_plain(&bytes[..plain]),
            TextPiece::Pair(character, escape_bytes) => {
                self.hold(character, 0);
                Ok(escape_bytes)
            }
            TextPiece::Open => {
                self.held.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }
}

impl RowDecoder for JsonDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut step = bytes;
        if self.taken >= TEXT_BYTES_MAX && !bytes.is_empty() {
            if self.is_whole() && !self.decoder.is_empty() {
                return Ok(0);
            }
            // Records are longer than expected: the batch ends with this one.
            let end = memchr2(b'}', b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            step = &bytes[..end];
        }
        let taken = self.take(step)?;
        let is_idle = self.is_whole() && self.decoder.is_empty();
        self.taken = if is_idle { 0 } else { self.taken + taken };
        // The conversion of a value that has another type prints it recursively, so depth is
        // bounded first.
        self.depth.check(&step[..taken], "the record")?;
        Ok(taken)
    }

    fn is_whole(&self) -> bool {
        self.held.is_empty() && !self.decoder.has_partial_record()
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let taken = std::mem::take(&mut self.taken);
        let batch = self.decoder.flush().map_err(|error| malformed(&error))?;
        if taken > HELD_TEXT_BYTES_MAX {
            // A fresh decoder: the old one keeps the memory of its longest batch.
            self.decoder = (self.build)()?;
        }
        let Some(batch) = batch else { return Ok(None) };
        // The projected columns are the first of the decoded ones.
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            let place = |error: Error| error.at(format!("column `{}`", field.name()));
            let origin = match self.given.contains(field.name()) {
                true => TypeOrigin::Given,
                false => TypeOrigin::Inferred,
            };
            typed_of(column, field.data_type(), origin).map_err(place)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Some(new_batch(self.schema.clone(), columns, batch.num_rows())?))
    }
}

fn malformed(error: &ArrowError) -> Error {
    // Removes the decoder's line number, which begins anew in every split.
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    Error::corrupt(message).remedy(
        "correct the line, or say the types of fields the first records lack, and of those that \
         are not of one type: `types={\"COLUMN\": \"string\"}`",
    )
}

/// Whether a value may be written in a form that does not fit this type.
fn may_misfit(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(..) | RunEndEncoded(..) => true,
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
        // Arrow parses the text of binary values as hexadecimal digits.
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        other => other.is_numeric(),
    }
}

/// The field with the type in which Arrow's decoder reads it.
fn as_text(field: &FieldRef) -> FieldRef {
    let data_type = text_of(field.data_type());
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn text_of(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        List(field) => List(as_text(field)),
        LargeList(field) => LargeList(as_text(field)),
        FixedSizeList(field, size) => FixedSizeList(as_text(field), *size),
        Map(field, sorted) => Map(as_text(field), *sorted),
        Struct(fields) => Struct(fields.iter().map(as_text).collect()),
        leaf if may_misfit(leaf) => Utf8,
        other => other.clone(),
    }
}

/// Converts a column read as `text_of` a type to that type.
fn typed_of(column: &ArrayRef, to: &DataType, origin: TypeOrigin) -> Result<ArrayRef> {
    use DataType::*;
    let made = |array: Result<ArrayRef, ArrowError>| array.map_err(Error::corrupt);
    let nulls = || column.nulls().cloned();
    match to {
        leaf if may_misfit(leaf) => parsing::column(column.as_string(), leaf, origin),
        List(field) => {
            let list = column.as_list::<i32>();
            let values = typed_of(list.values(), field.data_type(), origin)?;
            let list = ListArray::try_new(field.clone(), list.offsets().clone(), values, nulls());
            made(list.map(|list| Arc::new(list) as ArrayRef))
        }
        LargeList(field) => {
            let list = column.as_list::<i64>();
            let values = typed_of(list.values(), field.data_type(), origin)?;
            let offsets = list.offsets().clone();
            let list = LargeListArray::try_new(field.clone(), offsets, values, nulls());
            made(list.map(|list| Arc::new(list) as ArrayRef))
        }
        FixedSizeList(field, size) => {
            let values = typed_of(column.as_fixed_size_list().values(), field.data_type(), origin)?;
            let list = FixedSizeListArray::try_new(field.clone(), *size, values, nulls());
            made(list.map(|list| Arc::new(list) as ArrayRef))
        }
        Map(field, sorted) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = typed_of(&entries, field.data_type(), origin)?.as_struct().clone();
            let offsets = map.offsets().clone();
            let map = MapArray::try_new(field.clone(), offsets, entries, nulls(), *sorted);
            made(map.map(|map| Arc::new(map) as ArrayRef))
        }
        Struct(fields) => {
            let columns = column.as_struct().columns().iter().zip(fields);
            let columns =
                columns.map(|(column, field)| typed_of(column, field.data_type(), origin));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let rows = column.len();
            let all = StructArray::try_new_with_length(fields.clone(), columns, nulls(), rows);
            made(all.map(|all| Arc::new(all) as ArrayRef))
        }
        _ => Ok(column.clone()),
    }
}
