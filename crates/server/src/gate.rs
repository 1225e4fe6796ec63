//! Who may speak to the server: whoever was given the link, from a page of the server's own.
//!
//! It stands before everything else and lets nothing through that it does not know, so that what is
//! added behind it cannot be forgotten. A page of somebody else can have a browser send requests
//! here, even under its own name (DNS rebinding), so the name that is asked for is compared with a
//! list, on every request; ports are no border for browsers' cookies, so being of the same site is
//! not enough.

use std::sync::Mutex;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use euphrates_flow::Error;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::lock;
use crate::refusal::{Refusal, Result};

/// Links that have been given and not been used; the oldest are forgotten first.
const CODES_MAX: usize = 8;
/// Sessions of browsers; the least recently used is forgotten first.
const SESSIONS_MAX: usize = 16;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const OURS: HeaderName = HeaderName::from_static("x-euphrates");

/// What is known of whom to let in.
pub struct Gate {
    port: u16,
    /// What programs show, and no browser.
    token: String,
    codes: Mutex<Vec<String>>,
    /// What browsers show, each a secret of its own, and no program.
    sessions: Mutex<Vec<String>>,
    hosts: Vec<String>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It brings a code, which must not stay in its address. It gets this cookie, if the code was
    /// one that lets in.
    SignIn(Option<String>),
    /// It goes no further.
    Refuse(Refusal),
}

impl Gate {
    /// A gate at this port, for requests to this machine and to these hosts.
    pub fn new(port: u16, allowed: &[String]) -> euphrates_flow::Result<Gate> {
        let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let hosts = own.into_iter().chain(allowed.iter().map(|host| host.to_lowercase())).collect();
        let (codes, sessions) = (Mutex::default(), Mutex::default());
        Ok(Gate { port, token: secret()?, codes, sessions, hosts })
    }

    /// What programs of this user show instead of a cookie.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A code that lets in once.
    pub fn code(&self) -> euphrates_flow::Result<String> {
        let code = secret()?;
        keep(&mut lock(&self.codes), CODES_MAX, code.clone());
        Ok(code)
    }

    /// Whether a request may go on.
    pub fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        match self.admit(method, uri, headers) {
            Ok(verdict) => verdict,
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Verdict> {
        self.check_host(uri, headers)?;
        if !self.is_known(headers) {
            let code = (method == Method::GET && uri.path() == "/").then(|| code_of(uri)).flatten();
            return match code.is_some_and(|code| self.spend(code)) {
                true => Ok(Verdict::SignIn(Some(self.new_session()?))),
                false => Err(Refusal::new(StatusCode::UNAUTHORIZED, "session", "no session")
                    .remedy("open the link that `euphrates studio` has printed")),
            };
        }
        if let Some(code) = code_of(uri).filter(|_| method == Method::GET && uri.path() == "/") {
            let cookie = self.spend(code).then(|| self.new_session()).transpose()?;
            return Ok(Verdict::SignIn(cookie));
        }
        if method == Method::OPTIONS {
            // There are no CORS headers here, so there is nothing to ask beforehand.
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(Refusal::new(status, "method", "OPTIONS is not answered"));
        }
        if method != Method::GET && method != Method::HEAD {
            self.check_unsafe(headers)?;
        }
        Ok(Verdict::Pass)
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let named = one(headers, &HOST).filter(|host| self.is_ours(host));
        let absolute = uri.authority().is_none_or(|authority| self.is_ours(authority.as_str()));
        if named.is_some() && absolute {
            return Ok(());
        }
        let refusal = Refusal::forbidden("the request is for another host");
        Err(refusal.remedy("open the link as it was printed; --allowed-host names more hosts"))
    }

    fn is_ours(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| *own == host)
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let bearer = one(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(|token| is_same(token, &self.token)) {
            return true;
        }
        let name = format!("euphrates_{}=", self.port);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut parts = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
        parts.any(|part| part.strip_prefix(&name).is_some_and(|shown| self.has_session(shown)))
    }

    /// Only a page of ours can make a browser send this.
    fn check_unsafe(&self, headers: &HeaderMap) -> Result<()> {
        let is_ours = match one(headers, &FETCH_SITE) {
            Some(site) => site == "same-origin",
            None if headers.contains_key(FETCH_SITE) => false,
            None => one(headers, &ORIGIN).is_some_and(|origin| {
                origin.strip_prefix("http://").is_some_and(|host| self.is_ours(host))
            }),
        };
        if !is_ours {
            return Err(Refusal::forbidden("the request does not come from a page of this server"));
        }
        if one(headers, &OURS) != Some("1") {
            return Err(Refusal::forbidden("the header X-Euphrates is missing"));
        }
        let kind = one(headers, &CONTENT_TYPE).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Refusal::new(status, "media", "the body must be application/json"));
        }
        Ok(())
    }

    /// Whether a browser has signed in with this; it is the last to be forgotten then.
    fn has_session(&self, shown: &str) -> bool {
        let mut sessions = lock(&self.sessions);
        let found = sessions.iter().position(|known| is_same(known, shown));
        found.map(|at| sessions[at..].rotate_left(1)).is_some()
    }

    fn spend(&self, code: &str) -> bool {
        let mut codes = lock(&self.codes);
        let found = codes.iter().position(|known| is_same(known, code));
        found.map(|at| codes.remove(at)).is_some()
    }

    /// Signs a browser in, with a cookie of its own.
    fn new_session(&self) -> Result<String> {
        let (port, session) = (self.port, secret()?);
        keep(&mut lock(&self.sessions), SESSIONS_MAX, session.clone());
        Ok(format!("euphrates_{port}={session}; HttpOnly; SameSite=Strict; Path=/"))
    }
}

/// Adds a secret, and forgets the first if there are too many.
fn keep(secrets: &mut Vec<String>, count_max: usize, secret: String) {
    if secrets.len() == count_max {
        secrets.remove(0);
    }
    secrets.push(secret);
}

/// A header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

fn code_of(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("code="))
}

/// Compares what cannot be guessed by how long it takes: whoever asks cannot choose the hashes.
fn is_same(a: &str, b: &str) -> bool {
    digest(&SHA256, a.as_bytes()).as_ref() == digest(&SHA256, b.as_bytes()).as_ref()
}

/// 256 bits that nobody can guess.
pub fn secret() -> euphrates_flow::Result<String> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::resource("the system has no random numbers"))?;
    Ok(hex(&bytes))
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
