//! Authorization of every request: host check, session or token, and protection against cross-site
//! requests.
//!
//! It precedes all routes, so a new route cannot omit it. The `Host` header is compared with a
//! list, because a foreign page can make a browser send requests here under its own name (DNS
//! rebinding). Requests with side effects must be of the same origin; the same site is not enough,
//! because all ports of a host are one site to browsers.

use parking_lot::Mutex;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use ring::digest::{SHA256, digest};

use super::error::{ApiError, Result};
use crate::secret::secret;

/// Unused sign-in codes; the oldest is dropped first.
const CODES_MAX: usize = 8;
/// Browser sessions; the least recently used is dropped first.
const SESSIONS_MAX: usize = 16;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const EUPHRATES: HeaderName = HeaderName::from_static("x-euphrates");

/// The credentials and host names that the server accepts.
pub struct Authorizer {
    port: u16,
    /// The bearer token of programs.
    token: String,
    codes: Mutex<Vec<String>>,
    /// The cookies of browsers, in the order of their last use.
    sessions: Mutex<Vec<String>>,
    hosts: Vec<String>,
}

/// The decision on a request.
#[derive(Debug)]
pub enum AccessDecision {
    /// The request is authorized.
    Allow,
    /// The request has a sign-in code, which must not stay in its address. If the code is valid,
    /// the response sets this cookie.
    SignIn(Option<String>),
    /// The request is rejected.
    Deny(ApiError),
}

impl Authorizer {
    /// An authorizer for requests to the loopback names at this port and to the allowed hosts.
    pub fn new(port: u16, allowed: &[String]) -> euphrates_flow::Result<Authorizer> {
        let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let hosts = own.into_iter().chain(allowed.iter().map(|host| host.to_lowercase())).collect();
        let (codes, sessions) = (Mutex::default(), Mutex::default());
        Ok(Authorizer { port, token: secret()?, codes, sessions, hosts })
    }

    /// The bearer token of this user's programs.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A new sign-in code, valid once.
    pub fn code(&self) -> euphrates_flow::Result<String> {
        let code = secret()?;
        keep(&mut self.codes.lock(), CODES_MAX, code.clone());
        Ok(code)
    }

    /// Decides on a request.
    pub fn authorize(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> AccessDecision {
        match self.check(method, uri, headers) {
            Ok(decision) => decision,
            Err(error) => AccessDecision::Deny(error),
        }
    }

    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<AccessDecision> {
        self.check_host(uri, headers)?;
        if !self.is_authenticated(headers) {
            let code = (method == Method::GET && uri.path() == "/").then(|| code_of(uri)).flatten();
            return match code.is_some_and(|code| self.spend(code)) {
                true => Ok(AccessDecision::SignIn(Some(self.new_session()?))),
                false => Err(ApiError::new(StatusCode::UNAUTHORIZED, "session", "no session")
                    .remedy("open the link that `euphrates studio` has printed")),
            };
        }
        if let Some(code) = code_of(uri).filter(|_| method == Method::GET && uri.path() == "/") {
            let cookie = self.spend(code).then(|| self.new_session()).transpose()?;
            return Ok(AccessDecision::SignIn(cookie));
        }
        if method == Method::OPTIONS {
            // This server sends no CORS headers, so a preflight request has no purpose.
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(ApiError::new(status, "method", "OPTIONS is not answered"));
        }
        if method != Method::GET && method != Method::HEAD {
            self.check_same_origin(headers)?;
        }
        Ok(AccessDecision::Allow)
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let named = one(headers, &HOST).filter(|host| self.is_ours(host));
        let absolute = uri.authority().is_none_or(|authority| self.is_ours(authority.as_str()));
        if named.is_some() && absolute {
            return Ok(());
        }
        let error = ApiError::forbidden("the request is for another host");
        Err(error.remedy("open the link as it was printed; --allowed-host names more hosts"))
    }

    fn is_ours(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| *own == host)
    }

    fn is_authenticated(&self, headers: &HeaderMap) -> bool {
        let bearer = one(headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(|token| is_same(token, &self.token)) {
            return true;
        }
        let name = format!("euphrates_{}=", self.port);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut parts = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
        parts.any(|part| part.strip_prefix(&name).is_some_and(|cookie| self.has_session(cookie)))
    }

    /// Fails unless the request comes from a page of this server: a foreign page cannot send these
    /// headers.
    fn check_same_origin(&self, headers: &HeaderMap) -> Result<()> {
        let is_ours = match one(headers, &FETCH_SITE) {
            Some(site) => site == "same-origin",
            None if headers.contains_key(FETCH_SITE) => false,
            None => one(headers, &ORIGIN).is_some_and(|origin| {
                origin.strip_prefix("http://").is_some_and(|host| self.is_ours(host))
            }),
        };
        if !is_ours {
            return Err(ApiError::forbidden(
                "the request does not come from a page of this server",
            ));
        }
        if one(headers, &EUPHRATES) != Some("1") {
            return Err(ApiError::forbidden("the header X-Euphrates is missing"));
        }
        let kind = one(headers, &CONTENT_TYPE).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(ApiError::new(status, "media", "the body must be application/json"));
        }
        Ok(())
    }

    /// Whether this is the cookie of a session, which becomes the most recently used.
    fn has_session(&self, cookie: &str) -> bool {
        let mut sessions = self.sessions.lock();
        let found = sessions.iter().position(|known| is_same(known, cookie));
        found.map(|at| sessions[at..].rotate_left(1)).is_some()
    }

    /// Consumes a sign-in code; returns whether it was valid.
    fn spend(&self, code: &str) -> bool {
        let mut codes = self.codes.lock();
        let found = codes.iter().position(|known| is_same(known, code));
        found.map(|at| codes.remove(at)).is_some()
    }

    /// Creates a session, and returns the value of its `Set-Cookie` header.
    fn new_session(&self) -> Result<String> {
        let (port, session) = (self.port, secret()?);
        keep(&mut self.sessions.lock(), SESSIONS_MAX, session.clone());
        Ok(format!("euphrates_{port}={session}; HttpOnly; SameSite=Strict; Path=/"))
    }
}

/// Adds a secret; removes the first one if there are `count_max`.
fn keep(secrets: &mut Vec<String>, count_max: usize, secret: String) {
    if secrets.len() == count_max {
        secrets.remove(0);
    }
    secrets.push(secret);
}

/// The value of a header that occurs exactly once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

fn code_of(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("code="))
}

/// Compares secrets by their hashes, so that the duration of the comparison reveals nothing.
fn is_same(a: &str, b: &str) -> bool {
    digest(&SHA256, a.as_bytes()).as_ref() == digest(&SHA256, b.as_bytes()).as_ref()
}
