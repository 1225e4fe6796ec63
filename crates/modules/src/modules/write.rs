//! Writes a collection (River, 2.2), all or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_device::disk::Disks;
use euphrates_flow::error::{REMEDY_TAKEN, unknown};
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{
    Bound, Configure, ExchangeServer, Inputs, InstanceFactory, OutputOrder, PlacementConstraint,
    Sink, not_prepared,
};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{
    Cancel, DecisionRef, Error, InputOrder, Module, ModuleSpec, Ports, Result, RunIndex, Setup,
    Taken,
};
use euphrates_store::catalog::{Catalog, CopyLayout, Existence, Manifest, check_name};
use euphrates_store::collection::{
    CreateOptions, HeldVersion, NewCollection, NewSegments, SegmentPlan, plain_batch, plain_schema,
    prepare_version, reclaim,
};
use euphrates_store::commit::PreparedOutput;
use euphrates_store::mirroring::Writers;
use euphrates_store::segment::BlockCompression;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::block_writer::BlockWriter;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "write",
    summary: "Writes a collection.",
    detail: "The collection appears when the flow has ended well, whole and at once; until then, \
             and if the flow fails, what was there before stays. An ordered stream is written in \
             order, by several instances at once. Over several `disks`, each block goes to the \
             disk that has least to do, so a slow one gets fewer. With `copies`, each segment has \
             mirrors on other disks, of other workers where there are some.",
    example: r#">>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=1000), eu.write("numbers"))
>>> flow.go(home="data").modules[0].rows_out
1000"#,
    outputs: NONE,
    order: InputOrder::Keeps,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config = spec::parse_config::<Config>(config)?;
        check_name(&config.collection)?;
        config.compression()?;
        config.layout()?;
        Ok(Arc::new(Write(config)))
    },
    ..ModuleSpec::USUAL
};

/// Where and how to write.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The collection's name: letters, digits, `_`, `-` and `.`, with `/` between folders.
    pub(crate) collection: String,
    /// Replace an existing collection.
    #[serde(default)]
    pub(crate) overwrite: bool,
    /// The disk to write to, of those in `disks.json`; the home folder's if absent.
    #[serde(default)]
    pub(crate) disk: Option<String>,
    /// The disks to write to, all at once.
    #[serde(default)]
    pub(crate) disks: Vec<String>,
    /// Copies of each segment, each on another disk; 1 if absent.
    #[serde(default)]
    pub(crate) copies: Option<usize>,
    /// Where mirrors go: `chained`, on the next of the disks, or `spread`, evenly over all others;
    /// `chained` if absent.
    #[serde(default)]
    pub(crate) layout: Option<String>,
    /// `none`, `lz4` or `zstd`; `none` if absent.
    #[serde(default)]
    pub(crate) compression: Option<String>,
}

impl Config {
    fn compression(&self) -> Result<Option<BlockCompression>> {
        match self.compression.as_deref() {
            None | Some("none") => Ok(None),
            Some(word) => BlockCompression::parse(word).map(Some),
        }
    }

    fn layout(&self) -> Result<Option<CopyLayout>> {
        let layouts = [CopyLayout::Plain, CopyLayout::Chained, CopyLayout::Spread];
        let words = || layouts.iter().map(|layout| layout.word());
        self.layout
            .as_deref()
            .map(|word| {
                let found = layouts.into_iter().find(|layout| layout.word() == word);
                found.ok_or_else(|| unknown("layout", word, words()))
            })
            .transpose()
    }

    fn options(&self, run_id: &str, decision: Option<&DecisionRef>) -> Result<CreateOptions> {
        if self.disk.is_some() && !self.disks.is_empty() {
            return Err(Error::usage("both `disk` and `disks` are given")
                .remedy("name all of them in `disks`"));
        }
        Ok(CreateOptions {
            disks: self.disk.iter().chain(&self.disks).cloned().collect(),
            copies: self.copies.unwrap_or(1),
            layout: self.layout()?,
            overwrite: self.overwrite,
            compression: self.compression()?,
            run_id: run_id.to_string(),
            decision: decision.cloned(),
        })
    }
}

struct Write(Config);

impl Configure for Write {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let Some(schema) = inputs.schemas.first() else {
            return Err(Error::usage("nothing is attached to `write`").remedy("attach a module"));
        };
        let (config, home) = (self.0.clone(), inputs.home.to_path_buf());
        let name = &config.collection;
        let before = Catalog::of(&home)?.predecessor_of_next(name)?;
        let is_there = before.as_ref().is_some_and(|newest| newest.life == Existence::Live);
        if is_there && !config.overwrite {
            return Err(Error::usage(format!("there is a collection `{name}` already"))
                .remedy(REMEDY_TAKEN));
        }
        let plan = SegmentPlan::new(&home, &config.options("", None)?)?;
        let owners = owners(&home, &plan);
        let writing = Arc::new(Writing {
            config,
            home,
            schema: plain_schema(schema),
            order: inputs.keeps_runs.then(|| inputs.sorted_by.to_vec()),
            plan,
            before,
            new: Mutex::default(),
            held: Mutex::default(),
            shared: Mutex::default(),
        });
        let exchange = (!owners.is_empty()).then(|| writing.clone() as Arc<dyn ExchangeServer>);
        let spread = if owners.is_empty() {
            PlacementConstraint::Anywhere
        } else {
            PlacementConstraint::AtEach(owners)
        };
        let (order, sink) = (OutputOrder::None, Some(writing.clone() as Arc<dyn Sink>));
        Ok(Bound { order, spread, exchange, sink, ..Bound::shared([], writing) })
    }
}

/// The workers that own the disks of a plan.
fn owners(home: &Path, plan: &SegmentPlan) -> BTreeSet<String> {
    let workers = Disks::of(home).map(|disks| disks.owners()).unwrap_or_default();
    plan.disks.iter().filter_map(|disk| workers.get(disk.name()).cloned()).collect()
}

/// The collection that the instances write.
struct Writing {
    config: Config,
    home: PathBuf,
    schema: SchemaRef,
    /// The sort keys of the input, if it is a stream.
    order: Option<Vec<String>>,
    /// Where it is written.
    plan: SegmentPlan,
    /// The version it replaces.
    before: Option<Manifest>,
    new: Mutex<Option<Arc<NewCollection>>>,
    /// The reserved next version, until it is published.
    held: Mutex<Option<HeldVersion>>,
    /// The segments shared by all instances: those of a stream, or of several disks.
    shared: Mutex<Option<Arc<NewSegments>>>,
}

impl Writing {
    /// The collection being written. Messages of other processes need the lock too, so a thread
    /// must not block while it holds it.
    fn making(&self) -> Option<Arc<NewCollection>> {
        self.new.lock().clone()
    }
}

impl InstanceFactory for Writing {
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let options = self.config.options(&setup.run_id, setup.decision.as_ref())?;
        let name = &self.config.collection;
        let workers = Disks::of(&setup.home)?.owners();
        let writers = Writers::new(setup.exchange.clone(), &workers, setup.cancel.clone());
        let new = NewCollection::create_among(&setup.home, name, &self.schema, options, writers)?;
        let new = Arc::new(new);
        *self.new.lock() = Some(new.clone());
        let shared = match (new.is_parallel(), self.order.is_some()) {
            // Other processes write other runs, so writers cannot wait for their turn.
            (_, true) if !setup.is_in_one_process => None,
            (true, _) => Some(new.begin_segments()?),
            (false, true) => Some(new.begin_segment()?),
            (false, false) => None,
        };
        *self.shared.lock() = shared.map(Arc::new);
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let new = self.making().ok_or_else(not_prepared)?;
        let shared = self.shared.lock().clone();
        let is_part = self.order.is_some() && !setup.is_in_one_process;
        let cancel = setup.cancel.clone();
        Ok(Box::new(Instance { new, shared, is_part, cancel }))
    }

    fn abandon(&self) {
        *self.shared.lock() = None;
        self.held.lock().take().into_iter().for_each(HeldVersion::release);
        let new = self.new.lock().take();
        new.into_iter().for_each(|new| new.abandon());
    }

    fn remark(&self) -> Option<String> {
        let (some, all) = (self.plan.on_one_worker, self.plan.segments.len());
        (some > 0).then(|| {
            format!(
                "{some} of {all} segments have copies on one worker, which takes all of them with \
                 it; say in disks.json which `worker` owns each disk"
            )
        })
    }
}

/// No batches are fetched: writers exchange messages with the blocks of mirrors.
impl ExchangeServer for Writing {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn on_message(&self, process: usize, message: &[u8], body: &Buffer) -> Result<()> {
        // Messages that arrive after it has been abandoned are ignored.
        self.making().map_or(Ok(()), |new| new.on_message(process, message, body))
    }
}

impl Sink for Writing {
    fn target(&self) -> String {
        format!("collection {}", self.config.collection)
    }

    fn staging_folder(&self) -> Option<PathBuf> {
        let catalog = Catalog::of(&self.home).ok()?;
        catalog.reserves_in(&self.config.collection)
    }

    fn sync(&self) -> Result<()> {
        let Some(shared) = self.shared.lock().take() else { return Ok(()) };
        let shared = Arc::into_inner(shared)
            .ok_or_else(|| Error::failed("an instance has not ended yet"))?;
        self.making().map_or(Ok(()), |new| new.add(shared))
    }

    fn staged(&self) -> Result<Value> {
        let new = self.making().ok_or_else(|| Error::failed("nothing has been written"))?;
        serde_json::to_value(new.prepare()?).map_err(Error::failed)
    }

    fn output(
        &self,
        staged: Vec<Value>,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Value> {
        let parts = staged.into_iter().map(serde_json::from_value);
        let parts = parts.collect::<Result<_, _>>().map_err(Error::corrupt)?;
        let how = (&self.config.options(run_id, decision)?, self.order.clone());
        let (home, name, before) = (&self.home, &self.config.collection, self.before.as_ref());
        let (version, held) = prepare_version(home, name, before, &self.schema, how, parts)?;
        *self.held.lock() = Some(held);
        serde_json::to_value(PreparedOutput::Collection(Box::new(version))).map_err(Error::failed)
    }

    fn on_committed(&self) {
        self.held.lock().take().into_iter().for_each(HeldVersion::release);
        let new = self.new.lock().take();
        new.into_iter().for_each(|new| new.on_published());
    }

    fn on_orphaned(&self) {
        *self.held.lock() = None;
        let is_left = self.new.lock().as_ref().is_some_and(|new| new.leave());
        if !is_left {
            self.abandon();
        }
    }

    fn reclaim(&self) {
        // The next start, or `euphrates gc`, removes the rest.
        let _ = reclaim(&self.home);
    }
}

struct Instance {
    new: Arc<NewCollection>,
    shared: Option<Arc<NewSegments>>,
    /// Whether it writes part of a stream, of which other processes write other runs.
    is_part: bool,
    cancel: Arc<Cancel>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        match self.shared.take() {
            Some(shared) => self.write(&shared, ports),
            None if self.is_part => {
                let segments = self.new.begin_for_single_writer()?;
                self.write(&segments, ports)?;
                number(&segments, ports)?;
                self.new.add(segments)
            }
            None => {
                // Writers of one file would serialize in the file system.
                let segment = self.new.begin_segment()?;
                self.write(&segment, ports)?;
                self.new.add(segment)
            }
        }
    }
}

impl Instance {
    fn write(&self, segments: &NewSegments, ports: &mut Ports) -> Result<()> {
        let mut writer = BlockWriter::new(segments, self.new.schema(), self.is_part, &self.cancel)?;
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
                    if !self.is_part {
                        writer.await_turn(Some(ended), ports)?;
                        segments.end_run(ended, &self.cancel)?;
                    }
                }
                Taken::Empty => {}
                Taken::End => {
                    writer.flush(run, ports)?;
                    self.new.add_statistics(writer.statistics());
                    return Ok(());
                }
            }
        }
    }
}

/// All-gather of the number of blocks of each run, from which each writer numbers its own blocks.
fn number(segments: &NewSegments, ports: &Ports) -> Result<()> {
    let own = serde_json::to_vec(&segments.blocks_by_run()).map_err(Error::failed)?;
    let all = {
        let _waits = ports.metrics().enter(InstanceState::Starved);
        ports.setup().all_gather("blocks", own)?
    };
    let mut blocks: BTreeMap<RunIndex, u32> = BTreeMap::new();
    for value in all {
        let part = serde_json::from_slice::<BTreeMap<RunIndex, u32>>(&value);
        blocks.extend(part.map_err(Error::corrupt)?);
    }
    let mut next = 0;
    let first = blocks.into_iter().map(|(run, blocks)| {
        next += blocks;
        (run, next - blocks)
    });
    segments.number_blocks(&first.collect())
}
