//! `GET /api/events`: the event stream of a tab (server-sent events).

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::http::error::Result;
use crate::http::response::response;
use crate::studio::Studio;

/// The smallest time between two messages of a stream.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(250);
/// An idle stream sends a comment after this time.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// `GET /api/events`: the stream of one tab.
pub fn stream(studio: &Arc<Studio>, headers: &HeaderMap) -> Result<Response> {
    let permit = studio.events.open_stream()?;
    let seen = studio.events.start_of(headers);
    let news = studio.events.subscribe();
    let tab =
        EventStream { studio: Arc::downgrade(studio), news, seen, last: None, _permit: permit };
    let body = stream::unfold(tab, |mut tab| async {
        let text = tab.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), tab))
    });
    Ok(response(StatusCode::OK, "text/event-stream", Body::from_stream(body)))
}

/// The stream of one tab. `next` is called when the client has received the previous message.
struct EventStream {
    studio: Weak<Studio>,
    /// Notified of new events.
    news: watch::Receiver<u64>,
    /// The number of the last event that was sent.
    seen: u64,
    /// The time of the last message; `None` before the first.
    last: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl EventStream {
    async fn next(&mut self) -> Option<String> {
        let Some(last) = self.last.replace(Instant::now()) else {
            return Some("retry: 1000\n\n".into());
        };
        let deadline = last + KEEPALIVE_INTERVAL;
        sleep(MESSAGE_INTERVAL.saturating_sub(last.elapsed())).await;
        loop {
            self.news.borrow_and_update();
            let (text, seen) = self.studio.upgrade()?.events.since(self.seen);
            self.seen = seen;
            if !text.is_empty() {
                self.last = Some(Instant::now());
                return Some(text);
            }
            match timeout_at(deadline, self.news.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => {
                    self.last = Some(Instant::now());
                    return Some(": here\n\n".into());
                }
            }
        }
    }
}
