//! Writes a collection (River, 2.2), all or nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::State;
use euphrates_flow::spec::{self, IN, NONE};
use euphrates_flow::{
    BATCH_BYTES_TARGET, Cancel, Effect, Error, Module, ModuleSpec, Order, Placed, Ports, Result,
    RunIndex, Setup, Taken, batch_bytes, split_batch,
};
use euphrates_io::append::Turn;
use euphrates_io::catalog::{Catalog, Life, Statistics, check_name};
use euphrates_io::collection::{
    CreateOptions, NewCollection, NewSegment, plain_batch, plain_schema,
};
use euphrates_io::segment::{BlockEncoder, Compression};
use schemars::JsonSchema;
use serde::Deserialize;

/// The module.
pub static MODULE: ModuleSpec = ModuleSpec {
    name: "write",
    summary: "Writes a collection.",
    detail: "The collection appears when the flow has ended well, whole and at once; until then, \
             and if the flow fails, what was there before stays. An ordered stream is written in \
             order, by several instances at once.",
    inputs: IN,
    outputs: NONE,
    order: Order::Keeps,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: false,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        let config = spec::parse_config::<Config>(config)?;
        check_name(&config.collection)?;
        config.compression()?;
        Ok(Arc::new(Write { config, ..Write::default() }))
    },
};

/// Where and how to write.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The collection's name: letters, digits, `_`, `-` and `.`, with `/` between folders.
    pub collection: String,
    /// Replace an existing collection.
    #[serde(default)]
    pub overwrite: bool,
    /// The disk to write to, of those in `disks.json`; the home folder's if absent.
    #[serde(default)]
    pub disk: Option<String>,
    /// `none`, `lz4` or `zstd`; `none` if absent.
    #[serde(default)]
    pub compression: Option<String>,
}

impl Config {
    fn compression(&self) -> Result<Option<Compression>> {
        match self.compression.as_deref() {
            None | Some("none") => Ok(None),
            Some(word) => Compression::parse(word).map(Some),
        }
    }
}

/// Batches smaller than this are put together.
const SMALL_BYTES: usize = BATCH_BYTES_TARGET / 4;

#[derive(Default)]
struct Write {
    config: Config,
    home: Mutex<Option<PathBuf>>,
    /// What comes in, once the flow has been checked.
    schema: Mutex<Option<SchemaRef>>,
    /// If a stream comes in: what it is sorted by.
    order: Mutex<Option<Vec<String>>>,
    new: Mutex<Option<Arc<NewCollection>>>,
    /// The one segment of a stream, which all instances write.
    stream: Mutex<Option<Arc<NewSegment>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Placed for Write {
    fn at_home(&self, home: &Path) {
        *lock(&self.home) = Some(home.to_path_buf());
    }

    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let Some(schema) = inputs.first() else {
            return Err(Error::usage("nothing is attached to `write`").remedy("attach a module"));
        };
        *lock(&self.schema) = Some(plain_schema(schema));
        let name = &self.config.collection;
        if let (false, Some(home)) = (self.config.overwrite, &*lock(&self.home)) {
            let newest = Catalog::of(home)?.newest(name)?;
            if newest.is_some_and(|newest| newest.life == Life::Live) {
                return Err(Error::usage(format!("there is a collection `{name}` already"))
                    .remedy("choose another name, or ask to overwrite"));
            }
        }
        Ok(vec![])
    }

    fn is_ordered(&self, inputs_ordered: bool, keeps_runs: bool) -> bool {
        *lock(&self.order) = (inputs_ordered && keeps_runs).then(Vec::new);
        false
    }

    fn sorted_by(&self, input: &[String]) -> Vec<String> {
        lock(&self.order).iter_mut().for_each(|order| *order = input.to_vec());
        vec![]
    }

    fn prepare(&self, setup: &Setup) -> Result<()> {
        let schema = lock(&self.schema).clone().expect("checked before it is prepared");
        let options = CreateOptions {
            disk: self.config.disk.clone(),
            overwrite: self.config.overwrite,
            compression: self.config.compression()?,
            run_id: setup.run_id.clone(),
        };
        let name = &self.config.collection;
        let new = Arc::new(NewCollection::create(&setup.home, name, &schema, options)?);
        *lock(&self.new) = Some(new.clone());
        if lock(&self.order).is_some() {
            *lock(&self.stream) = Some(Arc::new(new.segment()?));
        }
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let new = lock(&self.new).clone().expect("prepared before an instance is made");
        let stream = lock(&self.stream).clone();
        let cancel = setup.cancel.clone();
        Ok(Box::new(Instance { new, stream, cancel }))
    }

    fn settle(&self) -> Result<()> {
        let Some(stream) = lock(&self.stream).take() else { return Ok(()) };
        let stream = Arc::into_inner(stream)
            .ok_or_else(|| Error::failed("an instance has not ended yet"))?;
        match &*lock(&self.new) {
            Some(new) => new.add(stream),
            None => Ok(()),
        }
    }

    fn commit(&self) -> Result<()> {
        match &*lock(&self.new) {
            Some(new) => new.commit(lock(&self.order).clone()),
            None => Ok(()),
        }
    }

    fn abandon(&self) {
        *lock(&self.stream) = None;
        if let Some(new) = lock(&self.new).take() {
            new.abandon();
        }
    }
}

struct Instance {
    new: Arc<NewCollection>,
    stream: Option<Arc<NewSegment>>,
    cancel: Arc<Cancel>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        match self.stream.take() {
            Some(stream) => self.write(&stream, ports),
            None => {
                // Writers of one file would wait for each other in the file system.
                let segment = self.new.segment()?;
                self.write(&segment, ports)?;
                self.new.add(segment)
            }
        }
    }
}

impl Instance {
    fn write(&self, segment: &NewSegment, ports: &mut Ports) -> Result<()> {
        let mut writer = Writer {
            segment,
            schema: self.new.schema(),
            encoder: segment.encoder()?,
            small: vec![],
            small_bytes: 0,
            statistics: Statistics::default(),
            cancel: &self.cancel,
        };
        let mut run = None;
        loop {
            match ports.get_in_runs(0)? {
                Taken::Batch(parcel) => {
                    run = parcel.run;
                    writer.push(plain_batch(parcel.batch, self.new.schema())?, run, ports)?;
                }
                Taken::RunEnd(ended) => {
                    writer.flush(Some(ended), ports)?;
                    run = None;
                    writer.await_turn(Some(ended), ports)?;
                    segment.end_run(ended, &self.cancel)?;
                }
                Taken::Empty => {}
                Taken::End => {
                    writer.flush(run, ports)?;
                    self.new.add_statistics(&writer.statistics);
                    return Ok(());
                }
            }
        }
    }
}

/// Makes blocks of about a megabyte of what comes, and appends them.
struct Writer<'a> {
    segment: &'a NewSegment,
    schema: &'a SchemaRef,
    encoder: BlockEncoder,
    small: Vec<RecordBatch>,
    small_bytes: usize,
    statistics: Statistics,
    cancel: &'a Cancel,
}

impl Writer<'_> {
    fn push(&mut self, batch: RecordBatch, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        for part in split_batch(batch) {
            let bytes = batch_bytes(&part);
            if bytes >= SMALL_BYTES {
                self.flush(run, ports)?;
                self.append(&part, run, ports)?;
                continue;
            }
            self.small_bytes += bytes;
            self.small.push(part);
            if self.small_bytes >= BATCH_BYTES_TARGET {
                self.flush(run, ports)?;
            }
        }
        Ok(())
    }

    /// Appends the small batches as one.
    fn flush(&mut self, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        let small = std::mem::take(&mut self.small);
        self.small_bytes = 0;
        match small.as_slice() {
            [] => Ok(()),
            [one] => self.append(one, run, ports),
            several => self.append(&concat_batches(self.schema, several)?, run, ports),
        }
    }

    fn append(&mut self, batch: &RecordBatch, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        self.statistics.add(batch);
        let block = self.encoder.encode(batch)?;
        self.await_turn(run, ports)?;
        let turn = run.map(|run| Turn { run, last: false });
        let written = self.segment.append(turn, &block, self.cancel)?;
        ports.metrics().put(written.rows as usize, written.bytes as usize);
        Ok(())
    }

    /// Others may have to write runs before this one first.
    fn await_turn(&self, run: Option<RunIndex>, ports: &Ports) -> Result<()> {
        self.segment.await_turn(run, self.cancel, || ports.metrics().enter(State::Blocked))
    }
}
