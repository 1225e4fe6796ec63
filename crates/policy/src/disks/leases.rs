//! Decides when the lease of a volume's writer has expired, and when another mount takes it over.
//!
//! The holder renews its lease by a heartbeat, and stops writing when it could not for most of the
//! time after which others take over. Another process compares no clocks: it watches the heartbeat
//! by its own.

/// A lease without a heartbeat for this long has expired.
pub const EXPIRES_NS: u64 = 15_000_000_000;
/// Between two heartbeats.
pub const HEARTBEAT_NS: u64 = 2_000_000_000;

/// What is known of the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Whether it ran on this machine, since its last start.
    pub is_here: bool,
    /// Whether a living process has the lock that the holder takes.
    pub has_lock: bool,
    /// For how long its heartbeat has been seen unchanged.
    pub silent_ns: u64,
}

/// What a process that wants the lease does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Takes the lease.
    Now,
    /// Watches the heartbeat.
    Watch,
    /// Fails, since the holder is alive.
    Refused,
}

/// Decides on the lease of a holder; `has_beaten` if its heartbeat has changed while it was
/// watched.
pub fn take_over(holder: Option<Holder>, has_beaten: bool) -> Takeover {
    match holder {
        None => Takeover::Now,
        Some(Holder { has_lock: true, .. }) => Takeover::Refused,
        Some(Holder { is_here: true, .. }) => Takeover::Now,
        Some(_) if has_beaten => Takeover::Refused,
        Some(Holder { silent_ns, .. }) if silent_ns >= EXPIRES_NS => Takeover::Now,
        Some(_) => Takeover::Watch,
    }
}

/// Whether the holder may still write, this long after the beginning of its last heartbeat that
/// succeeded.
pub fn may_write(since_heartbeat_ns: u64) -> bool {
    since_heartbeat_ns < EXPIRES_NS / 3 * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_on_another_machine_is_watched_until_it_beats_or_expires() {
        let holder = |silent_ns| Some(Holder { is_here: false, has_lock: false, silent_ns });
        assert_eq!(take_over(None, false), Takeover::Now);
        assert_eq!(take_over(holder(0), false), Takeover::Watch);
        assert_eq!(take_over(holder(EXPIRES_NS), false), Takeover::Now);
        assert_eq!(take_over(holder(0), true), Takeover::Refused);
    }

    #[test]
    fn killed_process_of_this_machine_is_replaced_at_once_and_a_living_one_never() {
        let mut holder = Holder { is_here: true, has_lock: false, silent_ns: 0 };
        assert_eq!(take_over(Some(holder), false), Takeover::Now);
        holder.has_lock = true;
        holder.silent_ns = u64::MAX;
        assert_eq!(take_over(Some(holder), false), Takeover::Refused);
    }

    #[test]
    fn holder_stops_writing_before_another_may_begin() {
        assert!(may_write(HEARTBEAT_NS * 3));
        // The watcher's clock begins when it sees a heartbeat, which is not before its beginning.
        assert!(!may_write(EXPIRES_NS - HEARTBEAT_NS));
    }
}
