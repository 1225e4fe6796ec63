//! Dynamic assignment of work units: each free instance, in any process, claims the next one.

use std::ops::Range;
use std::time::{Duration, Instant};

use euphrates_flow::{Result, Setup};
use euphrates_policy::tail_scheduling::UnitProgress;

/// A shorter unit delays no peer, so the number of remaining units is not requested.
const SHORT: Duration = Duration::from_millis(50);

/// The work units of a module, as one instance claims them.
pub(crate) struct WorkUnits<'a, W> {
    setup: &'a Setup,
    name: &'a str,
    count: usize,
    weigh: W,
    /// The unit in progress, and when it was claimed.
    own: Option<(usize, Instant)>,
}

impl<'a, W: Fn(Range<usize>) -> u64> WorkUnits<'a, W> {
    /// `count` units under this name; `weigh` returns the weight of a range of units, in any unit
    /// of measure.
    pub(crate) fn new(setup: &'a Setup, name: &'a str, count: usize, weigh: W) -> Self {
        WorkUnits { setup, name, count, weigh, own: None }
    }

    /// Claims the next unit. Returns `None` when none is left, or when the other instances would
    /// finish the remaining ones before this instance finishes one more.
    pub(crate) fn claim(&mut self) -> Result<Option<usize>> {
        let is_left = || Ok(self.given()? < self.count);
        if self.declines_tail()? || !self.setup.may_take(!self.setup.is_in_one_process, is_left)? {
            return Ok(None);
        }
        let number = self.setup.fetch_add(self.name)? as usize;
        self.own = Some((number, Instant::now()));
        Ok((number < self.count).then_some(number))
    }

    fn declines_tail(&self) -> Result<bool> {
        let (Some((own, began)), takers) = (self.own, self.setup.instances) else {
            return Ok(false);
        };
        if takers == 1 || began.elapsed() < SHORT {
            return Ok(false);
        }
        let given = self.given()?;
        Ok(UnitProgress {
            last_finished: own,
            claimed: given,
            count: self.count,
            instances: takers,
        }
        .declines_tail(&self.weigh))
    }

    fn given(&self) -> Result<usize> {
        Ok(self.setup.load(self.name)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;

    use arrow::buffer::Buffer;
    use euphrates_flow::{Batches, Exchange};

    use super::*;
    use crate::testing::setup;

    fn equal_weights(units: Range<usize>) -> u64 {
        units.len() as u64
    }

    /// The setup of one of four instances that share units, and a function by which the others
    /// claim some.
    fn shared(exchange: Arc<dyn Exchange>) -> (Setup, impl Fn(usize)) {
        let setup = Setup { instances: 4, is_in_one_process: false, exchange, ..setup() };
        let others = setup.clone();
        let take =
            move |units| (0..units).for_each(|_| drop(others.coordination.fetch_add("test/units")));
        (setup, take)
    }

    #[test]
    fn each_unit_is_claimed_once() {
        let setup = setup();
        let mut units = WorkUnits::new(&setup, "units", 3, equal_weights);
        let taken: Vec<_> = (0..5).map(|_| units.claim().unwrap()).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), None, None]);
    }

    #[test]
    fn slow_worker_declines_only_tail_units() {
        let took = |others: usize, time| {
            let (setup, take) = shared(Arc::new(FakeExchange::default()));
            let mut units = WorkUnits::new(&setup, "units", 100, equal_weights);
            assert_eq!(units.claim().unwrap(), Some(0));
            take(others);
            thread::sleep(time);
            units.claim().unwrap()
        };
        assert_eq!(took(30, 2 * SHORT), Some(31));
        assert_eq!(took(60, 2 * SHORT), None, "the others are soon through with 39");
        assert_eq!(took(60, Duration::ZERO), Some(61), "it holds nobody up");
    }

    #[test]
    fn straggler_claims_nothing_until_served() {
        let exchange_of_peers = Arc::new(FakeExchange::default());
        let (setup, take) = shared(exchange_of_peers.clone());
        exchange_of_peers.is_awaited.store(true, SeqCst);
        thread::scope(|scope| {
            let taking =
                scope.spawn(|| WorkUnits::new(&setup, "units", 10, equal_weights).claim().unwrap());
            take(9);
            assert!(!taking.is_finished());
            exchange_of_peers.is_awaited.store(false, SeqCst);
            assert_eq!(taking.join().unwrap(), Some(9));
            exchange_of_peers.is_behind.store(true, SeqCst);
            assert_eq!(WorkUnits::new(&setup, "units", 10, equal_weights).claim().unwrap(), None);
        });
    }

    #[test]
    fn draining_worker_claims_units_only_if_released() {
        let (setup, take) = shared(Arc::new(FakeExchange::default()));
        setup.claims.hold(true);
        thread::scope(|scope| {
            let claiming =
                scope.spawn(|| WorkUnits::new(&setup, "units", 10, equal_weights).claim().unwrap());
            take(9);
            setup.claims.hold(false);
            assert_eq!(claiming.join().unwrap(), Some(9), "the others have claimed before");
            setup.claims.hold(true);
            assert_eq!(WorkUnits::new(&setup, "units", 10, equal_weights).claim().unwrap(), None);
        });
    }

    /// An exchange whose peers may be blocked on this process.
    #[derive(Debug, Default)]
    struct FakeExchange {
        is_awaited: AtomicBool,
        is_behind: AtomicBool,
    }

    impl Exchange for FakeExchange {
        fn others(&self) -> Vec<usize> {
            vec![1, 2, 3]
        }

        fn me(&self) -> usize {
            0
        }

        fn name(&self, _: usize) -> &str {
            ""
        }

        fn send(&self, _: usize, _: &[u8], _: Vec<Buffer>) {
            unreachable!("nothing is told")
        }

        fn fetch(&self, _: u64) -> Result<Vec<Batches>> {
            unreachable!("nothing is fetched")
        }

        fn may_take(&self, is_shared: bool) -> Result<bool> {
            let leaves = is_shared && self.is_behind.load(SeqCst);
            Ok(!leaves && !self.is_awaited.load(SeqCst))
        }
    }
}
