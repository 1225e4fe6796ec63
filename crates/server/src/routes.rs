//! The table of routes. The router is built from it, and so is the test that every route requires
//! a session.

use std::sync::Arc;

use axum::http::Method;
use serde_json::Value;

use crate::api::{check, files, runs, script, session};
use crate::http::error::Result;
use crate::http::request::ApiRequest;
use crate::studio::Studio;

/// A method and a path, and how they are handled.
pub struct HttpRoute {
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    pub handler: Handler,
}

/// A function that answers a request with JSON.
pub type ApiHandler = fn(&Arc<Studio>, &ApiRequest) -> Result<Value>;

/// How a route is handled.
pub enum Handler {
    /// The handler changes nothing.
    Read(ApiHandler),
    /// The handler changes files or starts processes; a read-only server rejects it.
    Write(ApiHandler),
    /// A file of the page.
    Page,
    /// The stream of server-sent events.
    Events,
    /// The metrics of the runs, as text.
    Metrics,
}

/// All routes of the page and the API.
pub fn routes() -> Vec<HttpRoute> {
    use Handler::{Events, Metrics, Page, Read, Write};
    let route = |method, path, handler| HttpRoute { method, path, handler };
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    vec![
        route(get.clone(), "/", Page),
        route(get.clone(), "/{*file}", Page),
        route(get.clone(), "/api/session", Read(session::session)),
        route(get.clone(), "/api/files", Read(files::list)),
        route(get.clone(), "/api/file", Read(files::read)),
        route(put.clone(), "/api/file", Write(files::write)),
        route(get.clone(), "/api/draft", Read(files::read_draft)),
        route(put, "/api/draft", Write(files::write_draft)),
        route(delete.clone(), "/api/draft", Write(files::drop_draft)),
        route(post.clone(), "/api/script", Write(script::run)),
        route(get.clone(), "/api/modules", Read(session::modules)),
        route(post.clone(), "/api/check", Read(check::check)),
        route(get.clone(), "/api/runs", Read(runs::list)),
        route(post.clone(), "/api/runs", Write(runs::start)),
        route(get.clone(), "/api/runs/{id}", Read(runs::one)),
        route(post.clone(), "/api/runs/{id}/stop", Write(runs::stop)),
        route(post, "/api/runs/{id}/perturb", Write(runs::perturb)),
        route(delete.clone(), "/api/runs/{id}", Write(runs::remove)),
        route(delete, "/api/runs/{id}/perturb", Write(runs::end_perturbations)),
        route(get.clone(), "/api/runs/{id}/rows", Read(runs::rows)),
        route(get.clone(), "/metrics", Metrics),
        route(get, "/api/events", Events),
    ]
}
