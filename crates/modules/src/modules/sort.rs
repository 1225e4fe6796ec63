//! Sorts any number of records by any number of columns.
//!
//! One pass when they fit the memory, two when they do not (River 4.2; NOW-Sort, 6.1). Every
//! instance takes what it can from its queue and keeps it in sorted chunks, or writes it to scratch
//! as a sorted run when its share of memory is full. When the input has ended, all runs of all
//! instances are cut into ranges of about one size, and each instance merges the next range as soon
//! as it is free: a slow instance merges fewer. Every range goes out as one run, so consumers are
//! balanced too and still know the order.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::State;
use euphrates_flow::spec::{self, IN, OUT};
use euphrates_flow::{
    Batches, Cancel, Effect, Error, Module, ModuleSpec, Order, Parcel, Placed, Ports, Result,
    RunIndex, Setup, Taken,
};
use euphrates_io::scratch::Scratch;
use euphrates_policy::sort::{RANGE_BYTES, disk_range_bytes, may_stay, must_spill};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::order_by::{SortKey, resolve};
use crate::sort::council::{Council, Share};
use crate::sort::keys::{KeyColumn, KeyEncoder};
use crate::sort::layout::Layout;
use crate::sort::ranges::Ranges;
use crate::sort::runs::MemoryRuns;
use crate::sort::spill::DiskRun;

/// The module.
pub static MODULE: ModuleSpec = ModuleSpec {
    name: "sort",
    summary: "Sorts its input by one or more columns, spilling to disk what does not fit.",
    detail: "Each key is a column name, `\"price desc\"`, `\"name asc nulls first\"`, or an object \
             with `column`, `descending`, `nulls_first`. Nulls come last unless asked for first. \
             Zeros of either sign are equal, and NaN comes behind all numbers; lists and structs \
             are compared by their first difference, their nulls wherever the column's own would \
             come. The output is a stream of runs in order: `save` and `write` keep it.",
    inputs: IN,
    outputs: OUT,
    order: Order::Any,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: true,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        let config: Config = spec::parse_config(config)?;
        if config.by.is_empty() {
            return Err(Error::usage("`by` is empty").remedy("name at least one column"));
        }
        Ok(Arc::new(Sort { config, shared: Mutex::default(), changed: Condvar::new() }))
    },
};

/// What to sort by.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The columns, most significant first.
    pub by: Vec<SortKey>,
    /// Keep the input's order among records with equal keys. The input must be a stream.
    #[serde(default)]
    pub stable: bool,
}

struct Sort {
    config: Config,
    shared: Mutex<Shared>,
    changed: Condvar,
}

/// What the instances bring together.
#[derive(Default)]
struct Shared {
    /// Known once the flow is checked.
    layout: Option<Arc<Layout>>,
    encoder: Option<Arc<KeyEncoder>>,
    scratch: Option<Arc<Scratch>>,
    instances: usize,
    share_bytes: usize,
    arrived: usize,
    runs_written: usize,
    memory: Vec<MemoryRuns>,
    disk: Vec<DiskRun>,
    /// All that is here, until all processes know where to cut, and who has spoken for it.
    uncut: Option<(Ranges, usize)>,
    ranges: Option<Arc<Ranges>>,
    cancel: Option<Arc<Cancel>>,
    spilled_bytes: usize,
}

/// The name of the column that keeps a stable sort stable.
const POSITION: &str = "__position";

impl Placed for Sort {
    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let mut columns = resolve(&self.config.by, &inputs[0])?;
        let input = match self.config.stable {
            true => with_position(&inputs[0], &mut columns),
            false => inputs[0].clone(),
        };
        let layout = Layout::new(&input, inputs[0].clone(), columns);
        let encoder = KeyEncoder::new(layout.held(), layout.keys().to_vec())?;
        let mut shared = self.lock();
        (shared.layout, shared.encoder) = (Some(Arc::new(layout)), Some(Arc::new(encoder)));
        Ok(vec![inputs[0].clone()])
    }

    fn is_ordered(&self, _: bool, _: bool) -> bool {
        true
    }

    fn sorted_by(&self, _: &[String]) -> Vec<String> {
        self.config.by.iter().map(SortKey::to_string).collect()
    }

    fn needs_runs(&self) -> bool {
        self.config.stable
    }

    fn serves(&self) -> Option<SchemaRef> {
        self.lock().layout.as_ref().map(|layout| layout.held().clone())
    }

    /// A range of what is here.
    fn serve(&self, range: u64) -> Result<Batches> {
        let ranges = self.await_ranges()?;
        Ok(Box::new(ranges.merge(range as usize)?.into_batches()))
    }

    fn prepare(&self, setup: &Setup) -> Result<()> {
        let mut shared = self.lock();
        shared.scratch = Some(Arc::new(Scratch::new(setup)));
        shared.instances = setup.instances_here;
        shared.share_bytes = setup.memory_bytes;
        shared.cancel = Some(setup.cancel.clone());
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let (layout, encoder, scratch) = {
            let shared = self.lock();
            let layout = shared.layout.clone().expect("schemas() has been called");
            let encoder = shared.encoder.clone().expect("schemas() has been called");
            let scratch = shared.scratch.clone().expect("prepare() has been called");
            (layout, encoder, scratch)
        };
        let batches_max = encoder.batches_max() / (setup.instances + 1);
        let held = MemoryRuns::new(encoder.clone());
        let share_bytes = setup.memory_bytes;
        let intake = Intake { layout, encoder, scratch, held, share_bytes, batches_max };
        Ok(Box::new(Instance { sort: self, intake: Some(intake) }))
    }

    fn remark(&self) -> Option<String> {
        let shared = self.lock();
        match shared.runs_written {
            0 => Some("one pass: everything fitted the memory".to_string()),
            runs => Some(format!(
                "two passes: {runs} sorted runs, {:.1} MB went through scratch",
                shared.spilled_bytes as f64 / 1e6
            )),
        }
    }
}

impl Sort {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Hands in what an instance has, and waits for the ranges.
    fn meet(&self, intake: Intake, disk: Vec<DiskRun>, ports: &Ports) -> Result<Arc<Ranges>> {
        let speaks = self.hand_in(intake, disk, ports.setup());
        let _state = ports.metrics().enter(State::Starved);
        if ports.setup().is_whole {
            return self.await_ranges();
        }
        let all = Council::of(&ports.setup().gather("shares", speaks.unwrap_or_default())?)?;
        let mut shared = self.lock();
        if let Some((mut ranges, speaker)) = shared.uncut.take() {
            let range_bytes = shared.range_bytes(all.disk_runs());
            all.cut(&mut ranges, speaker, range_bytes);
            shared.ranges = Some(Arc::new(ranges));
            self.changed.notify_all();
        }
        drop(shared);
        self.await_ranges()
    }

    /// The last to arrive cuts the ranges, if all that there is is here; else it says what the
    /// others need to know of it.
    fn hand_in(&self, intake: Intake, disk: Vec<DiskRun>, setup: &Setup) -> Option<Vec<u8>> {
        let Intake { layout, encoder, held, .. } = intake;
        let mut shared = self.lock();
        shared.arrived += 1;
        shared.runs_written += disk.len();
        shared.spilled_bytes += disk.iter().map(DiskRun::bytes).sum::<usize>();
        shared.memory.push(held);
        shared.disk.extend(disk);
        if shared.arrived < shared.instances {
            return None;
        }
        let range_bytes = shared.range_bytes(shared.disk.len());
        let (memory, disk) = (std::mem::take(&mut shared.memory), std::mem::take(&mut shared.disk));
        let (held, disk_runs) = (layout.held().clone(), disk.len());
        if setup.is_whole {
            shared.ranges = Some(Arc::new(Ranges::new(encoder, held, memory, disk, range_bytes)));
            self.changed.notify_all();
            return None;
        }
        let uncut = Ranges::uncut(encoder, held, memory, disk);
        let processes = setup.exchange.others().len() + 1;
        let share = Share::of(&uncut, disk_runs, processes).write();
        shared.uncut = Some((uncut, setup.instance));
        Some(share)
    }

    fn await_ranges(&self) -> Result<Arc<Ranges>> {
        let mut shared = self.lock();
        loop {
            if let Some(ranges) = &shared.ranges {
                return Ok(ranges.clone());
            }
            shared.cancel.as_ref().map_or(Ok(()), |cancel| cancel.check())?;
            let woken = self.changed.wait_timeout(shared, Duration::from_millis(50));
            shared = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}

impl Shared {
    /// What is merged at once, of so many runs on disk.
    fn range_bytes(&self, disk_runs: usize) -> usize {
        match disk_runs {
            0 => RANGE_BYTES,
            runs => disk_range_bytes(self.share_bytes, runs),
        }
    }
}

struct Instance {
    sort: Arc<Sort>,
    intake: Option<Intake>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let mut intake = self.intake.take().expect("an instance runs once");
        let layout = intake.layout.clone();
        let disk = match self.sort.config.stable {
            true => intake.fill_in_order(ports)?,
            false => intake.fill(ports)?,
        };
        let ranges = self.sort.meet(intake, disk, ports)?;
        let setup = ports.setup().clone();
        loop {
            let range = setup.next("ranges")? as usize;
            if range >= ranges.count() {
                return Ok(());
            }
            ports.begin_run(0, range as RunIndex)?;
            let others = setup.exchange.others();
            // All of them are asked before the first has answered.
            let others = others.into_iter().map(|other| setup.exchange.fetch(other, range as u64));
            let others = others.collect::<Result<Vec<_>>>()?;
            for batch in ranges.merge_with(range, others.into_iter().flatten())?.batches() {
                ports.put(0, layout.unpack(batch?)?)?;
            }
            ports.end_run(0)?;
        }
    }
}

/// What one instance has taken in.
struct Intake {
    layout: Arc<Layout>,
    encoder: Arc<KeyEncoder>,
    scratch: Arc<Scratch>,
    held: MemoryRuns,
    share_bytes: usize,
    batches_max: usize,
}

impl Intake {
    fn fill(&mut self, ports: &mut Ports) -> Result<Vec<DiskRun>> {
        let mut disk = Vec::new();
        while let Some(batch) = ports.get(0)? {
            disk.extend(self.take_in(batch, ports)?);
        }
        self.close(&mut disk, ports)?;
        Ok(disk)
    }

    /// Like `fill`, and adds to each record its place in the stream.
    fn fill_in_order(&mut self, ports: &mut Ports) -> Result<Vec<DiskRun>> {
        let (mut disk, mut current, mut row) = (Vec::new(), None, 0u64);
        loop {
            match ports.get_in_runs(0)? {
                Taken::Batch(Parcel { batch, run, .. }) => {
                    let run = run.expect("a stable sort is fed in runs");
                    if current.replace(run) != Some(run) {
                        row = 0;
                    }
                    let positions = (row..).map(|row| (run << 40) | row);
                    row += batch.num_rows() as u64;
                    let batch = add_position(self.layout.input(), batch, positions)?;
                    disk.extend(self.take_in(batch, ports)?);
                }
                Taken::RunEnd(_) | Taken::Empty => {}
                Taken::End => break,
            }
        }
        self.close(&mut disk, ports)?;
        Ok(disk)
    }

    fn take_in(&mut self, batch: RecordBatch, ports: &Ports) -> Result<Option<DiskRun>> {
        self.held.push(self.layout.pack(batch)?)?;
        let full = must_spill(self.held.bytes(), self.share_bytes);
        if full || self.held.batches.len() >= self.batches_max {
            return self.spill(ports).map(Some);
        }
        Ok(None)
    }

    fn close(&mut self, disk: &mut Vec<DiskRun>, ports: &Ports) -> Result<()> {
        self.held.close_chunk();
        let range_bytes = disk_range_bytes(self.share_bytes, disk.len() * 2);
        let stays = disk.is_empty() || may_stay(self.held.bytes(), self.share_bytes, range_bytes);
        if !stays && !self.held.is_empty() {
            disk.push(self.spill(ports)?);
        }
        Ok(())
    }

    fn spill(&mut self, ports: &Ports) -> Result<DiskRun> {
        let path: PathBuf = self.scratch.file("run")?;
        let held = self.held.take();
        let run = DiskRun::write(&path, &self.encoder, self.layout.held(), held, ports.setup())?;
        ports.metrics().spilled(run.bytes());
        Ok(run)
    }
}

fn with_position(input: &SchemaRef, columns: &mut Vec<KeyColumn>) -> SchemaRef {
    let position = Arc::new(Field::new(POSITION, DataType::UInt64, false));
    let fields = input.fields().iter().cloned().chain([position]);
    columns.push(KeyColumn { column: input.fields().len(), descending: false, nulls_first: false });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn add_position(
    schema: &SchemaRef,
    batch: RecordBatch,
    positions: impl Iterator<Item = u64>,
) -> Result<RecordBatch> {
    let positions = UInt64Array::from_iter_values(positions.take(batch.num_rows()));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(positions) as ArrayRef);
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
