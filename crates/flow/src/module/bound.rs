//! A module bound to its inputs: its output schemas, order and size, and how to run it.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::exchange_server::ExchangeServer;
use super::sink::Sink;
use super::{Collected, Module};
use crate::error::{Error, Result};
use crate::ports::partitioned::Partitioned;
use crate::setup::Setup;

/// A module whose inputs are known. The optional fields are for modules that do more than transform
/// batches.
#[derive(Clone)]
pub struct Bound {
    /// The schema of each output; any further outputs have the last schema.
    pub outputs: Vec<SchemaRef>,
    /// Whether the outputs come as numbered runs.
    pub order: OutputOrder,
    /// The sort keys of the outputs, most significant first and written as in SQL, if they come as
    /// numbered runs.
    pub sorted_by: Vec<String>,
    /// Whether all records with equal keys are in the same partition of the output. Modules
    /// downstream that keep runs keep these records together.
    pub keeps_equal_keys_together: bool,
    /// Estimated output bytes, if they can be known before the start.
    pub bytes_expected: Option<u64>,
    /// The maximum number of useful instances, for modules that know it (files to read, for
    /// example).
    pub instances_max: Option<usize>,
    /// Placement constraint of the instances.
    pub spread: PlacementConstraint,
    /// Whether a flow with this module may be retried after a failure: its input can be read again,
    /// and its effects can be undone (`InstanceFactory::abandon`).
    pub is_repeatable: bool,
    /// How much it reads from outside the flow, and by which condition, for explanations.
    pub extent: Option<String>,
    /// What it reads from outside the flow.
    pub source: Option<Arc<dyn ExternalInput>>,
    /// The partitions kept for the consumers of the output, if the output is keyed.
    pub partitioned: Option<Arc<dyn Partitioned>>,
    /// Answers other processes with instances of the module, if they exchange data.
    pub exchange: Option<Arc<dyn ExchangeServer>>,
    /// What it publishes at the end of the flow.
    pub sink: Option<Arc<dyn Sink>>,
    /// How to run it: see `Bound::prepare`.
    pub factory: SharedFactory,
}

/// The external input of a module, as this process has found it. Its description is long if there
/// are many files, so it is made on request only: processes compare it with each other, and a
/// resumed flow with its earlier attempt.
pub trait ExternalInput: Send + Sync {
    /// What is read, the same on every machine that sees the same data. Processes with different
    /// identities would read different tables.
    fn identity(&self) -> String;

    /// The same with versions or modification times, as far as this machine knows them: it differs
    /// if the input was replaced since.
    fn version(&self) -> String;

    /// The number of units in which it is read as a stream: unit *i* becomes run *i*. `None` if
    /// they may differ in another attempt.
    fn units(&self) -> Option<u64> {
        None
    }
}

/// Whether the outputs of a module come as numbered runs.
///
/// ```
/// use euphrates_flow::module::OutputOrder;
///
/// let keeps_runs = true;
/// assert!(OutputOrder::OfInput.has_runs(keeps_runs));
/// assert!(!OutputOrder::None.has_runs(keeps_runs));
/// assert!(OutputOrder::Runs.has_runs(!keeps_runs), "the module numbers runs itself");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputOrder {
    /// If the module repeats the runs of its input (`Inputs::keeps_runs`).
    #[default]
    OfInput,
    /// The module numbers runs itself.
    Runs,
    /// The output never has runs.
    None,
}

impl OutputOrder {
    /// Runs if the module numbers them, else the order of the input.
    pub fn numbered(numbers_runs: bool) -> OutputOrder {
        if numbers_runs { OutputOrder::Runs } else { OutputOrder::OfInput }
    }

    /// Whether the outputs come as numbered runs, given whether the module repeats those of its
    /// input.
    pub fn has_runs(self, keeps_runs: bool) -> bool {
        self == OutputOrder::Runs || (self == OutputOrder::OfInput && keeps_runs)
    }
}

/// Placement constraint of a module's instances, if a flow has several processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlacementConstraint {
    /// Anywhere: they share nothing but the coordination service.
    #[default]
    Anywhere,
    /// On the workers of these names, where their resources are near; on one worker if none of them
    /// is available.
    Beside(BTreeSet<String>),
    /// At least one on each of the workers of these names, which alone have the resources.
    AtEach(BTreeSet<String>),
    /// All on one worker: they share resources of its process.
    Together,
    /// In the process of the master: they use resources of the program that started the flow.
    Home,
}

/// Makes the instances of a module, and owns the state that they share. If they share nothing, a
/// closure from a setup to an instance implements it.
pub trait InstanceFactory: Send + Sync {
    /// Opens the resources that the instances share.
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let _ = setup;
        Ok(())
    }

    /// Makes one instance, after `prepare`.
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>>;

    /// Releases what is shared, and removes staged data unless it has been published or depends on
    /// a commit decision.
    fn abandon(&self) {}

    /// The rows collected for the program that started the flow; taken once.
    fn collected(&self) -> Option<Collected> {
        None
    }

    /// A remark for the report, beyond the counters.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// The instances of a module, which only `Bound::prepare` can start.
#[derive(Clone)]
pub struct SharedFactory(Arc<dyn InstanceFactory>);

/// The error for a request that arrives before `InstanceFactory::prepare`.
pub fn not_prepared() -> Error {
    Error::failed("the module has not been prepared")
}

impl<F: Fn(&Setup) -> Result<Box<dyn Module>> + Send + Sync> InstanceFactory for F {
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        self(setup)
    }
}

impl Bound {
    /// A module with these output schemas, and no optional parts.
    pub fn new(
        outputs: impl IntoIterator<Item = SchemaRef>,
        instances: impl InstanceFactory + 'static,
    ) -> Bound {
        Bound::shared(outputs, Arc::new(instances))
    }

    /// Like `new`, for state that optional parts share with the instances.
    pub fn shared(
        outputs: impl IntoIterator<Item = SchemaRef>,
        instances: Arc<dyn InstanceFactory>,
    ) -> Bound {
        Bound {
            outputs: outputs.into_iter().collect(),
            order: OutputOrder::default(),
            sorted_by: vec![],
            keeps_equal_keys_together: false,
            bytes_expected: None,
            instances_max: None,
            spread: PlacementConstraint::default(),
            is_repeatable: true,
            extent: None,
            source: None,
            partitioned: None,
            exchange: None,
            sink: None,
            factory: SharedFactory(instances),
        }
    }

    /// Opens the resources that the instances share; once, before the first instance is made.
    pub fn prepare(&self, setup: &Setup) -> Result<Prepared> {
        self.factory.0.prepare(setup)?;
        Ok(Prepared(self.factory.0.clone()))
    }

    /// Releases what the instances share. It removes staged data unless that has been published or
    /// depends on a commit decision.
    pub fn abandon(&self) {
        self.factory.0.abandon();
    }

    /// Ends a run whose outputs have all been published.
    pub fn committed(&self) {
        self.sink.iter().for_each(|sink| sink.on_committed());
    }

    /// A worker was lost: removes staged data of processes that no longer live, as far as it is
    /// reachable.
    pub fn reclaim(&self) {
        self.sink.iter().for_each(|sink| sink.reclaim());
    }

    /// Ends a run of which this process does not know whether it was committed.
    pub fn orphan(&self) {
        self.sink.as_ref().map_or_else(|| self.abandon(), |sink| sink.on_orphaned());
    }

    /// The rows collected for the program that started the flow; taken once.
    pub fn collected(&self) -> Option<Collected> {
        self.factory.0.collected()
    }

    /// A remark for the report, beyond the counters.
    pub fn remark(&self) -> Option<String> {
        self.factory.0.remark()
    }
}

/// A module whose shared resources are open.
pub struct Prepared(Arc<dyn InstanceFactory>);

impl Prepared {
    /// Makes one instance; it has the resources in common with the others of this process.
    pub fn instance(&self, setup: &Setup) -> Result<Box<dyn Module>> {
        self.0.clone().instance(setup)
    }
}
