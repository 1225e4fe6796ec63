//! Everything that can be asked of the server, in one table: the router is built of it, and so is
//! the test that nobody gets in without a session.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::connections::Connection;
use crate::gate::Verdict;
use crate::refusal::{Refusal, Result};
use crate::{Studio, checking, events, files, page, running, script};

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 4 << 20;

/// One thing that can be asked.
pub struct Route {
    /// How.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// What is done.
    act: Act,
}

enum Act {
    /// Something is looked at.
    Look(fn(&Arc<Studio>, &Call) -> Result<Value>),
    /// Something is changed, or run: not where all is only to be read.
    Change(fn(&Arc<Studio>, &Call) -> Result<Value>),
    /// A file of the page.
    Page,
    /// The stream of events.
    Events,
}

/// The table.
pub fn routes() -> Vec<Route> {
    use Act::{Change, Events, Look, Page};
    let route = |method, path, act| Route { method, path, act };
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    vec![
        route(get.clone(), "/", Page),
        route(get.clone(), "/{*file}", Page),
        route(get.clone(), "/api/session", Look(checking::session)),
        route(get.clone(), "/api/files", Look(files::list)),
        route(get.clone(), "/api/file", Look(files::read)),
        route(put.clone(), "/api/file", Change(files::write)),
        route(get.clone(), "/api/draft", Look(files::read_draft)),
        route(put, "/api/draft", Change(files::write_draft)),
        route(delete.clone(), "/api/draft", Change(files::drop_draft)),
        route(post.clone(), "/api/script", Change(script::run)),
        route(get.clone(), "/api/modules", Look(checking::modules)),
        route(post.clone(), "/api/check", Look(checking::check)),
        route(get.clone(), "/api/runs", Look(running::list)),
        route(post.clone(), "/api/runs", Change(running::start)),
        route(get.clone(), "/api/runs/{id}", Look(running::one)),
        route(post.clone(), "/api/runs/{id}/stop", Change(running::stop)),
        route(post, "/api/runs/{id}/perturb", Change(running::perturb)),
        route(delete, "/api/runs/{id}/perturb", Change(running::unperturb)),
        route(get.clone(), "/api/runs/{id}/rows", Look(running::rows)),
        route(get, "/api/events", Events),
    ]
}

/// What was asked.
#[derive(Debug, Default)]
pub struct Call {
    params: Vec<(String, String)>,
    query: Vec<(String, String)>,
    body: Bytes,
}

impl Call {
    /// A part of the path.
    pub fn param(&self, name: &str) -> &str {
        value_of(&self.params, name).unwrap_or_default()
    }

    /// A value behind the `?`.
    pub fn query(&self, name: &str) -> Result<&str> {
        let value = value_of(&self.query, name);
        value.ok_or_else(|| Refusal::usage(format!("`{name}` is missing behind the `?`")))
    }

    /// The body.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::usage(format!("the body is malformed: {error}")))
    }
}

fn value_of<'a>(values: &'a [(String, String)], name: &str) -> Option<&'a str> {
    values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The router, the gate before it.
pub fn router(studio: Arc<Studio>) -> Router {
    let mut router = Router::new();
    for Route { method, path, act } in routes() {
        let filter = MethodFilter::try_from(method).expect("a method of the table");
        let act = Arc::new(act);
        let answer = move |State(studio): State<Arc<Studio>>, request: Request| {
            let act = act.clone();
            async move { answer(&studio, &act, request).await.unwrap_or_else(|no| refused(&no)) }
        };
        router = router.route(path, on(filter, answer));
    }
    let unknown = || async { refused(&Refusal::missing("there is nothing of this name")) };
    let guarded = middleware::from_fn_with_state(studio.clone(), guard);
    router.fallback(unknown).layer(guarded).with_state(studio)
}

async fn guard(
    State(studio): State<Arc<Studio>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    let verdict = studio.gate.judge(request.method(), request.uri(), request.headers());
    // Without the query, which may hold a code.
    let what = format!("{} {}", request.method(), request.uri().path());
    let mut response = match verdict {
        Verdict::Pass => {
            connection.let_in();
            let response = next.run(request).await;
            if let Some(Why(why)) = response.extensions().get() {
                connection.refused(&what, why);
            }
            response
        }
        Verdict::SignIn(cookie) => {
            connection.let_in();
            signed_in(cookie.as_deref())
        }
        Verdict::Refuse(no) => {
            connection.refused(&what, &no.message);
            match no.status {
                StatusCode::UNAUTHORIZED if is_page(request.uri()) => {
                    page::no_session(request.headers())
                }
                _ => refused(&no),
            }
        }
    };
    protect(&mut response);
    response
}

fn is_page(uri: &Uri) -> bool {
    uri.path() == "/"
}

async fn answer(studio: &Arc<Studio>, act: &Act, request: Request) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let connection = parts.extensions.get::<Arc<Connection>>().cloned();
    let connection = connection.ok_or_else(|| Refusal::usage("there is no connection"))?;
    match act {
        Act::Page => return page::file(parts.uri.path()),
        Act::Events => {
            let stream = events::stream(studio, &parts.headers)?;
            connection.keep_open();
            return Ok(stream);
        }
        Act::Change(_) if studio.setting.read_only => {
            let refusal = Refusal::forbidden("the studio was started with --read-only");
            return Err(refusal.remedy("start it without"));
        }
        Act::Look(_) | Act::Change(_) => {}
    }
    let params = RawPathParams::from_request_parts(&mut parts, studio).await;
    let params = params.map_err(|_| Refusal::usage("the path is no text"))?;
    let params = params.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let wait = connection.waits().transfer;
    let body = timeout(wait, to_bytes(body, BODY_BYTES_MAX)).await.map_err(|_| {
        let message = format!("the body took longer than {} s", wait.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "limit", message)
    })?;
    let body = body.map_err(|_| {
        let message = format!("the body is longer than {BODY_BYTES_MAX} bytes, or was cut short");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message)
    })?;
    let call = Call { params, query: query(parts.uri.query().unwrap_or_default())?, body };
    let (Act::Look(work) | Act::Change(work)) = act else { unreachable!("answered above") };
    let (work, studio) = (*work, studio.clone());
    // Files and checks wait for disks, and this thread has others to serve.
    let done = tokio::task::spawn_blocking(move || work(&studio, &call)).await;
    let value = done.unwrap_or_else(|_| {
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the server has a bug")
            .remedy("its terminal says more; please report it"))
    })?;
    Ok(json(StatusCode::OK, &value))
}

fn query(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(name)?, decoded(value)?))
    };
    pairs.map(pair).collect()
}

/// Undoes `%20` and `+`, once.
fn decoded(text: &str) -> Result<String> {
    let malformed = || Refusal::usage("what is behind the `?` is malformed");
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits =
                    [rest.next().ok_or_else(malformed)?, rest.next().ok_or_else(malformed)?];
                let digits = digits.map(|digit| (digit as char).to_digit(16));
                let [Some(high), Some(low)] = digits else { return Err(malformed()) };
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

/// JSON, with this status.
pub fn json(status: StatusCode, value: &Value) -> Response {
    response(status, "application/json", value.to_string().into())
}

/// Anything else.
pub fn response(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Why a limit was reached, for the log.
#[derive(Clone)]
struct Why(String);

fn refused(refusal: &Refusal) -> Response {
    let mut response = json(refusal.status, &refusal.body());
    if [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&refusal.status) {
        response.extensions_mut().insert(Why(refusal.message.clone()));
    }
    response
}

fn signed_in(cookie: Option<&str>) -> Response {
    let mut response = response(StatusCode::SEE_OTHER, "text/plain", Body::empty());
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Some(Ok(cookie)) = cookie.map(HeaderValue::from_str) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// What a browser may do with any answer: nothing but what the page itself needs.
fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    let fixed = [
        (CONTENT_SECURITY_POLICY, page::POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
