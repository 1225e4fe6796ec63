//! The project's flows and scripts: listed, read, saved, and their drafts.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use rustix::fs::{Dir, FileType};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::refusal::Result;
use crate::root::{Root, Text, check_name, draft_of};
use crate::routes::Call;
use crate::{Studio, lock};

/// What a listing looks at, at most, and gives, at most.
const ENTRIES_MAX: usize = 20_000;
const FILES_MAX: usize = 2_000;
const DEPTH_MAX: usize = 8;

/// Where a flow or a script says what it is.
const BEGIN_BYTES: u64 = 16 << 10;

/// Files whose changes are told.
const WATCHED_MAX: usize = 64;

/// Folders that hold what others have made.
const FOREIGN: [&str; 5] = ["node_modules", "target", "__pycache__", "site-packages", "venv"];

/// `GET /api/files`
pub fn list(studio: &Arc<Studio>, _: &Call) -> Result<Value> {
    let mut walk = Walk { root: &studio.root, entries: 0, files: vec![] };
    walk.folder("", 0);
    let mut files = walk.files;
    files.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    Ok(json!({"files": files}))
}

struct Walk<'a> {
    root: &'a Root,
    entries: usize,
    files: Vec<Value>,
}

impl Walk<'_> {
    fn folder(&mut self, path: &str, depth: usize) {
        // What cannot be looked at is not listed.
        let Ok(folder) = self.root.folder(path) else { return };
        let Ok(entries) = Dir::read_from(folder.as_fd()) else { return };
        let mut folders = vec![];
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX || self.files.len() == FILES_MAX {
                return;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') || FOREIGN.contains(&name) {
                continue;
            }
            let path = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
            match entry.file_type() {
                FileType::Directory => folders.push(path),
                FileType::RegularFile | FileType::Symlink => self.file(path),
                _ => {}
            }
        }
        for path in folders.into_iter().filter(|_| depth < DEPTH_MAX) {
            self.folder(&path, depth + 1);
        }
    }

    fn file(&mut self, path: String) {
        let (kind, word) = match path.rsplit('.').next() {
            Some("json") => ("document", "\"euphrates\""),
            Some("py") => ("script", "euphrates"),
            _ => return,
        };
        if check_name(&path).is_err() {
            return;
        }
        let Some((begin, stat)) = self.root.begin_of(&path, BEGIN_BYTES) else { return };
        let says = begin.windows(word.len()).any(|window| window == word.as_bytes());
        if says || path.ends_with(".flow.json") {
            let (bytes, modified) = (stat.st_size, stat.st_mtime);
            let file = json!({"path": path, "kind": kind, "bytes": bytes, "modified": modified});
            self.files.push(file);
        }
    }
}

/// `GET /api/file`
pub fn read(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let path = call.query("path")?;
    check_name(path)?;
    let mark = studio.root.mark(path);
    let Text { text, version } = studio.root.read(path)?;
    studio.watched.see(path, mark);
    Ok(json!({"path": path, "text": text, "version": version}))
}

#[derive(Deserialize)]
struct Save {
    path: String,
    text: String,
    version: Option<String>,
}

/// `PUT /api/file`
pub fn write(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let save: Save = call.body()?;
    check_name(&save.path)?;
    // Two pages of this server never save between each other's look and act.
    let _saving = lock(&studio.saving);
    let version = studio.root.write(&save.path, &save.text, save.version.as_deref())?;
    studio.watched.see(&save.path, studio.root.mark(&save.path));
    Ok(json!({"version": version}))
}

/// `GET /api/draft`: null if there is none, which is nothing out of the way.
pub fn read_draft(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let path = call.query("path")?;
    match studio.root.read(&draft_of(path)?) {
        Ok(Text { text, version }) => Ok(json!({"path": path, "text": text, "version": version})),
        Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Ok(Value::Null),
        Err(refusal) => Err(refusal),
    }
}

/// `PUT /api/draft`
pub fn write_draft(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let save: Save = call.body()?;
    let draft = draft_of(&save.path)?;
    let _saving = lock(&studio.saving);
    let version = studio.root.write(&draft, &save.text, save.version.as_deref())?;
    Ok(json!({"version": version}))
}

/// `DELETE /api/draft`
pub fn drop_draft(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let draft = draft_of(call.query("path")?)?;
    let _saving = lock(&studio.saving);
    studio.root.remove(&draft)?;
    Ok(json!({}))
}

/// When a file was last changed, and which it is; nothing if it is not there.
type Mark = Option<[i64; 3]>;

/// Files that pages have open, as they were when a page last saw them.
#[derive(Default)]
pub struct Watched(Mutex<BTreeMap<String, Mark>>);

impl Watched {
    fn see(&self, path: &str, mark: Mark) {
        let mut seen = lock(&self.0);
        if seen.len() < WATCHED_MAX || seen.contains_key(path) {
            seen.insert(path.into(), mark);
        }
    }

    /// Those that somebody else has changed since; each is told once.
    pub fn changed(&self, root: &Root) -> Vec<String> {
        let mut seen = lock(&self.0);
        let is_changed = |(path, mark): (&String, &mut Mark)| {
            let now = root.mark(path);
            (now != std::mem::replace(mark, now)).then(|| path.clone())
        };
        seen.iter_mut().filter_map(is_changed).collect()
    }
}
