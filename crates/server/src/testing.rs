//! A server for tests, and the plainest client: what it sends is written out, so that it can send
//! what no browser would.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::connections::Waits;
use crate::{Server, Setting};

/// A server with a project of its own.
pub struct Site {
    /// The server.
    pub server: Server,
    /// The project's folder.
    pub root: TempDir,
    home: TempDir,
    cookie: OnceLock<String>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, in small letters.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(start.as_str()))
    }
}

impl Site {
    /// One that may be written to.
    pub fn new() -> Site {
        Site::with(|setting| setting)
    }

    /// One with other settings.
    pub fn with(change: impl FnOnce(Setting) -> Setting) -> Site {
        Site::with_waits(change, Waits::default())
    }

    /// One that waits for others for so long.
    pub fn with_waits(change: impl FnOnce(Setting) -> Setting, waits: Waits) -> Site {
        let (root, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let registry = euphrates_modules::registry();
        let setting = change(Setting {
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
        let server = Server::start_with(setting, waits).unwrap();
        Site { server, root, home, cookie: OnceLock::new() }
    }

    /// A file of the project.
    pub fn put(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// What is in the file for programs of this user.
    pub fn token(&self) -> String {
        let name = format!("studio/{}.token", self.port());
        fs::read_to_string(self.home.path().join(name)).unwrap()
    }

    /// The cookie that a browser gets by a new link, as `name=value`.
    pub fn sign_in(&self) -> String {
        let link = self.server.link().unwrap();
        let (_, code) = link.split_once("/?").unwrap();
        let host = format!("Host: 127.0.0.1:{}\r\n", self.port());
        let answer = self.send(&format!("GET /?{code}"), &host, "");
        answer.header("set-cookie").unwrap().split_once(';').unwrap().0.to_string()
    }

    /// Headers of a page of this server that has a session.
    pub fn session(&self) -> String {
        let (port, cookie) = (self.port(), self.cookie.get_or_init(|| self.sign_in()));
        format!(
            "Host: 127.0.0.1:{port}\r\nCookie: a=b; {cookie}\r\n\
             Sec-Fetch-Site: same-origin\r\nX-Euphrates: 1\r\nContent-Type: application/json\r\n"
        )
    }

    /// Sends a request with these headers, and hears the answer.
    pub fn send(&self, line: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n\
             {body}"
        );
        // A server that has refused does not read the rest.
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

    /// The same, with a session.
    pub fn ask(&self, line: &str, body: &str) -> Answer {
        self.send(line, &self.session(), body)
    }

    /// A connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }
}
