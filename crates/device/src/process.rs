//! External programs that a flow runs, fed and read through pipes.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result, spawn_named};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The most bytes of a program's standard error that are kept, from the end.
const COMPLAINT_BYTES_MAX: usize = 8 << 10;

/// The most lines of them that an error shows.
const COMPLAINT_LINES: usize = 10;

/// A running program, with all the programs that it starts.
///
/// ```
/// use euphrates_device::process::ChildProgram;
/// use std::io::{Read, Write};
///
/// let (program, mut input, mut output) = ChildProgram::start(&["cat".into()])?;
/// input.write_all(b"rows")?;
/// drop(input); // The end of its input ends it.
/// let mut text = String::new();
/// output.read_to_string(&mut text)?;
/// program.finish()?;
/// assert_eq!(text, "rows");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChildProgram {
    child: Child,
    name: String,
    killer: Killer,
    complaint: JoinHandle<Vec<u8>>,
}

/// A handle that kills a program from another thread.
#[derive(Clone, Debug)]
pub struct Killer {
    group: Option<Pid>,
    state: Arc<Mutex<ProcessState>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessState {
    Running,
    Killed,
    Ended,
}

impl ChildProgram {
    /// Starts a program in a process group of its own, with its standard input and output as pipes.
    pub fn start(words: &[String]) -> Result<(ChildProgram, ChildStdin, ChildStdout)> {
        let (program, arguments) = words.split_first().ok_or_else(|| {
            Error::usage("the command is empty").remedy("name a program and its arguments")
        })?;
        let piped = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child = piped.map_err(|error| Error::os("start", program, &error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Error::resource("a program was started without its pipes"));
        };
        let killer = Killer {
            group: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            state: Arc::new(Mutex::new(ProcessState::Running)),
        };
        let complaint = spawn_named("stderr", || last_of(stderr)).inspect_err(|_| killer.kill())?;
        Ok((ChildProgram { child, name: words.join(" "), killer, complaint }, stdin, stdout))
    }

    /// A handle that kills the program from another thread.
    pub fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// Waits for the end. Fails if the program failed, unless its `Killer` killed it; the error
    /// contains the last lines of its standard error. Processes that it left behind are killed.
    ///
    /// ```
    /// use euphrates_device::process::ChildProgram;
    ///
    /// let words = ["sh", "-c", "echo no such day >&2; exit 3"].map(String::from);
    /// let (program, _input, _output) = ChildProgram::start(&words)?;
    /// let error = program.finish().unwrap_err();
    /// assert!(error.to_string().contains("no such day"), "{error}");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<()> {
        if let Some(group) = self.killer.group {
            // A zombie keeps its process group until it is waited for, so no other process can take
            // the group's number.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(group), options), Err(Errno::INTR)) {}
        }
        let killed = self.killer.end();
        let status = self.child.wait();
        let status = status.map_err(|error| Error::os("wait for", &self.name, &error))?;
        let complaint = self.complaint.join().unwrap_or_default();
        if status.success() || killed {
            return Ok(());
        }
        let error =
            Error::failed(format!("`{}` {}{}", self.name, ended(status), shown(&complaint)));
        Err(error.remedy("run it by itself on a few rows"))
    }
}

impl Killer {
    /// Kills the program and its descendants, if it still runs.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        if *state == ProcessState::Running {
            *state = ProcessState::Killed;
            self.signal();
        }
    }

    /// Ends the process group. Returns `true` if the program was killed, `false` if it ended by
    /// itself.
    fn end(&self) -> bool {
        let mut state = self.state.lock();
        let killed = *state == ProcessState::Killed;
        *state = ProcessState::Ended;
        self.signal();
        killed
    }

    fn signal(&self) {
        if let Some(group) = self.group {
            // The group may be empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended in an unknown way".into(),
    }
}

/// The last bytes of a stream.
fn last_of(mut stderr: impl Read) -> Vec<u8> {
    let mut last = vec![];
    let mut part = [0; 4096];
    loop {
        match stderr.read(&mut part) {
            Ok(0) => return last,
            Ok(bytes) => {
                last.extend_from_slice(&part[..bytes]);
                let excess = last.len().saturating_sub(COMPLAINT_BYTES_MAX);
                last.drain(..excess);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return last,
        }
    }
}

fn shown(complaint: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaint);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(COMPLAINT_LINES)..];
    last.iter().map(|line| format!("\n    {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (ChildProgram, ChildStdin, ChildStdout) {
        ChildProgram::start(&["sh", "-c", script].map(String::from)).unwrap()
    }

    fn end(script: &str) -> (String, Result<()>) {
        let (program, stdin, mut stdout) = shell(script);
        drop(stdin);
        let mut said = String::new();
        stdout.read_to_string(&mut said).unwrap();
        (said, program.finish())
    }

    #[test]
    fn failed_program_reports_its_standard_error() {
        assert_eq!(end("echo hello").0, "hello\n");
        assert!(end("exit 0").1.is_ok());
        let error = end("echo one >&2; echo two >&2; exit 3").1.unwrap_err().to_string();
        assert!(error.contains("exited with status 3\n    one\n    two"), "{error}");
        let error = end("kill -9 $$").1.unwrap_err().to_string();
        assert!(error.contains("was killed by signal 9"), "{error}");
        let error = ChildProgram::start(&["no-such-program".into()]).err().unwrap().to_string();
        assert!(error.contains("cannot start \"no-such-program\""), "{error}");
        assert!(ChildProgram::start(&[]).is_err());
    }

    #[test]
    fn long_standard_error_is_cut_to_its_end() {
        let script = "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done >&2; exit 1";
        let error = end(script).1.unwrap_err().to_string();
        assert!(error.contains("line 4999") && !error.contains("line 4000"), "{error}");
    }

    #[test]
    fn killing_a_program_kills_its_children() {
        let (program, _stdin, mut stdout) = shell("sleep 1000 & sleep 1000");
        program.killer().kill();
        // The pipe ends only when all of them are gone.
        assert_eq!(stdout.read_to_end(&mut vec![]).unwrap(), 0);
        program.finish().unwrap();
    }
}
