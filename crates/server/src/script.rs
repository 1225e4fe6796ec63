//! Python files that build flows: run in a process of their own, when somebody has said so, and for
//! what they build and define only.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use euphrates_flow::Error;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::refusal::{Refusal, Result};
use crate::root::check_name;
use crate::routes::Call;
use crate::running::{LOOK, command, kill_group};
use crate::{Studio, lock};

/// How long it may take to say what its flow is, and how much it may say.
const SCRIPT_WAIT: Duration = Duration::from_secs(120);
const SCRIPT_BYTES_MAX: usize = 8 << 20;
/// How long what it has said may be on its way when it has ended.
const LAST_WAIT: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Asked {
    path: String,
    #[serde(default)]
    run: bool,
}

/// What a script leaves behind.
#[derive(Deserialize)]
struct Left {
    /// None, if it only defines modules.
    document: Option<Value>,
    modules: Vec<Value>,
}

/// `POST /api/script`
pub fn run(studio: &Arc<Studio>, call: &Call) -> Result<Value> {
    let Asked { path, run } = call.body()?;
    check_name(&path)?;
    if !path.ends_with(".py") {
        return Err(Refusal::usage(format!("{path} is no script")).remedy("scripts end in .py"));
    }
    // It is beneath the folder, and there.
    studio.root.read(&path)?;
    if !run {
        return Ok(json!({"needs_trust": true}));
    }
    studio.trust.give(&studio.root.path)?;
    let said = said_by(studio, &path)?;
    // Whatever else the script printed stands on other lines.
    let left = said.lines().rev().find_map(|line| serde_json::from_str::<Left>(line).ok());
    let left = left.ok_or_else(|| Refusal::usage(format!("{path} builds no flow")))?;
    let Left { mut document, mut modules } = left;
    for value in document.iter_mut().chain(&mut modules) {
        beneath(&studio.root.path, value);
    }
    let count = modules.len();
    studio.own.learn(&path, modules);
    Ok(json!({"document": document, "modules": count}))
}

/// What a script prints; it has a group of its own, so that nothing that it starts is left behind.
fn said_by(studio: &Studio, path: &str) -> Result<String> {
    // A name that begins like an option is none.
    let name = format!("./{path}");
    let words = ["show", &name, "--as", "script"];
    let mut command = command(&studio.setting, &studio.root.path, &words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = studio.runs.spawn(command)?;
    let (out, wrong) = (Said::by(child.stdout.take()), Said::by(child.stderr.take()));
    let deadline = Instant::now() + SCRIPT_WAIT;
    while !has_ended(&child) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    let is_late = !has_ended(&child);
    // While it has not been waited for, its group is nobody else's.
    kill_group(&child);
    let status = child.wait().map_err(|error| Error::resource(format!("{path}: {error}")))?;
    if is_late {
        return Err(Error::resource(format!("{path} takes too long")).into());
    }
    let [out, wrong] = [out, wrong].map(Said::all);
    if !status.success() {
        let refusal = Refusal::usage(format!("{path} could not be run"));
        return Err(Refusal { message: wrong.trim_end().to_string(), ..refusal });
    }
    Ok(out)
}

/// Has references to files of the project begin at its folder, where runs begin, too: a document
/// then goes with its project.
fn beneath(root: &Path, value: &mut Value) {
    match value {
        Value::String(text) if text.contains(".py") => {
            let (file, name) = match text.rsplit_once(".py:") {
                Some((file, name)) => (format!("{file}.py"), format!(":{name}")),
                None => (text.clone(), String::new()),
            };
            let beneath = Path::new(&file).strip_prefix(root).ok().and_then(Path::to_str);
            if let Some(beneath) = beneath {
                *text = format!("{beneath}{name}");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| beneath(root, item)),
        Value::Object(members) => members.values_mut().for_each(|member| beneath(root, member)),
        _ => {}
    }
}

/// Whether a process has ended; its number stays its own.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let process = Pid::from_raw(child.id().cast_signed());
    let status = process.map(|process| waitid(WaitId::Pid(process), options));
    !matches!(status, Some(Ok(None)))
}

/// Reads as long as somebody may say more. What is too much is left out, but must not fill the
/// pipe.
fn read_all(mut from: impl Read, said: &Mutex<Vec<u8>>) {
    let mut piece = [0; 8192];
    loop {
        let length = match from.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // What could be read is what there is.
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let mut said = lock(said);
        let room = SCRIPT_BYTES_MAX.saturating_sub(said.len());
        said.extend_from_slice(&piece[..length.min(room)]);
    }
}

/// What a process says.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl Said {
    /// From now on.
    fn by(from: Option<impl Read + Send + 'static>) -> Said {
        let (bytes, (ended, end)) = (Arc::<Mutex<Vec<u8>>>::default(), channel());
        let said = bytes.clone();
        std::thread::spawn(move || {
            if let Some(from) = from {
                read_all(from, &said);
            }
            let _ = ended.send(());
        });
        Said { bytes, end }
    }

    /// All of it, when the process has ended. Whoever it has left behind, out of its group, may
    /// hold the pipe for ever, and is not waited for.
    fn all(self) -> String {
        let _ = self.end.recv_timeout(LAST_WAIT);
        String::from_utf8_lossy(&lock(&self.bytes)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_project_are_named_from_its_folder() {
        let mut value = json!({
            "a": "/srv/ann/project/flows/clean.py:Clean",
            "b": ["/srv/ann/project/clean.py", "/srv/ann/projects/clean.py:f", "pack.mod:f"],
            "c": "/srv/ann/project/data.csv",
        });
        beneath(Path::new("/srv/ann/project"), &mut value);
        let wanted = json!({
            "a": "flows/clean.py:Clean",
            "b": ["clean.py", "/srv/ann/projects/clean.py:f", "pack.mod:f"],
            "c": "/srv/ann/project/data.csv",
        });
        assert_eq!(value, wanted);
    }
}
