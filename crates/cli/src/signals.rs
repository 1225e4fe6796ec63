//! Records SIGINT, SIGTERM and SIGHUP, so that a command can end in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

/// The signal handlers, registered until this is dropped.
pub struct Signals {
    received: Arc<AtomicBool>,
    /// SIGTERM, if it is recorded apart from the others.
    terminated: Arc<AtomicBool>,
    /// SIGUSR1, by which a supervisor requests a drain, if it is handled.
    requested: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Registers a handler for each signal.
    pub fn listen() -> Signals {
        let received = Arc::<AtomicBool>::default();
        let signals = Signals::of(received.clone(), received);
        signals.register([SIGINT, SIGTERM, SIGHUP])
    }

    /// The same; SIGTERM is recorded apart, and SIGUSR1 too, for a process that drains.
    pub fn listen_apart() -> Signals {
        Signals::of(Arc::default(), Arc::default()).register([SIGINT, SIGTERM, SIGHUP, SIGUSR1])
    }

    fn of(received: Arc<AtomicBool>, terminated: Arc<AtomicBool>) -> Signals {
        Signals { received, terminated, requested: Arc::default(), handlers: vec![] }
    }

    fn register(mut self, signals: impl IntoIterator<Item = i32>) -> Signals {
        for signal in signals {
            let flag = match signal {
                SIGTERM => &self.terminated,
                SIGUSR1 => &self.requested,
                _ => &self.received,
            };
            self.handlers.extend(signal_hook::flag::register(signal, flag.clone()));
        }
        self
    }

    /// Whether a signal has arrived.
    pub fn received(&self) -> bool {
        let flags = [&self.received, &self.terminated, &self.requested];
        flags.iter().any(|flag| flag.load(Relaxed))
    }

    /// Whether SIGINT or SIGHUP has arrived, where SIGTERM is recorded apart.
    pub fn interrupted(&self) -> bool {
        self.received.load(Relaxed)
    }

    /// Whether SIGINT or SIGHUP has arrived since the last call, where SIGTERM is recorded apart.
    pub fn take_interrupted(&self) -> bool {
        self.received.swap(false, Relaxed)
    }

    /// Whether SIGTERM has arrived since the last call, where it is recorded apart.
    pub fn take_terminated(&self) -> bool {
        self.terminated.swap(false, Relaxed)
    }

    /// Whether a supervisor has requested a drain since the last call.
    pub fn take_requested(&self) -> bool {
        self.requested.swap(false, Relaxed)
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
