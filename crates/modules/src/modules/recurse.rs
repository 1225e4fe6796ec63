//! Runs a step on rows until it makes no more: recursive queries.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use euphrates_flow::module::{Bound, Configure, Inputs};
use euphrates_flow::setup::memory::MemoryReservation;
use euphrates_flow::spec::{self, MemoryDemand};
use euphrates_flow::{
    Document, Error, Module, ModuleSpec, PortNames, Ports, Result, Setup, Taken, batch_bytes,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::batches::schema_compatibility::conform;
use crate::canonical_floats::canonical_floats;
use crate::coordination::subflows::{GivenRows, run};

/// The most rounds, if the configuration does not say.
const ROUNDS_MAX: u64 = 10_000;

/// Bytes of a set's entry beside its row.
const ENTRY_BYTES: usize = 48;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "recurse",
    summary: "Runs a step on the rows that it made before, until it makes none.",
    detail: "SQL's `with recursive` becomes this module. Its first input has the rows to begin \
             with, which are rows of the result, too; the others are tables that the step reads. \
             The step is a flow, whose last module has its rows. In it, a module `given` with the \
             `input` 0 stands for the rows of the round before, one with another number for the \
             input of that number. The tables and the rows of a round are held in memory, with \
             `distinct` also the rows of all rounds.",
    example: r#">>> eu.sql('''
...     with recursive steps(n) as (select 1 union all select n * 2 from steps where n < 8)
...     select n from steps order by n
... ''').to_pydict()
{'n': [1, 2, 4, 8]}"#,
    inputs: PortNames::Many,
    parallel: false,
    memory: MemoryDemand::Adaptive,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Recurse::new(spec::parse_config(config)?)?)),
    ..ModuleSpec::USUAL
};

/// The step, and when it ends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The step, as the document of a flow.
    step: Value,
    /// Whether rows that were there before are left out, as by `union` without `all`.
    #[serde(default)]
    distinct: bool,
    /// The most rounds; more are an error. 10000 if absent.
    #[serde(default)]
    rounds_max: Option<u64>,
}

struct Recurse {
    step: Document,
    distinct: bool,
    rounds_max: u64,
}

impl Recurse {
    fn new(config: Config) -> Result<Recurse> {
        let step = Document::from_json(&config.step.to_string());
        let step = step.map_err(|error| error.at("step"))?;
        let rounds_max = config.rounds_max.unwrap_or(ROUNDS_MAX);
        Ok(Recurse { step, distinct: config.distinct, rounds_max })
    }
}

impl Configure for Recurse {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let Some(first) = inputs.schemas.first() else {
            return Err(Error::usage("`recurse` has no rows to begin with"));
        };
        let nullable = |field: &Field| field.clone().with_nullable(true);
        let fields = first.fields().iter().map(|field| nullable(field)).collect::<Vec<_>>();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let schemas: Vec<SchemaRef> = inputs.schemas.iter().map(|it| (*it).clone()).collect();
        let output = schema.clone();
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (recurse, schema, schemas) = (self.clone(), schema.clone(), schemas.clone());
            Ok(Box::new(move |ports: &mut Ports| recurse.run(&schema, &schemas, ports)))
        };
        Ok(Bound::new([output], instance))
    }
}

impl Recurse {
    fn run(&self, schema: &SchemaRef, schemas: &[SchemaRef], ports: &mut Ports) -> Result<()> {
        let setup = ports.setup().clone();
        let held = HeldRows { setup: setup.clone(), reservation: setup.memory.reservation() };
        let mut tables = read_all(schemas, ports, &held)?;
        let start = std::mem::take(&mut tables[0].batches);
        let tables_bytes: usize = tables.iter().map(GivenRows::bytes).sum();
        let mut known = self.distinct.then(|| KnownRows::new(schema)).transpose()?;
        let mut rows = self.kept(start, schema, known.as_mut())?;
        for round in 0.. {
            for batch in &rows {
                ports.put(0, batch.clone())?;
            }
            if rows.is_empty() {
                return Ok(());
            }
            if round == self.rounds_max {
                let error = Error::failed(format!("the query does not end in {round} rounds"));
                return Err(error.remedy("add a condition that leaves no row in the end"));
            }
            tables[0] = GivenRows { schema: schema.clone(), batches: rows };
            let known_bytes = known.as_ref().map_or(0, |known| known.bytes);
            held.resize(tables_bytes + known_bytes + tables[0].bytes())?;
            let made = run(&self.step, tables.clone(), setup.budget_bytes / 2, &setup)?;
            tables[0].batches = vec![];
            rows = self.kept(made.batches, schema, known.as_mut())?;
        }
        Ok(())
    }

    /// The batches with rows, in the columns of the output; with `distinct`, the rows not known.
    fn kept(
        &self,
        batches: Vec<RecordBatch>,
        schema: &SchemaRef,
        mut known: Option<&mut KnownRows>,
    ) -> Result<Vec<RecordBatch>> {
        let mut kept = vec![];
        for batch in batches {
            let batch = conform(batch, schema)?;
            let batch = match &mut known {
                Some(known) => known.without(&batch)?,
                None => batch,
            };
            if batch.num_rows() > 0 {
                kept.push(batch);
            }
        }
        Ok(kept)
    }
}

impl GivenRows {
    fn bytes(&self) -> usize {
        self.batches.iter().map(batch_bytes).sum()
    }
}

/// The memory of all rows that are held.
struct HeldRows {
    setup: Arc<Setup>,
    reservation: MemoryReservation,
}

impl HeldRows {
    fn resize(&self, bytes: usize) -> Result<()> {
        self.reservation.resize(bytes);
        match bytes > self.setup.memory.limit_bytes() {
            false => Ok(()),
            true => {
                let error = Error::resource("the rows of a recursive query exceed the memory");
                Err(error.remedy("select fewer columns or rows, or give the flow more memory"))
            }
        }
    }
}

/// The rows of all inputs.
fn read_all(schemas: &[SchemaRef], ports: &mut Ports, held: &HeldRows) -> Result<Vec<GivenRows>> {
    let rows = |schema: &SchemaRef| GivenRows { schema: schema.clone(), batches: vec![] };
    let mut inputs: Vec<GivenRows> = schemas.iter().map(rows).collect();
    let mut live: Vec<usize> = (0..ports.inputs()).collect();
    let mut bytes = 0;
    while let Some(input) = ports.select(&live)? {
        match ports.try_get(input)? {
            Taken::Batch(parcel) => {
                bytes += batch_bytes(&parcel.batch);
                held.resize(bytes)?;
                inputs[input].batches.push(parcel.batch);
            }
            Taken::End => live.retain(|other| *other != input),
            Taken::Empty | Taken::RunEnd(_) => {}
        }
    }
    Ok(inputs)
}

/// The rows of all rounds, each once.
struct KnownRows {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>>,
    bytes: usize,
}

impl KnownRows {
    fn new(schema: &Schema) -> Result<KnownRows> {
        let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(|error| {
            let error = Error::usage(format!("these rows cannot be compared: {error}"));
            error.remedy("write `union all`, or select other columns")
        })?;
        Ok(KnownRows { converter, rows: HashSet::new(), bytes: 0 })
    }

    /// The rows of a batch that were not known; they are then.
    fn without(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(canonical_floats).collect();
        let rows = self.converter.convert_columns(&columns)?;
        let is_new = rows.iter().map(|row| {
            let row: Box<[u8]> = row.as_ref().into();
            let bytes = row.len() + ENTRY_BYTES;
            let is_new = self.rows.insert(row);
            self.bytes += if is_new { bytes } else { 0 };
            Some(is_new)
        });
        Ok(filter_record_batch(batch, &is_new.collect::<BooleanArray>())?)
    }
}
