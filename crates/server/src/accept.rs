//! Takes connections, on this machine's own addresses alone.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use euphrates_flow::{Error, Refusals, Result};
use futures::future::{Either, select};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::connections::{Connection, Connections, Timed, Waits};
use crate::routes::router;
use crate::{Setting, Studio};

/// The usual port: the year River was published.
const PORT: u16 = 1999;
const THREADS: usize = 2;

/// A server that runs; it ends when this is dropped.
pub struct Server {
    studio: Arc<Studio>,
    /// Where it listens.
    pub address: SocketAddr,
    token_file: PathBuf,
    refusals: Arc<Refusals>,
    #[cfg(test)]
    connections: Arc<Connections>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts to listen.
    pub fn start(setting: Setting) -> Result<Server> {
        Server::start_with(setting, Waits::default())
    }

    pub(crate) fn start_with(setting: Setting, waits: Waits) -> Result<Server> {
        let listeners = listen(setting.port)?;
        let address = listeners[0].local_addr();
        let address = address.map_err(|error| Error::os("listen", "at a port", &error))?;
        let token_file = setting.home.join("studio").join(format!("{}.token", address.port()));
        let studio = Studio::new(setting, address.port())?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        let router = router(studio.clone());
        let refusals = Arc::new(Refusals::default());
        let connections = Arc::new(Connections::new(refusals.clone(), waits));
        for listener in listeners {
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener);
            let listener = listener.map_err(|error| Error::os("listen", address, &error))?;
            runtime.spawn(accept(listener, router.clone(), connections.clone()));
        }
        let server = Server {
            studio,
            address,
            token_file,
            refusals,
            #[cfg(test)]
            connections,
            runtime: Some(runtime),
        };
        server.keep_token()?;
        Ok(server)
    }

    /// What to log now of connections and requests that were refused; see `Refusals::lines`.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.lines(SystemTime::now())
    }

    /// How many connections are open, besides streams of events.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.count()
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
        let folder = path.parent().unwrap_or(path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
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

async fn accept(listener: tokio::net::TcpListener, router: Router, connections: Arc<Connections>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of files, say: others will be given back.
            connections.make_room();
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let connection = connections.enter(peer);
        tokio::spawn(serve(stream, connection, router.clone()));
    }
}

/// Serves a connection until it ends, has to make room, or is too slow.
async fn serve(stream: TcpStream, connection: Arc<Connection>, router: Router) {
    let waits = connection.waits();
    let (router, of) = (TowerToHyperService::new(router), connection.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of.clone());
        router.call(request)
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(waits.request);
    let served = pin!(server.serve_connection(Timed::new(stream, waits.transfer), service));
    let (closing, no_session) = (pin!(connection.closing()), pin!(connection.no_session()));
    // Whoever breaks off has nothing more to be told; what is no HTTP is somebody else's try.
    if let Either::Left((Err(error), _)) = select(served, select(closing, no_session)).await
        && connection.is_stranger()
        && (error.is_parse() || error.is_timeout())
    {
        let why = if error.is_parse() { "this is no request" } else { "the request was too slow" };
        connection.refused("", why);
    }
}
