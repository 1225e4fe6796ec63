//! The page: its files are part of the program.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

use crate::refusal::{Refusal, Result};
use crate::routes::response;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Nothing from elsewhere, nothing inline, and in nobody's frame.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                          img-src 'self'; connect-src 'self'; frame-ancestors 'none'; \
                          base-uri 'none'; form-action 'none'";

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

/// What shows a flow in a notebook, a module of JavaScript; nothing if the page was not built.
pub fn notebook() -> Option<&'static str> {
    let (_, bytes) = FILES.iter().find(|(known, _)| *known == "notebook.js")?;
    std::str::from_utf8(bytes).ok()
}

/// A file, by the path that is asked for.
pub fn file(path: &str) -> Result<Response> {
    let name = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (_, bytes) = found.ok_or_else(|| Refusal::missing("the page has no file of this name"))?;
    let mut response = response(StatusCode::OK, kind_of(name), Body::from(*bytes));
    if name.starts_with("assets/") {
        // Their names say what is in them.
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

/// How to get in. A browser that comes by a link on somebody else's page keeps a strict cookie to
/// itself; so it is sent here once more, from a page of ours.
pub fn no_session(headers: &HeaderMap) -> Response {
    let is = |name, word: &str| {
        let value = headers.get(HeaderName::from_static(name));
        value.is_some_and(|value| value.as_bytes() == word.as_bytes())
    };
    let comes_from_elsewhere =
        is("sec-fetch-site", "cross-site") && is("sec-fetch-mode", "navigate");
    let again = "<meta http-equiv=\"refresh\" content=\"0;url=/\">";
    let text = NO_SESSION.replace("REFRESH", if comes_from_elsewhere { again } else { "" });
    response(StatusCode::UNAUTHORIZED, "text/html; charset=utf-8", text.into())
}
