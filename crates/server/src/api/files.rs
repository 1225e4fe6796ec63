//! `/api/files`, `/api/file` and `/api/draft`: list, read and save flows and scripts, and their
//! drafts. Data files are listed, and new ones can be created; flows read and replace them.

use std::os::fd::AsFd;
use std::sync::Arc;

use axum::http::StatusCode;
use rustix::fs::{Dir, FileType};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::error::Result;
use crate::http::request::ApiRequest;
use crate::project::folder::{ProjectFile, ProjectFolder, check_name, check_new_name, draft_of};
use crate::studio::Studio;

/// Limits of a listing: directory entries read, files listed, and depth of folders.
const ENTRIES_MAX: usize = 20_000;
const FILES_MAX: usize = 2_000;
const DEPTH_MAX: usize = 8;

/// The part of a file that is searched for the word that marks a flow or a script, in bytes.
const START_BYTES: u64 = 16 << 10;

/// Folders of dependencies and build output, which are not listed.
const SKIPPED_FOLDERS: [&str; 5] =
    ["node_modules", "target", "__pycache__", "site-packages", "venv"];

/// Extensions of files that `scan` reads, with their compressions.
const DATA_EXTENSIONS: [&str; 9] =
    ["csv", "tsv", "parquet", "jsonl", "ndjson", "arrow", "arrows", "feather", "txt"];
const COMPRESSIONS: [&str; 3] = ["gz", "bz2", "zst"];

/// `GET /api/files`: the flows, scripts and data files of the project.
pub fn list(studio: &Arc<Studio>, _: &ApiRequest) -> Result<Value> {
    let mut walk = Walk { project: &studio.folder, entries: 0, files: vec![] };
    walk.folder("", 0);
    let mut files = walk.files;
    files.sort_by(|a, b| a["path"].as_str().cmp(&b["path"].as_str()));
    Ok(json!({"files": files}))
}

/// A traversal of the project's folder.
struct Walk<'a> {
    project: &'a ProjectFolder,
    entries: usize,
    files: Vec<Value>,
}

impl Walk<'_> {
    fn folder(&mut self, path: &str, depth: usize) {
        // Unreadable folders are not listed.
        let Ok(folder) = self.project.subfolder(path) else { return };
        let Ok(entries) = Dir::read_from(folder.as_fd()) else { return };
        let mut folders = vec![];
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX || self.files.len() == FILES_MAX {
                return;
            }
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') || SKIPPED_FOLDERS.contains(&name) {
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
            _ if is_data(&path) => ("data", ""),
            _ => return,
        };
        if kind != "data" && check_name(&path).is_err() {
            return;
        }
        let bytes = if kind == "data" { 0 } else { START_BYTES };
        let Some((start, stat)) = self.project.read_start(&path, bytes) else { return };
        let is_marked = || start.windows(word.len()).any(|window| window == word.as_bytes());
        if kind == "data" || is_marked() || path.ends_with(".flow.json") {
            let (bytes, modified) = (stat.st_size, stat.st_mtime);
            let file = json!({"path": path, "kind": kind, "bytes": bytes, "modified": modified});
            self.files.push(file);
        }
    }
}

/// Whether the extension of a path, without that of a compression, is one of data.
fn is_data(path: &str) -> bool {
    let mut extensions = path.rsplit('.').map(str::to_ascii_lowercase);
    let last = extensions.next().unwrap_or_default();
    let inner = if COMPRESSIONS.contains(&&*last) { extensions.next() } else { None };
    DATA_EXTENSIONS.contains(&&*inner.unwrap_or(last))
}

/// `GET /api/file`: the text of a file and its version.
pub fn read(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let path = request.query("path")?;
    check_name(path)?;
    let stamp = studio.folder.stamp(path);
    let ProjectFile { text, version } = studio.folder.read(path)?;
    studio.watched.record(path, stamp);
    Ok(json!({"path": path, "text": text, "version": version}))
}

#[derive(Deserialize)]
struct SaveRequest {
    path: String,
    text: String,
    version: Option<String>,
}

/// `PUT /api/file`: saves a file, unless it has changed since the version that the page has.
pub fn write(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let save: SaveRequest = request.body()?;
    match &save.version {
        None => check_new_name(&save.path)?,
        Some(_) => check_name(&save.path)?,
    }
    let _saving = studio.saving.lock();
    let version = studio.folder.write(&save.path, &save.text, save.version.as_deref())?;
    studio.watched.record(&save.path, studio.folder.stamp(&save.path));
    Ok(json!({"version": version}))
}

/// `GET /api/draft`: null if there is no draft.
pub fn read_draft(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let path = request.query("path")?;
    match studio.folder.read(&draft_of(path)?) {
        Ok(ProjectFile { text, version }) => {
            Ok(json!({"path": path, "text": text, "version": version}))
        }
        Err(error) if error.status == StatusCode::NOT_FOUND => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

/// `PUT /api/draft`: saves unsaved work on a file.
pub fn write_draft(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let save: SaveRequest = request.body()?;
    let draft = draft_of(&save.path)?;
    let _saving = studio.saving.lock();
    let version = studio.folder.write(&draft, &save.text, save.version.as_deref())?;
    Ok(json!({"version": version}))
}

/// `DELETE /api/draft`: removes a draft.
pub fn drop_draft(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let draft = draft_of(request.query("path")?)?;
    let _saving = studio.saving.lock();
    studio.folder.remove(&draft)?;
    Ok(json!({}))
}
