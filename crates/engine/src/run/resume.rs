//! Going on after the death of the program itself: what a flow has made before is not made again.
//!
//! Just before outputs become visible, a note in the home folder describes each, as the record of a
//! commit does (`euphrates_io::commit`): so it is known when it is there, a file by its inode, its
//! length and the time it was written, which a rename keeps; a collection by its manifest. The same
//! flow, of the same sources, finds the note. What is there is not made again if all is there; else
//! the flow runs, and may replace what it has made itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use euphrates_flow::check::{Checked, CheckedNode};
use euphrates_flow::{Document, Error, Registry, Result};
use euphrates_io::commit::{self, Output, Promise};
use euphrates_io::{durable, output};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::master::prepare;
use crate::run::options::Options;

/// The folder of notes in the home.
const FOLDER: &str = "made";

/// What a flow is about to make visible.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// The flow, its variables bound, and the folder its paths begin at.
    flow: Value,
    /// What its sources were.
    sees: BTreeMap<String, String>,
    /// By module.
    outputs: BTreeMap<String, Output>,
}

/// Where a flow's note goes.
#[derive(Debug)]
pub(crate) struct Notebook {
    path: PathBuf,
    flow: Value,
}

/// What is left to do.
pub(crate) enum Left {
    /// Nothing: these have been made before.
    Nothing(Vec<String>),
    /// The flow, which may replace what it has made itself.
    Flow(Document),
}

impl Notebook {
    pub fn of(document: &Document, options: &Options) -> Result<Notebook> {
        let folder = std::env::current_dir();
        let folder = folder.map_err(|error| Error::os("find", "the current folder", &error))?;
        let flow = serde_json::to_value((document.bind(&options.variables)?, folder));
        let flow = flow.map_err(Error::failed)?;
        let crc =
            crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, flow.to_string().as_bytes());
        let path = options.home().join(FOLDER).join(format!("{crc:016x}.json"));
        Ok(Notebook { path, flow })
    }

    /// The note of this flow, if there is one that can be read.
    fn read(&self) -> Option<Note> {
        let note: Note = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        (note.flow == self.flow).then_some(note)
    }

    /// Notes what is about to become visible, where it can be known. The note is held until what is
    /// returned is dropped: by then its outputs are there, or never will be.
    pub fn write<'a>(
        &self,
        flow: &Checked,
        promises: impl Iterator<Item = &'a Promise>,
    ) -> Result<File> {
        let outputs = promises.map(|promise| (promise.module.clone(), promise.output.clone()));
        let (outputs, sees) = (outputs.collect(), sees(flow));
        let note = Note { flow: self.flow.clone(), sees, outputs };
        durable::write_held(&self.path, &serde_json::to_vec(&note).map_err(Error::failed)?)
    }

    /// What is left to do of a flow that may have been run before. Fails if its sources have
    /// changed since.
    pub fn left(
        &self,
        document: &Document,
        registry: &Registry,
        options: &Options,
    ) -> Result<Left> {
        let Some(note) = self.read() else { return Ok(Left::Flow(document.clone())) };
        let mut document = document.bind(&options.variables)?;
        let mut made = BTreeSet::new();
        for node in &mut document.modules {
            let Some(output) = note.outputs.get(&node.id) else { continue };
            if output.is_there() {
                made.insert(node.id.clone());
                node.config.insert("overwrite".into(), Value::Bool(true));
            }
        }
        if made.is_empty() {
            return Ok(Left::Flow(document));
        }
        let options = Options { variables: BTreeMap::new(), ..options.clone() };
        let flow = prepare(&document, registry, &options)?;
        expect_same(&note.sees, &sees(&flow))?;
        let is_sink = |at: usize| !flow.edges.iter().any(|edge| edge.from.0 == at);
        let mut sinks = (0..flow.nodes.len()).filter(|at| is_sink(*at));
        match sinks.all(|at| made.contains(&flow.nodes[at].id)) {
            true => Ok(Left::Nothing(made.into_iter().collect())),
            false => Ok(Left::Flow(document)),
        }
    }
}

/// Removes notes in the making of processes that live no more, and notes of dead flows none of
/// whose outputs is there. Returns how many went.
pub fn reclaim(home: &Path) -> usize {
    let folder = home.join(FOLDER);
    let in_the_making = output::reclaim(&folder);
    // Of what is decided and waits for a worker the outputs will be there.
    if !commit::out_of_reach(home).is_empty() {
        return in_the_making;
    }
    let is_needed = |text: &[u8]| {
        let note = serde_json::from_slice::<Note>(text);
        note.is_ok_and(|note| note.outputs.values().any(Output::is_there))
    };
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let notes = entries.filter(|path| path.extension().is_some_and(|it| it == "json"));
    in_the_making + notes.filter(|path| durable::remove_unheld(path, is_needed)).count()
}

fn sees(flow: &Checked) -> BTreeMap<String, String> {
    let sees = |node: &CheckedNode| Some((node.id.clone(), node.placed.sees_dated()?));
    flow.nodes.iter().filter_map(sees).collect()
}

fn expect_same(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<()> {
    let Some((id, _)) = now.iter().find(|(id, sees)| then.get(*id) != Some(sees)) else {
        return Ok(());
    };
    Err(Error::usage("what it reads has changed since the flow was run before")
        .remedy("run it without `resume`, and ask to overwrite, to make all outputs anew")
        .at(format!("module {id}")))
}
