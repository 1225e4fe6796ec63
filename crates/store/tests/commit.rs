//! Several outputs are published atomically: whenever a process dies, all of them appear or none.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;
use euphrates_device::location::Destination;
use euphrates_flow::{DecisionRef, Kind};
use euphrates_store::append::StagedOutput;
use euphrates_store::commit::{
    CommitDecision, DecidedOutput, PreparedOutput, decision, out_of_reach, resolve,
};
use euphrates_store::output;

/// A folder that contains a home, and two outputs of one run.
struct Stage {
    folder: tempfile::TempDir,
    at: DecisionRef,
    targets: Vec<Box<dyn StagedOutput>>,
}

fn file(path: &Path, overwrite: bool, decision: Option<DecisionRef>) -> Box<dyn StagedOutput> {
    let run_id = decision.as_ref().map_or("alone", |decision| &decision.run_id);
    let place = Destination::Local(path.to_path_buf());
    let target = output::create(place, overwrite, run_id, decision.clone()).unwrap();
    target.write_at(0, &[Buffer::from(b"new")]).unwrap();
    target.sync_contents(3).unwrap();
    target
}

fn decided(target: &dyn StagedOutput) -> DecidedOutput {
    let output = target.reserve().unwrap().unwrap();
    DecidedOutput { module: "save".into(), at: None, is_published: false, output }
}

impl Stage {
    fn new(overwrite: bool) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        let at = decision::make_reference(&folder.path().join("home"), "run").unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        if overwrite {
            paths.iter().for_each(|path| fs::write(path, "old").unwrap());
        }
        let targets = paths.map(|path| file(&path, overwrite, Some(at.clone()))).into();
        Stage { folder, at, targets }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn begin(&self) -> (CommitDecision, Vec<DecidedOutput>) {
        let decision =
            CommitDecision::begin(&self.at, &[self.folder.path().to_path_buf()]).unwrap();
        (decision, self.targets.iter().map(|target| decided(target.as_ref())).collect())
    }

    /// Simulates a killed process: removes nothing, but releases its locks.
    fn die(&mut self, mut decision: CommitDecision) {
        self.targets.drain(..).for_each(|target| target.leave());
        decision.leave();
    }

    /// The files next to the home, and their contents.
    fn files(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.path().is_file());
        let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
        let text = |entry: &fs::DirEntry| fs::read_to_string(entry.path()).unwrap();
        let mut files: Vec<_> = files
            .map(|entry| (name(&entry), text(&entry)))
            .filter(|(name, _)| !name.is_empty())
            .collect();
        files.sort();
        files
    }

    fn expect(&self, contents: &[(&str, &str)]) {
        let expected: Vec<_> =
            contents.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        assert_eq!(self.files(), expected);
        let left = fs::read_dir(self.home().join("commits")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["id"], "no record is left");
    }
}

#[test]
fn next_start_completes_a_decided_commit_from_every_step() {
    for published in 0..=2 {
        for overwrite in [false, true] {
            let mut stage = Stage::new(overwrite);
            let (mut decision, decided_outputs) = stage.begin();
            decision.decide("flow", &decided_outputs).unwrap();
            for decided in &decided_outputs[..published] {
                decided.output.publish().unwrap().durable("it").unwrap();
            }
            stage.die(decision);
            let resolved = resolve(&stage.home());
            assert_eq!(resolved.len(), 1);
            assert!(resolved[0].left.is_none(), "{resolved:?}");
            assert_eq!(resolved[0].published.len(), 2 - published);
            stage.expect(&[("a", "new"), ("b", "new")]);
            assert!(resolve(&stage.home()).is_empty());
        }
    }
}

#[test]
fn next_start_rolls_back_an_undecided_commit() {
    for overwrite in [false, true] {
        let mut stage = Stage::new(overwrite);
        let (decision, _) = stage.begin();
        stage.die(decision);
        resolve(&stage.home());
        let old = [("a", "old"), ("b", "old")];
        stage.expect(if overwrite { &old } else { &[] });
    }
}

#[test]
fn outputs_of_a_live_process_are_not_touched() {
    let stage = Stage::new(false);
    let (mut decision, decided_outputs) = stage.begin();
    let before = stage.files();
    assert_eq!(before.len(), 4, "two files and two reservations: {before:?}");
    for is_decided in [false, true] {
        if is_decided {
            decision.decide("flow", &decided_outputs).unwrap();
        }
        assert!(resolve(&stage.home()).is_empty());
        assert_eq!(output::reclaim(stage.folder.path()), 0);
        assert_eq!(stage.files(), before);
    }
    decided_outputs
        .iter()
        .for_each(|decided| decided.output.publish().unwrap().durable("it").unwrap());
    drop(decision);
    stage.expect(&[("a", "new"), ("b", "new")]);
}

#[test]
fn reservation_excludes_a_second_flow() {
    let stage = Stage::new(false);
    let (_decision, _) = stage.begin();
    let other = file(&stage.folder.path().join("a"), false, None);
    let error = other.reserve().unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    assert!(error.to_string().contains("another flow") && error.advice().is_some(), "{error}");
    other.abandon();
    assert_eq!(stage.files().len(), 4, "the reservation is still the first one's");
}

#[test]
fn flow_that_needs_the_name_completes_a_decided_commit_of_another_home() {
    let mut stage = Stage::new(false);
    let (mut decision, decided_outputs) = stage.begin();
    decision.decide("flow", &decided_outputs).unwrap();
    stage.die(decision);
    let place = Destination::Local(stage.folder.path().join("a"));
    let error = output::create(place, false, "later", None).err().unwrap();
    assert!(error.to_string().contains("exists already"), "{error}");
    stage.expect(&[("a", "new"), ("b", "new")]);
}

#[test]
fn reservation_of_an_unreachable_home_stays_and_gives_a_remedy() {
    let mut stage = Stage::new(false);
    let (decision, _) = stage.begin();
    stage.die(decision);
    fs::rename(stage.home(), stage.folder.path().join("elsewhere")).unwrap();
    let other = file(&stage.folder.path().join("a"), false, None);
    let error = other.reserve().unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    let advice = error.advice().unwrap_or_default().to_string();
    assert!(advice.contains(".a.euphrates-commit") && advice.contains("gc"), "{error}");
    other.abandon();
    assert_eq!(stage.files().len(), 4, "nothing is removed in doubt");
    fs::rename(stage.folder.path().join("elsewhere"), stage.home()).unwrap();
    resolve(&stage.home());
    stage.expect(&[]);
}

#[test]
fn decided_commit_refused_before_publication_rolls_back_as_a_whole() {
    let mut stage = Stage::new(false);
    let (mut decision, decided_outputs) = stage.begin();
    decision.decide("flow", &decided_outputs).unwrap();
    stage.die(decision);
    fs::write(stage.folder.path().join("b"), "somebody else's").unwrap();
    let resolved = resolve(&stage.home());
    assert_eq!(resolved[0].published, Vec::<String>::new());
    stage.expect(&[("b", "somebody else's")]);
}

#[test]
fn refused_name_waits_while_another_output_may_have_been_published_elsewhere() {
    let mut stage = Stage::new(false);
    let (mut decision, mut decided_outputs) = stage.begin();
    decided_outputs[0].at = Some("w0".into());
    decision.decide("flow", &decided_outputs).unwrap();
    stage.die(decision);
    // From here on, only the worker sees its disk.
    for (name, _) in stage.files().iter().filter(|(name, _)| name.contains(".a.")) {
        fs::remove_file(stage.folder.path().join(name)).unwrap();
    }
    fs::write(stage.folder.path().join("b"), "somebody else's").unwrap();
    let before = stage.files();
    let error = resolve(&stage.home()).remove(0).left.unwrap().to_string();
    assert!(error.contains("may have been published") && error.contains("/b"), "{error}");
    assert_eq!(stage.files(), before, "what was prepared is kept");
    assert!(out_of_reach(&stage.home()).is_empty(), "no worker publishes part of the flow");
    fs::remove_file(stage.folder.path().join("b")).unwrap();
    assert_eq!(out_of_reach(&stage.home()).len(), 1, "the name is free again");
}

#[test]
fn output_changed_after_publication_is_not_published_again() {
    let mut stage = Stage::new(true);
    let (mut decision, decided_outputs) = stage.begin();
    decision.decide("flow", &decided_outputs).unwrap();
    decided_outputs[0].output.publish().unwrap().durable("it").unwrap();
    stage.die(decision);
    fs::write(stage.folder.path().join("a"), "newer").unwrap();
    resolve(&stage.home());
    stage.expect(&[("a", "newer"), ("b", "new")]);
}

#[test]
fn damaged_record_is_named_and_changes_nothing() {
    let mut stage = Stage::new(false);
    let (mut decision, decided_outputs) = stage.begin();
    decision.decide("flow", &decided_outputs).unwrap();
    stage.die(decision);
    fs::write(stage.home().join("commits/run.json"), "{").unwrap();
    let before = stage.files();
    let resolved = resolve(&stage.home());
    let error = resolved[0].left.as_ref().unwrap();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("run.json"), "{error}");
    assert_eq!(stage.files(), before);
}

#[test]
fn single_output_needs_no_record_and_takes_over_a_dead_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let dead = file(&path, false, None);
    let Some(PreparedOutput::File(_)) = dead.reserve().unwrap() else { panic!("a file") };
    dead.leave();
    drop(dead);
    let target = file(&path, false, None);
    let output = target.reserve().unwrap().unwrap();
    output.publish().unwrap().durable("it").unwrap();
    target.abandon();
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
}
