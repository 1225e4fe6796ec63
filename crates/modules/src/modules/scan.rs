//! Reads files: Parquet, CSV, JSON, Arrow IPC, benchmark records, text.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::datatypes::Schema;
use euphrates_device::read_cache::RemoteReads;
use euphrates_device::storage_options::StorageOptions;
use euphrates_flow::module::{
    Bound, Configure, ExchangeServer, ExternalInput, Inputs, InstanceFactory, Interface,
    OutputOrder, REJECTED, RowCondition, Sink, UnitPlan,
};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{InputOrder, Module, ModuleSpec, Ports, Result, Setup, Shape};
use euphrates_formats::predicate::RowPredicate;
use euphrates_formats::rejects::{ErrorPolicy, RejectedRecords};
use euphrates_formats::{
    Dataset, ReadLimits, ReadOptions, RowFilter, files_of, parse_read_compression,
};
use euphrates_policy::memory::{readers, record_bytes_max};
use euphrates_store::striped::with_files_of;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::coordination::source_splits::{Splits, read_splits};
use crate::expression::PushedCondition;
use crate::key_filters::split_filter::{ConditionTerm, SplitFilter, best_splits_first};
use crate::rebase_path::{rebase, rebase_home};
use crate::scanning::cache_peers::SharedCache;
use crate::scanning::config::{Config, OnlyNew, Paths};
use crate::scanning::extent::{columns_read, decoded_first, files_left_out, skipped};
use crate::scanning::processed_files::{ProcessedFiles, new_files};
use crate::scanning::rejected_rows::{self, Rejecting};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "scan",
    summary: "Reads files: Parquet, CSV, JSON, Arrow IPC, records, lines.",
    detail: "Columns of several files are matched by their names: one that a file lacks is null \
             there, and numbers are widened. Names of folders like `year=2024/` are columns, too: \
             integers, dates or texts, as all their values allow; a `filter` on them leaves out \
             files before these are opened. Files are read in splits (row groups, ranges of rows \
             where these are few, or ranges of 16 MiB), and each instance takes the next split \
             when it has finished one. Text \
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
    configure: |given| {
        let config: Config = spec::parse_config(given.clone())?;
        let (on_error, rejects) = (config.on_error.as_deref(), config.rejects.as_deref());
        let policy = rejected_rows::policy(on_error, config.errors_max, rejects)?;
        Ok(Arc::new(Scan { config, given, policy }))
    },
    ..ModuleSpec::USUAL
};

struct Scan {
    /// The configuration as given.
    given: Value,
    config: Config,
    policy: Option<ErrorPolicy>,
}

impl Scan {
    fn paths(&self) -> Vec<String> {
        match &self.config.path {
            Paths::One(path) => vec![path.clone()],
            Paths::Several(paths) => paths.clone(),
        }
    }

    /// The names of new files, and of their state.
    fn only_new(&self, home: &Path) -> Result<Option<(String, BTreeSet<String>)>> {
        Ok(match &self.config.only_new {
            None => None,
            Some(OnlyNew::Found { name, files }) => Some((name.clone(), files.clone())),
            Some(OnlyNew::Name(name)) => {
                let files = files_of(&self.paths(), &self.options(home, None)?)?;
                Some((name.clone(), new_files(home, name, files)?))
            }
        })
    }

    /// The state that this run publishes.
    fn processed(&self, home: &Path, name: &str, new: &BTreeSet<String>) -> Result<ProcessedFiles> {
        let files = files_of(&self.paths(), &self.options(home, None)?)?;
        let files = files.into_iter().filter(|(file, _)| new.contains(file)).collect();
        let (home, name) = (home.to_path_buf(), name.to_string());
        Ok(ProcessedFiles { home, name, files, staged: Mutex::default() })
    }

    fn open(&self, condition: &RowCondition, options: &ReadOptions) -> Result<Dataset> {
        let predicate_of = |schema: &Schema| PushedCondition::new(condition, schema).predicate;
        let is_filtered = *condition != RowCondition::TRUE;
        let predicate_of: Option<&dyn Fn(&Schema) -> RowPredicate> =
            if is_filtered { Some(&predicate_of) } else { None };
        Dataset::open_matching(&self.paths(), options, predicate_of)
    }

    fn options(&self, home: &Path, only: Option<BTreeSet<String>>) -> Result<ReadOptions> {
        let storage = self.config.storage_options.clone().unwrap_or_default();
        Ok(ReadOptions {
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
            hive_types: self.config.hive_types.clone(),
            union_by_name: self.config.union_by_name,
            on_error: self.policy.clone(),
            only,
            storage: with_files_of(home, StorageOptions::new(storage)?),
        })
    }
}

impl Configure for Scan {
    fn interface(&self) -> Interface {
        let in_order = self.given.get("order").is_none().then(|| {
            let mut config = self.given.clone();
            config["order"] = true.into();
            config
        });
        let Some(rejects) = &self.config.rejects else {
            return Interface { in_order, ..Interface::default() };
        };
        let outputs = vec!["out".to_string(), REJECTED.to_string()];
        let shape = Shape { inputs: vec![], outputs, order: InputOrder::Any, parallel: true };
        let rejects_to = Some(rejected_rows::sink(rejects));
        Interface { shape: Some(shape), rejects_to, in_order, ..Interface::default() }
    }

    fn resolved(&self, _: &[Option<u64>], home: &Path) -> Result<Option<Value>> {
        let Some(OnlyNew::Name(_)) = &self.config.only_new else { return Ok(None) };
        let found = self.only_new(home)?.map(|(name, files)| json!({"name": name, "files": files}));
        let mut config = self.given.clone();
        config["only_new"] = found.into();
        Ok(Some(config))
    }

    fn rebased(&self, folder: &Path) -> Option<Value> {
        let mut config = self.given.clone();
        match config.get_mut("path")? {
            Value::Array(paths) => paths.iter_mut().for_each(|path| rebase(path, folder)),
            path => rebase(path, folder),
        }
        config.get_mut("rejects").into_iter().for_each(|path| rebase(path, folder));
        rebase_home(&mut config, folder);
        Some(config)
    }

    fn by_units(&self, plan: &UnitPlan) -> Option<Value> {
        let mut config = self.given.clone();
        config["order"] = true.into();
        config["units"] = serde_json::to_value(plan).ok()?;
        Some(config)
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let only = self.only_new(inputs.home)?;
        let processed = only.as_ref().map(|(name, new)| self.processed(inputs.home, name, new));
        let processed = processed.transpose()?.map(Arc::new);
        let new = only.map(|(_, files)| files);
        let reads = Arc::new(RemoteReads::new(inputs.cache));
        let mut options = self.options(inputs.home, new)?;
        options.storage = options.storage.with_reads(reads.clone());
        let mut dataset = self.open(inputs.condition, &options)?;
        // Columns that are asked for are read, whatever becomes of them.
        let needed = inputs.needed.filter(|_| self.config.columns.is_none());
        if let Some(read) = needed.and_then(|needed| needed.columns_of(dataset.schema())) {
            dataset = dataset.narrowed_but_for_errors(&read, self.policy.as_ref())?;
        }
        if let Some(needed) = inputs.needed {
            dataset = dataset.encoded(|name, is_text| needed.may_be_encoded(name, is_text));
        }
        let mut extent = columns_read(&dataset);
        let (mut condition, mut matched_by) = (vec![], inputs.matched_by);
        if *inputs.condition != RowCondition::TRUE {
            let PushedCondition { predicate, terms, is_infallible } =
                PushedCondition::new(inputs.condition, dataset.schema());
            dataset = dataset.skipping(predicate);
            // A filter must not lose the row on which it fails.
            if !is_infallible {
                matched_by = &[];
            }
            condition = terms.into_iter().map(ConditionTerm::new).collect();
            if !condition.is_empty() {
                let tests = condition.iter().map(ConditionTerm::test).collect();
                dataset = dataset.filtered(RowFilter { tests, predicate: None, tightens: false });
            }
            extent
                .extend(files_left_out(&dataset).map(|it| format!("{it} by {}", inputs.condition)));
            extent.extend(decoded_first(&dataset));
            let skipped = skipped(&dataset).map(|it| format!("{it} by {}", inputs.condition));
            extent.extend(skipped);
        }
        let extent = Some(extent.join("; ")).filter(|extent| !extent.is_empty());
        let mut dataset = dataset.divided();
        if !self.config.order {
            dataset = best_splits_first(dataset, matched_by);
        }
        let keys = SplitFilter::new(&dataset, matched_by, condition);
        let (dataset, order) = (Arc::new(dataset), self.config.order);
        let schema = dataset.schema().clone();
        let shared_cache = inputs.cache.map(|grant| {
            Arc::new(SharedCache::new(reads.clone(), grant.bytes_max, schema.clone()))
        });
        let units = self.config.units.clone();
        let read = units.as_ref().map_or(dataset.splits(), |plan| plan.count() as usize);
        let (bytes_expected, splits) = (dataset.bytes(), read.max(1));
        let scanning = Arc::new(Scanning {
            dataset,
            order,
            units,
            keys,
            reads,
            shared_cache: shared_cache.clone(),
            instances: AtomicUsize::new(0),
            rejected: self.policy.as_ref().map(|policy| policy.rejected.clone()),
            errors_max: self.config.errors_max,
            writes_rejects: self.config.rejects.is_some(),
            processed: processed.clone(),
        });
        Ok(Bound {
            order: OutputOrder::numbered(order),
            bytes_expected,
            instances_max: Some(splits),
            extent,
            source: Some(scanning.clone()),
            exchange: shared_cache.map(|shared| shared as Arc<dyn ExchangeServer>),
            sink: processed.map(|processed| processed as Arc<dyn Sink>),
            ..Bound::shared([schema, rejected_rows::schema()], scanning)
        })
    }
}

/// The files that the instances read.
struct Scanning {
    dataset: Arc<Dataset>,
    order: bool,
    /// The splits that are read; all without it.
    units: Option<UnitPlan>,
    /// The keys of joins that need no other rows.
    keys: Option<SplitFilter>,
    /// What is read from stores and servers.
    reads: Arc<RemoteReads>,
    /// Their cache, for the other processes of the scan.
    shared_cache: Option<Arc<SharedCache>>,
    /// The number of instances made in this process.
    instances: AtomicUsize,
    /// What cannot be read.
    rejected: Option<Arc<RejectedRecords>>,
    errors_max: Option<u64>,
    writes_rejects: bool,
    /// The state of the files that are read.
    processed: Option<Arc<ProcessedFiles>>,
}

impl ExternalInput for Scanning {
    fn identity(&self) -> String {
        self.dataset.identity()
    }

    fn version(&self) -> String {
        self.dataset.version()
    }

    fn units(&self) -> Option<u64> {
        // The errors that earlier attempts have passed over are not counted again.
        self.errors_max.is_none().then_some(self.dataset.splits() as u64)
    }
}

impl Scanning {
    /// The split that is read as this run.
    fn split(&self, run: usize) -> usize {
        self.units.as_ref().map_or(run, |plan| plan.unit_of_run(run as u64) as usize)
    }
}

impl InstanceFactory for Scanning {
    fn prepare(&self, setup: &Setup) -> Result<()> {
        self.shared_cache.iter().for_each(|shared| shared.join(setup));
        Ok(())
    }

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
        self.reads.start();
        Ok(Box::new(move |ports: &mut Ports| {
            let shared = self.shared_cache.as_ref();
            let homes = shared.map(|shared| shared.homes(ports.setup(), &dataset)).transpose()?;
            if is_idle {
                return Ok(());
            }
            self.keys.as_ref().map_or(Ok(()), |keys| keys.wait(ports))?;
            let read = |run| match &self.keys {
                Some(keys) => keys.read(&dataset, self.split(run), &limits),
                None => dataset.read(self.split(run), &limits),
            };
            let weigh_splits = |splits| match &self.keys {
                Some(keys) => keys.weight(&dataset, splits),
                None => dataset.weight(splits),
            };
            let weigh = |runs: Range<usize>| match &self.units {
                Some(_) => runs.map(|run| self.split(run)).map(|it| weigh_splits(it..it + 1)).sum(),
                None => weigh_splits(runs),
            };
            let affinity = homes.flatten().map(|homes| (&homes.lists[..], homes.own));
            let count = self.units.as_ref().map(|plan| plan.count() as usize);
            let count = count.unwrap_or(dataset.splits());
            let parts = Splits { count, weigh, affinity };
            let mut rejecting = self.rejected.clone().map(|rejected| Rejecting {
                rejected,
                errors_max: self.errors_max,
                is_attached: self.writes_rejects,
                first: vec![],
            });
            let after = |ports: &mut Ports| {
                let bytes = self.reads.take();
                ports.metrics().read_remote(bytes.memory, bytes.peers, bytes.origin);
                rejecting.as_mut().map_or(Ok(()), |rejecting| rejecting.put(ports))
            };
            read_splits(ports, parts, self.order, read, after)
        }))
    }

    fn abandon(&self) {
        self.shared_cache.iter().for_each(|shared| shared.leave());
        self.processed.iter().for_each(|processed| processed.abandon());
    }

    fn remark(&self) -> Option<String> {
        let rejected = self.rejected.as_ref().map_or(0, |rejected| rejected.count());
        let rejected = (rejected > 0).then(|| format!("{rejected} errors passed over"));
        let names = self.dataset.named_folders().join(", ");
        let names = (!names.is_empty())
            .then(|| format!("{names}: in names of folders only, so not among the columns"));
        let read = columns_read(&self.dataset).into_iter();
        let read = read.chain(files_left_out(&self.dataset)).chain(skipped(&self.dataset));
        let over = self.dataset.passed_over();
        let over = (over > 0).then(|| format!("skipped {over} row groups by Bloom filters"));
        let by_keys = self.keys.iter().flat_map(|keys| keys.remarks(&self.dataset));
        let remarks: Vec<String> =
            read.chain(over).chain(by_keys).chain(names).chain(rejected).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}
