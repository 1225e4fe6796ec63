//! What the server says when it does not do what it was asked for.

use axum::http::StatusCode;
use euphrates_flow::{Error, Kind};
use serde_json::{Value, json};

/// The result of what is asked of the server.
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Why not, for the page.
#[derive(Debug)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// What kind of failure, in a word.
    pub kind: &'static str,
    /// What.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Where.
    pub at: Option<String>,
    /// More that the page needs to go on.
    pub more: Vec<(&'static str, Value)>,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(status: StatusCode, kind: &'static str, message: impl ToString) -> Refusal {
        let (message, more) = (message.to_string(), vec![]);
        Refusal { status, kind, message, remedy: None, at: None, more }
    }

    /// What was asked makes no sense.
    pub fn usage(message: impl ToString) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "usage", message)
    }

    /// There is no such thing.
    pub fn missing(message: impl ToString) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "missing", message)
    }

    /// It may not be asked for.
    pub fn forbidden(message: impl ToString) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// There is too much of it.
    pub fn too_many(message: impl ToString) -> Refusal {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "limit", message)
    }

    /// Says what to do about it.
    pub fn remedy(mut self, remedy: impl ToString) -> Refusal {
        self.remedy = Some(remedy.to_string());
        self
    }

    /// Something more for the page.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Refusal {
        self.more.push((name, value.into()));
        self
    }

    /// As it is sent.
    pub fn body(&self) -> Value {
        let mut error = json!({"kind": self.kind, "message": self.message});
        for (name, value) in [("remedy", &self.remedy), ("at", &self.at)] {
            if let Some(value) = value {
                error[name] = json!(value);
            }
        }
        let mut body = json!({"error": error});
        for (name, value) in &self.more {
            body[*name] = value.clone();
        }
        body
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let (status, kind) = match error.kind() {
            Kind::Usage => (StatusCode::BAD_REQUEST, "usage"),
            Kind::Failed | Kind::Closed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            Kind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "corrupt"),
            Kind::Resource => (StatusCode::SERVICE_UNAVAILABLE, "resource"),
            Kind::Interrupted => (StatusCode::SERVICE_UNAVAILABLE, "interrupted"),
        };
        let places: Vec<&str> = error.places().collect();
        Refusal {
            at: (!places.is_empty()).then(|| places.join(": ")),
            remedy: error.advice().map(str::to_string),
            ..Refusal::new(status, kind, error.message())
        }
    }
}
