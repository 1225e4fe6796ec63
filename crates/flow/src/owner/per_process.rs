//! A value of which every process has its own: a forked child does not share its parent's, whose
//! locks may have been held by threads that the child does not have.

use std::sync::OnceLock;

/// A value that each process makes at its first use.
///
/// ```
/// use std::sync::Mutex;
///
/// use euphrates_flow::PerProcess;
///
/// static NAMES: PerProcess<Mutex<Vec<String>>> = PerProcess::new();
/// NAMES.get(Mutex::default).lock().unwrap().push("one".into());
/// assert_eq!(NAMES.get(Mutex::default).lock().unwrap().len(), 1);
/// ```
#[derive(Debug)]
pub struct PerProcess<T>(OnceLock<Box<ValueOfProcess<T>>>);

/// The value of one process, and those of its forked descendants behind it.
#[derive(Debug)]
struct ValueOfProcess<T> {
    process: u32,
    value: T,
    later: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// No process has made its value.
    pub const fn new() -> PerProcess<T> {
        PerProcess(OnceLock::new())
    }

    /// The value of this process. Nothing is locked once it has been made.
    pub fn get(&self, make: fn() -> T) -> &T {
        let here = std::process::id();
        let mut slot = self;
        loop {
            let new =
                || Box::new(ValueOfProcess { process: here, value: make(), later: Self::new() });
            let found = slot.0.get_or_init(new);
            if found.process == here {
                return &found.value;
            }
            slot = &found.later;
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}
