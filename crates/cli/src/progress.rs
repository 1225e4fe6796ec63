//! Progress while a flow runs: a live line on a terminal, a plain line every ten seconds
//! elsewhere, or one JSON object a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use euphrates_engine::Report;
use euphrates_engine::observe::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::arguments::Log;
use crate::style::say;

/// Flows that end sooner are not worth a line.
const SILENCE: Duration = Duration::from_millis(500);

/// Tells about one flow.
pub struct Teller {
    way: Way,
    began: Instant,
    last: Instant,
}

enum Way {
    Live(ProgressBar),
    Plain,
    Json,
    Quiet,
}

impl Teller {
    /// A teller of this kind.
    pub fn new(log: Log) -> Teller {
        let live = log == Log::Auto && std::io::stderr().is_terminal();
        let way = match log {
            Log::Auto if live => Way::Live(bar()),
            Log::Auto | Log::Plain => Way::Plain,
            Log::Json => Way::Json,
            Log::Quiet => Way::Quiet,
        };
        let now = Instant::now();
        Teller { way, began: now, last: now }
    }

    /// Tells where the flow stands, if it is time to.
    pub fn tell(&mut self, progress: &Progress) {
        let pause = match self.way {
            Way::Live(_) => Duration::from_millis(100),
            Way::Plain => Duration::from_secs(10),
            Way::Json => Duration::from_secs(1),
            Way::Quiet => return,
        };
        if self.last.elapsed() < pause || self.began.elapsed() < SILENCE {
            return;
        }
        self.last = Instant::now();
        match &self.way {
            Way::Live(bar) => {
                bar.set_message(progress.to_string());
                bar.tick();
            }
            Way::Plain => say(&progress.to_string()),
            Way::Json => say(&json!({"event": "progress", "progress": progress}).to_string()),
            Way::Quiet => {}
        }
    }

    /// Clears the line, and prints the report if there is one.
    pub fn end(self, report: Option<&Report>) {
        if let Way::Live(bar) = &self.way {
            bar.finish_and_clear();
        }
        let Some(report) = report else { return };
        match self.way {
            Way::Live(_) | Way::Plain => say(&report.to_string()),
            Way::Json => {
                let report: Value = serde_json::to_value(report).unwrap_or_default();
                say(&json!({"event": "report", "report": report}).to_string());
            }
            Way::Quiet => {}
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}
