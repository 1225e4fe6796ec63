//! Writes a file: Parquet, CSV, JSON lines, Arrow IPC, benchmark records, text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_device::location::destination;
use euphrates_device::storage_options::StorageOptions;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{
    Bound, Configure, Inputs, InstanceFactory, PlacementConstraint, Sink, not_prepared,
};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{
    Cancel, Error, InputOrder, Module, ModuleSpec, Ports, Result, RunIndex, Setup, Taken,
};
use euphrates_formats::{self, ChunkMetadata, EncodedChunk, Encoder, WriteOptions, Writer};
use euphrates_policy::memory::{RowGroupSize, chunk_bytes_max};
use euphrates_store::append::{AppendTurn, Appender};
use euphrates_store::output;
use euphrates_store::striped::with_files_of;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::batches::long_rows::lock_if_long;
use crate::order_by::sorted_columns;
use crate::rebase_path::{rebase, rebase_home};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "save",
    summary: "Writes one file: Parquet, CSV, JSON lines, Arrow IPC, records, lines.",
    detail: "The file appears when the flow has ended well, whole and at once; until then, and if \
             the flow fails, what was there before stays. Several instances encode in parallel; an \
             ordered stream is written in order.",
    example: r#">>> flow = eu.Flow()
>>> cities = eu.from_arrow({"city": ["Ur", "Uruk"]}, order=True)
>>> _ = flow.chain(cities, eu.save("cities.csv"))
>>> _ = flow.go()
>>> open("cities.csv").read()
'city\nUr\nUruk\n'"#,
    outputs: NONE,
    order: InputOrder::Keeps,
    config_schema: spec::schema_of::<Config>,
    configure: |given| {
        let config: Config = spec::parse_config(given.clone())?;
        let storage = StorageOptions::new(config.storage_options.clone().unwrap_or_default())?;
        Ok(Arc::new(Save { config, storage, given }))
    },
    ..ModuleSpec::USUAL
};

/// Where and how to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// A file, the URL of an object (`s3://bucket/key`, `gs://`, `az://`), or the address of a
    /// striped file (`euphrates://name`).
    pub(crate) path: String,
    /// `parquet`, `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`; told from the extension
    /// if absent.
    #[serde(default)]
    pub(crate) format: Option<String>,
    /// Replace an existing file.
    #[serde(default)]
    pub(crate) overwrite: bool,
    /// Parquet (`none`, `snappy`, `lz4`, `gzip`, `brotli`, `zstd`, which is the default), Arrow IPC
    /// (`none`, `lz4`, `zstd`), and all others as a whole (`none`, `gzip`, `bzip2`, `zstd`; from
    /// the extension if absent, like `.csv.gz`).
    #[serde(default)]
    pub(crate) compression: Option<String>,
    /// Bytes that are encoded together, and held by each instance: a row group of Parquet. If
    /// absent, 8 MiB where these are 262,144 rows or more, and up to 32 MiB of longer rows.
    #[serde(default)]
    pub(crate) row_group_bytes: Option<usize>,
    /// CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    #[serde(default)]
    pub(crate) delimiter: Option<char>,
    /// CSV: whether the first line names the columns; it does if absent.
    #[serde(default)]
    pub(crate) header: Option<bool>,
    /// CSV: the character around fields that need it, `"` if absent; none if empty.
    #[serde(default)]
    pub(crate) quote: Option<String>,
    /// CSV: the character before a quote within quotes, and before whatever means something where
    /// there are none; if absent, a quote is doubled.
    #[serde(default)]
    pub(crate) escape: Option<char>,
    /// CSV: what is written for a null, like `NA`; nothing if absent.
    #[serde(default)]
    pub(crate) null_value: Option<String>,
    /// Options of the object store of `path`, as those of `scan`; of a striped file `data`,
    /// `parity`, `disks` (with commas between) and `home`.
    #[serde(default)]
    pub(crate) storage_options: Option<BTreeMap<String, String>>,
}

struct Save {
    /// The configuration as given.
    given: Value,
    config: Config,
    storage: StorageOptions,
}

/// The file being written, shared by the instances.
struct OutputFile {
    appender: Appender,
    writer: Arc<dyn Writer>,
    /// The offset of each chunk, and its metadata for the footer.
    notes: Mutex<Vec<(u64, ChunkMetadata)>>,
    /// Whether a commit decision publishes the file.
    has_record: bool,
    /// Whether that decision may have been made.
    is_reserved: AtomicBool,
}

impl Save {
    fn writer(&self, schema: &SchemaRef, sorted_by: &[String]) -> Result<Arc<dyn Writer>> {
        let config = &self.config;
        let options = WriteOptions {
            compression: config
                .compression
                .as_deref()
                .map(euphrates_formats::Compression::named)
                .transpose()?,
            delimiter: config.delimiter,
            header: config.header,
            quote: config.quote.clone(),
            escape: config.escape,
            null_value: config.null_value.clone(),
            sorted_by: sorted_columns(sorted_by, schema),
        };
        euphrates_formats::writer_of(&config.path, config.format.as_deref(), schema, &options)
    }
}

impl Configure for Save {
    fn rebased(&self, folder: &Path) -> Option<Value> {
        let mut config = self.given.clone();
        rebase(config.get_mut("path")?, folder);
        rebase_home(&mut config, folder);
        Some(config)
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let Some(schema) = inputs.schemas.first() else {
            return Err(Error::usage("nothing is attached to `save`").remedy("attach a module"));
        };
        let storage = with_files_of(inputs.home, self.storage.clone());
        output::check(&self.config.path, self.config.overwrite, &storage)?;
        // A chunk is a part of a run, so its rows have the order of the stream.
        let sorted_by = if inputs.keeps_runs { inputs.sorted_by } else { &[] };
        let writer = self.writer(schema, sorted_by)?;
        let saving = Arc::new(Saving { save: self, storage, writer, file: OnceLock::new() });
        Ok(Bound {
            spread: PlacementConstraint::Together,
            sink: Some(saving.clone()),
            ..Bound::shared([], saving)
        })
    }
}

/// The file that the instances write.
struct Saving {
    save: Arc<Save>,
    storage: StorageOptions,
    writer: Arc<dyn Writer>,
    file: OnceLock<Arc<OutputFile>>,
}

impl InstanceFactory for Saving {
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let Config { path, overwrite, .. } = &self.save.config;
        let decision = setup.decision.clone();
        let has_record = decision.is_some();
        let place = destination(path, &self.storage)?;
        let target = output::create(place, *overwrite, &setup.run_id, decision)?;
        let (notes, is_reserved) = (Mutex::default(), AtomicBool::default());
        let (appender, writer) = (Appender::new(target), self.writer.clone());
        let file = OutputFile { appender, writer, notes, has_record, is_reserved };
        let file = self.file.get_or_init(|| Arc::new(file));
        file.appender.append(None, &file.writer.header()?, &setup.cancel).map(drop)
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let file = self.file.get().ok_or_else(not_prepared)?.clone();
        let affordable = chunk_bytes_max(setup.budget_bytes, setup.instances);
        let size = match self.save.config.row_group_bytes {
            Some(bytes) => RowGroupSize::of_bytes(bytes),
            None => RowGroupSize::USUAL,
        };
        let size = size.within(affordable);
        let held_bytes_max = 2 * affordable;
        let encoder = file.writer.encoder()?;
        let cancel = setup.cancel.clone();
        Ok(Box::new(Instance { file, encoder, size, held_bytes_max, cancel, rows: 0, made: None }))
    }

    fn abandon(&self) {
        self.file.get().into_iter().for_each(|file| file.appender.target().abandon());
    }

    fn remark(&self) -> Option<String> {
        let bytes = self.file.get()?.appender.bytes();
        Some(format!("{bytes} bytes in {}", self.save.config.path))
    }
}

impl Sink for Saving {
    fn target(&self) -> String {
        let path = &self.save.config.path;
        let local = (!path.contains("://")).then(|| absolute(path).ok()).flatten();
        local.map_or(path.clone(), |path| path.display().to_string())
    }

    fn staging_folder(&self) -> Option<PathBuf> {
        output::folder(&self.save.config.path, &self.storage)
    }

    fn sync(&self) -> Result<()> {
        let Some(file) = self.file.get() else { return Ok(()) };
        let mut notes = std::mem::take(&mut *file.notes.lock());
        notes.sort_by_key(|(offset, _)| *offset);
        let footer = file.writer.footer(notes)?;
        file.appender.append(None, &footer, &Cancel::default())?;
        file.appender.target().sync_contents(file.appender.bytes())
    }

    fn staged(&self) -> Result<Value> {
        let Some(file) = self.file.get() else { return Ok(Value::Null) };
        file.is_reserved.store(true, Relaxed);
        serde_json::to_value(file.appender.target().reserve()?).map_err(Error::failed)
    }

    fn on_committed(&self) {
        self.file.get().into_iter().for_each(|file| file.appender.target().leave());
    }

    fn on_orphaned(&self) {
        let may_be_decided =
            |file: &&Arc<OutputFile>| file.has_record && file.is_reserved.load(Relaxed);
        match self.file.get().filter(may_be_decided) {
            Some(file) => file.appender.target().leave(),
            None => self.abandon(),
        }
    }

    fn reclaim(&self) {
        output::reclaim_beside(&self.save.config.path, &self.storage);
    }
}

struct Instance {
    file: Arc<OutputFile>,
    encoder: Box<dyn Encoder>,
    size: RowGroupSize,
    /// Maximum bytes held by an encoder before its chunk is finished.
    held_bytes_max: usize,
    cancel: Arc<Cancel>,
    /// Rows in the encoder, or in the finished chunk.
    rows: usize,
    /// A finished chunk of long rows.
    made: Option<EncodedChunk>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        // The run of the rows in the encoder.
        let mut run = None;
        loop {
            match ports.get_in_runs(0)? {
                Taken::Batch(parcel) => {
                    if parcel.run != run {
                        self.flush(run, false, ports)?;
                        run = parcel.run;
                    }
                    if self.push(parcel.batch)? {
                        self.flush(run, false, ports)?;
                    }
                }
                Taken::RunEnd(ended) => {
                    if run != Some(ended) {
                        self.flush(run, false, ports)?;
                    }
                    self.flush(Some(ended), true, ports)?;
                    run = None;
                }
                Taken::Empty => {}
                Taken::End => return self.flush(run, false, ports),
            }
        }
    }
}

impl Instance {
    /// Encodes a batch; returns whether the chunk is full. An encoder holds a long row several
    /// times until its chunk is finished.
    fn push(&mut self, batch: RecordBatch) -> Result<bool> {
        let turn = lock_if_long(&batch, self.size.bytes_max);
        self.rows += batch.num_rows();
        self.encoder.push(&batch)?;
        if turn.is_some() {
            drop(batch);
            self.made = Some(self.encoder.finish()?);
        }
        let bytes = self.encoder.bytes();
        // With very many columns, each holds some memory even without values.
        let holds_much = || self.encoder.held_bytes() >= self.held_bytes_max;
        let is_full = self.size.is_reached(bytes, self.rows);
        let is_enough = || bytes >= self.size.bytes_max / 4 && holds_much();
        Ok(self.made.is_some() || is_full || is_enough())
    }

    /// Appends the chunk in the order of runs.
    fn flush(&mut self, run: Option<RunIndex>, last: bool, ports: &Ports) -> Result<()> {
        if self.rows == 0 && !last {
            return Ok(());
        }
        let chunk = match (self.made.take(), self.rows) {
            (None, 0) => None,
            (None, _) => Some(self.encoder.finish()?),
            (made, _) => made,
        };
        let turn = run.map(|run| AppendTurn { run, last });
        let appender = &self.file.appender;
        appender.await_turn(run, &self.cancel, || ports.metrics().enter(InstanceState::Blocked))?;
        let Some(EncodedChunk { parts, note }) = chunk else {
            return self.file.appender.append(turn, &[], &self.cancel).map(drop);
        };
        let offset = self.file.appender.append(turn, &parts, &self.cancel)?;
        self.file.notes.lock().push((offset, note));
        ports.metrics().put(std::mem::take(&mut self.rows), parts.iter().map(|p| p.len()).sum());
        Ok(())
    }
}
