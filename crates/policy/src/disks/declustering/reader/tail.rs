//! The tail of a segment: claims are rebalanced, and blocks begun by a slow disk are read again.
//!
//! A reader finishes late because of claims that a slow disk has not begun, or blocks that it has
//! begun. Claims are withdrawn and sent to copies that would begin them sooner, which costs a
//! message. Begun blocks are read again from another copy, at most `again_max` times per segment,
//! and only by idle disks.

use super::super::protocol::ToDisk;
use super::state::{Asked, ClaimState, CopyClaim, CopyState, SegmentReader, ToDisks};

/// The assumed time of a block before one has been read.
const SERVICE_FIRST_NS: u64 = 10_000_000;

impl SegmentReader {
    /// For copies that have no waiting claim and can claim no block (none is left, or the window is
    /// full), withdraws claims from other copies.
    pub(super) fn rebalance(&mut self, now_ns: u64, out: &mut ToDisks) {
        for to in 0..self.copies.len() {
            let at = &self.copies[to];
            if at.is_lost || at.waiting + at.coming > 0 {
                continue;
            }
            // An idle disk would begin at once, a busy one after the gap between blocks.
            let begins_ns = match (at.is_idle, at.pace.gap_ns()) {
                (true, _) => 0,
                (false, Some(gap_ns)) => gap_ns + gap_ns / 4,
                (false, None) => continue,
            };
            let is_idle = at.is_idle;
            let withdrawable = self.withdrawable(to, begins_ns, now_ns);
            if withdrawable.is_none() && is_idle && self.waiting_bytes > 0 {
                self.wake_by(now_ns + self.retry_ns(now_ns));
            }
            if let Some((block, from)) = withdrawable {
                let claim = self.asked.get_mut(&block).and_then(|asked| asked.first.as_mut());
                claim.expect("a claim that waits").state = ClaimState::Leaving { to };
                self.copies[to].coming += 1;
                out.push((from, ToDisk::Withdraw { block }));
            }
        }
    }

    /// The time until waiting claims are examined again: the time of a block, growing while nothing
    /// happens.
    fn retry_ns(&self, now_ns: u64) -> u64 {
        let services = self.copies.iter().filter_map(|copy| copy.pace.service_ns());
        let service_ns = services.min().unwrap_or(SERVICE_FIRST_NS);
        let waiting = self.copies.iter().filter(|copy| copy.waiting > 0);
        let passed_ns = waiting.map(|copy| copy.pace.passed_ns(now_ns)).max().unwrap_or(0);
        service_ns.max(passed_ns / 4).max(1)
    }

    fn wake_by(&mut self, at_ns: u64) {
        self.wake_ns = Some(self.wake_ns.map_or(at_ns, |before_ns| before_ns.min(at_ns)));
    }

    /// A waiting claim that would be finished sooner at `to`, which would begin it in `begins_ns`:
    /// the last claim of the copy that is latest, or the first one in a stream, which needs it
    /// first.
    fn withdrawable(&self, to: usize, begins_ns: u64, now_ns: u64) -> Option<(u32, usize)> {
        let to_ns = self.copies[to].pace.service_ns();
        let mut best: Option<(u64, u64, u32, usize)> = None;
        for (&block, asked) in &self.asked {
            let Some(CopyClaim { copy, sent, state: ClaimState::Waiting }) = asked.first else {
                continue;
            };
            let from = &self.copies[copy];
            let passed_ns = from.pace.passed_ns(now_ns);
            let soon = from.pace.service_ns().is_some_and(|service_ns| passed_ns < service_ns);
            let is_quick = from.is_quick && soon;
            let settled = is_quick || asked.is_moved && !self.copies[to].is_idle;
            if copy == to || settled || asked.second.is_some() || self.is_bad(block, to) {
                continue;
            }
            let wait_ns = from.pace.gap_now_ns(now_ns).saturating_mul(from.waiting as u64);
            let services_ns = to_ns.zip(from.pace.service_ns());
            let (here_ns, there_ns) = services_ns.unwrap_or_default();
            let rank = if self.settings.is_stream { u64::from(u32::MAX - block) } else { sent };
            let later = best.is_none_or(|(wait, at, ..)| (wait_ns, rank) > (wait, at));
            if wait_ns + there_ns > begins_ns + here_ns && later {
                best = Some((wait_ns, rank, block, copy));
            }
        }
        best.map(|(_, _, block, copy)| (block, copy))
    }

    /// Claims blocks that another disk has begun at idle disks that would finish them sooner.
    pub(super) fn read_again(&mut self, now_ns: u64, out: &mut ToDisks) {
        for to in 0..self.copies.len() {
            let at = &self.copies[to];
            let is_free = at.is_idle && !at.is_lost && at.waiting + at.coming == 0;
            if !is_free || self.speculative == self.settings.again_max {
                continue;
            }
            let Some((worthwhile_ns, block)) = self.most_overdue(to, now_ns) else { continue };
            if worthwhile_ns <= now_ns {
                self.speculative += 1;
                self.claim(block, to, true, now_ns, out);
            } else {
                self.wake_by(worthwhile_ns);
            }
        }
    }

    /// The time from which a second read pays, and the block: of those begun at one other copy
    /// only, the first.
    fn most_overdue(&self, to: usize, now_ns: u64) -> Option<(u64, u32)> {
        let known = |copy: &CopyState| copy.pace.service_ns();
        let here_ns =
            known(&self.copies[to]).or_else(|| self.copies.iter().filter_map(known).min());
        let candidates = self.asked.iter().filter_map(|(&block, asked)| {
            let Asked { first: Some(claim), second: None, .. } = asked else { return None };
            let ClaimState::Begun { at_ns } = claim.state else { return None };
            if claim.copy == to || self.is_bad(block, to) {
                return None;
            }
            let there_ns = known(&self.copies[claim.copy]).or(here_ns)?;
            let here_ns = here_ns.unwrap_or(there_ns);
            // A block that is late by now is expected to take as long again as it has taken so far,
            // so a second read pays once that exceeds `here_ns`.
            let late_ns = at_ns + (there_ns + there_ns / 8).max(here_ns);
            let sooner = now_ns + here_ns < at_ns + there_ns;
            Some((if sooner { now_ns } else { late_ns }, block))
        });
        candidates.min()
    }
}
