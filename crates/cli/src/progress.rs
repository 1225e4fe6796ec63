//! Reports the progress of a running flow: a live line on a terminal, a plain line every ten
//! seconds elsewhere, or one JSON object a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use euphrates_engine::Report;
use euphrates_engine::observe::progress::FlowProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::options::Log;
use crate::terminal::say;

/// Progress is reported from this time on, so that short flows print nothing.
const QUIET_START: Duration = Duration::from_millis(500);

/// Reports the progress of one flow.
pub struct ProgressReporter {
    format: ProgressFormat,
    /// Whether a report follows.
    has_report: bool,
    began: Instant,
    last: Instant,
}

enum ProgressFormat {
    Live(ProgressBar),
    Plain,
    Json,
    Quiet,
}

impl ProgressReporter {
    /// A reporter in the format of `--log`.
    pub fn new(log: Log) -> ProgressReporter {
        let live = matches!(log, Log::Auto | Log::Progress) && std::io::stderr().is_terminal();
        let format = match log {
            _ if live => ProgressFormat::Live(bar()),
            Log::Auto | Log::Plain | Log::Progress => ProgressFormat::Plain,
            Log::Json => ProgressFormat::Json,
            Log::Quiet => ProgressFormat::Quiet,
        };
        let now = Instant::now();
        ProgressReporter { format, has_report: log != Log::Progress, began: now, last: now }
    }

    /// Reports the progress, unless the last report is too recent.
    pub fn update(&mut self, progress: &FlowProgress) {
        let pause = match self.format {
            ProgressFormat::Live(_) => Duration::from_millis(100),
            ProgressFormat::Plain => Duration::from_secs(10),
            ProgressFormat::Json => Duration::from_secs(1),
            ProgressFormat::Quiet => return,
        };
        if self.last.elapsed() < pause || self.began.elapsed() < QUIET_START {
            return;
        }
        self.last = Instant::now();
        match &self.format {
            ProgressFormat::Live(bar) => {
                bar.set_message(progress.to_string());
                bar.tick();
            }
            ProgressFormat::Plain => say(&progress.to_string()),
            ProgressFormat::Json => {
                say(&json!({"event": "progress", "progress": progress}).to_string())
            }
            ProgressFormat::Quiet => {}
        }
    }

    /// Clears the live line, and prints the report of a flow that succeeded.
    pub fn finish(self, report: Option<&Report>) {
        if let ProgressFormat::Live(bar) = &self.format {
            bar.finish_and_clear();
        }
        let Some(report) = report.filter(|_| self.has_report) else { return };
        match self.format {
            ProgressFormat::Live(_) | ProgressFormat::Plain => say(&report.to_string()),
            ProgressFormat::Json => {
                let report: Value = serde_json::to_value(report).unwrap_or_default();
                say(&json!({"event": "report", "report": report}).to_string());
            }
            ProgressFormat::Quiet => {}
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}
