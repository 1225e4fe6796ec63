//! The balance between disks: planned blocks move, waiting claims are withdrawn, and late blocks
//! are replaced by others of their stripes.
//!
//! Moving a planned block needs no message, so plans are adapted to the pace of the disks
//! continuously: a block moves to a disk of the same stripe from the disk that is expected to
//! finish last. Load moves between two disks that share no stripe through a third. Claims are
//! withdrawn only for a disk that has nothing else to begin, and late blocks are replaced only by
//! an idle disk.

use alloc::vec::Vec;

use super::state::{BlockState, StripeReader, ToStripeDisks};
use crate::disks::declustering::ToDisk;

/// Planned blocks that are examined for a move, of one disk and of all, at most.
const EXAMINED_EACH_MAX: usize = 64;
const EXAMINED_MAX: usize = 512;

impl StripeReader {
    /// Moves a planned block to a disk from a disk that would read it later; false if none is
    /// found. Except in a stream, searches go round through all stripes, since those that were
    /// examined before mostly cannot move.
    pub(super) fn pull(&mut self, to: usize, now_ns: u64) -> bool {
        if self.disks[to].is_lost {
            return false;
        }
        let here_ns = self.load_ns(to, 1, now_ns) + self.gap_ns(to, now_ns) / 4;
        let later = (0..self.disks.len()).filter(|&from| !self.disks[from].planned.is_empty());
        let later = later.map(|from| (self.load_ns(from, 0, now_ns), from));
        let mut later: Vec<(u64, usize)> = later.filter(|&(ns, _)| ns > here_ns).collect();
        later.sort_unstable_by(|a, b| b.cmp(a));
        let cursor = self.disks[to].cursor;
        let mut left = EXAMINED_MAX;
        for (_, from) in later {
            let planned = &self.disks[from].planned;
            let examined = planned.len().min(EXAMINED_EACH_MAX).min(left);
            left -= examined;
            let is_free = |&&stripe: &&u32| self.state(stripe, to) == Some(BlockState::Free);
            let from_cursor = || planned.range(..cursor).rev().chain(planned.range(cursor..).rev());
            let found = match self.settings.is_stream {
                true => planned.iter().take(examined).find(is_free),
                false => from_cursor().take(examined).find(is_free),
            };
            if let Some(&stripe) = found {
                let places = self.place(stripe, from).zip(self.place(stripe, to));
                let (old, new) = places.expect("both are disks of the stripe");
                self.set(stripe, old, BlockState::Free);
                self.set(stripe, new, BlockState::Planned);
                self.disks[to].cursor = stripe;
                return true;
            }
        }
        self.disks[to].cursor = cursor.checked_sub(EXAMINED_EACH_MAX as u32).unwrap_or(u32::MAX);
        false
    }

    /// For disks that have nothing to begin, withdraws claims that wait at others.
    pub(super) fn withdraw(&mut self, now_ns: u64, out: &mut ToStripeDisks) {
        for to in 0..self.disks.len() {
            let view = &self.disks[to];
            if view.is_lost || view.claimed.len() + view.coming > 0 {
                continue;
            }
            let begins_ns = match (view.is_idle, view.pace.gap_ns()) {
                (true, _) => 0,
                (false, Some(gap_ns)) => gap_ns + gap_ns / 4,
                (false, None) => continue,
            };
            let is_idle = view.is_idle;
            match self.withdrawable(to, begins_ns, now_ns) {
                Some((stripe, from)) => {
                    let place = self.place(stripe, from).expect("a disk of the stripe");
                    self.set(stripe, place, BlockState::Leaving { to });
                    out.push((from, ToDisk::Withdraw { block: stripe }));
                }
                None if is_idle && self.disks.iter().any(|view| !view.claimed.is_empty()) => {
                    self.wake_by(now_ns.saturating_add(self.retry_ns(now_ns)))
                }
                None => {}
            }
        }
    }

    /// A waiting claim that the disk `to` would end sooner: one of the disk that is latest.
    fn withdrawable(&self, to: usize, begins_ns: u64, now_ns: u64) -> Option<(u32, usize)> {
        let here_ns = begins_ns + self.service_ns(to, now_ns);
        let mut best: Option<(u64, u32, usize)> = None;
        for (from, view) in self.disks.iter().enumerate() {
            let waits_ns = view.pace.gap_now_ns(now_ns).saturating_mul(view.claimed.len() as u64);
            let there_ns = waits_ns + self.service_ns(from, now_ns);
            if from == to || there_ns <= here_ns || best.is_some_and(|(ns, ..)| ns >= there_ns) {
                continue;
            }
            let may = |&&stripe: &&u32| {
                let settled = self.open[&stripe].is_moved && !self.disks[to].is_idle;
                let waits =
                    self.state(stripe, from) == Some(BlockState::Waiting { is_again: false });
                !settled && waits && self.state(stripe, to) == Some(BlockState::Free)
            };
            let found = match self.settings.is_stream {
                true => view.claimed.iter().find(may),
                false => view.claimed.iter().rev().find(may),
            };
            best = found.map(|&stripe| (there_ns, stripe, from)).or(best);
        }
        best.map(|(_, stripe, from)| (stripe, from))
    }

    /// Reads blocks from idle disks in place of blocks of the same stripes that other disks have
    /// begun and would end later.
    pub(super) fn read_again(&mut self, now_ns: u64, out: &mut ToStripeDisks) {
        for to in 0..self.disks.len() {
            let view = &self.disks[to];
            let is_free = view.is_idle && !view.is_lost && view.claimed.len() + view.coming == 0;
            if !is_free || self.again == self.settings.again_max {
                continue;
            }
            match self.most_overdue(to, now_ns) {
                Some((at_ns, stripe)) if at_ns <= now_ns => {
                    self.again += 1;
                    self.claim(stripe, to, true, now_ns, out);
                }
                Some((at_ns, _)) => self.wake_by(at_ns),
                None => {}
            }
        }
    }

    /// The time from which reading another block of a stripe pays, and the stripe.
    fn most_overdue(&self, to: usize, now_ns: u64) -> Option<(u64, u32)> {
        let here_ns = self.service_ns(to, now_ns);
        let late = self.disks.iter().enumerate().flat_map(|(from, view)| {
            view.begun.iter().filter_map(move |&stripe| {
                let state = self.state(stripe, from)?;
                let BlockState::Begun { at_ns, is_again: false } = state else { return None };
                let is_free = self.state(stripe, to) == Some(BlockState::Free);
                if !is_free || self.is_covered(stripe) {
                    return None;
                }
                let there_ns = view.pace.service_ns().unwrap_or(here_ns);
                // A block that is late by now is expected to take as long again as so far.
                let late_ns = at_ns + (there_ns + there_ns / 8).max(here_ns);
                let is_sooner = now_ns + here_ns < at_ns + there_ns;
                Some((if is_sooner { now_ns } else { late_ns }, stripe))
            })
        });
        late.min()
    }

    /// Whether each block of a stripe that is being read has another one in its place already.
    fn is_covered(&self, stripe: u32) -> bool {
        let blocks = &self.open[&stripe].blocks;
        let again = |state: &&BlockState| {
            matches!(
                state,
                BlockState::Waiting { is_again: true } | BlockState::Begun { is_again: true, .. }
            )
        };
        let first =
            |state: &&BlockState| matches!(state, BlockState::Begun { is_again: false, .. });
        blocks.iter().filter(again).count() >= blocks.iter().filter(first).count()
    }

    /// The expected time of a block from its beginning to its arrival.
    fn service_ns(&self, disk: usize, now_ns: u64) -> u64 {
        let known = self.disks[disk].pace.service_ns();
        let any = || self.disks.iter().filter_map(|view| view.pace.service_ns()).min();
        known.or_else(any).unwrap_or_else(|| self.gap_ns(disk, now_ns))
    }

    /// The time until waiting claims are examined again: the time of a block, growing while nothing
    /// happens.
    fn retry_ns(&self, now_ns: u64) -> u64 {
        let services = self.disks.iter().filter_map(|view| view.pace.service_ns());
        let waiting = self.disks.iter().filter(|view| !view.claimed.is_empty());
        let passed_ns = waiting.map(|view| view.pace.passed_ns(now_ns)).max().unwrap_or(0);
        services.min().unwrap_or(1_000_000).max(passed_ns / 4).max(1)
    }

    fn wake_by(&mut self, at_ns: u64) {
        self.wake_ns = Some(self.wake_ns.map_or(at_ns, |before_ns| before_ns.min(at_ns)));
    }
}
