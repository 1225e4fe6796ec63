//! Records SIGINT, SIGTERM and SIGHUP, so that a command can end in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signal handlers, registered until this is dropped.
pub struct Signals {
    received: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Registers a handler for each signal.
    pub fn listen() -> Signals {
        let received = Arc::new(AtomicBool::new(false));
        let register = |signal| signal_hook::flag::register(signal, received.clone()).ok();
        let handlers = [SIGINT, SIGTERM, SIGHUP].into_iter().filter_map(register).collect();
        Signals { received, handlers }
    }

    /// Whether a signal has arrived.
    pub fn received(&self) -> bool {
        self.received.load(Relaxed)
    }

    /// Whether a signal has arrived since the last call.
    pub fn take(&self) -> bool {
        self.received.swap(false, Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            signal_hook::low_level::unregister(handler);
        });
    }
}
