//! HTTP responses: JSON, errors, and the security headers that every response has.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::Value;

use super::error::ApiError;

/// The content security policy: same-origin resources only, nothing inline, no framing.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                              img-src 'self'; connect-src 'self'; frame-ancestors 'none'; \
                              base-uri 'none'; form-action 'none'";

/// A JSON response with this status.
pub fn json(status: StatusCode, value: &Value) -> Response {
    response(status, "application/json", value.to_string().into())
}

/// A response of this content type.
pub fn response(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// An extension of a response: the limit that the request exceeded, for the log.
#[derive(Clone)]
pub struct ExceededLimit(pub String);

/// The response for an error.
pub fn error_response(error: &ApiError) -> Response {
    let mut response = json(error.status, &error.body());
    if [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&error.status) {
        response.extensions_mut().insert(ExceededLimit(error.message.clone()));
    }
    response
}

/// Adds the headers that restrict what a browser may do with the response.
pub fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    let fixed = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
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
