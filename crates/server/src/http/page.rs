//! The files of the page, which are compiled into the program.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

use super::error::{ApiError, Result};
use super::response::response;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

const NO_SESSION: &str = "<!doctype html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>Euphrates studio</title>REFRESH</head>
<body>
<h1>This browser has no session here</h1>
<p>Open the link that <code>euphrates studio</code> has printed in its terminal. It works once;
press Enter there for another.</p>
</body>
</html>
";

/// The JavaScript module that shows a flow in a notebook; `None` if the page was not built.
pub fn notebook() -> Option<&'static str> {
    let (_, bytes) = FILES.iter().find(|(known, _)| *known == "notebook.js")?;
    std::str::from_utf8(bytes).ok()
}

/// The response for a file of the page, given the path of the request.
pub fn file(path: &str) -> Result<Response> {
    let name = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (_, bytes) = found.ok_or_else(|| ApiError::missing("the page has no file of this name"))?;
    let mut response = response(StatusCode::OK, kind_of(name), Body::from(*bytes));
    if name.starts_with("assets/") {
        // The names contain a hash of the content.
        let forever = HeaderValue::from_static("private, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
    }
    Ok(response)
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("woff2") => "font/woff2",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// The response for a browser without a session. A browser that follows a link on a foreign page
/// does not send a `SameSite=Strict` cookie, so the response reloads the page once from here.
pub fn no_session(headers: &HeaderMap) -> Response {
    let is = |name, word: &str| {
        let value = headers.get(HeaderName::from_static(name));
        value.is_some_and(|value| value.as_bytes() == word.as_bytes())
    };
    let is_cross_site = is("sec-fetch-site", "cross-site") && is("sec-fetch-mode", "navigate");
    let again = "<meta http-equiv=\"refresh\" content=\"0;url=/\">";
    let text = NO_SESSION.replace("REFRESH", if is_cross_site { again } else { "" });
    response(StatusCode::UNAUTHORIZED, "text/html; charset=utf-8", text.into())
}
