//! Reads files: Parquet, CSV, JSON, Arrow IPC, benchmark records, text.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::datatypes::Schema;
use euphrates_flow::module::{
    Bound, Configure, ExternalInput, Inputs, InstanceFactory, OutputOrder, RowCondition,
};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{Module, ModuleSpec, Ports, Result, Setup};
use euphrates_formats::predicate::RowPredicate;
use euphrates_formats::{Dataset, ReadLimits, ReadOptions, RowFilter, parse_read_compression};
use euphrates_policy::memory::{readers, record_bytes_max};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::coordination::source_splits::{Splits, read_splits};
use crate::expression::PushedCondition;
use crate::key_filters::split_filter::SplitFilter;
use crate::rebase_path::rebase;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "scan",
    summary: "Reads files: Parquet, CSV, JSON, Arrow IPC, records, lines.",
    detail: "Columns of several files are matched by their names: one that a file lacks is null \
             there, and numbers are widened. Names of folders like `year=2024/` are columns, too: \
             integers, dates or texts, as all their values allow; a `filter` on them leaves out \
             files before these are opened. Files are read in splits (row groups, or ranges \
             of 16 MiB), and each instance takes the next split when it has finished one. Text \
             that is compressed (`.csv.gz`, `.bz2`, `.zst`) or not UTF-8, JSON that is not one \
             object a line, and CSV with comments or escapes are one split a file. If \
             `columns` is absent, those that no module after it reads are left out. Row groups of \
             Parquet files are skipped if no row of them can pass the `filter`s behind it, by \
             their statistics: minimum, maximum and number of nulls. A `join` behind it has \
             rows left out whose keys match nothing.",
    example: r#">>> with open("cities.csv", "w") as file:
...     print("city,founded", "Ur,-3800", "Uruk,-4000", sep="\n", file=file)
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.scan("cities.csv", columns=["city"], order=True), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Uruk']}"#,
    inputs: NONE,
    config_schema: spec::schema_of::<Config>,
    configure: |given| Ok(Arc::new(Scan { config: spec::parse_config(given.clone())?, given })),
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// A file, a pattern (`data/*.parquet`, `**`), a folder, a URL (`s3://bucket/key`, `gs://`,
    /// `az://`), or a list of them.
    pub(crate) path: Paths,
    /// `parquet`, `csv`, `json_lines` (also arrays, and objects over several lines), `arrow_ipc`,
    /// `records` (100 bytes, as gensort makes them) or `lines`; told from the extension if absent.
    #[serde(default)]
    pub(crate) format: Option<String>,
    /// The columns to read, in this order; all if absent.
    #[serde(default)]
    pub(crate) columns: Option<Vec<String>>,
    /// Keep the order of the records: file by file, each from front to back.
    #[serde(default)]
    pub(crate) order: bool,
    /// CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    #[serde(default)]
    pub(crate) delimiter: Option<char>,
    /// CSV: whether the first line names the columns; it does if absent.
    #[serde(default)]
    pub(crate) header: Option<bool>,
    /// CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from the
    /// first records.
    #[serde(default)]
    pub(crate) types: Option<BTreeMap<String, String>>,
    /// CSV: the character around fields that may hold anything, `"` if absent; none if empty.
    #[serde(default)]
    pub(crate) quote: Option<String>,
    /// CSV: the character behind which any other is itself; if absent, a quote within quotes is
    /// doubled.
    #[serde(default)]
    pub(crate) escape: Option<char>,
    /// CSV: the character with which comments begin, which end with their line.
    #[serde(default)]
    pub(crate) comment: Option<char>,
    /// CSV: how many lines to pass over at the beginning, before the header.
    #[serde(default)]
    pub(crate) skip_rows: Option<usize>,
    /// CSV: fields without quotes that are nulls, like `["NA", ""]`; the empty one if absent.
    #[serde(default)]
    pub(crate) null_values: Option<Vec<String>>,
    /// CSV, JSON and lines: the encoding of the text, like `latin-1` or `utf-16`; UTF-8 if absent,
    /// or what a mark at its beginning says.
    #[serde(default)]
    pub(crate) encoding: Option<String>,
    /// Text and records: `none` says that they are not compressed, although their first bytes or
    /// their name look like it.
    #[serde(default)]
    pub(crate) compression: Option<String>,
    /// Whether names of folders like `year=2024/` are columns; if absent, they are where there are
    /// any. With `true`, there must be some.
    #[serde(default)]
    pub(crate) hive: Option<bool>,
    /// Which columns are read if files have different ones: `true` for those of all files, `false`
    /// for those of the first. If absent, a file may have fewer columns than the first, but no
    /// others.
    #[serde(default)]
    pub(crate) union_by_name: Option<bool>,
}

/// One path or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Paths {
    /// A file, pattern, folder or URL.
    One(String),
    /// Several, read as one table.
    Several(Vec<String>),
}

struct Scan {
    /// The configuration as given.
    given: Value,
    config: Config,
}

impl Scan {
    fn open(&self, condition: &RowCondition) -> Result<Dataset> {
        let paths = match &self.config.path {
            Paths::One(path) => vec![path.clone()],
            Paths::Several(paths) => paths.clone(),
        };
        let options = ReadOptions {
            format: self.config.format.clone(),
            columns: self.config.columns.clone(),
            delimiter: self.config.delimiter,
            header: self.config.header,
            types: self.config.types.clone(),
            quote: self.config.quote.clone(),
            escape: self.config.escape,
            comment: self.config.comment,
            skip_rows: self.config.skip_rows,
            null_values: self.config.null_values.clone(),
            encoding: self.config.encoding.clone(),
            is_uncompressed: parse_read_compression(self.config.compression.as_deref())?,
            hive: self.config.hive,
            union_by_name: self.config.union_by_name,
        };
        let predicate_of = |schema: &Schema| PushedCondition::new(condition, schema).predicate;
        let is_filtered = *condition != RowCondition::TRUE;
        let predicate_of: Option<&dyn Fn(&Schema) -> RowPredicate> =
            if is_filtered { Some(&predicate_of) } else { None };
        Dataset::open_matching(&paths, &options, predicate_of)
    }
}

impl Configure for Scan {
    fn rebased(&self, folder: &Path) -> Option<Value> {
        let mut config = self.given.clone();
        match config.get_mut("path")? {
            Value::Array(paths) => paths.iter_mut().for_each(|path| rebase(path, folder)),
            path => rebase(path, folder),
        }
        Some(config)
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let mut dataset = self.open(inputs.condition)?;
        // Columns that are asked for are read, whatever becomes of them.
        let needed = inputs.needed.filter(|_| self.config.columns.is_none());
        if let Some(read) = needed.and_then(|needed| needed.columns_of(dataset.schema())) {
            dataset = dataset.narrowed(&read)?;
        }
        if let Some(needed) = inputs.needed {
            dataset = dataset.encoded(|name| needed.may_be_encoded(name));
        }
        let mut extent = columns_read(&dataset);
        let (mut condition, mut matched_by) = (None, inputs.matched_by);
        if *inputs.condition != RowCondition::TRUE {
            let PushedCondition { predicate, expression, is_infallible } =
                PushedCondition::new(inputs.condition, dataset.schema());
            dataset = dataset.skipping(predicate);
            // A filter must not lose the row on which it fails.
            if !is_infallible {
                matched_by = &[];
            }
            condition = expression.map(Arc::new);
            if let Some(expression) = condition.clone() {
                dataset = dataset.filtered(RowFilter {
                    columns: expression.columns().to_vec(),
                    matches: Box::new(move |batch| expression.matches_columns(batch)),
                });
            }
            extent
                .extend(files_left_out(&dataset).map(|it| format!("{it} by {}", inputs.condition)));
            extent.extend(decoded_first(&dataset));
            let skipped = skipped(&dataset).map(|it| format!("{it} by {}", inputs.condition));
            extent.extend(skipped);
        }
        let extent = Some(extent.join("; ")).filter(|extent| !extent.is_empty());
        let keys = SplitFilter::new(&dataset, matched_by, condition);
        let (dataset, order) = (Arc::new(dataset), self.config.order);
        let schema = dataset.schema().clone();
        let (bytes_expected, splits) = (dataset.bytes(), dataset.splits().max(1));
        let scanning = Arc::new(Scanning { dataset, order, keys, instances: AtomicUsize::new(0) });
        Ok(Bound {
            order: OutputOrder::numbered(order),
            bytes_expected,
            instances_max: Some(splits),
            extent,
            source: Some(scanning.clone()),
            ..Bound::shared([schema], scanning)
        })
    }
}

/// The files that the instances read.
struct Scanning {
    dataset: Arc<Dataset>,
    order: bool,
    /// The keys of joins that need no other rows.
    keys: Option<SplitFilter>,
    /// The number of instances made in this process.
    instances: AtomicUsize,
}

impl ExternalInput for Scanning {
    fn identity(&self) -> String {
        self.dataset.identity()
    }

    fn version(&self) -> String {
        self.dataset.version()
    }
}

impl InstanceFactory for Scanning {
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let dataset = self.dataset.clone();
        let here = setup.instances_here.max(1);
        let (readers, held_bytes_max) = readers(setup.budget_bytes, dataset.bytes_held(), here);
        let record_bytes_max = record_bytes_max(setup.row_bytes_max);
        let limits = ReadLimits { held_bytes_max, record_bytes_max };
        let nth = self.instances.fetch_add(1, Relaxed) % here;
        // If work is assigned in advance, every instance has splits that no other reads.
        let is_idle = nth >= readers && !setup.is_statically_divided;
        self.keys.iter().for_each(SplitFilter::attach);
        Ok(Box::new(move |ports: &mut Ports| {
            if is_idle {
                return Ok(());
            }
            self.keys.as_ref().map_or(Ok(()), |keys| keys.wait(ports))?;
            let read = |split| match &self.keys {
                Some(keys) => keys.read(&dataset, split, &limits),
                None => dataset.read(split, &limits),
            };
            let weigh = |parts| match &self.keys {
                Some(keys) => keys.weight(&dataset, parts),
                None => dataset.weight(parts),
            };
            let parts = Splits { count: dataset.splits(), weigh };
            read_splits(ports, parts, self.order, read)
        }))
    }

    fn remark(&self) -> Option<String> {
        let names = self.dataset.named_folders().join(", ");
        let names = (!names.is_empty())
            .then(|| format!("{names}: in names of folders only, so not among the columns"));
        let read = columns_read(&self.dataset).into_iter();
        let read = read.chain(files_left_out(&self.dataset)).chain(skipped(&self.dataset));
        let over = self.dataset.passed_over();
        let over = (over > 0).then(|| format!("skipped {over} row groups by Bloom filters"));
        let by_keys = self.keys.iter().flat_map(|keys| keys.remarks(&self.dataset));
        let remarks: Vec<String> = read.chain(over).chain(by_keys).chain(names).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}

fn columns_read(dataset: &Dataset) -> Vec<String> {
    let (read, all) = (dataset.schema().fields().len(), dataset.all_columns().fields().len());
    (read < all).then(|| format!("read {read} of {all} columns")).into_iter().collect()
}

/// The columns by which rows are left out before the others are decoded.
fn decoded_first(dataset: &Dataset) -> Option<String> {
    let name = |column: &usize| dataset.schema().field(*column).name().as_str();
    let names: Vec<&str> = dataset
        .filtered_by()
        .iter()
        .filter(|column| !dataset.is_in_path(**column))
        .map(name)
        .collect();
    (!names.is_empty()).then(|| format!("decode {} first", names.join(", ")))
}

fn files_left_out(dataset: &Dataset) -> Option<String> {
    let (files, all) = dataset.file_counts();
    (files < all).then(|| format!("skipped {} of {all} files", all - files))
}

fn skipped(dataset: &Dataset) -> Option<String> {
    let (splits, all) = (dataset.splits(), dataset.splits_all());
    (splits < all).then(|| format!("skipped {} of {all} row groups", all - splits))
}
