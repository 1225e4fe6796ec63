//! Errors of the API: status, kind, message and remedy, and their JSON.

use axum::http::StatusCode;
use euphrates_flow::{Error, Kind};
use serde_json::{Value, json};

/// The result of a request.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// An error that becomes a response with its status.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    /// The `kind` in the JSON, which the page branches on.
    pub kind: &'static str,
    /// The message for the user.
    pub message: String,
    /// Advice for the user.
    pub remedy: Option<String>,
    /// The place of the error, for example a module.
    pub at: Option<String>,
    /// Additional members of the response body.
    pub extra: Vec<(&'static str, Value)>,
}

impl ApiError {
    /// An error with this status and kind.
    pub fn new(status: StatusCode, kind: &'static str, message: impl ToString) -> ApiError {
        let (message, extra) = (message.to_string(), vec![]);
        ApiError { status, kind, message, remedy: None, at: None, extra }
    }

    /// 400: the request is malformed or makes no sense.
    pub fn usage(message: impl ToString) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "usage", message)
    }

    /// 404: the resource does not exist.
    pub fn missing(message: impl ToString) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "missing", message)
    }

    /// 403: the request is not allowed.
    pub fn forbidden(message: impl ToString) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 429: a limit has been reached.
    pub fn too_many(message: impl ToString) -> ApiError {
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "limit", message)
    }

    /// Adds advice for the user.
    pub fn remedy(mut self, remedy: impl ToString) -> ApiError {
        self.remedy = Some(remedy.to_string());
        self
    }

    /// Adds a member to the response body.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> ApiError {
        self.extra.push((name, value.into()));
        self
    }

    /// The JSON of the response.
    pub fn body(&self) -> Value {
        let mut error = json!({"kind": self.kind, "message": self.message});
        for (name, value) in [("remedy", &self.remedy), ("at", &self.at)] {
            if let Some(value) = value {
                error[name] = json!(value);
            }
        }
        let mut body = json!({"error": error});
        for (name, value) in &self.extra {
            body[*name] = value.clone();
        }
        body
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let (status, kind) = match error.kind() {
            Kind::Usage => (StatusCode::BAD_REQUEST, "usage"),
            Kind::Failed | Kind::Closed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            Kind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt"),
            Kind::Resource => (StatusCode::SERVICE_UNAVAILABLE, "resource"),
            Kind::Interrupted => (StatusCode::SERVICE_UNAVAILABLE, "interrupted"),
        };
        let places: Vec<&str> = error.places().collect();
        ApiError {
            at: (!places.is_empty()).then(|| places.join(": ")),
            remedy: error.advice().map(str::to_string),
            ..ApiError::new(status, kind, error.message())
        }
    }
}
