//! How long a worker waits for a block in the memory of another one before it reads the origin.
//!
//! The holder may be a straggler, or its link slower than the origin. After a timeout the holder is
//! not asked for a while, so that it costs a wait now and then, and not one for each block.

use alloc::vec::Vec;
use core::time::Duration;

/// The time for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// For how long a peer is not asked after its first timeout; twice as long after each further one.
const BACKOFF: Duration = Duration::from_secs(5);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What a worker knows of the answers of its peers.
///
/// ```
/// use core::time::Duration;
/// use euphrates_policy::caching::peer_timeouts::PeerTimeouts;
///
/// let mut peers = PeerTimeouts::new(2);
/// let second = Duration::from_secs;
/// peers.on_timeout(1, second(10));
/// assert!(!peers.may_ask(1, second(12)) && peers.may_ask(0, second(12)));
/// assert!(peers.may_ask(1, second(15)));
/// ```
#[derive(Clone, Debug)]
pub struct PeerTimeouts {
    peers: Vec<PeerBackoff>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PeerBackoff {
    /// Timeouts since the last answer.
    timeouts: u32,
    until: Duration,
}

impl PeerTimeouts {
    /// Peers of which nothing is known yet.
    pub fn new(peers: usize) -> PeerTimeouts {
        PeerTimeouts { peers: alloc::vec![PeerBackoff::default(); peers] }
    }

    /// Whether a peer is asked for a block at this time.
    pub fn may_ask(&self, peer: usize, now: Duration) -> bool {
        self.peers.get(peer).is_some_and(|peer| now >= peer.until)
    }

    /// A peer has answered in time.
    pub fn on_answer(&mut self, peer: usize) {
        self.peers.get_mut(peer).into_iter().for_each(|peer| *peer = PeerBackoff::default());
    }

    /// A peer has not answered within [`ANSWER_TIMEOUT`].
    pub fn on_timeout(&mut self, peer: usize, now: Duration) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        // Requests that were sent before the first timeout run out soon after it.
        if now < peer.until {
            return;
        }
        let backoff = BACKOFF.saturating_mul(1 << peer.timeouts.min(8)).min(BACKOFF_MAX);
        *peer = PeerBackoff { timeouts: peer.timeouts + 1, until: now + backoff };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_minute_and_ends_with_an_answer() {
        let mut peers = PeerTimeouts::new(1);
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..6 {
            peers.on_timeout(0, now);
            peers.on_timeout(0, now + Duration::from_millis(1));
            let mut waited = 0;
            while !peers.may_ask(0, now) {
                now += Duration::from_secs(1);
                waited += 1;
            }
            waits.push(waited);
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        peers.on_timeout(0, now);
        peers.on_answer(0);
        assert!(peers.may_ask(0, now));
    }

    #[test]
    fn unknown_peer_is_never_asked() {
        assert!(!PeerTimeouts::new(1).may_ask(1, Duration::ZERO));
    }
}
