//! The rows of a row group that may pass a filter, by its page index: bounds of each page, beside
//! the footer.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::Schema;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
    RowGroupMetaData,
};
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::format::guarded;
use crate::parquet::bloom_filters::FileSource;
use crate::parquet::row_group::RowGroup;
use crate::parquet::row_group_bounds::{is_ordered, may_be_nan};
use crate::predicate::{self, RowPredicate, StoredBounds, compared_columns};

/// A column whose index takes more bytes in the file is not looked at.
const INDEX_BYTES_MAX: i32 = 4 << 20;

/// The ranges of rows that may pass a filter with this predicate, ascending and not empty. All rows
/// if there is no page index, or if it is damaged.
pub fn candidate_rows(
    group: &RowGroup,
    schema: &Schema,
    predicate: &RowPredicate,
) -> Vec<Range<usize>> {
    let rows = group.group().num_rows().max(0) as usize;
    let mut known: Vec<(&str, ColumnPages)> = vec![];
    for column in compared_columns(predicate) {
        let is_known = known.iter().any(|(name, _)| *name == column.name);
        // The crate panics on some damaged indexes.
        let pages = || Ok(ColumnPages::read(group, schema, &column.name).ok().flatten());
        if let (false, Some(pages)) = (is_known, guarded(pages).ok().flatten()) {
            known.push((&column.name, pages));
        }
    }
    let mut starts: Vec<usize> =
        known.iter().flat_map(|(_, pages)| pages.starts.iter().copied()).chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    let ends = starts[1..].iter().copied().chain([rows]);
    let parts: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(s, e)| s..e).collect();
    let lengths: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
    let may_pass = predicate::may_pass_each(predicate, &lengths, |name| {
        let (_, pages) = known.iter().find(|(known, _)| *known == name)?;
        pages.bounds_of(&parts)
    });
    let mut found: Vec<Range<usize>> = vec![];
    for (part, may_pass) in parts.into_iter().zip(may_pass) {
        match found.last_mut() {
            Some(last) if may_pass && last.end == part.start => last.end = part.end,
            _ if may_pass && !part.is_empty() => found.push(part),
            _ => {}
        }
    }
    found
}

/// The pages of a column.
struct ColumnPages {
    /// The first row of each page, ascending from 0.
    starts: Vec<usize>,
    /// Number of rows of the row group.
    rows: usize,
    bounds: StoredBounds,
}

impl ColumnPages {
    /// `None` if the column has no index, or is nested.
    fn read(
        group: &RowGroup,
        schema: &Schema,
        name: &str,
    ) -> Result<Option<ColumnPages>, ParquetError> {
        let of_name = |column: &ColumnChunkMetaData| {
            column.column_path().parts() == std::slice::from_ref(&name.to_string())
        };
        let Some(leaf) = group.group().columns().iter().position(of_name) else { return Ok(None) };
        let chunk = group.group().column(leaf);
        let lengths = [chunk.column_index_length(), chunk.offset_index_length()];
        let are_fitting =
            lengths.iter().all(|length| length.is_some_and(|it| it <= INDEX_BYTES_MAX));
        if !are_fitting || !is_ordered(&group.metadata, leaf) {
            return Ok(None);
        }
        let alone = alone(group, leaf)?;
        let source = FileSource(group.blob.clone());
        let with_index = |columns: PageIndexPolicy, offsets: PageIndexPolicy| {
            let mut reader = ParquetMetaDataReader::new_with_metadata(alone.clone())
                .with_column_index_policy(columns)
                .with_offset_index_policy(offsets);
            reader.read_page_indexes(&source)?;
            reader.finish()
        };
        // One after the other, as the indexes of all other columns lie between them.
        let bounds = with_index(PageIndexPolicy::Required, PageIndexPolicy::Skip)?;
        let offsets = with_index(PageIndexPolicy::Skip, PageIndexPolicy::Required)?;
        let (Some(bounds), Some(offsets)) = (bounds.column_index(), offsets.offset_index()) else {
            return Ok(None);
        };
        let rows = group.group().num_rows();
        let pages = offsets[0][0].page_locations();
        let is_start = |start: i64| (0..rows.max(1)).contains(&start);
        let starts: Vec<usize> = pages
            .iter()
            .map(|page| page.first_row_index)
            .filter(|start| is_start(*start))
            .map(|start| start as usize)
            .collect();
        let is_ascending = starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b);
        if !is_ascending || starts.len() != pages.len() {
            return Ok(None);
        }
        let converter =
            StatisticsConverter::try_new(name, schema, alone.file_metadata().schema_descr())?;
        let least = converter.data_page_mins(bounds, offsets, [&0])?;
        let greatest = converter.data_page_maxes(bounds, offsets, [&0])?;
        let nulls = converter.data_page_null_counts(bounds, offsets, [&0])?;
        let may_be_nan = may_be_nan(schema, name);
        let bounds = StoredBounds { least, greatest, nulls, may_be_nan };
        Ok(Some(ColumnPages { starts, rows: rows as usize, bounds }))
    }

    /// The bounds of these ranges of rows, each of which lies in one page; `None` if there are not
    /// as many bounds as pages. A page that has some nulls may have all of them in one range.
    fn bounds_of(&self, parts: &[Range<usize>]) -> Option<StoredBounds> {
        let StoredBounds { least, greatest, nulls, may_be_nan } = &self.bounds;
        if [least.len(), greatest.len(), nulls.len()] != [self.starts.len(); 3] {
            return None;
        }
        let page_of =
            |part: &Range<usize>| self.starts.partition_point(|start| *start <= part.start) - 1;
        let page_rows = |page: usize| {
            let end = self.starts.get(page + 1).copied().unwrap_or(self.rows);
            (end - self.starts[page]) as u64
        };
        let of_part = |part: &Range<usize>| {
            let page = page_of(part);
            match nulls.is_valid(page).then(|| nulls.value(page))? {
                0 => Some(0),
                all if all == page_rows(page) => Some(part.len() as u64),
                _ => None,
            }
        };
        let pages: UInt32Array = parts.iter().map(|part| page_of(part) as u32).collect();
        Some(StoredBounds {
            least: take(least, &pages, None).ok()?,
            greatest: take(greatest, &pages, None).ok()?,
            nulls: parts.iter().map(of_part).collect(),
            may_be_nan: *may_be_nan,
        })
    }
}

/// The metadata of a file that has this column of this row group alone.
fn alone(group: &RowGroup, leaf: usize) -> Result<ParquetMetaData, ParquetError> {
    let file = group.metadata.file_metadata();
    let root = file.schema_descr().get_column_root_ptr(leaf);
    let schema = Type::group_type_builder("schema").with_fields(vec![root]).build()?;
    let descr = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
    let rows = group.group().num_rows();
    let columns = RowGroupMetaData::builder(descr.clone())
        .set_num_rows(rows)
        .set_column_metadata(vec![group.group().column(leaf).clone()])
        .build()?;
    let file = FileMetaData::new(file.version(), rows, None, None, descr, None);
    Ok(ParquetMetaData::new(file, vec![columns]))
}
