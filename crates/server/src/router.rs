//! The router: authorizes every request, reads its body, and calls the handler of its route.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use tokio::time::timeout;

use crate::api::{events, metrics};
use crate::http::authorization::AccessDecision;
use crate::http::connections::HttpConnection;
use crate::http::error::{ApiError, Result};
use crate::http::page;
use crate::http::request::ApiRequest;
use crate::http::response::{ExceededLimit, error_response, json, protect, response};
use crate::routes::{Handler, HttpRoute, routes};
use crate::studio::Studio;

/// The largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 4 << 20;

/// The router of all routes, behind authorization.
pub fn router(studio: Arc<Studio>) -> Router {
    let mut router = Router::new();
    for HttpRoute { method, path, handler } in routes() {
        let filter = MethodFilter::try_from(method).expect("a method of the table");
        let handler = Arc::new(handler);
        let answer = move |State(studio): State<Arc<Studio>>, request: Request| {
            let handler = handler.clone();
            async move {
                let answered = answer(&studio, &handler, request).await;
                answered.unwrap_or_else(|error| error_response(&error))
            }
        };
        router = router.route(path, on(filter, answer));
    }
    let unknown = || async { error_response(&ApiError::missing("there is nothing of this name")) };
    let authorized = middleware::from_fn_with_state(studio.clone(), authorize);
    router.fallback(unknown).layer(authorized).with_state(studio)
}

/// Passes authorized requests on, and adds the security headers to every response.
async fn authorize(
    State(studio): State<Arc<Studio>>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    request: Request,
    next: Next,
) -> Response {
    let decision = studio.authorizer.authorize(request.method(), request.uri(), request.headers());
    // Without the query, which may contain a sign-in code.
    let what = format!("{} {}", request.method(), request.uri().path());
    let mut response = match decision {
        AccessDecision::Allow => {
            connection.set_authenticated();
            let response = next.run(request).await;
            if let Some(ExceededLimit(why)) = response.extensions().get() {
                connection.refused(&what, why);
            }
            response
        }
        AccessDecision::SignIn(cookie) => {
            connection.set_authenticated();
            signed_in(cookie.as_deref())
        }
        AccessDecision::Deny(error) => {
            connection.refused(&what, &error.message);
            match error.status {
                StatusCode::UNAUTHORIZED if is_page(request.uri()) => {
                    page::no_session(request.headers())
                }
                _ => error_response(&error),
            }
        }
    };
    protect(&mut response);
    response
}

fn is_page(uri: &Uri) -> bool {
    uri.path() == "/"
}

async fn answer(studio: &Arc<Studio>, handler: &Handler, request: Request) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let connection = parts.extensions.get::<Arc<HttpConnection>>().cloned();
    let connection = connection.ok_or_else(|| ApiError::usage("there is no connection"))?;
    let work = match handler {
        Handler::Page => return page::file(parts.uri.path()),
        Handler::Metrics => return metrics::scrape(studio.clone()).await,
        Handler::Events => {
            let stream = events::stream(studio, &parts.headers)?;
            connection.become_stream();
            return Ok(stream);
        }
        Handler::Write(_) if studio.settings.read_only => {
            let error = ApiError::forbidden("the studio was started with --read-only");
            return Err(error.remedy("start it without"));
        }
        Handler::Read(work) | Handler::Write(work) => *work,
    };
    let params = RawPathParams::from_request_parts(&mut parts, studio).await;
    let params = params.map_err(|_| ApiError::usage("the path is not text"))?;
    let params = params.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let wait = connection.timeouts().transfer;
    let body = timeout(wait, to_bytes(body, BODY_BYTES_MAX)).await.map_err(|_| {
        let message = format!("the body took longer than {} s", wait.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "limit", message)
    })?;
    let body = body.map_err(|_| {
        let message = format!("the body is longer than {BODY_BYTES_MAX} bytes, or was cut short");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message)
    })?;
    let request = ApiRequest::new(params, parts.uri.query().unwrap_or_default(), body)?;
    let studio = studio.clone();
    // Handlers block on disks, which must not block other connections of this thread.
    let done = tokio::task::spawn_blocking(move || work(&studio, &request)).await;
    let value = done.unwrap_or_else(|_| {
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the server has a bug")
            .remedy("its terminal says more; please report it"))
    })?;
    Ok(json(StatusCode::OK, &value))
}

/// Redirects to the page without the code, with the cookie of the new session.
fn signed_in(cookie: Option<&str>) -> Response {
    let mut response = response(StatusCode::SEE_OTHER, "text/plain", Body::empty());
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Some(Ok(cookie)) = cookie.map(HeaderValue::from_str) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
