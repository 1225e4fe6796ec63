//! Opens many files of one format as one table, which is read in splits.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use euphrates_flow::{Error, Result};
use euphrates_policy::predicate::Predicate;

use self::row_filter::{FileTest, RowFilter, RowMatcher};
use crate::format::{Format, OpenedFile, SplitPart, at};
use crate::options::ReadOptions;
use crate::predicate::RowPredicate;
use crate::stream::SplitBatches;
use crate::text::limits::ReadLimits;
use crate::text::source::compression_error_or;
use euphrates_device::location::FileRef;

mod common_schema;
mod divided_splits;
mod file_columns;
pub mod hive;
mod hive_columns;
mod narrowing;
pub(crate) mod opening;
mod ordering;
pub(crate) mod row_filter;

use self::common_schema::schema_of_all;
use self::file_columns::{FileColumns, SourceFile};
use self::hive_columns::HiveColumns;
use self::opening::{files_and_format, may_be_packed, open_all, opened_after};

/// A table in files. It holds no file descriptors and no data beyond footers.
pub struct Dataset {
    schema: SchemaRef,
    /// The schema of all columns; `schema` may have fewer.
    all: SchemaRef,
    files: Vec<(FileRef, Arc<dyn OpenedFile>)>,
    /// Number of files of the paths; `files` has fewer if others cannot match.
    files_all: usize,
    /// The columns in the names of folders.
    hive: HiveColumns,
    splits: Vec<Split>,
    /// The number of splits in the files; `splits` has fewer if others are skipped.
    splits_all: usize,
    /// The number of splits that are skipped.
    splits_skipped: usize,
    /// Rows that do not pass it need not be read.
    predicate: Option<RowPredicate>,
    row_filter: Option<Arc<RowFilter>>,
    /// The number of splits that were not read when their turn had come.
    passed_over: AtomicUsize,
    /// Prefix sums of split sizes in bytes, with the total last; the splits of a file share its
    /// bytes evenly. Computed on demand: footers with many columns take a while to add up.
    before: OnceLock<Vec<u64>>,
    /// For each file, a value that changes when the file is rewritten.
    versions: Vec<String>,
    /// Whether column types are inferred from samples.
    infers: bool,
    /// Whether any file may have any column.
    is_open: bool,
    /// Whether rows can be counted without reading a column.
    counts_rows: bool,
    /// Whether rows that do not match the filter are left out.
    selects_rows: bool,
    /// Whether files may be compressed as a whole.
    may_be_packed: bool,
}

/// A part of the table that one reader reads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Split {
    file: usize,
    part: SplitPart,
    /// The number of parts of the file's split.
    parts: usize,
}

impl Dataset {
    /// Finds and opens the files. Errors name the file, and the column if one is at fault.
    ///
    /// ```
    /// use euphrates_formats::{Dataset, ReadLimits, ReadOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("towns.csv");
    /// std::fs::write(&path, "name,people\nAssur,30000\nMari,25000\n")?;
    /// let paths = [path.to_string_lossy().into_owned()];
    /// let towns = Dataset::open(&paths, &ReadOptions::default())?;
    /// assert_eq!(towns.schema().field(1).to_string(), r#"Field { "people": nullable Int64 }"#);
    /// let mut batches = towns.read(0, &ReadLimits::default())?;
    /// assert_eq!(batches.next().expect("one batch")?.num_rows(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(paths: &[String], options: &ReadOptions) -> Result<Dataset> {
        Dataset::open_matching(paths, options, None)
    }

    /// Like `open`, without files of which no row passes a filter, judged by the values in the
    /// names of their folders. `predicate_of` makes the predicate of the filter for these columns.
    /// The first file is opened in any case, and all others with `union_by_name`.
    pub fn open_matching(
        paths: &[String],
        options: &ReadOptions,
        predicate_of: Option<&dyn Fn(&Schema) -> RowPredicate>,
    ) -> Result<Dataset> {
        let (files, format) = files_and_format(paths, options)?;
        options.check(format)?;
        let files_all = files.len();
        let hive = HiveColumns::of(&files, options)?;
        let first = open_all(&files[..1], format, options)?;
        let hive = hive.without(|name| first[0].schema().index_of(name).is_ok());
        let kept: Vec<usize> = match predicate_of.filter(|_| hive.fields().next().is_some()) {
            None => (0..files.len()).collect(),
            Some(predicate_of) => {
                let schema = schema_of_all(&files[..1], &first, &hive, format, options)?;
                let may_pass = hive.may_pass(&predicate_of(&schema)).into_iter().enumerate();
                may_pass.filter_map(|(file, may_pass)| may_pass.then_some(file)).collect()
            }
        };
        let kept: Vec<usize> = kept.into_iter().filter(|it| options.wants(&files[*it])).collect();
        let (schema, files) = match options.union_by_name {
            // Columns of files that are left out belong to the table.
            Some(true) => {
                let opened = opened_after(first, &files, format, options)?;
                let schema = schema_of_all(&files, &opened, &hive, format, options)?;
                let kept = kept.iter().map(|file| (files[*file].clone(), opened[*file].clone()));
                (schema, kept.collect::<Vec<_>>())
            }
            _ => {
                let rest = kept.iter().filter(|file| **file > 0).map(|file| files[*file].clone());
                let read: Vec<FileRef> = files.iter().take(1).cloned().chain(rest).collect();
                let opened = opened_after(first, &read, format, options)?;
                let schema = schema_of_all(&read, &opened, &hive, format, options)?;
                let is_first_left_out = kept.first() != Some(&0);
                let read = read.into_iter().zip(opened).skip(usize::from(is_first_left_out));
                (schema, read.collect())
            }
        };
        let hive = hive.of_files(&kept)?;
        Ok(Dataset::new(schema, files, (hive, files_all), (format, options)))
    }

    fn new(
        schema: SchemaRef,
        files: Vec<(FileRef, Arc<dyn OpenedFile>)>,
        (hive, files_all): (HiveColumns, usize),
        (format, options): (&'static dyn Format, &ReadOptions),
    ) -> Dataset {
        let of_file = |(file, opened): (usize, &(FileRef, Arc<dyn OpenedFile>))| {
            let whole = |split| SplitPart { split, rows: None };
            (0..opened.1.splits()).map(move |split| Split { file, part: whole(split), parts: 1 })
        };
        let splits: Vec<Split> = files.iter().enumerate().flat_map(of_file).collect();
        Dataset {
            all: schema.clone(),
            schema,
            versions: files.iter().map(|(file, _)| file.version()).collect(),
            hive,
            files,
            files_all,
            splits_all: splits.len(),
            splits_skipped: 0,
            splits,
            predicate: None,
            row_filter: None,
            passed_over: AtomicUsize::new(0),
            before: OnceLock::new(),
            infers: format.about().infers_types,
            is_open: format.about().records_omit_columns,
            counts_rows: format.about().counts_rows,
            selects_rows: format.about().selects_rows,
            may_be_packed: may_be_packed(format, options),
        }
    }

    /// The same table without splits of which no row passes a filter with this predicate, as far as
    /// files tell without being read again. `read` makes nothing of those for which they tell more.
    pub fn skipping(mut self, predicate: RowPredicate) -> Dataset {
        let mut may_pass = self.may_pass(&predicate).into_iter();
        self.splits.retain(|_| may_pass.next().unwrap_or(true));
        let splits_skipped = self.splits_all - self.splits.len();
        Dataset { before: OnceLock::new(), predicate: Some(predicate), splits_skipped, ..self }
    }

    /// The same table, of which rows that do not match need not be read; `read` may return some of
    /// them. A filter whose first test sees all columns changes nothing: nothing else is left to be
    /// decoded.
    pub fn filtered(self, filter: RowFilter) -> Dataset {
        let all = self.schema.fields().len();
        let is_partial = filter.tests.iter().any(|test| test.columns.len() < all);
        Dataset { row_filter: is_partial.then(|| Arc::new(filter)), ..self }
    }

    /// Whether rows can be left out by some of their columns before the others are decoded.
    pub fn selects_rows(&self) -> bool {
        self.selects_rows
    }

    /// The columns by which `read` leaves out rows; empty if it leaves out none.
    pub fn filtered_by(&self) -> Vec<usize> {
        let filter = self.row_filter.as_ref().filter(|_| self.selects_rows);
        filter.map_or(vec![], |filter| filter.columns())
    }

    /// Whether a column, by position, is in the names of folders alone.
    pub fn is_in_path(&self, column: usize) -> bool {
        self.hive.has(self.schema.field(column).name())
    }

    /// The schema of all columns of the table.
    pub fn all_columns(&self) -> &SchemaRef {
        &self.all
    }

    /// The schema of every batch that `read` returns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of splits: file by file, each from front to back.
    pub fn splits(&self) -> usize {
        self.splits.len()
    }

    /// Number of splits in the files, with those that are skipped.
    pub fn splits_all(&self) -> usize {
        self.splits_all
    }

    /// Number of files, and of those in the paths with those that the names of their folders leave
    /// out.
    pub fn file_counts(&self) -> (usize, usize) {
        (self.files.len(), self.files_all)
    }

    /// Number of splits that `read` has made nothing of, since no row passes the filter.
    pub fn passed_over(&self) -> usize {
        self.passed_over.load(Relaxed)
    }

    /// Approximate bytes of the files in these splits.
    pub fn weight(&self, splits: Range<usize>) -> u64 {
        let before = self.bytes_before();
        before[splits.end] - before[splits.start]
    }

    /// The file of a split, and the offset where the split begins there.
    pub fn place(&self, split: usize) -> (&str, u64) {
        let Split { file, part, .. } = &self.splits[split];
        let (file, opened) = &self.files[*file];
        (&file.name, opened.split_begin(part.split))
    }

    /// Bytes that will be read; `None` if one of the files does not know.
    pub fn bytes(&self) -> Option<u64> {
        match self.splits_skipped == 0 {
            true => self.files.iter().map(|(_, opened)| opened.bytes()).sum(),
            false => self.bytes_before().last().copied(),
        }
    }

    /// Bytes before each split, and before the end.
    fn bytes_before(&self) -> &[u64] {
        self.before.get_or_init(|| {
            let bytes = |(_, opened): &(FileRef, Arc<dyn OpenedFile>)| {
                opened.bytes().unwrap_or(0) / opened.splits().max(1) as u64
            };
            let bytes: Vec<u64> = self.files.iter().map(bytes).collect();
            let mut before = vec![0];
            for split in &self.splits {
                before.push(before[before.len() - 1] + bytes[split.file] / split.parts as u64);
            }
            before
        })
    }

    /// Identifies the table among others: its files, their lengths where these are local, and the
    /// number of splits.
    ///
    /// ```
    /// use euphrates_formats::{Dataset, ReadOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("towns.csv");
    /// let identity = |text: &str| -> Result<String, Box<dyn std::error::Error>> {
    ///     std::fs::write(&path, text)?;
    ///     let paths = [path.to_string_lossy().into_owned()];
    ///     Ok(Dataset::open(&paths, &ReadOptions::default())?.identity())
    /// };
    /// assert_ne!(identity("name\nAssur\n")?, identity("name\nAssur\nMari\n")?, "rewritten");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity(&self) -> String {
        let mut splits = vec![0; self.files.len()];
        self.splits.iter().for_each(|split| splits[split.file] += 1);
        let one = |((file, _), splits): (&(FileRef, Arc<dyn OpenedFile>), usize)| {
            format!("{}: {} bytes, {splits} splits", file.standing(), file.bytes())
        };
        self.files.iter().zip(splits).map(one).collect::<Vec<_>>().join("; ")
    }

    /// `identity` plus the time each file was written, as of `open`, so that it changes when a file
    /// is rewritten. Other machines may have copies that were written at another time.
    ///
    /// ```
    /// use euphrates_formats::{Dataset, ReadOptions};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("n.csv");
    /// std::fs::write(&path, "n\n7\n")?;
    /// let open = || Dataset::open(&[path.to_string_lossy().into()], &ReadOptions::default());
    /// let before = open()?;
    /// std::fs::File::options().write(true).open(&path)?.set_modified(std::time::UNIX_EPOCH)?;
    /// assert_eq!(open()?.identity(), before.identity());
    /// assert_ne!(open()?.version(), before.version(), "it was written at another time");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn version(&self) -> String {
        format!("{} ({})", self.identity(), self.versions.join("; "))
    }

    /// The keys of `key=value` folders in the paths of files (`year` of `year=2024/`) that are no
    /// columns.
    pub fn named_folders(&self) -> Vec<String> {
        let mut names: Vec<String> = vec![];
        for (file, _) in &self.files {
            let folders = file.name.rsplit_once('/').map_or("", |(folders, _)| folders).split('/');
            for (name, _) in folders.filter_map(|folder| folder.split_once('=')) {
                let known = self.all.field_with_name(name).is_ok();
                if !known && !names.iter().any(|other| other == name) {
                    names.push(name.into());
                }
            }
        }
        names
    }

    /// Approximate memory while a split is read, in bytes, beyond a few batches.
    pub fn bytes_held(&self) -> u64 {
        let held = self.files.iter().map(|(_, opened)| opened.held_bytes(&self.schema));
        held.max().unwrap_or(0)
    }

    /// For each split, whether any of its rows may pass a filter with this predicate, as far as the
    /// files tell without being read again.
    pub fn may_pass(&self, predicate: &RowPredicate) -> Vec<bool> {
        let files = self
            .files
            .iter()
            .map(|(_, opened)| Some(opened.statistics()?.may_pass(0..opened.splits(), predicate)));
        let may_pass: Vec<Option<Vec<bool>>> = files.collect();
        let by_path = self.hive.may_pass(predicate);
        let one = |split: &Split| {
            by_path.get(split.file) != Some(&false)
                && may_pass[split.file].as_ref().is_none_or(|it| it[split.part.split])
        };
        self.splits.iter().map(one).collect()
    }

    /// Like `may_pass`, for one split.
    pub fn may_pass_split(&self, split: usize, predicate: &RowPredicate) -> bool {
        let Split { file, part, .. } = &self.splits[split];
        let statistics = self.files[*file].1.statistics();
        let of_file = part.split..part.split + 1;
        statistics.is_none_or(|known| known.may_pass(of_file, predicate)[0])
    }

    /// Reads a split. Several threads may call it, also for the same split. A resource error if it
    /// would hold more than the limits.
    pub fn read(&self, split: usize, limits: &ReadLimits) -> Result<SplitBatches> {
        self.read_filtered(split, limits, self.row_filter.clone())
    }

    /// Like `read`, with this filter in place of that of `filtered`.
    pub fn read_filtered(
        &self,
        split: usize,
        limits: &ReadLimits,
        filter: Option<Arc<RowFilter>>,
    ) -> Result<SplitBatches> {
        let is_first_part = self.is_first_part(split);
        let Split { file: number, part, .. } = &self.splits[split];
        let number = *number;
        let (file, opened) = &self.files[number];
        let (file, is_packed) = (file.clone(), self.may_be_packed);
        let placed = move |error: Error| match is_packed {
            true => at(compression_error_or(error, &file), &file.name),
            false => at(error, &file.name),
        };
        if let Some(predicate) = &self.predicate
            && let Some(statistics) = opened.statistics()
            && !statistics.may_pass_any(part.split, predicate).map_err(&placed)?
        {
            self.passed_over.fetch_add(usize::from(is_first_part), Relaxed);
            return Ok(Box::new(std::iter::empty()));
        }
        let columns = self.file_columns(&self.schema, number)?;
        let matcher = filter.map(|filter| self.matcher(&filter, number)).transpose()?.flatten();
        let batches = match matcher {
            None => opened.read(part, &columns.own, limits),
            Some(matcher) => opened.read_matching(part, &columns.own, limits, matcher),
        };
        let batches = batches.map_err(&placed)?;
        let batches = batches.map(move |batch| columns.complete(&batch?));
        Ok(Box::new(batches.map(move |batch| batch.map_err(&placed))))
    }

    /// Decides about rows of a file; `None` if no test sees any of the file's own columns.
    fn matcher(&self, filter: &Arc<RowFilter>, file: usize) -> Result<Option<RowMatcher>> {
        let table = Arc::new(self.schema.project(&filter.columns())?);
        let columns = self.file_columns(&table, file)?.own;
        let mut tests = vec![];
        for (at, test) in filter.tests.iter().enumerate() {
            let table = Arc::new(self.schema.project(&test.columns)?);
            let seen = self.file_columns(&table, file)?;
            if table.fields().iter().all(|field| self.hive.has(field.name())) {
                continue;
            }
            let position = |field: &FieldRef| columns.index_of(field.name()).ok();
            let own: Option<Vec<usize>> = seen.own.fields().iter().map(position).collect();
            let Some(own) = own.filter(|own| !own.is_empty()) else { continue };
            let filter = filter.clone();
            tests.push(FileTest {
                columns: own,
                rate: test.rate.clone(),
                cost_bytes: test.cost_bytes,
                matches: Box::new(move |batch| {
                    (filter.tests[at].matches)(&seen.complete_coded(batch)?)
                }),
            });
        }
        let predicates = [&self.predicate, &filter.predicate].into_iter().flatten().cloned();
        let predicate = predicates.reduce(|one, other| Predicate::All(vec![one, other]));
        let tightens = filter.tightens;
        Ok((!tests.is_empty()).then_some(RowMatcher { columns, tests, predicate, tightens }))
    }

    /// Where these columns of the table come from in a file.
    fn file_columns(&self, table: &SchemaRef, file: usize) -> Result<FileColumns> {
        let schema = self.files[file].1.schema();
        // A file without columns is empty, or its records are taken as they are.
        let is_open = self.is_open || (self.infers && schema.fields().is_empty());
        let (infers, counts_rows) = (self.infers, self.counts_rows);
        let facts = SourceFile { schema, infers, is_open, counts_rows };
        FileColumns::new(table, &facts, |name| self.hive.value(name, file))
    }
}
