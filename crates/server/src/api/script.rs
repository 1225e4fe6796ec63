//! `POST /api/script`: runs a Python file in a process of its own, after the user has agreed, and
//! returns the flow that it builds and the modules that it defines.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use euphrates_flow::Error;
use parking_lot::Mutex;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::error::{ApiError, Result};
use crate::http::request::ApiRequest;
use crate::project::folder::check_name;
use crate::runs::programs::{PROCESS_POLL, command, kill_group};
use crate::studio::Studio;

/// How long a script may run.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(120);
/// The largest output of a script that is kept, in bytes.
const SCRIPT_BYTES_MAX: usize = 8 << 20;
/// How long output may be in flight after the process has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of the request.
#[derive(Deserialize)]
struct ScriptRequest {
    path: String,
    #[serde(default)]
    run: bool,
}

/// The result of a script.
#[derive(Deserialize)]
struct ScriptResult {
    /// The flow; `None` if the script only defines modules.
    document: Option<Value>,
    modules: Vec<Value>,
}

/// `POST /api/script`: runs a script if the user has agreed, or asks for consent.
pub fn run(studio: &Arc<Studio>, request: &ApiRequest) -> Result<Value> {
    let ScriptRequest { path, run } = request.body()?;
    check_name(&path)?;
    if !path.ends_with(".py") {
        return Err(ApiError::usage(format!("{path} is no script")).remedy("scripts end in .py"));
    }
    // Fails if the file is missing or outside of the folder.
    studio.folder.read(&path)?;
    if !run {
        return Ok(json!({"needs_trust": true}));
    }
    studio.trust.add(&studio.folder.path)?;
    let output = output_of(studio, &path)?;
    // The script may print other lines.
    let mut lines = output.lines().rev();
    let result = lines.find_map(|line| serde_json::from_str::<ScriptResult>(line).ok());
    let result = result.ok_or_else(|| ApiError::usage(format!("{path} builds no flow")))?;
    let ScriptResult { mut document, mut modules } = result;
    for value in document.iter_mut().chain(&mut modules) {
        make_relative(&studio.folder.path, value);
    }
    let count = modules.len();
    studio.script_modules.set(&path, modules);
    Ok(json!({"document": document, "modules": count}))
}

/// The standard output of a script. Its process group is killed at the end, so that none of its
/// child processes is left.
fn output_of(studio: &Studio, path: &str) -> Result<String> {
    // With `./`, a file name cannot be taken for an option.
    let name = format!("./{path}");
    let words = ["show", &name, "--as", "script"];
    let mut command = command(&studio.settings, &studio.folder.path, &words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = studio.runs.spawn(command)?;
    let (out, err) =
        (CapturedOutput::start(child.stdout.take()), CapturedOutput::start(child.stderr.take()));
    let deadline = Instant::now() + SCRIPT_TIMEOUT;
    while !has_ended(&child) && Instant::now() < deadline {
        std::thread::sleep(PROCESS_POLL);
    }
    let is_late = !has_ended(&child);
    // Until the process is reaped, its group id cannot be reused.
    kill_group(&child);
    let status = child.wait().map_err(|error| Error::resource(format!("{path}: {error}")))?;
    if is_late {
        return Err(Error::resource(format!("{path} takes too long")).into());
    }
    let [out, err] = [out, err].map(CapturedOutput::finish);
    if !status.success() {
        let error = ApiError::usage(format!("{path} could not be run"));
        return Err(ApiError { message: err.trim_end().to_string(), ..error });
    }
    Ok(out)
}

/// Makes references to Python files of the project relative to its folder, which is the working
/// directory of runs, so that a document can move with its project.
fn make_relative(root: &Path, value: &mut Value) {
    match value {
        Value::String(text) if text.contains(".py") => {
            let (file, name) = match text.rsplit_once(".py:") {
                Some((file, name)) => (format!("{file}.py"), format!(":{name}")),
                None => (text.clone(), String::new()),
            };
            let relative = Path::new(&file).strip_prefix(root).ok().and_then(Path::to_str);
            if let Some(relative) = relative {
                *text = format!("{relative}{name}");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_relative(root, item)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| make_relative(root, member))
        }
        _ => {}
    }
}

/// Whether a process has ended. It is not reaped, so its pid stays valid.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let process = Pid::from_raw(child.id().cast_signed());
    let status = process.map(|process| waitid(WaitId::Pid(process), options));
    !matches!(status, Some(Ok(None)))
}

/// Reads to the end. Bytes above the limit are read and dropped, so that the pipe does not fill.
fn read_all(mut from: impl Read, bytes: &Mutex<Vec<u8>>) {
    let mut piece = [0; 8192];
    loop {
        let length = match from.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A read error ends the output.
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let mut bytes = bytes.lock();
        let room = SCRIPT_BYTES_MAX.saturating_sub(bytes.len());
        bytes.extend_from_slice(&piece[..length.min(room)]);
    }
}

/// The captured output of a process.
struct CapturedOutput {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl CapturedOutput {
    /// Starts a thread that reads the pipe.
    fn start(from: Option<impl Read + Send + 'static>) -> CapturedOutput {
        let (bytes, (ended, end)) = (Arc::<Mutex<Vec<u8>>>::default(), channel());
        let read = bytes.clone();
        std::thread::spawn(move || {
            if let Some(from) = from {
                read_all(from, &read);
            }
            let _ = ended.send(());
        });
        CapturedOutput { bytes, end }
    }

    /// The output after the process has ended. A descendant in another process group may hold the
    /// pipe open, so the wait is limited.
    fn finish(self) -> String {
        let _ = self.end.recv_timeout(OUTPUT_TIMEOUT);
        String::from_utf8_lossy(&self.bytes.lock()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_project_become_relative() {
        let mut value = json!({
            "a": "/srv/ann/project/flows/clean.py:Clean",
            "b": ["/srv/ann/project/clean.py", "/srv/ann/projects/clean.py:f", "pack.mod:f"],
            "c": "/srv/ann/project/data.csv",
        });
        make_relative(Path::new("/srv/ann/project"), &mut value);
        let wanted = json!({
            "a": "flows/clean.py:Clean",
            "b": ["clean.py", "/srv/ann/projects/clean.py:f", "pack.mod:f"],
            "c": "/srv/ann/project/data.csv",
        });
        assert_eq!(value, wanted);
    }
}
