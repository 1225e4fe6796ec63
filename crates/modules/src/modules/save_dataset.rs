//! Writes a folder of files, by all instances of all workers at once.
//!
//! It is no option of `save`: a file belongs to one process, whose instances append to it in turns,
//! while here each instance writes files of its own, a `partition` may come before, and what is
//! published is a folder with the files that it had.
//!
//! With `partition_by`, rows are brought together by a `partition`, which keeps those of equal
//! values in one place, through scratch if need be; a free instance takes the next ones, so each
//! has one file open, however many folders there are.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::{
    Bound, Configure, Inputs, InstanceFactory, Interface, Needs, Sink, UnitPlan, not_prepared,
};
use euphrates_flow::size::Size;
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{
    DecisionRef, Error, InputOrder, Module, ModuleSpec, Ports, Result, Setup, batch_bytes,
};
use euphrates_formats::{Compression, WriteOptions, Writer, writer_of};
use euphrates_policy::memory::RowGroupSize;
use euphrates_store::commit::PreparedOutput;
use euphrates_store::commit::reservation::{ReservationMark, ReservedName};
use euphrates_store::dataset::{
    Assembly, DatasetTarget, SaveMode, StagedPart, assemble, discard_files,
};
use euphrates_store::output;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dataset::config::{Config, FILE_BYTES, PARTITIONS_MAX};
use crate::dataset::existing_files::{check_partitions, is_data};
use crate::dataset::file_names::{FileNames, extension};
use crate::dataset::file_writer::{FileLayout, FileWriter, Written};
use crate::dataset::partition_folders::PartitionFolders;
use crate::dataset::unit_writer::write_units;
use crate::order_by::{SortKey, sorted_columns};
use crate::rebase_path::rebase;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "save_dataset",
    summary: "Writes a folder of files, with a folder for each value of some columns if wanted.",
    detail: "Every instance, on every worker, writes files of its own, of about `file_bytes`. With \
             `partition_by=[\"city\"]`, the files of a value are in a folder `city=Ur/`, the \
             column is left out of them, and `scan` brings it back; a null is \
             `city=__HIVE_DEFAULT_PARTITION__/`. The folder appears when the flow has ended well, \
             whole and at once, in all modes; until then, and if the flow fails, what was there \
             before stays. Rows of an ordered input stay in order within each file. With `resume`, \
             a flow that `scan`s, and changes only single rows on the way, keeps complete files \
             for the next attempt; some are smaller than `file_bytes` then.",
    example: r#">>> flow = eu.Flow()
>>> cities = eu.from_arrow({"land": ["Sumer", "Akkad"], "city": ["Ur", "Kish"]})
>>> _ = flow.chain(cities, eu.save_dataset("cities", partition_by=["land"]))
>>> _ = flow.go()
>>> eu.query(eu.scan("cities")).sort("city").to_pydict()
{'city': ['Kish', 'Ur'], 'land': ['Akkad', 'Sumer']}"#,
    outputs: NONE,
    order: InputOrder::Keeps,
    config_schema: spec::schema_of::<Config>,
    configure: |given| {
        let config: Config = spec::parse_config(given.clone())?;
        let mode = config.mode.as_deref().map_or(Ok(SaveMode::Error), SaveMode::named)?;
        if mode == SaveMode::OverwritePartitions && config.partition_by.is_empty() {
            let error = Error::usage("there are no partitions to overwrite");
            return Err(error.remedy("name columns in `partition_by`, or say `mode=\"overwrite\"`"));
        }
        let file_bytes = config.file_bytes.as_ref().map_or(Ok(FILE_BYTES), Size::bytes);
        let file_bytes = file_bytes.map_err(|error| error.at("file_bytes"))?;
        let compression = config.compression.as_deref().map(Compression::named).transpose()?;
        let format = config.format.as_deref().unwrap_or("parquet");
        let usual = if mode == SaveMode::Append { "part-{run}-{i}" } else { "part-{i}" };
        let template = config.file_name.as_deref().unwrap_or(usual);
        let names = FileNames::new(template, extension(format, compression)?)?;
        Ok(Arc::new(SaveDataset { given, config, file_bytes, mode, compression, names }))
    },
    ..ModuleSpec::USUAL
};

struct SaveDataset {
    /// The configuration as given.
    given: Value,
    config: Config,
    file_bytes: u64,
    mode: SaveMode,
    compression: Option<Compression>,
    names: FileNames,
}

impl SaveDataset {
    fn writer(&self, schema: &SchemaRef, sorted_by: &[String]) -> Result<Arc<dyn Writer>> {
        let options = WriteOptions {
            compression: self.compression,
            sorted_by: sorted_columns(sorted_by, schema),
            ..WriteOptions::default()
        };
        let format = self.config.format.as_deref().unwrap_or("parquet");
        writer_of(&self.names.numbered(0, ""), Some(format), schema, &options)
    }
}

impl Configure for SaveDataset {
    fn interface(&self) -> Interface {
        let by: Vec<SortKey> =
            self.config.partition_by.iter().map(|name| SortKey::of_column(name)).collect();
        let config = json!({"by": by, "together": true, "stable_if_ordered": true});
        let partitioner = (!by.is_empty()).then_some(("partition", config));
        Interface { partitioner, needs: Needs::All, ..Interface::default() }
    }

    fn rebased(&self, folder: &Path) -> Option<Value> {
        let mut config = self.given.clone();
        rebase(config.get_mut("path")?, folder);
        Some(config)
    }

    fn by_units(&self, plan: &UnitPlan) -> Option<Value> {
        let mut config = self.given.clone();
        config["units"] = serde_json::to_value(plan).ok()?;
        self.config.partition_by.is_empty().then_some(config)
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let Some(schema) = inputs.schemas.first() else {
            let error = Error::usage("nothing is attached to `save_dataset`");
            return Err(error.remedy("attach a module"));
        };
        let target = DatasetTarget::check(&self.config.path, self.mode)?;
        if matches!(self.mode, SaveMode::Append | SaveMode::OverwritePartitions) {
            check_partitions(&target.path, &self.config.partition_by)?;
        }
        let folders = PartitionFolders::new(&self.config.partition_by, schema);
        let folders = folders.map_err(|error| error.at("partition_by"))?;
        let sorted_by = if inputs.keeps_runs { inputs.sorted_by } else { &[] };
        let file_schema = folders.file_schema(schema)?;
        let columns = file_schema.fields().len() as u64;
        let writer = self.writer(&file_schema, sorted_by)?;
        let size = match self.config.row_group_bytes {
            Some(bytes) => RowGroupSize::of_bytes(bytes),
            None => RowGroupSize::USUAL,
        };
        let names = self.names.clone();
        let units = self.config.units.clone();
        let first_file = units.as_ref().map_or(0, |plan| plan.first_file);
        let layout = Arc::new(FileLayout {
            writer,
            names,
            file_bytes: self.file_bytes,
            columns,
            size,
            first_file,
        });
        let partitions_max = self.config.partitions_max.unwrap_or(PARTITIONS_MAX);
        let dataset = FolderOfFiles { target, folders, layout, partitions_max, units };
        let saving = Arc::new(SavingFolder {
            dataset: Arc::new(dataset),
            local: OnceLock::new(),
            reserved: Mutex::default(),
        });
        Ok(Bound { sink: Some(saving.clone()), ..Bound::shared([], saving) })
    }
}

/// What is written, and where.
struct FolderOfFiles {
    target: DatasetTarget,
    folders: PartitionFolders,
    layout: Arc<FileLayout>,
    partitions_max: u64,
    units: Option<UnitPlan>,
}

/// The dataset that the instances of this process write.
struct SavingFolder {
    dataset: Arc<FolderOfFiles>,
    local: OnceLock<LocalPart>,
    /// The reserved name, until the dataset is published.
    reserved: Mutex<Option<ReservedName>>,
}

/// What this process stages.
struct LocalPart {
    part: Arc<StagedPart>,
    /// Whether no other process stages files.
    is_whole: bool,
    run_id: String,
    decision: Option<DecisionRef>,
    /// Whether a commit decision may have been made.
    is_staged: AtomicBool,
}

/// What a process reports to the master.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StagedFolder {
    /// A part, to be assembled with those of others.
    Part(PathBuf),
    /// All of it, ready to be published.
    Whole(Box<PreparedOutput>),
}

impl InstanceFactory for SavingFolder {
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let target = &self.dataset.target;
        let key = self.dataset.units.as_ref().map(|plan| plan.key.as_str());
        if key.is_none() {
            discard_files(&target.path);
        }
        // Completes what a dead flow has decided, which may change the folder.
        output::reclaim(target.folder());
        let local = LocalPart {
            part: Arc::new(StagedPart::create(target, &setup.run_id, key)?),
            is_whole: setup.is_in_one_process,
            run_id: setup.run_id.clone(),
            decision: setup.decision.clone(),
            is_staged: AtomicBool::default(),
        };
        self.local.get_or_init(|| local);
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let part = self.local.get().ok_or_else(not_prepared)?.part.clone();
        let dataset = self.dataset.clone();
        let files = FileWriter::new(dataset.layout.clone(), part, setup)?;
        Ok(Box::new(Instance { dataset, files }))
    }

    fn abandon(&self) {
        self.local.get().into_iter().for_each(|local| local.part.abandon());
        self.reserved.lock().take().into_iter().for_each(|reserved| reserved.remove());
    }

    fn remark(&self) -> Option<String> {
        let part = &self.local.get()?.part;
        Some(format!("{} files in {}", part.file_count(), self.dataset.target.path.display()))
    }
}

impl SavingFolder {
    fn assembled(&self, mut parts: Vec<PathBuf>, mark: ReservationMark) -> Result<PreparedOutput> {
        let FolderOfFiles { target, folders, layout, units, .. } = &*self.dataset;
        parts.extend(units.iter().flat_map(|plan| plan.folders.clone()));
        let write_empty = |staged: &Path| -> Result<()> {
            let folder = staged.join(folders.of_nulls());
            let path = folder.join(layout.names.numbered(0, &mark.run_id));
            let parts = [layout.writer.header()?, layout.writer.footer(vec![])?].concat();
            let bytes = parts.iter().map(|part| part.as_slice()).collect::<Vec<_>>().concat();
            let written = std::fs::create_dir_all(&folder);
            let written = written.and_then(|()| std::fs::write(&path, bytes));
            written.map_err(|error| Error::os("write", &path, &error))
        };
        let assembly = Assembly { target, parts, is_data: &is_data, write_empty: &write_empty };
        let (output, reserved) = assemble(&assembly, mark.clone())?;
        *self.reserved.lock() = Some(reserved);
        Ok(PreparedOutput::Folder(output))
    }
}

impl Sink for SavingFolder {
    fn target(&self) -> String {
        self.dataset.target.path.display().to_string()
    }

    fn staging_folder(&self) -> Option<PathBuf> {
        Some(self.dataset.target.folder().to_path_buf())
    }

    fn resumable_target(&self) -> Option<&Path> {
        (!self.dataset.folders.are_several()).then_some(&self.dataset.target.path)
    }

    fn sync(&self) -> Result<()> {
        self.local.get().map_or(Ok(()), |local| local.part.sync())
    }

    fn staged(&self) -> Result<Value> {
        let Some(local) = self.local.get() else { return Ok(Value::Null) };
        local.is_staged.store(true, Relaxed);
        let folder = local.part.folder().to_path_buf();
        let staged = match local.is_whole {
            false => StagedFolder::Part(folder),
            true => {
                let (run_id, decision) = (local.run_id.clone(), local.decision.clone());
                let mark = ReservationMark { run_id, staged: None, decision };
                StagedFolder::Whole(Box::new(self.assembled(vec![folder], mark)?))
            }
        };
        serde_json::to_value(staged).map_err(Error::failed)
    }

    fn output(
        &self,
        staged: Vec<Value>,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Value> {
        let (mut folders, mut whole) = (vec![], None);
        for part in staged.into_iter().filter(|part| !part.is_null()) {
            match serde_json::from_value(part).map_err(Error::corrupt)? {
                StagedFolder::Part(folder) => folders.push(folder),
                StagedFolder::Whole(output) => whole = Some(*output),
            }
        }
        let output = match whole {
            Some(output) => output,
            None => {
                let (run_id, decision) = (run_id.to_string(), decision.cloned());
                self.assembled(folders, ReservationMark { run_id, staged: None, decision })?
            }
        };
        serde_json::to_value(output).map_err(Error::failed)
    }

    fn on_committed(&self) {
        self.local.get().into_iter().for_each(|local| local.part.leave());
        *self.reserved.lock() = None;
        if self.dataset.units.is_some() {
            discard_files(&self.dataset.target.path);
        }
    }

    fn on_orphaned(&self) {
        let may_be_decided =
            |local: &&LocalPart| local.decision.is_some() && local.is_staged.load(Relaxed);
        match self.local.get().filter(may_be_decided) {
            Some(local) => {
                local.part.leave();
                *self.reserved.lock() = None;
            }
            None => self.abandon(),
        }
    }

    fn reclaim(&self) {
        output::reclaim(self.dataset.target.folder());
    }
}

struct Instance {
    dataset: Arc<FolderOfFiles>,
    files: FileWriter,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let dataset = self.dataset.clone();
        match (&dataset.units, dataset.folders.are_several()) {
            (Some(plan), false) => return write_units(plan, &mut self.files, ports, count),
            (_, true) => self.write_partitions(ports)?,
            (None, false) => {
                while let Some(batch) = ports.get(0)? {
                    let written = self.files.push(&batch, ports.setup())?;
                    count(written, ports);
                }
            }
        }
        let written = self.files.finish()?;
        count(written, ports);
        Ok(())
    }
}

impl Instance {
    fn write_partitions(&mut self, ports: &mut Ports) -> Result<()> {
        while let Some(partition) = ports.next_partition(0)? {
            for batch in partition.records()? {
                let batch = batch?;
                ports.metrics().got(batch.num_rows(), batch_bytes(&batch));
                self.write_sorted(&batch, ports)?;
                ports.setup().cancel.check()?;
            }
        }
        Ok(())
    }

    /// Writes rows of which those of a folder are next to each other.
    fn write_sorted(&mut self, batch: &RecordBatch, ports: &Ports) -> Result<()> {
        let dataset = self.dataset.clone();
        for rows in dataset.folders.ranges(batch)? {
            let folder = dataset.folders.of_row(batch, rows.start)?;
            if folder != self.files.folder() {
                let written = self.files.enter(folder)?;
                count(written, ports);
                self.check_count(ports.setup())?;
            }
            let rows = dataset.folders.file_columns(&batch.slice(rows.start, rows.len()))?;
            let written = self.files.push(&rows, ports.setup())?;
            count(written, ports);
        }
        Ok(())
    }

    /// Counts a folder. Fails if there are too many.
    fn check_count(&self, setup: &Setup) -> Result<()> {
        let before = setup.coordination.fetch_add(&format!("{}/folders", setup.module))?;
        let most = self.dataset.partitions_max;
        if before < most {
            return Ok(());
        }
        let error = Error::failed(format!("`partition_by` makes more than {most} folders"));
        Err(error.remedy("partition by columns of fewer values, or raise `partitions_max`"))
    }
}

fn count(written: Written, ports: &Ports) {
    if written != Written::default() {
        ports.metrics().put(written.rows, written.bytes);
    }
}
