//! Reads a collection (River, 2.2): blocks in any order by free instances, or as a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_device::disk::Disks;
use euphrates_flow::error::unknown;
use euphrates_flow::module::{
    Bound, Configure, ExchangeServer, ExternalInput, Inputs, InstanceFactory, OutputOrder,
    PlacementConstraint, not_prepared,
};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{Error, Module, ModuleSpec, Ports, Result, Setup};
use euphrates_store::collection::{Collection, CollectionReadOptions, CollectionScan};
use euphrates_store::declustering::MirrorPolicy;
use euphrates_store::segment::BlockReadOptions;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::block_skipping::without_failing_blocks;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "read",
    summary: "Reads a collection.",
    detail: "Each instance takes the next blocks when it has finished some, so a slow one reads \
             fewer. With `order`, the records come as a stream, in the order written. Every block \
             is compared with its checksum before it is used. The copies of a mirrored collection \
             share the reading by the speed each disk has now (graduated declustering); a block \
             that one copy has lost is read from another, and the report says so. Blocks are \
             skipped if no row of them can pass the `filter`s behind it, by their statistics: \
             minimum, maximum and number of nulls. If `columns` is absent, those that no module \
             after it reads are left out, unless a sorted collection is read in order.",
    example: r#">>> flow = eu.Flow()
>>> _ = flow.chain(eu.from_arrow({"city": ["Ur", "Uruk"]}), eu.write("cities"))
>>> _ = flow.go(home="data")
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.read("cities", order=True), eu.collect())
>>> flow.go(home="data").collected().to_pydict()
{'city': ['Ur', 'Uruk']}"#,
    inputs: NONE,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config = spec::parse_config::<Config>(config)?;
        config.mirrors()?;
        Ok(Arc::new(Read(config)))
    },
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The name of a collection in the home folder.
    pub(crate) collection: String,
    /// The columns to read, in this order; all if absent.
    #[serde(default)]
    pub(crate) columns: Option<Vec<String>>,
    /// Keep the order in which the records were written.
    #[serde(default)]
    pub(crate) order: bool,
    /// How the copies of a mirrored collection share the reading: `graduated`, or, to compare,
    /// `shares`, `laggard`, `arrival`, `alternate`, `random`, `fastest` or `primary`; `graduated`
    /// if absent.
    #[serde(default)]
    pub(crate) mirrors: Option<String>,
}

impl Config {
    fn mirrors(&self) -> Result<MirrorPolicy> {
        self.mirrors.as_deref().map_or(Ok(MirrorPolicy::default()), MirrorPolicy::parse)
    }
}

struct Read(Config);

struct OpenCollection {
    /// Without the blocks that are skipped.
    collection: Collection,
    columns: Option<Vec<usize>>,
    /// The schema of these columns.
    schema: SchemaRef,
    /// The blocks that are skipped, and why, for reports.
    skipped: Option<String>,
    /// The worker that owns each disk, by the disk's name.
    owners: BTreeMap<String, String>,
    /// Known once it is prepared.
    reading: OnceLock<Arc<CollectionScan>>,
}

/// The read-ahead window of mirrored collections, as a fraction of the flow's memory.
const WINDOW_DIVISOR: usize = 8;
const WINDOW_BYTES_MAX: usize = 256 << 20;

impl Read {
    fn open(&self, inputs: &Inputs) -> Result<OpenCollection> {
        let home = inputs.home;
        let collection = Collection::open(home, &self.0.collection)?;
        let fields = collection.schema().fields();
        let position = |name: &String| {
            let found = fields.iter().position(|field| field.name() == name);
            found.ok_or_else(|| unknown("column", name, fields.iter().map(|f| f.name().as_str())))
        };
        let columns = self.0.columns.as_ref();
        let columns = columns.map(|names| names.iter().map(position).collect::<Result<_>>());
        let columns: Option<Vec<usize>> = columns.transpose()?;
        // Columns that are asked for are read, whatever becomes of them, and so are all of a sorted
        // stream, whose keys may be any.
        let may_narrow = !self.0.order || collection.manifest().sort_keys.is_empty();
        let needed = inputs.needed.filter(|_| columns.is_none() && may_narrow);
        let needed = needed.and_then(|needed| needed.columns_of(collection.schema()));
        let needed = needed.filter(|needed| needed.len() < fields.len());
        let columns = columns.or(needed);
        let schema = match &columns {
            Some(columns) => Arc::new(collection.schema().project(columns)?),
            None => collection.schema().clone(),
        };
        let collection = without_failing_blocks(collection, inputs.condition, &schema)?;
        let (left, all) = (collection.blocks(), collection.blocks_all());
        let skipped = || format!("skipped {} of {all} blocks by {}", all - left, inputs.condition);
        let skipped = (left < all).then(skipped);
        let (owners, reading) = (Disks::of(home)?.owners(), OnceLock::new());
        Ok(OpenCollection { collection, columns, schema, skipped, owners, reading })
    }
}

impl Configure for Read {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let source = Arc::new(self.open(inputs)?);
        let is_stream = self.0.order;
        let (collection, owners) = (&source.collection, source.workers());
        let manifest = collection.manifest();
        // Keys are texts that may name a column in several ways, so they are known only if all
        // columns are read.
        let is_whole = is_stream && source.columns.is_none();
        let sorted_by = if is_whole { manifest.sort_keys.clone() } else { vec![] };
        // Each owner of a disk must take part, however little is on the disk.
        let instances_max = collection.blocks().max(owners.len());
        let spread = match (collection.has_work_units(is_stream), is_stream) {
            (true, _) if owners.is_empty() => PlacementConstraint::Anywhere,
            // Readers of a stream are given blocks in one order.
            (false, true) => PlacementConstraint::Together,
            _ => PlacementConstraint::Beside(owners),
        };
        let bytes_expected = Some(source.bytes());
        let reader = Arc::new(CollectionInput {
            source: Mutex::new(Some(source.clone())),
            identity: format!(
                "version {} of run {}, {} blocks",
                manifest.version,
                manifest.run_id,
                collection.blocks()
            ),
            schema: collection.schema().clone(),
            mirrors: self.0.mirrors()?,
            is_stream,
        });
        Ok(Bound {
            order: OutputOrder::numbered(is_stream),
            sorted_by,
            bytes_expected,
            instances_max: Some(instances_max),
            spread,
            extent: source.skipped.clone(),
            source: Some(reader.clone()),
            exchange: Some(reader.clone()),
            ..Bound::shared([source.schema.clone()], reader)
        })
    }
}

/// The collection that the instances read.
struct CollectionInput {
    /// None once it is abandoned.
    source: Mutex<Option<Arc<OpenCollection>>>,
    identity: String,
    /// All columns of the collection.
    schema: SchemaRef,
    mirrors: MirrorPolicy,
    is_stream: bool,
}

impl CollectionInput {
    fn source(&self) -> Result<Arc<OpenCollection>> {
        self.source.lock().clone().ok_or_else(Error::interrupted)
    }
}

impl ExternalInput for CollectionInput {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn version(&self) -> String {
        self.identity()
    }
}

impl InstanceFactory for CollectionInput {
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let source = self.source()?;
        let how = CollectionReadOptions {
            is_stream: self.is_stream,
            mirrors: self.mirrors,
            window_bytes_max: (setup.budget_bytes / WINDOW_DIVISOR).min(WINDOW_BYTES_MAX),
            exchange: Some((setup.exchange.clone(), source.owners.clone())),
            options: BlockReadOptions {
                columns: source.columns.clone(),
                ..BlockReadOptions::default()
            },
        };
        let reading = source.collection.reading(how)?;
        source.reading.get_or_init(|| reading);
        Ok(())
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        let (source, is_stream) = (self.source()?, self.is_stream);
        Ok(Box::new(move |ports: &mut Ports| source.read(ports, is_stream)))
    }

    fn abandon(&self) {
        // Breaks the cycle between the exchange and the module.
        *self.source.lock() = None;
    }

    fn remark(&self) -> Option<String> {
        let source = self.source.lock().clone()?;
        let warning = source.collection.warning().map(str::to_string);
        let read = source.reading.get().and_then(|reading| reading.remark());
        let all = self.schema.fields().len();
        let columns = source.columns.as_ref().filter(|columns| columns.len() < all);
        let columns = columns.map(|columns| format!("read {} of {all} columns", columns.len()));
        let told = columns.into_iter().chain(source.skipped.clone());
        let remarks: Vec<String> = told.chain(warning).chain(read).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}

/// No batches are fetched: disks and readers exchange messages.
impl ExchangeServer for CollectionInput {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn on_message(&self, process: usize, message: &[u8], body: &Buffer) -> Result<()> {
        let source = self.source.lock().clone();
        let reading = source.as_ref().and_then(|source| source.reading.get());
        reading.ok_or_else(not_prepared)?.on_message(process, message, body)
    }
}

impl OpenCollection {
    /// The bytes to read, with those of columns that are left out.
    fn bytes(&self) -> u64 {
        let blocks = self.collection.copies().iter().flat_map(|copies| &copies.toc.blocks);
        match self.skipped {
            None => self.collection.manifest().bytes,
            Some(_) => blocks.map(|block| block.bytes).sum(),
        }
    }

    /// The workers that own the collection's disks.
    fn workers(&self) -> BTreeSet<String> {
        let disks = self.collection.manifest().disks();
        let owned = self.owners.iter().filter(|(disk, _)| disks.contains(disk.as_str()));
        owned.map(|(_, worker)| worker.clone()).collect()
    }

    fn read(&self, ports: &mut Ports, is_stream: bool) -> Result<()> {
        let reading = self.reading.get().ok_or_else(not_prepared)?;
        let setup = ports.setup().clone();
        let shared = setup.clone();
        let numbers = Box::new(move || shared.fetch_add("claims"));
        let mut reader = match setup.is_statically_divided {
            true => reading.divided_reader(&setup.cancel, setup.instances_here, numbers),
            false => reading.reader(&setup.cancel, numbers),
        };
        let mut begun = None;
        while let Some(block) = reader.next_block()? {
            if is_stream && begun != Some(block.run) {
                ports.begin_run(0, block.run)?;
                begun = Some(block.run);
            }
            ports.metrics().got(block.batch.num_rows(), block.bytes as usize);
            ports.put(0, block.batch)?;
            if is_stream && block.last {
                ports.end_run(0)?;
            }
        }
        Ok(())
    }
}
