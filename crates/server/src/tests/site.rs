//! A server for tests, and a client that sends requests as plain text.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::connections::Timeouts;
use crate::server::Server;
use crate::settings::ServerSettings;

/// A server with an empty project.
pub struct Site {
    pub server: Server,
    pub root: TempDir,
    home: TempDir,
    cookie: OnceLock<String>,
}

/// A response, parsed into status, headers and body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The headers, with names in lower case.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(start.as_str()))
    }
}

impl Site {
    /// A server with default settings.
    pub fn new() -> Site {
        Site::with(|settings| settings)
    }

    /// A server with changed settings.
    pub fn with(change: impl FnOnce(ServerSettings) -> ServerSettings) -> Site {
        Site::with_timeouts(change, Timeouts::default())
    }

    /// A server with changed settings and timeouts.
    pub fn with_timeouts(
        change: impl FnOnce(ServerSettings) -> ServerSettings,
        timeouts: Timeouts,
    ) -> Site {
        let (root, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let registry = euphrates_modules::registry();
        let settings = change(ServerSettings {
            root: root.path().to_path_buf(),
            flow: None,
            port: Some(0),
            read_only: false,
            allowed_hosts: vec![],
            end_runs: false,
            registry,
            program: vec!["false".into()],
            environment: vec![],
            home: home.path().to_path_buf(),
        });
        let server = Server::start_with(settings, timeouts).unwrap();
        Site { server, root, home, cookie: OnceLock::new() }
    }

    /// Writes a file of the project.
    pub fn put(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// The content of the token file.
    pub fn token(&self) -> String {
        let name = format!("studio/{}.token", self.port());
        fs::read_to_string(self.home.path().join(name)).unwrap()
    }

    /// Signs in with a new link, and returns the cookie as `name=value`.
    pub fn sign_in(&self) -> String {
        let link = self.server.link().unwrap();
        let (_, code) = link.split_once("/?").unwrap();
        let host = format!("Host: 127.0.0.1:{}\r\n", self.port());
        let answer = self.send(&format!("GET /?{code}"), &host, "");
        answer.header("set-cookie").unwrap().split_once(';').unwrap().0.to_string()
    }

    /// The headers of a same-origin request with a session.
    pub fn session(&self) -> String {
        let (port, cookie) = (self.port(), self.cookie.get_or_init(|| self.sign_in()));
        format!(
            "Host: 127.0.0.1:{port}\r\nCookie: a=b; {cookie}\r\n\
             Sec-Fetch-Site: same-origin\r\nX-Euphrates: 1\r\nContent-Type: application/json\r\n"
        )
    }

    /// Sends a request with these headers, and returns the response.
    pub fn send(&self, line: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n\
             {body}"
        );
        // A server that rejects a request does not read the rest.
        let _ = stream.write_all(text.as_bytes());
        let mut bytes = vec![];
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let head = head.lines().map(|line| match line.split_once(':') {
            Some((name, value)) => format!("{}:{value}\n", name.to_lowercase()),
            None => format!("{line}\n"),
        });
        Answer { status, head: head.collect(), body: body.to_string() }
    }

    /// Sends a request with a session.
    pub fn ask(&self, line: &str, body: &str) -> Answer {
        self.send(line, &self.session(), body)
    }

    /// Opens a connection with a read timeout.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }
}
