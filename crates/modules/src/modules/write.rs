//! Writes a collection (River, 2.2), all or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_device::disk::Disks;
use euphrates_flow::error::unknown;
use euphrates_flow::metrics::State;
use euphrates_flow::spec::{self, IN, NONE};
use euphrates_flow::{
    Cancel, DecisionRef, Effect, Error, Module, ModuleSpec, Order, Placed, Ports, Result, RunIndex,
    Setup, Spread, Taken,
};
use euphrates_store::catalog::{Catalog, Layout, Life, Manifest, check_name};
use euphrates_store::collection::{
    CreateOptions, HeldVersion, NewCollection, NewSegments, Plan, plain_batch, plain_schema,
    prepare_version, reclaim,
};
use euphrates_store::commit::Output;
use euphrates_store::mirroring::Writers;
use euphrates_store::segment::Compression;
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
        config.layout()?;
        Ok(Arc::new(Write { config, ..Write::default() }))
    },
};

/// Where and how to write.
#[derive(Debug, Default, Deserialize, JsonSchema)]
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
    fn compression(&self) -> Result<Option<Compression>> {
        match self.compression.as_deref() {
            None | Some("none") => Ok(None),
            Some(word) => Compression::parse(word).map(Some),
        }
    }

    fn layout(&self) -> Result<Option<Layout>> {
        let layouts = [Layout::Plain, Layout::Chained, Layout::Spread];
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

#[derive(Default)]
struct Write {
    config: Config,
    home: Mutex<Option<PathBuf>>,
    /// The input's schema, known once the flow is checked.
    schema: Mutex<Option<SchemaRef>>,
    /// The sort keys of the input, if it is a stream.
    order: Mutex<Option<Vec<String>>>,
    /// Where it is written, and the version it replaces; known once the flow is checked.
    plan: Mutex<Option<(Plan, Option<Manifest>)>>,
    new: Mutex<Option<Arc<NewCollection>>>,
    /// The reserved next version, until it is published.
    held: Mutex<Option<HeldVersion>>,
    /// The segments shared by all instances: those of a stream, or of several disks.
    shared: Mutex<Option<Arc<NewSegments>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Write {
    /// The collection being written. Messages of other processes need the lock too, so a thread
    /// must not block while it holds it.
    fn making(&self) -> Option<Arc<NewCollection>> {
        lock(&self.new).clone()
    }

    /// The workers that own its disks.
    fn owners(&self) -> BTreeSet<String> {
        let (home, plan) = (lock(&self.home).clone(), lock(&self.plan));
        let named = home.and_then(|home| Disks::of(&home).ok());
        let workers = named.map(|disks| disks.owners()).unwrap_or_default();
        let disks = plan.iter().flat_map(|(plan, _)| &plan.disks);
        disks.filter_map(|disk| workers.get(disk.name()).cloned()).collect()
    }
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
        if let Some(home) = &*lock(&self.home) {
            let newest = Catalog::of(home)?.before(name)?;
            let is_there = newest.as_ref().is_some_and(|newest| newest.life == Life::Live);
            if is_there && !self.config.overwrite {
                return Err(Error::usage(format!("there is a collection `{name}` already"))
                    .remedy("choose another name, or ask to overwrite"));
            }
            *lock(&self.plan) = Some((Plan::new(home, &self.config.options("", None)?)?, newest));
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

    fn spread(&self) -> Spread {
        let owners = self.owners();
        if owners.is_empty() { Spread::Anywhere } else { Spread::AtEach(owners) }
    }

    fn serves(&self) -> Option<SchemaRef> {
        // It fetches no batches: writers exchange messages with the blocks of mirrors.
        lock(&self.schema).clone().filter(|_| !self.owners().is_empty())
    }

    fn on_told(&self, process: usize, letter: &[u8], body: &Buffer) -> Result<()> {
        // Messages that arrive after it has been abandoned are ignored.
        self.making().map_or(Ok(()), |new| new.on_told(process, letter, body))
    }

    fn prepare(&self, setup: &Setup) -> Result<()> {
        let schema = lock(&self.schema).clone().expect("checked before it is prepared");
        let options = self.config.options(&setup.run_id, setup.decision.as_ref())?;
        let name = &self.config.collection;
        let workers = Disks::of(&setup.home)?.owners();
        let writers = Writers::new(setup.exchange.clone(), &workers, setup.cancel.clone());
        let new = NewCollection::create_among(&setup.home, name, &schema, options, writers)?;
        let new = Arc::new(new);
        *lock(&self.new) = Some(new.clone());
        let shared = match (new.is_parallel(), lock(&self.order).is_some()) {
            // Other processes write other runs, so writers cannot wait for their turn.
            (_, true) if !setup.is_whole => None,
            (true, _) => Some(new.segments()?),
            (false, true) => Some(new.segment()?),
            (false, false) => None,
        };
        *lock(&self.shared) = shared.map(Arc::new);
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let new = lock(&self.new).clone().expect("prepared before an instance is made");
        let shared = lock(&self.shared).clone();
        let is_part = lock(&self.order).is_some() && !setup.is_whole;
        let cancel = setup.cancel.clone();
        Ok(Box::new(Instance { new, shared, is_part, cancel }))
    }

    fn settle(&self) -> Result<()> {
        let Some(shared) = lock(&self.shared).take() else { return Ok(()) };
        let shared = Arc::into_inner(shared)
            .ok_or_else(|| Error::failed("an instance has not ended yet"))?;
        self.making().map_or(Ok(()), |new| new.add(shared))
    }

    fn staged(&self) -> Result<Value> {
        let new = self.making().ok_or_else(|| Error::failed("nothing has been written"))?;
        serde_json::to_value(new.stage()?).map_err(Error::failed)
    }

    fn output(
        &self,
        staged: Vec<Value>,
        run_id: &str,
        decision: Option<&DecisionRef>,
    ) -> Result<Value> {
        let parts = staged.into_iter().map(serde_json::from_value);
        let parts = parts.collect::<Result<_, _>>().map_err(Error::corrupt)?;
        let (home, schema) = (lock(&self.home).clone(), lock(&self.schema).clone());
        let (home, schema) = home.zip(schema).expect("checked before it is committed");
        let plan = lock(&self.plan);
        let before = plan.as_ref().and_then(|(_, before)| before.as_ref());
        let how = (&self.config.options(run_id, decision)?, lock(&self.order).clone());
        let name = &self.config.collection;
        let (version, held) = prepare_version(&home, name, before, &schema, how, parts)?;
        *lock(&self.held) = Some(held);
        serde_json::to_value(Output::Collection(Box::new(version))).map_err(Error::failed)
    }

    fn target(&self) -> Option<String> {
        Some(format!("collection {}", self.config.collection))
    }

    fn reserves_in(&self) -> Option<PathBuf> {
        let catalog = Catalog::of(lock(&self.home).as_ref()?).ok()?;
        catalog.reserves_in(&self.config.collection)
    }

    fn on_committed(&self) {
        lock(&self.held).take().into_iter().for_each(HeldVersion::release);
        if let Some(new) = lock(&self.new).take() {
            new.on_published();
        }
    }

    fn on_orphaned(&self) {
        *lock(&self.held) = None;
        let is_left = lock(&self.new).as_ref().is_some_and(|new| new.leave());
        if !is_left {
            self.abandon();
        }
    }

    fn abandon(&self) {
        *lock(&self.shared) = None;
        lock(&self.held).take().into_iter().for_each(HeldVersion::release);
        if let Some(new) = lock(&self.new).take() {
            new.abandon();
        }
    }

    fn reclaim(&self) {
        if let Some(home) = lock(&self.home).as_ref() {
            // The next start, or `euphrates gc`, removes the rest.
            let _ = reclaim(home);
        }
    }

    fn remark(&self) -> Option<String> {
        let plan = lock(&self.plan);
        let plan = &plan.as_ref().filter(|(plan, _)| plan.on_one_worker > 0)?.0;
        let (some, all) = (plan.on_one_worker, plan.segments.len());
        Some(format!(
            "{some} of {all} segments have copies on one worker, which takes all of them with it; \
             say in disks.json which `worker` owns each disk"
        ))
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
                let segments = self.new.own_segments()?;
                self.write(&segments, ports)?;
                number(&segments, ports)?;
                self.new.add(segments)
            }
            None => {
                // Writers of one file would serialize in the file system.
                let segment = self.new.segment()?;
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
        let _waits = ports.metrics().enter(State::Starved);
        ports.setup().gather("blocks", own)?
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
    segments.number(&first.collect())
}
