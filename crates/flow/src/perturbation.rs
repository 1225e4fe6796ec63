//! Perturbations: slow down a component on purpose without failing it (River 1, 3), to observe how
//! a flow adapts.

use std::collections::BTreeMap;
use std::fmt;

use euphrates_policy::slowdown::{Pattern, Slowing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::CheckedFlow;
use crate::error::{Error, Result, unknown};
use crate::size::Size;

/// One perturbation: of a disk, a link, an instance, all instances of a module or of a worker, or
/// of the machine's memory. Times are in seconds since the start of the flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Perturbation {
    /// Name of a disk, which is held to `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// A link between two workers of a cluster, like "w0>w2": what the first sends to the second is
    /// held to `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Bytes per second the disk or link does at most: 5000000 or "5MB/s".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Size>,
    /// An instance, like "map_1.2": the third of map_1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// A module: all its instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// A worker, like "w2", the third: all its instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The share of its speed that is taken away, between 0 and 1; 0.75 leaves a quarter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Whether the component is paused, for `lasts` seconds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pause: bool,
    /// Bytes of memory to allocate and write to, like "1GB".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Seconds until it begins; 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// Seconds it lasts; to the end by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasts: Option<f64>,
    /// Seconds from one beginning to the next; by default it comes once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<f64>,
}

/// A list of perturbations, checked against a flow.
#[derive(Clone, Debug, Default)]
pub struct Perturbations {
    /// Slowdowns of instances, by module (index into the flow's nodes) and instance number.
    pub slowings: BTreeMap<(usize, usize), Vec<Slowing>>,
    /// Limits of disks: name, schedule, bytes per second.
    pub disks: Vec<(String, Pattern, u64)>,
    /// Limits of links: sending and receiving worker, schedule, bytes per second.
    pub links: Vec<((usize, usize), Pattern, u64)>,
    /// Memory to hold: schedule, bytes.
    pub memory: Vec<(Pattern, u64)>,
}

/// The workers of a flow, as perturbations name them.
#[derive(Clone, Copy, Debug)]
pub struct Workers<'a> {
    /// The names of the workers.
    pub names: &'a [String],
    /// The worker of each instance, by module and instance number.
    pub of: &'a [Vec<usize>],
}

/// What a perturbation acts on.
enum PerturbedComponent<'a> {
    Disk(&'a str),
    Link(&'a str),
    Instance(&'a str),
    Module(&'a str),
    Worker(&'a str),
    Memory(&'a Size),
}

impl Perturbation {
    /// The JSON schema of a list of perturbations.
    pub fn json_schema() -> Value {
        crate::spec::schema_of::<Vec<Perturbation>>()
    }

    /// A list of perturbations in JSON.
    ///
    /// ```
    /// use euphrates_flow::Perturbation;
    ///
    /// let text = r#"[{"instance": "map_1.2", "share": 0.75, "after": 1.5}]"#;
    /// let [slow] = &Perturbation::list_from_json(text)?[..] else { panic!("one") };
    /// assert_eq!((slow.instance.as_deref(), slow.share), (Some("map_1.2"), Some(0.75)));
    /// assert!(Perturbation::list_from_json(r#"[{"instanz": "map_1.2"}]"#).is_err());
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn list_from_json(text: &str) -> Result<Vec<Perturbation>> {
        serde_json::from_str(text)
            .map_err(|error| Error::usage(format!("the perturbations are malformed: {error}")))
    }

    fn target(&self) -> Result<PerturbedComponent<'_>> {
        let mut targets = [
            self.disk.as_deref().map(PerturbedComponent::Disk),
            self.link.as_deref().map(PerturbedComponent::Link),
            self.instance.as_deref().map(PerturbedComponent::Instance),
            self.module.as_deref().map(PerturbedComponent::Module),
            self.worker.as_deref().map(PerturbedComponent::Worker),
            self.memory.as_ref().map(PerturbedComponent::Memory),
        ]
        .into_iter()
        .flatten();
        let remedy = "name one of disk, link, instance, module, worker, memory";
        match (targets.next(), targets.next()) {
            (Some(target), None) => Ok(target),
            (None, _) => Err(Error::usage("the perturbation has no target").remedy(remedy)),
            (_, Some(_)) => {
                Err(Error::usage("the perturbation has several targets").remedy(remedy))
            }
        }
    }

    fn pattern(&self) -> Result<Pattern> {
        let after_ns = nanoseconds("after", self.after.unwrap_or(0.0))?;
        let lasts_ns = self.lasts.map(|seconds| nanoseconds("lasts", seconds)).transpose()?;
        let every_ns = self.every.map(|seconds| nanoseconds("every", seconds)).transpose()?;
        if lasts_ns == Some(0) {
            return Err(Error::usage("lasts is 0").remedy("give seconds above 0, or leave it out"));
        }
        match (lasts_ns, every_ns) {
            (None, Some(_)) => Err(Error::usage("every is given, but not lasts")
                .remedy("say how long it lasts each time")),
            (Some(lasts), Some(every)) if every <= lasts => Err(Error::usage(
                "the perturbation repeats before it ends: `every` must be longer than `lasts`",
            )
            .remedy("give a longer every, or leave it out")),
            _ => Ok(Pattern { after_ns, lasts_ns, every_ns }),
        }
    }

    /// The fraction of the speed that is left.
    fn left(&self, pattern: &Pattern) -> Result<f64> {
        match (self.share, self.pause) {
            (None, true) if pattern.lasts_ns.is_none() => {
                Err(Error::usage("a pause without an end: the flow would never end")
                    .remedy("say how many seconds it lasts"))
            }
            (None, true) => Ok(0.0),
            (Some(share), false) if share > 0.0 && share < 1.0 => Ok(1.0 - share),
            (Some(share), false) => Err(Error::usage(format!("a share of {share}"))
                .remedy("give a number between 0 and 1; 0.75 takes three quarters away")),
            (Some(_), true) => Err(Error::usage("both share and pause").remedy("give one of them")),
            (None, false) => {
                Err(Error::usage("the perturbation has no effect").remedy("give a share, or pause"))
            }
        }
    }

    /// The rate to which the component is held.
    fn rate(&self, what: &str) -> Result<u64> {
        self.only(what, true, false)?;
        let rate = self.rate.as_ref().ok_or_else(|| {
            Error::usage(format!("{what} without a rate")).remedy("give one, like \"5MB/s\"")
        })?;
        rate.bytes().map_err(|error| error.at("rate"))
    }

    /// Fails if an option does not apply to this kind of component.
    fn only(&self, what: &str, rate: bool, speed: bool) -> Result<()> {
        let stranger = match () {
            () if self.rate.is_some() && !rate => "rate",
            () if self.share.is_some() && !speed => "share",
            () if self.pause && !speed => "pause",
            () => return Ok(()),
        };
        Err(Error::usage(format!("{stranger} does not go with {what}")))
    }
}

/// `map_1.2: 75 % of its speed taken, from 2 s, for 10 s`.
impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [&self.instance, &self.module, &self.worker];
        match (names.into_iter().flatten().next(), &self.disk, &self.link) {
            (Some(name), ..) => write!(f, "{name}")?,
            (_, Some(disk), _) => write!(f, "disk {disk}")?,
            (.., Some(link)) => write!(f, "link {link}")?,
            _ => write!(f, "memory")?,
        }
        match (&self.rate, self.share, &self.memory) {
            (Some(rate), ..) => write!(f, ": held to {rate}/s")?,
            (_, Some(share), _) => write!(f, ": {:.0} % of its speed taken", share * 100.0)?,
            (_, _, Some(bytes)) => write!(f, ": {bytes} held")?,
            _ => write!(f, ": paused")?,
        }
        if let Some(after) = self.after {
            write!(f, ", from {after} s")?;
        }
        if let Some(lasts) = self.lasts {
            write!(f, ", for {lasts} s")?;
        }
        match self.every {
            Some(every) => write!(f, ", every {every} s"),
            None => Ok(()),
        }
    }
}

impl Perturbations {
    /// Checks a list against a flow, its workers and the names of the disks there are.
    pub fn new(
        list: &[Perturbation],
        flow: &CheckedFlow,
        workers: &Workers<'_>,
        disks: &[String],
    ) -> Result<Perturbations> {
        let mut all = Perturbations::default();
        for (number, one) in list.iter().enumerate() {
            all.add(one, flow, workers, disks)
                .map_err(|error| error.at(format!("perturbation {}", number + 1)))?;
        }
        Ok(all)
    }

    fn add(
        &mut self,
        one: &Perturbation,
        flow: &CheckedFlow,
        workers: &Workers<'_>,
        disks: &[String],
    ) -> Result<()> {
        let pattern = one.pattern()?;
        let target = one.target()?;
        match target {
            PerturbedComponent::Disk(name) => {
                let rate = one.rate("a disk")?;
                if !disks.iter().any(|disk| disk == name) {
                    return Err(unknown("disk", name, disks.iter().map(String::as_str)));
                }
                self.disks.push((name.into(), pattern, rate));
            }
            PerturbedComponent::Link(name) => {
                let rate = one.rate("a link")?;
                self.links.push((link(workers, name)?, pattern, rate));
            }
            PerturbedComponent::Memory(size) => {
                one.only("memory", false, false)?;
                self.memory.push((pattern, size.bytes().map_err(|error| error.at("memory"))?));
            }
            PerturbedComponent::Instance(name) => {
                one.only("an instance", false, true)?;
                self.slow([instance(flow, name)?], pattern, one.left(&pattern)?);
            }
            PerturbedComponent::Module(name) => {
                one.only("a module", false, true)?;
                let node = module(flow, name)?;
                let all = (0..flow.nodes[node].count).map(|number| (node, number));
                self.slow(all, pattern, one.left(&pattern)?);
            }
            PerturbedComponent::Worker(name) => {
                one.only("a worker", false, true)?;
                let worker = worker(workers, name)?;
                let there = workers.of.iter().enumerate().flat_map(|(node, of)| {
                    let numbers = of.iter().enumerate().filter(|(_, at)| **at == worker);
                    numbers.map(move |(number, _)| (node, number))
                });
                self.slow(there, pattern, one.left(&pattern)?);
            }
        }
        Ok(())
    }

    fn slow(
        &mut self,
        instances: impl IntoIterator<Item = (usize, usize)>,
        pattern: Pattern,
        left: f64,
    ) {
        for instance in instances {
            self.slowings.entry(instance).or_default().push(Slowing { pattern, speed_left: left });
        }
    }
}

fn nanoseconds(what: &str, seconds: f64) -> Result<u64> {
    if seconds >= 0.0 && seconds.is_finite() {
        return Ok((seconds * 1e9) as u64);
    }
    Err(Error::usage(format!("{what} is {seconds}")).remedy("give seconds, from 0 up"))
}

/// The position of a worker of this name.
fn worker(workers: &Workers<'_>, name: &str) -> Result<usize> {
    let names = || workers.names.iter().map(String::as_str);
    names().position(|known| known == name).ok_or_else(|| unknown("worker", name, names()))
}

/// `w0>w2`: the positions of the two.
fn link(workers: &Workers<'_>, name: &str) -> Result<(usize, usize)> {
    let malformed = || {
        Error::usage(format!("no link named `{name}`"))
            .remedy("name two workers, like \"w0>w1\": what w0 sends to w1")
    };
    let (from, to) = name.split_once('>').ok_or_else(malformed)?;
    let (from, to) = (worker(workers, from.trim())?, worker(workers, to.trim())?);
    if from == to { Err(malformed()) } else { Ok((from, to)) }
}

fn module(flow: &CheckedFlow, name: &str) -> Result<usize> {
    let ids = || flow.nodes.iter().map(|node| node.id.as_str());
    ids().position(|id| id == name).ok_or_else(|| unknown("module", name, ids()))
}

/// `map_1.2`: the module and the number of the instance.
fn instance(flow: &CheckedFlow, name: &str) -> Result<(usize, usize)> {
    let names = |node: usize| {
        let (id, last) = (&flow.nodes[node].id, flow.nodes[node].count - 1);
        if last == 0 { format!("{id}.0") } else { format!("{id}.0 to {id}.{last}") }
    };
    if let Some(node) = flow.nodes.iter().position(|node| node.id == name) {
        return Err(Error::usage(format!("`{name}` is a module, not an instance"))
            .remedy(format!("name the module as such, or one of {}", names(node))));
    }
    let split = name.rsplit_once('.').and_then(|(id, number)| Some((id, number.parse().ok()?)));
    let Some((id, number)) = split else {
        let all: Vec<String> = (0..flow.nodes.len()).map(names).collect();
        return Err(Error::usage(format!("no instance named `{name}`"))
            .remedy(format!("instances: {}", all.join(", "))));
    };
    let node = module(flow, id)?;
    if number >= flow.nodes[node].count {
        return Err(Error::usage(format!("no instance named `{name}`"))
            .remedy(format!("instances: {}", names(node))));
    }
    Ok((node, number))
}
