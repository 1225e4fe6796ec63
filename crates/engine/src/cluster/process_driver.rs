//! A driver for workers on this machine, one process each: parallelism for Python, and for tests.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Owner, Result};
use euphrates_wire::{Address, Secret};
use parking_lot::Mutex;

use super::driver::{Driver, OnLost};
use super::options::ClusterOptions;
use super::sockets;

/// How often child processes are polled for their end.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a worker may take to exit.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// Child processes that listen at unix sockets in a private folder.
pub struct ProcessDriver {
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    names: Vec<String>,
    /// Processors of each: an equal share of the machine's.
    cores: usize,
    /// The folder of the sockets and the token.
    folder: Mutex<PathBuf>,
    secret: Secret,
    /// A forked child must not stop the workers of its parent.
    owner: Owner,
    shared: Arc<Shared>,
    exit_poller: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    children: Vec<(String, Child)>,
    on_lost: Option<OnLost>,
    is_over: bool,
}

impl ProcessDriver {
    /// `workers` processes, each started by a command with a few more arguments.
    pub fn new(workers: usize, options: &ClusterOptions, secret: &Secret) -> Result<ProcessDriver> {
        let ClusterOptions { worker_command, worker_environment, .. } = options.clone();
        let folder = private_folder()?;
        secret.write(&folder.join("token"))?;
        let names = (0..workers).map(|number| format!("w{number}")).collect();
        let cores = (crate::machine::cores() / workers.max(1)).max(1);
        Ok(ProcessDriver {
            command: worker_command,
            environment: worker_environment,
            names,
            cores,
            folder: Mutex::new(folder),
            secret: secret.clone(),
            owner: Owner::here(),
            shared: Arc::default(),
            exit_poller: Mutex::default(),
        })
    }

    fn socket(&self, worker: &str) -> PathBuf {
        self.folder().join(worker)
    }

    fn folder(&self) -> PathBuf {
        self.folder.lock().clone()
    }

    /// Writes the token again if it is missing: a worker that exits removes it, because it cannot
    /// know whether the program still runs.
    fn put_back_token(&self) -> Result<()> {
        let mut folder = self.folder.lock();
        if !folder.exists() {
            *folder = private_folder()?;
        }
        let token = folder.join("token");
        if token.exists() { Ok(()) } else { self.secret.write(&token) }
    }
}

impl Driver for ProcessDriver {
    fn workers(&self) -> Result<Vec<String>> {
        Ok(self.names.clone())
    }

    fn start(&self, worker: &str) -> Result<()> {
        let (program, arguments) = self.command.split_first().expect("a command has a program");
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned());
        command.args(arguments).args(["--name", worker]);
        command.arg("--listen").arg(format!("unix:{}", self.socket(worker).display()));
        command.arg("--token-file").arg(self.folder().join("token"));
        command.args(["--cores", &self.cores.to_string()]).stdin(Stdio::null());
        // A worker exits with this process; a Ctrl-C at the terminal is handled by this process
        // alone.
        command.arg("--child-of").arg(std::process::id().to_string()).process_group(0);
        let child = command.spawn().map_err(|error| Error::os("run", program, &error))?;
        self.shared.state.lock().children.push((worker.to_string(), child));
        Ok(())
    }

    fn restart(&self, worker: &str) -> Result<bool> {
        let (before, is_over) = {
            let mut state = self.shared.state.lock();
            let is_it = |(name, _): &mut (String, Child)| name.as_str() == worker;
            let before: Vec<(String, Child)> = state.children.extract_if(.., is_it).collect();
            (before, state.is_over)
        };
        for (_, mut child) in before {
            // The process may be stopped, or may have lost only its connection.
            let _ = child.kill();
            let _ = child.wait();
        }
        if is_over {
            return Ok(false);
        }
        // A killed worker leaves its socket behind.
        let _ = fs::remove_file(self.socket(worker));
        self.put_back_token()?;
        self.start(worker).map(|()| true)
    }

    fn address(&self, worker: &str) -> Result<Option<Address>> {
        if let Some(error) = self.shared.state.lock().ended(worker) {
            return Err(error);
        }
        let socket = self.socket(worker);
        Ok(socket.exists().then_some(Address::Unix(socket)))
    }

    fn on_lost(&self, on_lost: OnLost) {
        self.shared.state.lock().on_lost = Some(on_lost);
        let shared = self.shared.clone();
        let poller =
            thread::Builder::new().name("children".into()).spawn(move || shared.poll_exits());
        *self.exit_poller.lock() = poller.ok();
    }

    fn stop(&self) {
        if !self.owner.is_here() {
            return;
        }
        let children = {
            let mut state = self.shared.state.lock();
            state.is_over = true;
            std::mem::take(&mut state.children)
        };
        if let Some(poller) = self.exit_poller.lock().take() {
            poller.thread().unpark();
            // The thread polls and sleeps; it cannot fail.
            let _ = poller.join();
        }
        let deadline = Instant::now() + STOP_WAIT;
        for (_, mut child) in children {
            // Workers exit when their master closes the connection.
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(self.folder());
    }
}

impl Drop for ProcessDriver {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Reports every child that ends by itself.
    fn poll_exits(&self) {
        loop {
            {
                let mut state = self.state.lock();
                if state.is_over {
                    return;
                }
                let names: Vec<String> =
                    state.children.iter().map(|(name, _)| name.clone()).collect();
                for name in names {
                    if let Some(error) = state.ended(&name) {
                        state.children.retain(|(of, _)| *of != name);
                        if let Some(on_lost) = &state.on_lost {
                            on_lost(&name, error);
                        }
                    }
                }
            }
            thread::park_timeout(EXIT_POLL_INTERVAL);
        }
    }
}

impl State {
    /// The error for a child that has ended.
    fn ended(&mut self, worker: &str) -> Option<Error> {
        let (_, child) = self.children.iter_mut().find(|(name, _)| name == worker)?;
        let status = child.try_wait().ok()??;
        let error = Error::resource(format!("its process has ended: {status}"));
        Some(error.remedy("look at what it wrote to standard error"))
    }
}

/// A new folder that only this user may enter.
fn private_folder() -> Result<PathBuf> {
    sockets::reclaim();
    let name = format!("{}{}", sockets::PREFIX, crate::machine::run_id());
    let mut failed = None;
    for parent in sockets::folders() {
        let folder = parent.join(&name);
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => failed = Some(Error::os("make the folder", &folder, &error)),
        }
    }
    Err(failed.unwrap_or_else(|| Error::resource("there is no temporary folder")))
}
