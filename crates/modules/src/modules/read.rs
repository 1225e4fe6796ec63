//! Reads a collection (River, 2.2): blocks in any order by free instances, or as a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use euphrates_device::disk::Disks;
use euphrates_flow::error::unknown;
use euphrates_flow::spec::{self, NONE, OUT};
use euphrates_flow::{
    Effect, Error, Module, ModuleSpec, Order, Placed, Ports, Result, Setup, Spread,
};
use euphrates_store::collection::{Collection, ReadAs, Reading};
use euphrates_store::declustering::Mirrors;
use euphrates_store::segment::ReadOptions;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "read",
    summary: "Reads a collection.",
    detail: "Each instance takes the next blocks when it has finished some, so a slow one reads \
             fewer. With `order`, the records come as a stream, in the order written. Every block \
             is compared with its checksum before it is used. The copies of a mirrored collection \
             share the reading by the speed each disk has now (graduated declustering); a block \
             that one copy has lost is read from another, and the report says so.",
    inputs: NONE,
    outputs: OUT,
    order: Order::Any,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: false,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        let config = spec::parse_config::<Config>(config)?;
        config.mirrors()?;
        Ok(Arc::new(Read { config, home: Mutex::default(), source: Mutex::default() }))
    },
};

/// What to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The collection's name.
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
    fn mirrors(&self) -> Result<Mirrors> {
        self.mirrors.as_deref().map_or(Ok(Mirrors::default()), Mirrors::parse)
    }
}

struct Read {
    config: Config,
    home: Mutex<Option<PathBuf>>,
    /// The collection, known once the flow is checked.
    source: Mutex<Option<Arc<Source>>>,
}

struct Source {
    collection: Collection,
    columns: Option<Vec<usize>>,
    /// The worker that owns each disk, by the disk's name.
    owners: BTreeMap<String, String>,
    /// Known once it is prepared.
    reading: OnceLock<Arc<Reading>>,
}

/// The read-ahead window of mirrored collections, as a fraction of the flow's memory.
const WINDOW_PART: usize = 8;
const WINDOW_BYTES_MAX: usize = 256 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Read {
    fn source(&self) -> Option<Arc<Source>> {
        lock(&self.source).clone()
    }

    fn open(&self) -> Result<Source> {
        let home = lock(&self.home).clone();
        let home = home.ok_or_else(|| Error::usage("the home of collections is not known"))?;
        let collection = Collection::open(&home, &self.config.collection)?;
        let fields = collection.schema().fields();
        let position = |name: &String| {
            let found = fields.iter().position(|field| field.name() == name);
            found.ok_or_else(|| unknown("column", name, fields.iter().map(|f| f.name().as_str())))
        };
        let columns = self.config.columns.as_ref();
        let columns = columns.map(|names| names.iter().map(position).collect::<Result<_>>());
        let columns = columns.transpose()?;
        let (owners, reading) = (Disks::of(&home)?.owners(), OnceLock::new());
        Ok(Source { collection, columns, owners, reading })
    }
}

impl Placed for Read {
    fn at_home(&self, home: &Path) {
        *lock(&self.home) = Some(home.to_path_buf());
    }

    fn schemas(&self, _: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let source = self.open()?;
        let schema = source.collection.schema();
        let schema = match &source.columns {
            Some(columns) => Arc::new(schema.project(columns)?),
            None => schema.clone(),
        };
        *lock(&self.source) = Some(Arc::new(source));
        Ok(vec![schema])
    }

    fn sees(&self) -> Option<String> {
        let source = self.source()?;
        let manifest = source.collection.manifest();
        Some(format!("version {} of run {}", manifest.version, manifest.run_id))
    }

    fn bytes_expected(&self, _: &[Option<u64>]) -> Option<u64> {
        Some(self.source()?.collection.manifest().bytes)
    }

    fn is_ordered(&self, _: bool, _: bool) -> bool {
        self.config.order
    }

    fn sorted_by(&self, _: &[String]) -> Vec<String> {
        // Keys are texts that may name a column in several ways, so they are known only if all
        // columns are read.
        let whole = self.source().filter(|_| self.config.order && self.config.columns.is_none());
        whole.map(|source| source.collection.manifest().sort_keys.clone()).unwrap_or_default()
    }

    fn instances_max(&self) -> Option<usize> {
        let source = self.source()?;
        // Each owner of a disk must take part, however little is on the disk.
        Some(source.collection.blocks().max(source.workers().len()))
    }

    fn spread(&self) -> Spread {
        let Some(source) = self.source() else { return Spread::Anywhere };
        let owners = source.workers();
        match (source.collection.is_in_pieces(self.config.order), self.config.order) {
            (true, _) if owners.is_empty() => Spread::Anywhere,
            // Readers of a stream are given blocks in one order.
            (false, true) => Spread::Together,
            _ => Spread::Beside(owners),
        }
    }

    fn serves(&self) -> Option<SchemaRef> {
        // It fetches no batches: disks and readers exchange messages.
        Some(self.source()?.collection.schema().clone())
    }

    fn on_told(&self, process: usize, letter: &[u8], body: &Buffer) -> Result<()> {
        let source = self.source();
        let reading = source.as_ref().and_then(|source| source.reading.get());
        let reading = reading.ok_or_else(|| Error::failed("it is not prepared"))?;
        reading.on_told(process, letter, body)
    }

    fn prepare(&self, setup: &Setup) -> Result<()> {
        let source = self.source().expect("checked before it is prepared");
        let how = ReadAs {
            is_stream: self.config.order,
            mirrors: self.config.mirrors()?,
            window_bytes_max: (setup.budget_bytes / WINDOW_PART).min(WINDOW_BYTES_MAX),
            exchange: Some((setup.exchange.clone(), source.owners.clone())),
            options: ReadOptions { columns: source.columns.clone(), ..ReadOptions::default() },
        };
        let reading = source.collection.reading(how)?;
        source.reading.get_or_init(|| reading);
        Ok(())
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        let source = self.source().expect("checked before an instance is made");
        let is_stream = self.config.order;
        Ok(Box::new(move |ports: &mut Ports| source.read(ports, is_stream)))
    }

    fn abandon(&self) {
        // Breaks the cycle between the exchange and the module.
        *lock(&self.source) = None;
    }

    fn remark(&self) -> Option<String> {
        let source = self.source()?;
        let warning = source.collection.warning().map(str::to_string);
        let read = source.reading.get().and_then(|reading| reading.remark());
        let remarks: Vec<String> = warning.into_iter().chain(read).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}

impl Source {
    /// The workers that own the collection's disks.
    fn workers(&self) -> BTreeSet<String> {
        let disks = self.collection.manifest().disks();
        let owned = self.owners.iter().filter(|(disk, _)| disks.contains(disk.as_str()));
        owned.map(|(_, worker)| worker.clone()).collect()
    }

    fn read(&self, ports: &mut Ports, is_stream: bool) -> Result<()> {
        let reading = self.reading.get().expect("prepared before it is read");
        let setup = ports.setup().clone();
        let shared = setup.clone();
        let numbers = Box::new(move || shared.next("claims"));
        let mut reader = match setup.is_divided {
            true => reading.reader_of(&setup.cancel, setup.instances_here, numbers),
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
