//! The paper's disk order: shares of bandwidth that follow the bandwidth of readers (River 2.2.3).
//!
//! A disk "continually receives feedback from two consumers as to the total bandwidth that the
//! consumers are receiving. When a performance inequity between those two segments is detected, the
//! disk manager will bias requests towards the lagging node". The paper gives neither the interval
//! nor the size of the bias. Here the disk compares its readers after every `every` blocks and
//! moves `step` of its bandwidth from the one that received most to the one that received least.
//! Between comparisons it serves by shares (a stride scheduler).

use super::served::ReaderAtDisk;

/// The whole bandwidth of a disk, in thousandths.
const WHOLE: i64 = 1000;

/// Shares that follow the bandwidth readers receive.
///
/// ```
/// use euphrates_policy::declustering::DiskShares;
///
/// // Compares readers after every block, and moves all of the bandwidth at most.
/// assert_eq!(DiskShares::new(0, 5000), DiskShares::new(1, 1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskShares {
    every: u32,
    step: i64,
    begun: u32,
}

impl DiskShares {
    /// Compares readers after `every` blocks and moves `step` thousandths of the bandwidth.
    pub fn new(every: u32, step: u16) -> DiskShares {
        DiskShares { every: every.max(1), step: i64::from(step).min(WHOLE), begun: 0 }
    }

    /// Chooses the reader that is furthest below its share.
    pub(super) fn choose<'a>(
        &mut self,
        readers: impl Iterator<Item = (&'a u32, &'a mut ReaderAtDisk)>,
    ) -> Option<u32> {
        let mut readers: alloc::vec::Vec<_> = readers.map(|(&id, served)| (id, served)).collect();
        if self.begun == self.every {
            self.begun = 0;
            self.adjust(&mut readers);
        }
        let even = WHOLE / readers.len().max(1) as i64;
        let waiting = readers.iter_mut().filter(|(_, served)| served.next().is_some());
        // A reader's memory is its share minus the even share, its credit the unused bandwidth.
        let mut waiting: alloc::vec::Vec<_> = waiting.collect();
        waiting.iter_mut().for_each(|(_, served)| served.credit += even + served.memory);
        let best = waiting.iter_mut().max_by_key(|(id, served)| (served.credit, !*id))?;
        best.1.credit -= WHOLE;
        self.begun += 1;
        Some(best.0)
    }

    fn adjust(&self, readers: &mut [(u32, &mut ReaderAtDisk)]) {
        let active = || (0..readers.len()).filter(|&at| readers[at].1.progress().left_bytes > 0);
        let received = |at: &usize| {
            let served = &readers[*at].1;
            served.mark_bytes.saturating_sub(served.progress().left_bytes)
        };
        let (least, most) = (active().min_by_key(received), active().max_by_key(received));
        if let (Some(least), Some(most)) = (least, most)
            && received(&least) < received(&most)
        {
            let even = WHOLE / readers.len() as i64;
            let step = self.step.min(readers[most].1.memory + even);
            readers[least].1.memory += step;
            readers[most].1.memory -= step;
        }
        readers.iter_mut().for_each(|(_, served)| served.mark_bytes = served.progress().left_bytes);
    }
}
