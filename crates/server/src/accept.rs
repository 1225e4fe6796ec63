//! Takes connections, on this machine's own addresses alone: few at once, and none that dribbles.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use euphrates_flow::{Error, Result};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::routes::router;
use crate::{Setting, Studio};

/// The usual port: the year River was published.
const PORT: u16 = 1999;
/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// How long a request may take to say what it wants, and a connection may say nothing.
const HEADER_WAIT: Duration = Duration::from_secs(10);
const THREADS: usize = 2;

/// A server that runs; it ends when this is dropped.
pub struct Server {
    studio: Arc<Studio>,
    /// Where it listens.
    pub address: SocketAddr,
    token_file: PathBuf,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts to listen.
    pub fn start(setting: Setting) -> Result<Server> {
        let listeners = listen(setting.port)?;
        let address = listeners[0].local_addr();
        let address = address.map_err(|error| Error::os("listen", "at a port", &error))?;
        let token_file = setting.home.join("studio").join(format!("{}.token", address.port()));
        let studio = Studio::new(setting, address.port())?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        let router = router(studio.clone());
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        for listener in listeners {
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener);
            let listener = listener.map_err(|error| Error::os("listen", address, &error))?;
            runtime.spawn(accept(listener, router.clone(), places.clone()));
        }
        let server = Server { studio, address, token_file, runtime: Some(runtime) };
        server.keep_token()?;
        Ok(server)
    }

    /// A link that lets a browser in, once.
    pub fn link(&self) -> Result<String> {
        Ok(format!("http://127.0.0.1:{}/?code={}", self.address.port(), self.studio.gate.code()?))
    }

    /// A file that leads a browser there. Arguments of programs can be seen by everybody on the
    /// machine, so the link must not be one.
    pub fn link_file(&self) -> Result<PathBuf> {
        let path = self.token_file.with_extension("html");
        let link = self.link()?;
        let text = format!("<meta http-equiv=\"refresh\" content=\"0;url={link}\">\n");
        write_own(&path, &text).map(|()| path)
    }

    /// What programs of this user show: in a file that is theirs alone.
    fn keep_token(&self) -> Result<()> {
        write_own(&self.token_file, self.studio.gate.token())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // They are of no use any more; what is left of a server that was killed is none either.
        let _ = fs::remove_file(&self.token_file);
        let _ = fs::remove_file(self.token_file.with_extension("html"));
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn write_own(path: &PathBuf, text: &str) -> Result<()> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        // Made anew: an old one may be somebody else's, or open to all.
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
    };
    write().map_err(|error| Error::os("write", path, &error))
}

/// Listens at both of this machine's own addresses, where there are both.
fn listen(port: Option<u16>) -> Result<Vec<TcpListener>> {
    let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let first = match port {
        Some(port) => at(port),
        None => at(PORT).or_else(|_| at(0)),
    };
    let first = first.map_err(|error| {
        let port = port.unwrap_or_default();
        Error::resource(format!("cannot listen at port {port}: {error}"))
            .remedy("give another with --port, or leave it out")
    })?;
    let port = first.local_addr().map_or(0, |address| address.port());
    let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).ok();
    let all: Vec<TcpListener> = [Some(first), second].into_iter().flatten().collect();
    for listener in &all {
        let set = listener.set_nonblocking(true);
        set.map_err(|error| Error::os("listen", "at a port", &error))?;
    }
    Ok(all)
}

async fn accept(listener: tokio::net::TcpListener, router: Router, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, say: others will be given back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_WAIT);
            // Whoever breaks off has nothing more to be told.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
