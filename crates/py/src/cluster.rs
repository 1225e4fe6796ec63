//! The Python classes of a cluster's master side (`Cluster`) and of a worker (`WorkerServer`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use euphrates_engine::cluster;
use euphrates_engine::cluster::open::open;
use euphrates_engine::cluster::options::{ClusterOptions, check_lost_after};
use euphrates_engine::cluster::static_driver::{Losses, StaticDriver};
use euphrates_engine::cluster::{
    Address, Cluster as Workers, Secret, Security, WorkerProperties, WorkerSettings,
};
use euphrates_engine::machine;
use euphrates_flow::{Error, Owner, Result, spawn_named};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::data::striped_views::home_of;
use crate::errors::OrRaise;
use crate::programs::{worker_command, worker_environment};
use crate::registry::worker_registry;
use crate::user_code::{CHECKING, call};

/// A cluster whose workers run any number of flows.
#[pyclass(frozen, module = "euphrates._euphrates")]
pub struct Cluster {
    workers: Mutex<Option<Arc<Workers>>>,
    /// Receives losses that the driver in Python reports.
    losses: Option<Arc<Losses>>,
    owner: Owner,
}

impl Cluster {
    fn of(workers: Arc<Workers>) -> Cluster {
        Cluster { workers: Mutex::new(Some(workers)), losses: None, owner: Owner::here() }
    }

    /// The workers; an error if the cluster is closed or belongs to a parent process.
    pub fn workers(&self) -> Result<Arc<Workers>> {
        self.owner.check("the cluster")?;
        let closed = || Error::usage("the cluster has been closed").remedy("open it again");
        self.workers.lock().clone().ok_or_else(closed)
    }
}

/// The home that stands for the striped files which the workers of a cluster serve.
#[pyfunction]
#[pyo3(signature = (words, token_file=None, security=None, lost_after=None))]
pub fn served_home(
    py: Python<'_>,
    words: &str,
    token_file: Option<PathBuf>,
    security: Option<&str>,
    lost_after: Option<f64>,
) -> PyResult<String> {
    let security = security.map(parse_security).transpose().or_raise(py)?;
    let lost_after = seconds(lost_after).or_raise(py)?;
    let options = ClusterOptions { token_file, security, lost_after, ..ClusterOptions::default() };
    let above = home_of(None);
    let home = py.detach(|| cluster::served::served_home(words, &options, &above)).or_raise(py)?;
    Ok(home.display().to_string())
}

#[pymethods]
impl Cluster {
    /// Opens the cluster of a specification like `processes:4`.
    #[staticmethod]
    #[pyo3(signature = (
        words, token_file=None, workers=None, within=None, security=None, lost_after=None
    ))]
    fn open(
        py: Python<'_>,
        words: &str,
        token_file: Option<PathBuf>,
        workers: Option<usize>,
        within: Option<f64>,
        security: Option<&str>,
        lost_after: Option<f64>,
    ) -> PyResult<Cluster> {
        let security = security.map(parse_security).transpose().or_raise(py)?;
        let within = within.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (worker_command, worker_environment) = (worker_command(), worker_environment());
        let on = vec![];
        let options = ClusterOptions {
            worker_command,
            worker_environment,
            token_file,
            workers,
            within,
            on,
            security,
            lost_after: seconds(lost_after).or_raise(py)?,
        };
        let words = words.to_string();
        interruptible(py, move || open(&words, &options)).map(Cluster::of)
    }

    /// A cluster of workers that listen at these addresses, by name. `restart(name)` restarts a
    /// lost worker and returns its address, or `None`.
    #[staticmethod]
    #[pyo3(signature = (workers, token, security, restart, lost_after=None))]
    fn given(
        py: Python<'_>,
        workers: Vec<(String, String)>,
        token: &str,
        security: &str,
        restart: Py<PyAny>,
        lost_after: Option<f64>,
    ) -> PyResult<Cluster> {
        let opened = || -> Result<Cluster> {
            let address = |(name, address): (String, String)| Ok((name, address.parse()?));
            let workers = workers.into_iter().map(address).collect::<Result<_>>()?;
            let (driver, losses) = StaticDriver::new(workers);
            let driver =
                Box::new(driver.restarted_by(Box::new(move |name| restarted(&restart, name))));
            let (secret, security) = (Secret::parse(token)?, parse_security(security)?);
            let lost_after = seconds(lost_after)?;
            let opened = Workers::open_within(lost_after, driver, &secret, security)?;
            let mut cluster = Cluster::of(Arc::new(opened));
            cluster.losses = Some(losses);
            Ok(cluster)
        };
        py.detach(opened).or_raise(py)
    }

    /// Reports that a worker of a given cluster is lost.
    fn lose(&self, py: Python<'_>, worker: &str, why: &str) {
        let Some(losses) = &self.losses else { return };
        py.detach(|| losses.lose(worker, Error::resource(why)));
    }

    /// The connected workers, as JSON.
    fn members(&self, py: Python<'_>) -> PyResult<String> {
        let members = self.workers().map(|workers| workers.members()).or_raise(py)?;
        Ok(serde_json::to_string(&members).unwrap_or_default())
    }

    /// Bytes sent and received on control connections.
    fn control_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.workers().map(|workers| workers.control_bytes()).or_raise(py)
    }

    /// Whether this process is a forked child of the one that has opened it.
    fn is_forked(&self) -> bool {
        !self.owner.is_here()
    }

    /// Ends the workers that were started for it; in a forked child, nothing.
    fn close(&self, py: Python<'_>) {
        if self.is_forked() {
            return;
        }
        // Detached, because the end of workers takes time.
        py.detach(|| {
            let workers = self.workers.lock().take();
            drop(workers);
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let workers = self.workers.get_mut();
        let Some(workers) = workers.take() else { return };
        if self.owner.is_here() {
            // Detached, because the end of workers takes time.
            Python::try_attach(|py| py.detach(|| drop(workers)));
        } else {
            // The workers belong to the parent, and their locks may be held forever.
            std::mem::forget(workers);
        }
    }
}

/// The liveness timeout of a connection, given in seconds.
fn seconds(seconds: Option<f64>) -> Result<Option<Duration>> {
    let duration = |seconds: f64| {
        let duration = Duration::try_from_secs_f64(seconds).ok();
        duration.ok_or_else(|| Error::usage(format!("{seconds} is not a number of seconds")))
    };
    seconds.map(|seconds| check_lost_after(duration(seconds)?)).transpose()
}

/// Restarts a lost worker through Python; returns its new address.
fn restarted(restart: &Py<PyAny>, name: &str) -> Result<Option<Address>> {
    let called = Python::try_attach(|py| {
        let listens: Option<String> =
            call(py, CHECKING, || restart.bind(py).call1((name,))?.extract())?;
        listens.map(|address| address.parse()).transpose()
    });
    called.unwrap_or(Ok(None))
}

/// Poll interval of Python's signals.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// Runs a long operation on a thread. Python's signal handlers run meanwhile and may interrupt the
/// wait.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let waiting = move || {
        // After a signal there is no receiver.
        let _ = sender.send(act());
    };
    spawn_named("cluster", waiting).or_raise(py)?;
    loop {
        // A mutex, because `detach` needs a closure that is `Send`.
        let receive = || receiver.lock().recv_timeout(SIGNAL_POLL);
        match py.detach(receive) {
            Ok(done) => return done.or_raise(py),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("opening the cluster failed")).or_raise(py);
            }
        }
    }
}

/// Creates a random token.
#[pyfunction]
pub fn new_token(py: Python<'_>) -> PyResult<String> {
    Secret::random().map(|secret| secret.to_text()).or_raise(py)
}

/// A worker in this process. It ends when the last reference is dropped.
#[pyclass(frozen, module = "euphrates._euphrates")]
pub struct WorkerServer {
    server: Mutex<Option<cluster::WorkerServer>>,
    address: String,
    owner: Owner,
}

impl Drop for WorkerServer {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            let server = self.server.get_mut();
            std::mem::forget(server.take());
        }
    }
}

#[pymethods]
impl WorkerServer {
    /// Starts a worker that listens at an address.
    #[new]
    // Python passes them by name.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        name, listen, token, security, labels, cores, memory_bytes=None, lost_after=None
    ))]
    fn new(
        py: Python<'_>,
        name: String,
        listen: &str,
        token: &str,
        security: &str,
        labels: Vec<String>,
        cores: usize,
        memory_bytes: Option<u64>,
        lost_after: Option<f64>,
    ) -> PyResult<WorkerServer> {
        let started = || -> Result<WorkerServer> {
            let memory_bytes = memory_bytes.unwrap_or_else(machine::memory_bytes);
            let (host, lent_bytes) = (machine::host(), 0);
            let member = WorkerProperties { name, labels, cores, memory_bytes, host, lent_bytes };
            let (secret, security) = (Secret::parse(token)?, parse_security(security)?);
            let listen: Address = listen.parse()?;
            let setting = WorkerSettings {
                member,
                listen,
                secret,
                security,
                lost_after: seconds(lost_after)?,
                scratch: vec![],
            };
            let server = cluster::WorkerServer::start(setting, worker_registry(), || ())?;
            let address = server.address().to_string();
            Ok(WorkerServer { server: Mutex::new(Some(server)), address, owner: Owner::here() })
        };
        py.detach(started).or_raise(py)
    }

    /// The address at which the worker listens.
    #[getter]
    fn address(&self) -> String {
        self.address.clone()
    }

    /// Ends the worker, and its parts of flows.
    fn close(&self, py: Python<'_>) {
        if !self.owner.is_here() {
            return;
        }
        py.detach(|| {
            let server = self.server.lock().take();
            drop(server);
        });
    }
}

fn parse_security(word: &str) -> Result<Security> {
    match word {
        "tls" => Ok(Security::Tls),
        "token" => Ok(Security::Token),
        other => Err(euphrates_flow::error::unknown(
            "channel security",
            other,
            ["tls", "token"].into_iter(),
        )),
    }
}
