//! Accepts connections on the loopback addresses and serves them; writes the token file.

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

use crate::http::connections::{Connections, HttpConnection, TimedSocket, Timeouts};
use crate::router::router;
use crate::settings::ServerSettings;
use crate::studio::Studio;
use crate::watcher;

/// The default port: the year in which River was published.
const PORT: u16 = 1999;
const THREADS: usize = 2;

/// A running server. Dropping it stops the server.
pub struct Server {
    pub(crate) studio: Arc<Studio>,
    /// The address it listens at.
    pub address: SocketAddr,
    token_file: PathBuf,
    refusals: Arc<Refusals>,
    #[cfg(test)]
    connections: Arc<Connections>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts a server and listens for connections.
    pub fn start(settings: ServerSettings) -> Result<Server> {
        Server::start_with(settings, Timeouts::default())
    }

    pub(crate) fn start_with(settings: ServerSettings, timeouts: Timeouts) -> Result<Server> {
        let listeners = listen(settings.port)?;
        let address = listeners[0].local_addr();
        let address = address.map_err(|error| Error::os("listen", "at a port", &error))?;
        let token_file = settings.home.join("studio").join(format!("{}.token", address.port()));
        let studio = Studio::new(settings, address.port())?;
        watcher::start(&studio)?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        let router = router(studio.clone());
        let refusals = Arc::new(Refusals::default());
        let connections = Arc::new(Connections::new(refusals.clone(), timeouts));
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
        server.write_token()?;
        Ok(server)
    }

    /// New log lines on refused connections and requests; see `Refusals::lines`.
    pub fn refusals(&self) -> Vec<String> {
        self.refusals.lines(SystemTime::now())
    }

    /// The number of open connections, without event streams.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.count()
    }

    /// A link with a sign-in code, valid once.
    pub fn link(&self) -> Result<String> {
        Ok(format!(
            "http://127.0.0.1:{}/?code={}",
            self.address.port(),
            self.studio.authorizer.code()?
        ))
    }

    /// Writes a private HTML file that redirects to a new link. A browser is started with this
    /// file, because all users of the machine can see a program's arguments.
    pub fn link_file(&self) -> Result<PathBuf> {
        let path = self.token_file.with_extension("html");
        let link = self.link()?;
        let text = format!("<meta http-equiv=\"refresh\" content=\"0;url={link}\">\n");
        write_private(&path, &text).map(|()| path)
    }

    /// Writes the token of this user's programs to a private file.
    fn write_token(&self) -> Result<()> {
        write_private(&self.token_file, self.studio.authorizer.token())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The secrets are invalid without this server, also those a killed server leaves behind.
        let _ = fs::remove_file(&self.token_file);
        let _ = fs::remove_file(self.token_file.with_extension("html"));
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Writes a file that only its owner can read.
fn write_private(path: &PathBuf, text: &str) -> Result<()> {
    let write = || {
        let folder = path.parent().unwrap_or(path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // An existing file may belong to another user or be readable by others.
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
    };
    write().map_err(|error| Error::os("write", path, &error))
}

/// Listens at the IPv4 loopback address, and at the IPv6 one if available.
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

/// Accepts connections and serves them by the router, until the runtime ends.
pub(crate) async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    connections: Arc<Connections>,
) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // For example, the process is out of file descriptors.
            connections.make_room();
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let connection = connections.add(peer);
        tokio::spawn(serve(stream, connection, router.clone()));
    }
}

/// Serves a connection until it ends, is closed for another one, or exceeds a timeout.
async fn serve(stream: TcpStream, connection: Arc<HttpConnection>, router: Router) {
    let timeouts = connection.timeouts();
    let (router, of) = (TowerToHyperService::new(router), connection.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of.clone());
        router.call(request)
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(timeouts.request);
    let served =
        pin!(server.serve_connection(TimedSocket::new(stream, timeouts.transfer), service));
    let closing = pin!(connection.closing());
    let unauthenticated = pin!(connection.authentication_timeout());
    // Log what is no HTTP and what is too slow; a client may close its connection at any time.
    if let Either::Left((Err(error), _)) = select(served, select(closing, unauthenticated)).await
        && connection.is_unauthenticated()
        && (error.is_parse() || error.is_timeout())
    {
        let why = if error.is_parse() { "this is no request" } else { "the request was too slow" };
        connection.refused("", why);
    }
}
