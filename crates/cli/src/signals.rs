//! Hears Ctrl-C, `kill`, and a terminal that goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Hears them as long as it lives.
pub struct Signals {
    heard: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> Signals {
        let heard = Arc::new(AtomicBool::new(false));
        let register = |signal| signal_hook::flag::register(signal, heard.clone()).ok();
        let handlers = [SIGINT, SIGTERM, SIGHUP].into_iter().filter_map(register).collect();
        Signals { heard, handlers }
    }

    /// Whether one has come.
    pub fn heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    /// Whether one has come since this was asked last.
    pub fn heard_again(&self) -> bool {
        self.heard.swap(false, Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            signal_hook::low_level::unregister(handler);
        });
    }
}
