//! Decodes what can be read of a section of text with malformed records.
//!
//! Records are decoded together while they are well formed. A group that fails is divided until the
//! malformed records are alone, so few bad ones cost little more than none.

use std::ops::Range;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_flow::{Error, Kind, Result, new_batch};

use crate::format::guarded;
use crate::text::rejects::{ErrorPolicy, RejectedRecord};
use crate::text::row_format::{RowDecoder, RowFormat, stuck};

/// Records that are decoded together behind a failure.
const GROUP_RECORDS: usize = 64;

/// Whole records of a text.
pub struct Section {
    /// Their bytes.
    pub bytes: Bytes,
    /// Whether they begin the text, perhaps with a header.
    pub is_first: bool,
    /// The line of the first byte, from 1.
    pub line: u64,
}

/// Reads on behind malformed records of a file.
#[derive(Clone)]
pub struct Tolerance {
    /// What becomes of them.
    pub policy: ErrorPolicy,
    /// The file.
    pub file: String,
}

/// Decodes a section. Takes note of what cannot be read.
pub fn salvage<F: RowFormat>(
    format: &F,
    schema: &SchemaRef,
    rows: usize,
    section: &Section,
    tolerance: &Tolerance,
) -> Result<Vec<RecordBatch>> {
    let mut salvaging = Salvaging { format, schema, section, tolerance, seen: (0, 0) };
    let records = salvaging.records();
    let mut batches = vec![];
    for group in groups(0..records.len(), rows.max(1)) {
        let mut parts = vec![];
        salvaging.decode(&records, group, &mut parts)?;
        match parts.len() {
            0 => {}
            1 => batches.append(&mut parts),
            _ => batches.push(concat_batches(schema, &parts)?),
        }
    }
    Ok(batches)
}

fn groups(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(size).map(move |begin| begin..(begin + size).min(end))
}

struct Salvaging<'a, F: RowFormat> {
    format: &'a F,
    schema: &'a SchemaRef,
    section: &'a Section,
    tolerance: &'a Tolerance,
    /// An offset and the number of line ends before it.
    seen: (usize, u64),
}

impl<F: RowFormat> Salvaging<'_, F> {
    /// The ranges of the records.
    fn records(&self) -> Vec<Range<usize>> {
        let (bytes, mut at, mut records) = (&self.section.bytes, 0, vec![]);
        while at < bytes.len() {
            let end = at + self.format.record_end(&bytes[at..]);
            records.push(at..end);
            at = end;
        }
        records
    }

    /// Appends what can be read of these records.
    fn decode(
        &mut self,
        records: &[Range<usize>],
        group: Range<usize>,
        batches: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let bytes = records[group.start].start..records[group.end - 1].end;
        match self.decoded((self.format, group.len()), bytes.clone(), self.schema) {
            Ok(mut decoded) => batches.append(&mut decoded),
            Err(error) if error.kind() != Kind::Corrupt => return Err(error),
            Err(error) if group.len() == 1 => batches.extend(self.reject(bytes, error)?),
            Err(_) => {
                let size = match group.len() > GROUP_RECORDS {
                    true => GROUP_RECORDS,
                    false => group.len().div_ceil(2),
                };
                for part in groups(group, size) {
                    self.decode(records, part, batches)?;
                }
            }
        }
        Ok(())
    }

    fn decoded(
        &self,
        (format, rows): (&F, usize),
        bytes: Range<usize>,
        schema: &SchemaRef,
    ) -> Result<Vec<RecordBatch>> {
        let is_first = self.section.is_first && bytes.start == 0;
        let bytes = &self.section.bytes[bytes];
        guarded(|| {
            let mut decoder = format.decoder(rows, is_first)?;
            let (mut at, mut batches) = (0, vec![]);
            while at < bytes.len() {
                match decoder.decode(&bytes[at..])? {
                    0 => batches.push(decoder.flush()?.ok_or_else(stuck)?),
                    taken => at += taken,
                }
            }
            decoder.decode(&[])?;
            batches.extend(decoder.flush()?);
            let typed = |batch: RecordBatch| {
                new_batch(schema.clone(), batch.columns().to_vec(), batch.num_rows())
            };
            batches.into_iter().map(|batch| typed(batch).map_err(Error::from)).collect()
        })
    }

    /// Takes note of a record; returns it with nulls if records are kept and it has the right
    /// fields.
    fn reject(&mut self, bytes: Range<usize>, error: Error) -> Result<Option<RecordBatch>> {
        let mut wrong = vec![];
        let kept = match self.tolerance.policy.keeps_records {
            true => self.with_nulls(bytes.clone(), &mut wrong)?,
            false => None,
        };
        if kept.is_none() || wrong.is_empty() {
            wrong = vec![(column_of(&error), error)];
        }
        let blanks = self.section.bytes[bytes.clone()].iter();
        let begin = bytes.start + blanks.take_while(|byte| byte.is_ascii_whitespace()).count();
        let line = self.line(begin);
        for (column, error) in wrong {
            self.tolerance.policy.rejected.push(RejectedRecord {
                file: self.tolerance.file.clone(),
                line,
                column,
                reason: error.message().to_string(),
                record: RejectedRecord::text(&self.section.bytes[bytes.clone()]),
            });
        }
        Ok(kept)
    }

    /// The record with nulls for columns that cannot be read, which `wrong` gets; `None` if it
    /// cannot be divided into fields.
    fn with_nulls(
        &self,
        bytes: Range<usize>,
        wrong: &mut Vec<(Option<String>, Error)>,
    ) -> Result<Option<RecordBatch>> {
        if self.column_range(bytes.clone(), 0..0)?.is_none_or(|read| read.is_err()) {
            return Ok(None);
        }
        let mut columns: Vec<ArrayRef> = vec![];
        let mut left: Vec<Range<usize>> = std::iter::once(0..self.schema.fields().len()).collect();
        while let Some(range) = left.pop().filter(|range| !range.is_empty()) {
            match self.column_range(bytes.clone(), range.clone())? {
                None => return Ok(None),
                Some(Ok(read)) => columns.extend(read.columns().iter().cloned()),
                Some(Err(error)) if range.len() == 1 => {
                    let field = self.schema.field(range.start);
                    columns.push(new_null_array(field.data_type(), 1));
                    wrong.push((Some(field.name().clone()), error));
                }
                Some(Err(_)) => {
                    let middle = range.start + range.len() / 2;
                    left.extend([middle..range.end, range.start..middle]);
                }
            }
        }
        Ok(Some(new_batch(self.schema.clone(), columns, 1)?))
    }

    /// Some columns of a record; `None` if that is not one row, or the format reads all or nothing.
    fn column_range(
        &self,
        bytes: Range<usize>,
        columns: Range<usize>,
    ) -> Result<Option<Result<RecordBatch>>> {
        let Some(format) = self.format.of_columns(columns.clone()) else { return Ok(None) };
        let schema = self.schema.project(&columns.collect::<Vec<_>>())?.into();
        Ok(match self.decoded((&format, 1), bytes, &schema) {
            Ok(mut read) => {
                let one = read.pop().filter(|batch| batch.num_rows() == 1 && read.is_empty());
                one.map(Ok)
            }
            Err(error) if error.kind() != Kind::Corrupt => return Err(error),
            Err(error) => Some(Err(error)),
        })
    }

    /// The line of an offset, which is not before that of the last call.
    fn line(&mut self, offset: usize) -> u64 {
        let (at, before) = self.seen;
        let passed = memchr::memchr_iter(b'\n', &self.section.bytes[at..offset]).count() as u64;
        self.seen = (offset, before + passed);
        self.section.line + before + passed
    }
}

/// The column that an error names.
fn column_of(error: &Error) -> Option<String> {
    let name = |place: &str| Some(place.strip_prefix("column `")?.strip_suffix('`')?.to_string());
    error.places().find_map(name)
}
