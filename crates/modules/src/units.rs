//! Units of work that nobody has in advance: whoever is free takes the next one, wherever it is.

use std::ops::Range;
use std::time::{Duration, Instant};

use euphrates_flow::{Result, Setup};
use euphrates_policy::units::Standing;

/// A unit that takes less holds nobody up, and is not worth asking how many are left.
const SHORT: Duration = Duration::from_millis(50);

/// The units of a module, as one of its instances takes them.
pub struct Units<'a, W> {
    setup: &'a Setup,
    name: &'a str,
    count: usize,
    weigh: W,
    /// The one it is at, and since when.
    own: Option<(usize, Instant)>,
}

impl<'a, W: Fn(Range<usize>) -> u64> Units<'a, W> {
    /// So many, of this name; `weigh` tells what units weigh together, in any unit there is.
    pub fn new(setup: &'a Setup, name: &'a str, count: usize, weigh: W) -> Self {
        Units { setup, name, count, weigh, own: None }
    }

    /// The next one for this instance. There is none when all are given, or when the others will be
    /// through with what is left before this one would.
    pub fn take(&mut self) -> Result<Option<usize>> {
        let is_left = || Ok(self.given()? < self.count);
        if self.leaves()? || !self.setup.may_take(!self.setup.is_whole, is_left)? {
            return Ok(None);
        }
        let number = self.setup.next(self.name)? as usize;
        self.own = Some((number, Instant::now()));
        Ok((number < self.count).then_some(number))
    }

    fn leaves(&self) -> Result<bool> {
        let (Some((own, began)), takers) = (self.own, self.setup.instances) else {
            return Ok(false);
        };
        if takers == 1 || began.elapsed() < SHORT {
            return Ok(false);
        }
        let given = self.given()?;
        Ok(Standing { own, given, count: self.count, takers }.declines_tail(&self.weigh))
    }

    fn given(&self) -> Result<usize> {
        Ok(self.setup.given(self.name)? as usize)
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

    fn alike(units: Range<usize>) -> u64 {
        units.len() as u64
    }

    /// One of four instances that share units, and how another takes them.
    fn shared(exchange: Arc<dyn Exchange>) -> (Setup, impl Fn(usize)) {
        let setup = Setup { instances: 4, is_whole: false, exchange, ..setup() };
        let others = setup.clone();
        let take = move |units| (0..units).for_each(|_| drop(others.commons.next("test/units")));
        (setup, take)
    }

    #[test]
    fn all_units_are_taken_once() {
        let setup = setup();
        let mut units = Units::new(&setup, "units", 3, alike);
        let taken: Vec<_> = (0..5).map(|_| units.take().unwrap()).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), None, None]);
    }

    #[test]
    fn who_is_slow_leaves_the_last_units_to_others_and_no_others() {
        let took = |others: usize, time| {
            let (setup, take) = shared(Arc::new(Owing::default()));
            let mut units = Units::new(&setup, "units", 100, alike);
            assert_eq!(units.take().unwrap(), Some(0));
            take(others);
            thread::sleep(time);
            units.take().unwrap()
        };
        assert_eq!(took(30, 2 * SHORT), Some(31));
        assert_eq!(took(60, 2 * SHORT), None, "the others are soon through with 39");
        assert_eq!(took(60, Duration::ZERO), Some(61), "it holds nobody up");
    }

    #[test]
    fn who_has_others_waiting_takes_nothing_and_ends_when_nothing_is_left() {
        let owing = Arc::new(Owing::default());
        let (setup, take) = shared(owing.clone());
        owing.is_awaited.store(true, SeqCst);
        thread::scope(|scope| {
            let taking = scope.spawn(|| Units::new(&setup, "units", 10, alike).take().unwrap());
            take(9);
            assert!(!taking.is_finished());
            owing.is_awaited.store(false, SeqCst);
            assert_eq!(taking.join().unwrap(), Some(9));
            owing.is_behind.store(true, SeqCst);
            assert_eq!(Units::new(&setup, "units", 10, alike).take().unwrap(), None);
        });
    }

    /// A process for which others wait, or not.
    #[derive(Debug, Default)]
    struct Owing {
        is_awaited: AtomicBool,
        is_behind: AtomicBool,
    }

    impl Exchange for Owing {
        fn others(&self) -> Vec<usize> {
            vec![1, 2, 3]
        }

        fn me(&self) -> usize {
            0
        }

        fn name(&self, _: usize) -> &str {
            ""
        }

        fn tell(&self, _: usize, _: &[u8], _: Vec<Buffer>) {
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
