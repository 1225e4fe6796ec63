//! Serves metrics at `/metrics`, to whoever reaches the address: the text has names and numbers,
//! but neither data nor paths.
//!
//! A scrape reads what is stored, on a thread of the server, so that it delays no flow. The limits
//! of connections are those of the studio's server.

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::{Extension, Router};
use euphrates_flow::{Error, Refusals, Result};
use tokio::runtime::{Builder, Runtime};

use super::text::CONTENT_TYPE;
use crate::http::connections::{Connections, HttpConnection, Timeouts};
use crate::http::error::ApiError;
use crate::http::response::{error_response, protect, response};
use crate::server::accept;

/// How long the server's thread may take to end.
const END_WAIT: Duration = Duration::from_millis(500);

/// Makes the text of a scrape.
pub type MetricsSource = Arc<dyn Fn() -> String + Send + Sync>;

/// A running server. Dropping it stops the server.
pub struct MetricsServer {
    /// The address it listens at.
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl MetricsServer {
    /// Listens at `HOST:PORT`, or at a port of the loopback interface.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use euphrates_server::metrics::server::MetricsServer;
    ///
    /// let first = MetricsServer::start("0", Arc::new(String::new))?;
    /// assert!(first.address.ip().is_loopback());
    /// let taken = MetricsServer::start(&first.address.to_string(), Arc::new(String::new));
    /// assert!(taken.err().unwrap().advice().unwrap().contains("another port"));
    /// assert!(MetricsServer::start("nowhere", Arc::new(String::new)).is_err());
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn start(address: &str, source: MetricsSource) -> Result<MetricsServer> {
        MetricsServer::start_with(address, source, Timeouts::default())
    }

    pub(crate) fn start_with(
        address: &str,
        source: MetricsSource,
        timeouts: Timeouts,
    ) -> Result<MetricsServer> {
        let wanted = parse(address)?;
        let listener = TcpListener::bind(wanted).map_err(|error| {
            Error::resource(format!("cannot serve metrics at {wanted}: {error}"))
                .remedy("give another port: each program needs its own, and 0 takes a free one")
        })?;
        let failed = |error| Error::os("listen", address, &error);
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("metrics")
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        let is_loopback = address.ip().is_loopback();
        let answer = move |Extension(connection): Extension<Arc<HttpConnection>>,
                           request: Request| {
            let answer = answer(&request, is_loopback, &source);
            if answer.status() == StatusCode::OK {
                connection.set_authenticated();
            }
            std::future::ready(answer)
        };
        let router = Router::new().fallback(answer);
        let connections = Connections::new(Arc::new(Refusals::default()), timeouts);
        let inside = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        runtime.spawn(accept(listener, router, Arc::new(connections)));
        drop(inside);
        Ok(MetricsServer { address, runtime: Some(runtime) })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The next server may take the same port at once.
            runtime.shutdown_timeout(END_WAIT);
        }
    }
}

fn answer(request: &Request, is_loopback: bool, source: &MetricsSource) -> Response {
    let mut answer = match checked(request, is_loopback) {
        Ok(()) => response(StatusCode::OK, CONTENT_TYPE, source().into()),
        Err(error) => error_response(&error),
    };
    protect(&mut answer);
    answer
}

fn checked(request: &Request, is_loopback: bool) -> std::result::Result<(), ApiError> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if is_loopback && !host.is_some_and(is_local_name) {
        // A foreign page can make a browser send requests here under its own name (DNS rebinding).
        let error = ApiError::forbidden("the request is for another host");
        return Err(error.remedy("ask for the address, or for localhost"));
    }
    if request.uri().path() != "/metrics" {
        return Err(ApiError::missing("there is nothing of this name").remedy("ask for /metrics"));
    }
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method", "metrics are only read")),
    }
}

/// Whether a `Host` header names an address, or `localhost`.
fn is_local_name(host: &str) -> bool {
    let end = host.rfind(':').filter(|end| !host[*end..].contains(']'));
    let name = host[..end.unwrap_or(host.len())].trim_matches(['[', ']']);
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// The address of `HOST:PORT`, or of a port of the loopback interface.
fn parse(address: &str) -> Result<SocketAddr> {
    let whole = match address.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.to_string(),
    };
    let found = whole.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        Error::usage(format!("`{address}` is no address at which metrics can be served"))
            .remedy("give HOST:PORT, like 127.0.0.1:9100, or a port of this machine alone")
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    use super::*;

    fn ask(at: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(at: SocketAddr, path: &str, host: &str) -> String {
        ask(at, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }

    #[test]
    fn only_metrics_are_read_and_only_by_local_names() {
        let server = MetricsServer::start("127.0.0.1:0", Arc::new(|| "x 1\n".into())).unwrap();
        let at = server.address;
        for host in ["localhost", &at.to_string(), "[::1]:80", "10.0.0.7:9100"] {
            let answer = get(at, "/metrics", host);
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nx 1\n"));
            assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        }
        assert!(get(at, "/metrics", "evil.example").starts_with("HTTP/1.1 403 "));
        assert!(get(at, "/", "localhost").starts_with("HTTP/1.1 404 "));
        let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        assert!(ask(at, post).starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn clients_that_say_nothing_keep_no_others_out() {
        let server = MetricsServer::start("127.0.0.1:0", Arc::new(|| "x 1\n".into())).unwrap();
        let silent: Vec<TcpStream> =
            (0..200).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        let began = Instant::now();
        assert!(get(server.address, "/metrics", "localhost").ends_with("x 1\n"));
        assert!(began.elapsed() < Duration::from_secs(8), "no timeout was waited for");
        drop(silent);
    }
}
