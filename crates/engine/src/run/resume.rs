//! Resumes a flow after the death of its program: runs nothing if all its outputs exist.
//!
//! Just before outputs become visible, a note in the home folder describes each as the record of a
//! commit does (`euphrates_store::commit`): a file by its inode, its length and its modification
//! time, which survive a rename; a collection by its manifest. The same flow with the same inputs
//! finds the note. If all outputs exist, nothing runs; otherwise the flow runs, and may replace its
//! own outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use euphrates_device::durable;
use euphrates_flow::check::{CheckedFlow, CheckedNode};
use euphrates_flow::document::Node;
use euphrates_flow::error::REMEDY_TAKEN;
use euphrates_flow::{Document, Error, Registry, Result};
use euphrates_store::commit::{self, DecidedOutput, PreparedOutput};
use euphrates_store::dataset::discard_files;
use euphrates_store::output;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::check_flow;
use crate::run::options::Options;

/// The folder of notes, in the home.
const FOLDER: &str = "made";

/// Describes the outputs of a flow that is about to publish them.
#[derive(Debug, Serialize, Deserialize)]
struct PublicationNote {
    /// The flow with its variables bound, and the folder that relative paths start from.
    flow: Value,
    /// By module: the fingerprint of its input.
    sees: BTreeMap<String, String>,
    /// By module: its output.
    outputs: BTreeMap<String, PreparedOutput>,
}

/// The note of one flow: its path, and the flow it is for.
#[derive(Debug)]
pub(crate) struct NoteFile {
    path: PathBuf,
    flow: Value,
}

/// The rest of a flow that may have run before.
pub(crate) enum Remaining {
    /// Nothing: these modules' outputs exist.
    Nothing(Vec<String>),
    /// The whole flow, which may replace its own outputs.
    Flow(Document),
}

impl NoteFile {
    pub fn of(document: &Document, options: &Options) -> Result<NoteFile> {
        let flow = identity_of(document, options)?;
        let crc =
            crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, flow.to_string().as_bytes());
        let path = options.home().join(FOLDER).join(format!("{crc:016x}.json"));
        Ok(NoteFile { path, flow })
    }

    /// The note of this flow, if there is a readable one.
    fn read(&self) -> Option<PublicationNote> {
        let note: PublicationNote = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        (note.flow == self.flow).then_some(note)
    }

    /// Writes the note of outputs that are about to become visible. It is locked until the returned
    /// file is dropped, after publication: by then each output exists, never will, or is left to
    /// the next start.
    pub fn write<'a>(
        &self,
        flow: &CheckedFlow,
        decided_outputs: impl Iterator<Item = &'a DecidedOutput>,
    ) -> Result<File> {
        let outputs =
            decided_outputs.map(|decided| (decided.module.clone(), decided.output.clone()));
        let (outputs, sees) = (outputs.collect(), sees(flow));
        let note = PublicationNote { flow: self.flow.clone(), sees, outputs };
        durable::write_held(&self.path, &serde_json::to_vec(&note).map_err(Error::failed)?)
    }

    /// The rest of a flow that may have run before. Fails if its inputs have changed since.
    pub fn left(
        &self,
        document: &Document,
        registry: &Registry,
        options: &Options,
    ) -> Result<Remaining> {
        let Some(note) = self.read() else { return Ok(Remaining::Flow(document.clone())) };
        let mut document = document.bind(&options.variables)?;
        let (mut made, mut appended) = (BTreeSet::new(), None);
        for node in &mut document.modules {
            let Some(output) = note.outputs.get(&node.id) else { continue };
            if output.is_published_unchanged() {
                made.insert(node.id.clone());
                if !replace_output(node, registry)? {
                    appended = Some(node.id.clone());
                }
            }
        }
        if made.is_empty() {
            return Ok(Remaining::Flow(document));
        }
        let options = Options { variables: BTreeMap::new(), ..options.clone() };
        let flow = check_flow(&document, registry, &options)?;
        expect_same(&note.sees, &sees(&flow))?;
        let is_sink = |at: usize| !flow.edges.iter().any(|edge| edge.from.0 == at);
        let mut sinks = (0..flow.nodes.len()).filter(|at| is_sink(*at));
        match (sinks.all(|at| made.contains(&flow.nodes[at].id)), appended) {
            (true, _) => {
                // The program may have died between the publication and this.
                let sinks = flow.nodes.iter().filter_map(|node| node.bound.sink.as_ref());
                sinks.filter_map(|sink| sink.resumable_target()).for_each(discard_files);
                Ok(Remaining::Nothing(made.into_iter().collect()))
            }
            (false, Some(id)) => Err(appends_again(&id)),
            (false, None) => Ok(Remaining::Flow(document)),
        }
    }
}

/// Lets a module replace its own output. Returns false if it would append to that.
fn replace_output(node: &mut Node, registry: &Registry) -> Result<bool> {
    let schema = (registry.find(&node.module)?.config_schema)();
    let mode = node.config.get("mode").and_then(Value::as_str);
    match (schema["properties"].get("mode"), mode) {
        (None, _) => drop(node.config.insert("overwrite".into(), Value::Bool(true))),
        (Some(_), Some("append")) => return Ok(false),
        (Some(_), Some("overwrite" | "overwrite_partitions")) => {}
        (Some(_), _) => drop(node.config.insert("mode".into(), "overwrite".into())),
    }
    Ok(true)
}

fn appends_again(id: &str) -> Error {
    let error = Error::usage("its rows would be appended again, since other outputs are missing");
    let remedy = "remove the rows that it has appended, and run the flow without `resume`";
    error.remedy(remedy).at(format!("module {id}"))
}

/// The flow with its variables bound, and the folder that relative paths start from.
pub(crate) fn identity_of(document: &Document, options: &Options) -> Result<Value> {
    let folder = std::env::current_dir();
    let folder = folder.map_err(|error| Error::os("find", "the current folder", &error))?;
    let flow = serde_json::to_value((document.bind(&options.variables)?, folder));
    flow.map_err(Error::failed)
}

/// If the error says that an output's name is taken, adds which outputs `resume` keeps.
pub(crate) fn explain_taken(error: Error) -> Error {
    if error.advice() != Some(REMEDY_TAKEN) {
        return error;
    }
    error.better_remedy(format!(
        "only what an earlier run with `resume` has made, and nothing has changed since, is kept: \
         remove it, {REMEDY_TAKEN}"
    ))
}

/// Removes unfinished notes of dead processes, and notes of dead flows without any existing output.
/// Returns the number removed.
pub fn reclaim(home: &Path) -> usize {
    let folder = home.join(FOLDER);
    let in_the_making = output::reclaim(&folder);
    // Outputs that are decided but wait for a worker will exist.
    if !commit::out_of_reach(home).is_empty() {
        return in_the_making;
    }
    let is_needed = |text: &[u8]| {
        let note = serde_json::from_slice::<PublicationNote>(text);
        note.is_ok_and(|note| note.outputs.values().any(PreparedOutput::is_published_unchanged))
    };
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let notes = entries.filter(|path| path.extension().is_some_and(|it| it == "json"));
    in_the_making + notes.filter(|path| durable::remove_unheld(path, is_needed)).count()
}

fn sees(flow: &CheckedFlow) -> BTreeMap<String, String> {
    let sees = |node: &CheckedNode| Some((node.id.clone(), node.bound.source.as_ref()?.version()));
    flow.nodes.iter().filter_map(sees).collect()
}

fn expect_same(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<()> {
    let Some((id, _)) = now.iter().find(|(id, sees)| then.get(*id) != Some(sees)) else {
        return Ok(());
    };
    Err(Error::usage("what it reads has changed since the flow was run before")
        .remedy("leave out `resume=True`, and make all outputs anew: `overwrite=True`")
        .at(format!("module {id}")))
}
