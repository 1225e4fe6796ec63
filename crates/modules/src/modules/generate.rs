//! Generates data: the sort benchmark's records, the tables of TPC-H, integers.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int64Array};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::{Bound, Configure, Inputs, OutputOrder};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Module, ModuleSpec, Ports, Result, Setup};
use euphrates_formats::gensort::{Generator, KEY_BYTES, RECORD_BYTES, RecordForm};
use schemars::JsonSchema;
use serde::Deserialize;
use tpchgen::generators as tpch;
use tpchgen_arrow as tpch_arrow;

use crate::coordination::source_splits::{Splits, read_splits};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "generate",
    summary: "Makes data: sort benchmark records, TPC-H tables, or integers.",
    detail: "`records` have the columns `key` (10 bytes) and `payload` (90 bytes) and are those of \
             gensort 1.5. The tables `lineitem`, `orders`, `customer`, `part`, `partsupp`, \
             `supplier`, `nation` and `region` are those of TPC-H at `scale` (1 is about 1 GB in \
             all). `integers` has one column `n`, from `first` upwards.",
    example: r#">>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=3, first=7, order=True), eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [7, 8, 9]}"#,
    inputs: NONE,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        let parts = config.parts()?;
        Ok(Arc::new(Generate { config, parts }))
    },
    ..ModuleSpec::USUAL
};

/// What to make, and how much of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The kind of records, or the TPC-H table.
    pub(crate) what: What,
    /// Number of rows, for `records` and `integers`.
    pub(crate) rows: Option<u64>,
    /// Scale factor, for the tables of TPC-H; 1 is about 1 GB in all.
    pub(crate) scale: Option<f64>,
    /// Number of the first record or integer.
    #[serde(default)]
    pub(crate) first: u64,
    /// Printable records, as gensort `-a`.
    #[serde(default)]
    pub(crate) ascii: bool,
    /// Records with skewed keys, as gensort `-s`.
    #[serde(default)]
    pub(crate) skewed: bool,
    /// Give the output an order: it comes as a stream.
    #[serde(default)]
    pub(crate) order: bool,
}

/// What can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    /// The sort benchmark's 100-byte records.
    Records,
    /// 64-bit integers that rise by one.
    Integers,
    /// TPC-H `lineitem`: about 6,000,000 rows at scale 1.
    Lineitem,
    /// TPC-H `orders`: 1,500,000 rows at scale 1.
    Orders,
    /// TPC-H `customer`: 150,000 rows at scale 1.
    Customer,
    /// TPC-H `part`: 200,000 rows at scale 1.
    Part,
    /// TPC-H `partsupp`: 800,000 rows at scale 1.
    Partsupp,
    /// TPC-H `supplier`: 10,000 rows at scale 1.
    Supplier,
    /// TPC-H `nation`: 25 rows at any scale.
    Nation,
    /// TPC-H `region`: 5 rows at any scale.
    Region,
}

type GeneratedBatches = Box<dyn Iterator<Item = Result<RecordBatch>>>;

/// Rows of a split of `records` and `integers`.
const SPLIT_ROWS: u64 = 1 << 17;
/// Rows of a batch of a TPC-H table.
const TABLE_BATCH_ROWS: usize = 8192;

impl Config {
    fn is_table(&self) -> bool {
        !matches!(self.what, What::Records | What::Integers)
    }

    /// The number of splits, which are generated independently. Splits of a table have about 100 MB
    /// of text.
    fn parts(&self) -> Result<usize> {
        match (self.is_table(), self.rows, self.scale) {
            (false, Some(rows), None) => Ok(rows.div_ceil(SPLIT_ROWS) as usize),
            (false, None, _) => Err(Error::usage("`rows` is missing").remedy("say how many")),
            (false, Some(_), Some(_)) => Err(Error::usage("`scale` is for TPC-H tables")),
            (true, None, Some(scale)) if scale > 0.0 && scale <= 100_000.0 => {
                let tiny = matches!(self.what, What::Nation | What::Region);
                Ok(if tiny { 1 } else { (scale * 8.0).ceil() as usize })
            }
            (true, Some(_), _) => Err(Error::usage("`rows` is not for TPC-H tables")
                .remedy("give `scale`; 1 is about 1 GB in all")),
            (true, None, _) => Err(Error::usage("`scale` must be above 0 and at most 100,000")),
        }
    }
}

struct Generate {
    config: Config,
    parts: usize,
}

impl Configure for Generate {
    fn bind(self: Arc<Self>, _: &Inputs) -> Result<Bound> {
        let schema = match self.config.what {
            What::Records => records_schema(),
            What::Integers => integers_schema(),
            // The columns are those of the smallest split at the smallest scale.
            table => match table_part(table, 0.001, 1, 1).next() {
                Some(batch) => batch?.schema(),
                None => return Err(Error::failed("the table has no rows")),
            },
        };
        let (order, count) = (self.config.order, self.parts);
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let generate = self.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                let weigh = |parts: Range<usize>| parts.len() as u64;
                let part = |part| generate.config.part(part, count);
                read_splits(ports, Splits { count, weigh, affinity: None }, order, part, |_| Ok(()))
            }))
        };
        Ok(Bound {
            order: OutputOrder::numbered(order),
            instances_max: Some(count),
            ..Bound::new([schema], instance)
        })
    }
}

impl Config {
    fn part(&self, part: usize, parts: usize) -> Result<GeneratedBatches> {
        let start = part as u64 * SPLIT_ROWS;
        let rows = self.rows.map_or(0, |rows| SPLIT_ROWS.min(rows - start)) as usize;
        let first = self.first + start;
        match self.what {
            What::Records => {
                let form = RecordForm { ascii: self.ascii, skewed: self.skewed };
                Ok(Box::new(records(form, first, rows)))
            }
            What::Integers => Ok(Box::new(integers(first, rows))),
            table => {
                let scale = self.scale.unwrap_or_default();
                let batches = table_part(table, scale, part as i32 + 1, parts as i32);
                Ok(batches)
            }
        }
    }
}

/// `key` and `payload` of gensort's records.
pub(crate) fn records_schema() -> SchemaRef {
    let bytes = |bytes: usize| DataType::FixedSizeBinary(bytes as i32);
    Arc::new(Schema::new(vec![
        Field::new("key", bytes(KEY_BYTES), false),
        Field::new("payload", bytes(RECORD_BYTES - KEY_BYTES), false),
    ]))
}

fn records(form: RecordForm, first: u64, rows: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    let step = BATCH_BYTES_TARGET / RECORD_BYTES;
    let mut generator = Generator::new(form, u128::from(first));
    let mut record = [0; RECORD_BYTES];
    (0..rows).step_by(step).map(move |start| {
        let count = step.min(rows - start);
        let mut keys = Vec::with_capacity(count * KEY_BYTES);
        let mut payloads = Vec::with_capacity(count * (RECORD_BYTES - KEY_BYTES));
        for _ in 0..count {
            generator.fill(&mut record);
            keys.extend_from_slice(&record[..KEY_BYTES]);
            payloads.extend_from_slice(&record[KEY_BYTES..]);
        }
        let column = |width: usize, bytes: Vec<u8>| -> ArrayRef {
            Arc::new(FixedSizeBinaryArray::new(width as i32, Buffer::from_vec(bytes), None))
        };
        let columns = vec![column(KEY_BYTES, keys), column(RECORD_BYTES - KEY_BYTES, payloads)];
        Ok(RecordBatch::try_new(records_schema(), columns)?)
    })
}

fn integers_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

fn integers(first: u64, rows: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    let step = euphrates_flow::BATCH_ROWS_MAX;
    (0..rows).step_by(step).map(move |start| {
        let first = first as i64 + start as i64;
        let column = Int64Array::from_iter_values(first..first + step.min(rows - start) as i64);
        Ok(RecordBatch::try_new(integers_schema(), vec![Arc::new(column)])?)
    })
}

fn table_part(table: What, scale: f64, part: i32, parts: i32) -> GeneratedBatches {
    macro_rules! table {
        ($generator:ident, $arrow:ident) => {{
            let generator = tpch::$generator::new(scale, part, parts);
            let batches = tpch_arrow::$arrow::new(generator).with_batch_size(TABLE_BATCH_ROWS);
            Box::new(batches.map(|batch| plain_text(batch?)))
        }};
    }
    match table {
        What::Lineitem => table!(LineItemGenerator, LineItemArrow),
        What::Orders => table!(OrderGenerator, OrderArrow),
        What::Customer => table!(CustomerGenerator, CustomerArrow),
        What::Part => table!(PartGenerator, PartArrow),
        What::Partsupp => table!(PartSuppGenerator, PartSuppArrow),
        What::Supplier => table!(SupplierGenerator, SupplierArrow),
        What::Nation => table!(NationGenerator, NationArrow),
        What::Region => table!(RegionGenerator, RegionArrow),
        What::Records | What::Integers => Box::new(std::iter::empty()),
    }
}

/// Casts views to `Utf8`, since some tools do not read views.
fn plain_text(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => field.clone(),
    };
    let fields: Vec<_> = schema.fields().iter().map(plain).collect();
    let columns = batch.columns().iter().zip(&fields);
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
