//! Infers the schema of CSV and decodes it: `fields` tokenizes, `values::parsing` parses the fields
//! to the types of their columns.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::record_batch::RecordBatch;
use euphrates_device::buffer::copy_freely;
use euphrates_flow::{Error, Result, new_batch};

use crate::csv::cell::Cell;
use crate::csv::dialect::Dialect;
use crate::csv::fields::{Tokenizer, Unclosed};
use crate::csv::quotes::QuoteState;
use crate::text::limits::TEXT_BYTES_MAX;
use crate::text::row_format::{RowDecoder, RowFormat};
use crate::values::inference::{InferredKind, SAMPLE_RECORDS};
use crate::values::parsing;
use crate::values::parsing::{Texts, TypeOrigin};

/// Bytes that are tokenized per step.
const STEP_BYTES: usize = 64 << 10;

/// Infers the schema from a sample. Malformed records are reported when the file is read, not here.
pub fn infer(dialect: &Dialect, sample: &[u8]) -> Result<Schema> {
    let mut records = Tokenizer::new(dialect, false);
    let enough = SAMPLE_RECORDS + usize::from(dialect.header);
    records.take(sample, |records| records.len() == enough);
    // A sample may be cut within a record; but a header without a line end may be the whole file.
    if records.len() < enough && records.finish().is_err() && records.len() == 0 {
        return Err(unclosed());
    }
    if records.len() == 0 {
        return Ok(Schema::empty());
    }
    let names = match dialect.header {
        false => (0..records.width(0)).map(|column| format!("column_{}", column + 1)).collect(),
        true => header_names(&records)?,
    };
    let nulls = NullTexts::new(&dialect.nulls);
    let records = &records;
    let rows_with = |column: usize| {
        let rows = usize::from(dialect.header)..records.len();
        rows.filter(move |&row| records.width(row) > column)
    };
    let guess = |column: usize| {
        rows_with(column).fold(InferredKind::Nothing, |guess, row| {
            let cell = records.field(row, column);
            guess.and(match std::str::from_utf8(&cell.text) {
                // A null or an empty text fits any type; a column of nothing else is text.
                _ if nulls.has(&cell, false) => match cell.quoted || !nulls.has(&cell, true) {
                    true => InferredKind::Empty,
                    false => InferredKind::Nothing,
                },
                Ok(text) => InferredKind::of(text),
                Err(_) => InferredKind::Text,
            })
        })
    };
    // Values may have the form of a type and not fit it: 30 February, or a year outside the range
    // of nanoseconds in a column with nanosecond times.
    let fits = |column: usize, data_type: &DataType| {
        let cells = rows_with(column).map(|row| records.field(row, column));
        let texts = cells.filter(|cell| !nulls.has(cell, false)).map(|cell| cell.text);
        let texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
        let texts = StringArray::from_iter_values(texts);
        parsing::column(&texts, data_type, TypeOrigin::Inferred).is_ok()
    };
    let field = |(column, name)| {
        let data_type = match guess(column) {
            guess @ (InferredKind::Date | InferredKind::Time { .. })
                if !fits(column, &guess.data_type()) =>
            {
                DataType::Utf8
            }
            guess => guess.data_type(),
        };
        Field::new(name, data_type, true)
    };
    Ok(Schema::new(names.into_iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// The names in the header, each once: those without a text are called by their position, others
/// get a number behind them, as in DuckDB.
fn header_names(records: &Tokenizer) -> Result<Vec<String>> {
    let mut taken = HashSet::new();
    let name = |column: usize| {
        let cell = records.field(0, column);
        if cell.is_torn {
            return Err(torn().at("line 1"));
        }
        let name = String::from_utf8(cell.text.into_owned()).map_err(|_| {
            Error::corrupt("the names of the columns are not UTF-8")
                .at("line 1")
                .remedy(NAME_ENCODING)
        })?;
        let name = if name.is_empty() { format!("column{column}") } else { name };
        let more = (1..).map(|number| format!("{name}_{number}"));
        let mut unused = std::iter::once(name.clone()).chain(more);
        Ok(unused.find(|name| taken.insert(name.clone())).unwrap_or(name))
    };
    (0..records.width(0)).map(name).collect()
}

/// The texts that stand for a null.
#[derive(Clone)]
struct NullTexts {
    /// Whether the empty text is one, in columns of text.
    has_empty: bool,
    others: Vec<String>,
}

impl NullTexts {
    fn new(texts: &[String]) -> NullTexts {
        let others = texts.iter().filter(|text| !text.is_empty()).cloned().collect();
        NullTexts { has_empty: texts.iter().any(String::is_empty), others }
    }

    /// Whether a field is null in a column of text or of another type. A quoted field is text,
    /// never null; but other types have no empty values, so there both are null.
    fn has(&self, cell: &Cell, is_text: bool) -> bool {
        if is_text && cell.quoted {
            return false;
        }
        (!is_text && cell.text.is_empty()) || self.is_one(cell.written)
    }

    #[inline(always)]
    fn is_one(&self, written: &[u8]) -> bool {
        match written.is_empty() {
            true => self.has_empty,
            false => self.others.iter().any(|null| null.as_bytes() == written),
        }
    }
}

fn torn() -> Error {
    Error::corrupt("a quoted field goes on behind its closing quote")
        .remedy("double a quote that is text, or read quotes as text: `quote=\"\"`")
}

fn unclosed() -> Error {
    Error::corrupt("a quote is opened and never closed")
        .remedy("the file may be cut short; close the quote, or double it if it is text")
}

/// Decodes the records of one CSV dialect and schema.
pub struct CsvRows {
    dialect: Dialect,
    /// All columns of the file, in its order.
    fields: Fields,
    /// Indexes of the projected columns.
    projection: Vec<usize>,
    /// Indexes of other columns that must be UTF-8.
    checked: Vec<usize>,
    /// Names of the columns whose types the user gave.
    given: Arc<HashSet<String>>,
}

impl CsvRows {
    /// A decoder factory for the `projection` of `fields`.
    pub fn new(dialect: Dialect, fields: Fields, projection: Vec<usize>) -> CsvRows {
        CsvRows { dialect, fields, projection, checked: vec![], given: Arc::default() }
    }

    /// The same, with the names of the columns whose types were not inferred.
    pub fn with_given_types(self, given: Arc<HashSet<String>>) -> CsvRows {
        CsvRows { given, ..self }
    }

    /// The same, which fails on fields of other columns that are not UTF-8.
    pub fn checking_others(self) -> CsvRows {
        let others = (0..self.fields.len()).filter(|at| !self.projection.contains(at));
        CsvRows { checked: others.collect(), ..self }
    }
}

impl RowFormat for CsvRows {
    type Decoder = CsvDecoder;

    fn decoder(&self, rows: usize, is_first: bool) -> Result<CsvDecoder> {
        let header = self.dialect.header && is_first;
        Ok(CsvDecoder {
            records: Tokenizer::new(&self.dialect, keeps_blank(self.fields.len(), header)),
            nulls: NullTexts::new(&self.dialect.nulls),
            width: self.fields.len(),
            columns: self.projection.iter().map(|&at| (at, self.fields[at].clone())).collect(),
            given: self.given.clone(),
            checked: self.checked.iter().map(|&at| (at, self.fields[at].clone())).collect(),
            rows,
            header,
        })
    }

    fn of_columns(&self, columns: Range<usize>) -> Option<CsvRows> {
        let projection = self.projection.get(columns)?.to_vec();
        let rows = CsvRows::new(self.dialect.clone(), self.fields.clone(), projection);
        Some(rows.with_given_types(self.given.clone()))
    }

    fn record_end(&self, bytes: &[u8]) -> usize {
        if self.dialect.quotes_determine_record_ends() {
            let end = self.dialect.quoting().record_end(QuoteState::Out, b'\n', bytes);
            return end.unwrap_or(bytes.len());
        }
        Tokenizer::new(&self.dialect, true).take(bytes, |_| true)
    }
}

/// Whether a blank line is a record: in a file of one column it is a null, but before the header it
/// is skipped.
fn keeps_blank(width: usize, header: bool) -> bool {
    width == 1 && !header
}

/// Decodes CSV bytes into batches.
pub struct CsvDecoder {
    records: Tokenizer,
    nulls: NullTexts,
    /// Fields per record; other counts are an error.
    width: usize,
    /// The projected columns, with their positions in the file.
    columns: Vec<(usize, Arc<Field>)>,
    /// Other columns that must be UTF-8.
    checked: Vec<(usize, Arc<Field>)>,
    /// Names of the columns whose types the user gave.
    given: Arc<HashSet<String>>,
    /// Row limit of a batch.
    rows: usize,
    /// Whether the header is yet to be read.
    header: bool,
}

impl RowDecoder for CsvDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        if bytes.is_empty() {
            self.records.finish().map_err(|Unclosed| unclosed())?;
            self.pass_header();
            return Ok(0);
        }
        let rows = if self.header { 1 } else { self.rows };
        let full = |records: &Tokenizer| records.len() >= rows || records.bytes() >= TEXT_BYTES_MAX;
        let some = !self.header && self.records.len() > 0;
        if some && full(&self.records) && self.records.is_whole() {
            return Ok(0);
        }
        let taken = self.records.take(&bytes[..bytes.len().min(STEP_BYTES)], full);
        self.pass_header();
        if self.records.len() == 0 && self.is_whole() {
            // Skipped blank lines leave nothing to keep.
            self.records.clear();
        }
        Ok(taken)
    }

    fn is_whole(&self) -> bool {
        self.records.is_whole()
    }

    fn awaits_header(&self) -> bool {
        self.header
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.records.len();
        if rows == 0 {
            return Ok(None);
        }
        let narrow = (0..rows).find(|&row| self.records.width(row) != self.width);
        if let Some(row) = narrow {
            let message = format!("{} fields instead of {}", self.records.width(row), self.width);
            let remedy = "correct the line, or check the delimiter and the header";
            return Err(Error::corrupt(message).remedy(remedy));
        }
        let utf8 = self.records.utf8();
        let columns = self.columns.iter().map(|(at, field)| {
            let column = self.column(*at, field, utf8);
            column.map_err(|error| error.at(format!("column `{}`", field.name())))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let is_text = |(at, _): &&(usize, Arc<Field>)| {
            self.records.column(*at, self.width).all(|cell| std::str::from_utf8(&cell.text).is_ok())
        };
        if utf8.is_none()
            && let Some((_, field)) = self.checked.iter().find(|column| !is_text(column))
        {
            return Err(not_utf8().at(format!("column `{}`", field.name())));
        }
        self.records.clear();
        let fields = self.columns.iter().map(|(_, field)| field.clone()).collect::<Fields>();
        let schema = Arc::new(Schema::new(fields));
        Ok(Some(new_batch(schema, columns, rows)?))
    }
}

/// The fields of a column that is not text, none with quotes or escapes inside.
struct PlainFields<'a> {
    /// The text of all records.
    text: &'a str,
    records: &'a Tokenizer,
    nulls: &'a NullTexts,
    at: usize,
    width: usize,
}

impl<'a> Texts<'a> for &PlainFields<'a> {
    fn rows(self) -> usize {
        self.records.len()
    }

    fn each(self) -> impl Iterator<Item = Option<&'a str>> {
        let (text, nulls) = (self.text, self.nulls);
        (0..self.records.len()).map(move |row| {
            let field = &text[self.records.written(row, self.at, self.width).0];
            let is_null = field.is_empty() || nulls.is_one(field.as_bytes());
            (!is_null).then_some(field)
        })
    }
}

impl CsvDecoder {
    fn pass_header(&mut self) {
        if self.header && self.records.len() > 0 {
            self.records.clear();
            self.header = false;
            self.records.keep_blank(keeps_blank(self.width, false));
        }
    }

    fn column(&self, at: usize, field: &Field, utf8: Option<&str>) -> Result<ArrayRef> {
        let (records, to) = (&self.records, field.data_type());
        let origin = match self.given.contains(field.name()) {
            true => TypeOrigin::Given,
            false => TypeOrigin::Inferred,
        };
        if let Some(text) = utf8.filter(|_| records.is_as_written(at, self.width)) {
            let fields = PlainFields { text, records, nulls: &self.nulls, at, width: self.width };
            if let Some(values) = parsing::values(&fields, to, origin) {
                return values;
            }
            if parsing::is_text(to) {
                return parsing::column(&self.texts_as_written(at)?, to, origin);
            }
        }
        let rows = self.records.len();
        let is_text = parsing::is_text(to);
        // Initial capacity: an equal share of the bytes.
        let share = self.records.bytes() / self.width.max(1);
        let mut values: Vec<u8> = Vec::with_capacity(share);
        let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let mut nulls = NullBufferBuilder::new(rows);
        for cell in self.records.column(at, self.width) {
            if cell.is_torn {
                return Err(torn());
            }
            let is_null = self.nulls.has(&cell, is_text);
            if !is_null {
                values.extend_from_slice(&cell.text);
            }
            // The text of a batch is bounded far below two gigabytes, so offsets fit.
            offsets.push(values.len() as i32);
            nulls.append(!is_null);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let nulls = nulls.finish();
        let texts = StringArray::try_new(offsets, Buffer::from_vec(values), nulls);
        parsing::column(&texts.map_err(|_| not_utf8())?, to, origin)
    }

    /// The texts of a column whose fields are their ranges in the text.
    fn texts_as_written(&self, at: usize) -> Result<StringArray> {
        let (records, text) = (&self.records, self.records.text());
        let field = |row: usize| records.written(row, at, self.width);
        let is_null = |row: usize| {
            let (range, is_quoted) = field(row);
            !is_quoted && self.nulls.is_one(&text[range])
        };
        let valid = BooleanBuffer::collect_bool(records.len(), |row| !is_null(row));
        let nulls = Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0);
        let mut offsets: Vec<i32> = Vec::with_capacity(records.len() + 1);
        let mut end = 0;
        offsets.push(end);
        for row in 0..records.len() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                // The text of a batch is bounded far below two gigabytes, so offsets fit.
                end += field(row).0.len() as i32;
            }
            offsets.push(end);
        }
        let mut values = vec![0; end as usize];
        for (row, ends) in offsets.windows(2).enumerate() {
            let length = (ends[1] - ends[0]) as usize;
            copy_freely(text, field(row).0.start, &mut values, ends[0] as usize, length);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let texts = StringArray::try_new(offsets, Buffer::from_vec(values), nulls);
        texts.map_err(|_| not_utf8())
    }
}

fn not_utf8() -> Error {
    Error::corrupt("this is not UTF-8").remedy(NAME_ENCODING)
}

const NAME_ENCODING: &str = "name the encoding it has, like `encoding=\"latin-1\"`";
