//! Joins two inputs by equal keys.
//!
//! No share is assigned in advance: each instance takes build-side batches when it is free, and
//! packs them into rows. If all fit, the instances of a process build one hash table (of several
//! processes, each builds the same one from a small build side, which is broadcast) and probe it
//! with what they take of the probe side (River, Fig. 11). Otherwise rows are partitioned by hash:
//! in one process, resident parts are joined while the probe side streams; the other parts are
//! joined one by one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow::array::BooleanArray;
use arrow::compute::{filter_record_batch, not};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::module::{Bound, Configure, Inputs, InstanceFactory, Interface};
use euphrates_flow::{
    Error, MemoryDemand, MemoryReservation, Module, ModuleSpec, PortNames, Ports, Result, Setup,
    spec, split_batch,
};
use euphrates_policy::hash_partitions::{must_help_spill, must_spill, must_write, part_bits};
use euphrates_policy::join::{
    COLUMN_TABLE_BYTES_MAX, JoinUnit, MaySlice, broadcasts_build_side, builds_from_left, units,
};
use serde_json::Value;

use crate::batches::coalescer::Coalescer;
use crate::batches::long_rows::lock_if_long;
use crate::coordination::collective::all_gather;
use crate::coordination::work_units::WorkUnits;
use crate::expression::Budget;
use crate::join::build_state::{BuildState, sums};
use crate::join::config::{Build, Config};
use crate::join::dictionary_keys::DictionaryKeys;
use crate::join::hash_table::HashTable;
use crate::join::packed_rows::BATCHES_MAX;
use crate::join::part_join::{PartInputs, PartJoin, PreparedJoin};
use crate::join::plan::{JoinPlan, JoinSide, JoinSpec};
use crate::join::probe::{Prober, emitted_rows, of_one, of_table};
use crate::join::row_request::RowRequest;
use crate::join::shared_join::SharedJoin;
use crate::join::side_layout::SideLayout;
use crate::key_filters::join_filters::JoinFilters;
use crate::partitioning::hashing::part_of;
use crate::partitioning::spill_store::{
    PartBits, PartitionSlice, SpillStore, coalesced, spill_remark,
};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "join",
    summary: "Joins its inputs `left` and `right` by equal keys.",
    detail: "One side is held in memory, as a table, and what does not fit goes to scratch; the \
             other streams by. It is the right that is held, unless less is read for the left or \
             `build` says so. Nulls match nothing, NaN matches NaN. Columns of the left come \
             first, then those of the right but its keys; keys come once, with the value of \
             whichever side has one. Nothing is read of the side that streams by before the other \
             has ended, so both must not come from one `tee`. A `scan` of that side leaves out \
             rows whose keys match nothing, as far as that is cheaper, if only `filter`, `sort` \
             and `partition` are between and such rows do not come out. The output has no order.",
    example: r#">>> flow = eu.Flow()
>>> join = flow.place(eu.join("city"))
>>> orders = flow.place(eu.from_arrow({"city": ["Ur", "Kish"], "price": [2, 3]}))
>>> cities = flow.place(eu.from_arrow({"city": ["Ur"], "founded": [-3800]}))
>>> _ = orders >> join["left"], cities >> join["right"], join >> eu.collect()
>>> flow.go().collected().to_pydict()
{'city': ['Ur'], 'price': [2], 'founded': [-3800]}"#,
    inputs: PortNames::Fixed(&["left", "right"]),
    memory: MemoryDemand::Adaptive,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let given = config.clone();
        let config: Config = spec::parse_config(config)?;
        if config.on.is_empty() {
            return Err(Error::usage("`on` is empty").remedy("name at least one column"));
        }
        Ok(Arc::new(Join { given, config }))
    },
    ..ModuleSpec::USUAL
};

struct Join {
    /// The configuration as given.
    given: Value,
    config: Config,
}

impl Configure for Join {
    fn interface(&self) -> Interface {
        let (needs, rows) = (self.config.needs(), self.config.rows());
        Interface { needs, rows, ..Interface::default() }
    }

    fn key_source(
        &self,
        column: &str,
        input: usize,
        schemas: &[Option<SchemaRef>],
    ) -> Option<String> {
        let left = schemas.first().and_then(Option::as_ref);
        self.config.key_source(column, JoinSide::of(input as u64), left)
    }

    fn resolved(&self, bytes: &[Option<u64>], _: &Path) -> Result<Option<Value>> {
        let given = self.given.as_object().filter(|_| self.config.build == Build::Auto);
        let Some(mut config) = given.cloned() else { return Ok(None) };
        let build = if builds_from_left(bytes[0], bytes[1]) { "left" } else { "right" };
        config.insert("build".into(), build.into());
        Ok(Some(config.into()))
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let spec = JoinSpec { needed: inputs.needed, ..self.config.spec() };
        let plan = JoinPlan::new(&spec, inputs.schemas)?;
        let output = plan.output.clone();
        let build = Arc::new(SideLayout::new(plan.build_side())?);
        let probe = Arc::new(SideLayout::new(plan.probe_side())?);
        let slots = inputs.key_filters.get(plan.build.other() as usize).cloned();
        let slots = slots.filter(|slots| slots.iter().all(|slot| !slot.columns().is_empty()));
        let slots = slots.unwrap_or_default();
        let filtered = slots.iter().filter_map(|slot| {
            let sources = slot.sources().join(" and ");
            let by = slot.columns().join(", ");
            (!sources.is_empty()).then(|| format!("{sources} by {by}"))
        });
        let filtered: Vec<String> = filtered.collect();
        let extent =
            (!filtered.is_empty()).then(|| format!("may filter {}", filtered.join(" and ")));
        let ready = PreparedJoin {
            plan,
            build_layout: build,
            probe_layout: probe,
            columns_bytes_max: COLUMN_TABLE_BYTES_MAX,
        };
        let shared = Arc::new(SharedJoin::new(ready, slots));
        Ok(Bound { extent, exchange: Some(shared.clone()), ..Bound::shared([output], shared) })
    }
}

impl InstanceFactory for SharedJoin {
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let scratch = self.scratch.get_or_init(|| Arc::new(Scratch::new(setup))).clone();
        let reserved = || Arc::new(setup.memory.reservation());
        let reservation = self.reservation.get_or_init(reserved).clone();
        let ready = self.ready.clone();
        let bits = PartBits { used: 0, bits: part_bits(setup.instances) };
        let coalescer = Coalescer::default();
        let filters = self.filters(setup)?;
        let join = self;
        Ok(Box::new(Instance { join, ready, scratch, reservation, filters, bits, coalescer }))
    }

    fn remark(&self) -> Option<String> {
        let sent = self.is_broadcast.load(Relaxed);
        let sent = sent.then(|| "every worker had all rows of the side that was held".into());
        sent.or_else(|| spill_remark(self.spilled_bytes.load(Relaxed)))
    }
}

struct Instance {
    join: Arc<SharedJoin>,
    ready: Arc<PreparedJoin>,
    scratch: Arc<Scratch>,
    reservation: Arc<MemoryReservation>,
    filters: Arc<JoinFilters>,
    bits: PartBits,
    coalescer: Coalescer,
}

impl Drop for Instance {
    /// An instance that fails, or whose consumers have had enough, leaves nobody waiting.
    fn drop(&mut self) {
        self.filters.give_up();
    }
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let mut held = self.take_build_side(ports)?;
        let all = self.gather_taken(&held, ports)?;
        let can_share_table = ports.setup().is_in_one_process && all.batches < BATCHES_MAX;
        if all.fit && (can_share_table || self.sends_to_all(&all)) {
            let copies =
                if can_share_table { 1 } else { ports.setup().exchange.others().len() + 1 };
            let held = if can_share_table {
                held.take_unpartitioned()?
            } else {
                self.fetch_build_side(held, ports)?
            };
            self.reservation.resize(all.bytes);
            let build = &self.join.shared_build;
            let filters = Some(&*self.filters);
            let table = build.build_table(&self.ready, held, copies, filters, ports)?;
            self.probe(&table, None, ports)?;
            self.put_by_match(&table, ports)?;
            drop(table);
            if self.join.shared_build.leave_table(ports.setup().instances_here) {
                self.reservation.resize(0);
            }
        } else {
            self.filters.give_up();
            let resident = if can_share_table { all.resident } else { 0 };
            self.by_parts(held, resident, !all.fit, ports)?;
        }
        self.coalescer.flush(ports)
    }
}

impl Instance {
    /// Takes what it can of the build side.
    fn take_build_side(&mut self, ports: &mut Ports) -> Result<SpillStore> {
        let ready = self.ready.clone();
        let side = ready.plan.build;
        let mut store =
            SpillStore::new(ready.build_layout.held().clone(), self.bits, self.scratch.clone());
        while let Some(batch) = ports.get(side as usize)? {
            for batch in split_batch(batch) {
                let batch = self.split_nulls(side, batch, ports)?;
                self.filters.add(&batch)?;
                let _turn = lock_if_long(&batch, ports.setup().memory.share_bytes());
                let bytes = store.push(ready.build_layout.pack(&batch)?)?;
                self.spill_if_full(&mut store, bytes, ports)?;
            }
        }
        Ok(store)
    }

    fn gather_taken(&self, held: &SpillStore, ports: &Ports) -> Result<BuildState> {
        let own = BuildState::encode(held, ports.setup().memory.limit_bytes());
        Ok(BuildState::of_all(&all_gather(ports, "taken", &own)?))
    }

    /// Whether the build side is broadcast to all processes. Not if matches are tracked, since
    /// processes do not know matches of others.
    fn sends_to_all(&self, all: &BuildState) -> bool {
        !self.ready.tracks() && broadcasts_build_side(all.bytes, all.memory_bytes)
    }

    /// Fetches the build side of all processes, in shares that the instances claim.
    fn fetch_build_side(&self, held: SpillStore, ports: &Ports) -> Result<Vec<RecordBatch>> {
        let (side, shared_build) = (self.ready.plan.build, &self.join.shared_build);
        shared_build.add(side, held.finish()?);
        self.filters.gathered(&all_gather(ports, "sent", &self.filters.sent())?)?;
        let mut batches_here = vec![];
        while let Some(slice) = shared_build.next_share(ports.setup().instances_here) {
            let request = RowRequest { side, parts: 0..self.bits.parts(), slice };
            let batches = self.join.read(&self.ready, &request, ports.setup())?;
            for batch in coalesced(self.ready.build_layout.held(), batches) {
                ports.check()?;
                batches_here.push(batch?);
            }
        }
        // One process reports it for all.
        let exchange = &ports.setup().exchange;
        let is_first = exchange.others().iter().all(|other| exchange.me() < *other);
        self.join.is_broadcast.store(is_first, Relaxed);
        Ok(batches_here)
    }

    /// Spills parts if the process holds too much.
    fn spill_if_full(&self, store: &mut SpillStore, more: usize, ports: &Ports) -> Result<()> {
        let setup = ports.setup();
        let held = self.reservation.grow(more);
        let turn = must_help_spill(store.bytes(), held, setup.instances_here);
        if !turn || !must_spill(held, setup.memory.limit_bytes()) {
            return Ok(());
        }
        let before = store.bytes();
        self.on_spilled(store.spill()?, ports);
        self.reservation.shrink(before - store.bytes());
        Ok(())
    }

    fn on_spilled(&self, bytes: usize, ports: &Ports) {
        ports.metrics().spilled(bytes);
        self.join.spilled_bytes.fetch_add(bytes, Relaxed);
    }

    /// Rows with null keys match nothing: they are output now, or never.
    fn split_nulls(
        &mut self,
        side: JoinSide,
        batch: RecordBatch,
        ports: &mut Ports,
    ) -> Result<RecordBatch> {
        let rows = self.ready.rows(side);
        let (nulls, others) = rows.keys().split_nulls(batch)?;
        if let (Some(nulls), Some(false)) = (nulls, self.ready.plan.emits(side)) {
            let columns = rows.columns(&nulls);
            let out = of_one(&self.ready.plan, side, &columns, nulls.num_rows())?;
            self.coalescer.put(ports, out)?;
        }
        Ok(others)
    }

    /// Probes with what it can take of the other side; rows of parts that are not in the table are
    /// stored.
    fn probe(
        &mut self,
        table: &HashTable,
        mut waiting: Option<(usize, &mut SpillStore)>,
        ports: &mut Ports,
    ) -> Result<()> {
        let ready = self.ready.clone();
        let side = ready.plan.build.other();
        let mut prober = Prober::new(&ready.plan, table, Budget::of(ports.setup()));
        let mut dictionary = DictionaryKeys::default();
        while let Some(batch) = ports.get(side as usize)? {
            for batch in split_batch(batch) {
                let mut batch = self.split_nulls(side, batch, ports)?;
                let turn = lock_if_long(&batch, ports.setup().memory.share_bytes());
                let mut rows = ready.probe_layout.take_encoded(&batch, &mut dictionary)?;
                if let Some((resident, store)) = &mut waiting {
                    let bits = self.bits.bits;
                    let stays = |row| part_of(rows.hash(row), 0, bits) < *resident;
                    let stays: BooleanArray =
                        (0..rows.count()).map(|row| Some(stays(row))).collect();
                    let waits = filter_record_batch(&batch, &not(&stays)?)?;
                    store.push(ready.probe_layout.pack(&waits)?)?;
                    if must_write(store.bytes(), ports.setup().memory.share_bytes()) {
                        self.on_spilled(store.write()?, ports);
                    }
                    batch = filter_record_batch(&batch, &stays)?;
                    rows = ready.probe_layout.take_encoded(&batch, &mut dictionary)?;
                }
                drop(turn);
                let put = &mut |batch| self.coalescer.put(ports, batch);
                if let Some(matched) = prober.pairs(&rows, put)?
                    && let Some(out) = emitted_rows(&ready.plan, side, &rows.columns, &matched)?
                {
                    put(out)?;
                }
            }
        }
        Ok(())
    }

    /// Puts the table's rows that are output by match.
    fn put_by_match(&mut self, table: &HashTable, ports: &mut Ports) -> Result<()> {
        if !self.ready.tracks() {
            return Ok(());
        }
        all_gather(ports, "probed", &[])?;
        loop {
            let batch = self.join.shared_build.next_batch();
            if batch >= table.batches() {
                return Ok(());
            }
            let put = &mut |batch| self.coalescer.put(ports, batch);
            of_table(&self.ready.plan, table, batch, put)?;
        }
    }

    /// Joins resident parts while the probe side streams, and the others part by part.
    fn by_parts(
        &mut self,
        mut held: SpillStore,
        resident: usize,
        spills: bool,
        ports: &mut Ports,
    ) -> Result<()> {
        let (join, ready) = (self.join.clone(), self.ready.clone());
        let build = ready.plan.build;
        held.partition(resident)?;
        if spills {
            let before = held.bytes();
            self.on_spilled(held.write()?, ports);
            // The rows that stay are joined to larger batches, whose bytes may be a few more.
            self.reservation.shrink(before.saturating_sub(held.bytes()));
        }
        let sizes = held.sizes();
        let staying_bytes = if resident > 0 { held.bytes() } else { 0 };
        let staying = if resident > 0 { held.take_resident() } else { vec![] };
        join.shared_build.add(build, held.finish()?);
        // A collective takes as long as the slowest instance, so it is skipped if there is no
        // table.
        let table = match resident {
            0 => Arc::new(HashTable::of(ready.build_layout.clone(), vec![], (false, 0))?),
            _ => join.shared_build.build_table(&ready, staying, 1, None, ports)?,
        };
        let schema = ready.probe_layout.held().clone();
        let mut waiting = SpillStore::new(schema, self.bits, self.scratch.clone());
        waiting.partition(0)?;
        self.probe(&table, Some((resident, &mut waiting)), ports)?;
        let own = [sizes, waiting.sizes()].concat();
        join.shared_build.add(build.other(), waiting.finish()?);
        if resident > 0 {
            self.put_by_match(&table, ports)?;
        }
        drop(table);
        self.reservation.shrink(staying_bytes);
        let both = sums(&all_gather(ports, "waiting", &own)?, 2 * self.bits.parts());
        let (sizes, others) = both.split_at(self.bits.parts());
        join.shared_build.forget_table();
        let setup = ports.setup().clone();
        // Rows that are output by match must be compared with all of the other side.
        let is_free = |side| ready.plan.emits(side).is_none();
        let may_slice = MaySlice { build: is_free(build.other()), probe: is_free(build) };
        let of = |sizes: &[usize]| [vec![0; resident], sizes[resident..].to_vec()].concat();
        let units = units(&of(sizes), &of(others), setup.instances, may_slice);
        let units: Vec<JoinUnit> = units.into_iter().filter(|unit| unit.part >= resident).collect();
        let work = |unit: &JoinUnit| ((sizes[unit.part] + others[unit.part]) / unit.slices) as u64;
        let mut left =
            WorkUnits::new(&setup, "parts", units.len(), |some| units[some].iter().map(work).sum());
        while let Some(unit) = left.claim()? {
            self.join_unit(units[unit], sizes[units[unit].part], ports)?;
        }
        Ok(())
    }

    /// Joins a part from all processes, or a slice of it.
    fn join_unit(&mut self, unit: JoinUnit, build_bytes: usize, ports: &mut Ports) -> Result<()> {
        let (join, ready) = (self.join.clone(), self.ready.clone());
        let setup = ports.setup().clone();
        let spilled = std::cell::Cell::new(0);
        let side = ready.plan.build;
        let slice = PartitionSlice { number: unit.slice, of: unit.slices };
        let mut build = RowRequest::part(side, unit.part);
        let mut probe = RowRequest::part(side.other(), unit.part);
        if unit.is_build_sliced { &mut build } else { &mut probe }.slice = slice;
        let build_bytes = build_bytes / build.slice.of;
        let share_bytes = setup.memory.share_bytes();
        let reservation = setup.memory.reservation();
        reservation.resize(build_bytes.saturating_mul(2).min(share_bytes));
        let parts = PartJoin {
            ready: &ready,
            scratch: &self.scratch,
            share_bytes,
            cancel: &setup.cancel,
            spilled: &|bytes| spilled.set(spilled.get() + bytes),
        };
        // Both are requested at once, so that a slow process delays the join once.
        let asked = [&build, &probe].map(|request| join.read(&ready, request, &setup));
        let [held, other] = asked.map(|asked| std::cell::Cell::new(Some(asked)));
        let again = |request| join.read(&ready, request, &setup);
        let part = PartInputs {
            build: &|| held.take().unwrap_or_else(|| again(&build)),
            probe: &|| other.take().unwrap_or_else(|| again(&probe)),
            build_bytes,
        };
        let put = &mut |batch| self.coalescer.put(ports, batch);
        parts.join(&part, 0, self.bits, put)?;
        self.on_spilled(spilled.get(), ports);
        Ok(())
    }
}
