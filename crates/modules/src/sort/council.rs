//! What the processes of one sort tell each other: how much each has, how much room it has, and
//! samples, from which all of them find the same borders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use euphrates_flow::{Error, Result};
use euphrates_policy::sampling::Sampling;
use euphrates_policy::sort::RangeSizes;

use super::owned::{KeyKeeper, OwnedKey};
use super::ranges::{Cutting, Ranges, Sample, find_borders};
use super::runs::Border;

/// What one process has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    runs: usize,
    rows: usize,
    bytes: usize,
    disk_runs: usize,
    instance_bytes: usize,
    samples: Vec<Sample>,
}

impl Share {
    /// What is here, of which so many runs are on disk, with its part of the samples that so many
    /// processes take; no other has the number `process`. An instance may hold `instance_bytes`
    /// here.
    pub fn of(
        ranges: &Ranges,
        (disk_runs, instance_bytes): (usize, usize),
        (process, processes): (usize, usize),
        keeper: &Mutex<KeyKeeper>,
    ) -> Share {
        let (runs, rows, bytes) = ranges.size();
        let sampling = Sampling::among(processes, process, rows, ranges.row_bytes());
        let samples = ranges.samples(sampling, keeper);
        Share { runs, rows, bytes, disk_runs, instance_bytes, samples }
    }

    /// As it travels.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 96 * self.samples.len());
        let mut numbers = |numbers: &[usize], bytes: &[u8]| {
            numbers.iter().for_each(|number| out.extend((*number as u64).to_le_bytes()));
            out.extend_from_slice(bytes);
        };
        numbers(&[self.runs, self.rows, self.bytes, self.disk_runs, self.instance_bytes], &[]);
        let mut shared: Vec<&Arc<[u8]>> = vec![];
        let mut places: HashMap<*const u8, usize> = HashMap::new();
        for (border, _) in &self.samples {
            let (part, ..) = border.key.parts();
            places.entry(address(part)).or_insert_with(|| {
                shared.push(part);
                shared.len() - 1
            });
        }
        numbers(&[shared.len()], &[]);
        shared.iter().for_each(|part| numbers(&[part.len()], part));
        for (Border { key, run, position }, rows) in &self.samples {
            let (part, length, rest) = key.parts();
            let place = places[&address(part)];
            let is_whole = usize::from(key.is_whole);
            let all = [*run, *position, *rows, is_whole, place, length, rest.len()];
            numbers(&[], &key.bits.to_le_bytes());
            numbers(&all, rest);
        }
        out
    }

    /// What travelled.
    fn read(bytes: &[u8]) -> Result<Share> {
        let mut rest = Rest(bytes);
        let [runs, rows, bytes, disk_runs, instance_bytes] = rest.numbers()?;
        let (mut shared, mut samples): (Vec<Arc<[u8]>>, _) = (vec![], vec![]);
        let [parts] = rest.numbers()?;
        for _ in 0..parts {
            let [length] = rest.numbers()?;
            shared.push(rest.bytes(length)?.into());
        }
        while !rest.0.is_empty() {
            let bits = u128::from_le_bytes(*rest.take()?);
            let [run, position, rows, is_whole, place, length, behind] = rest.numbers()?;
            let part = shared.get(place).filter(|part| length <= part.len()).ok_or_else(torn)?;
            let part = (part.clone(), length);
            let key = OwnedKey::of_parts(bits, is_whole != 0, part, rest.bytes(behind)?);
            samples.push((Border { key, run, position }, rows));
        }
        Ok(Share { runs, rows, bytes, disk_runs, instance_bytes, samples })
    }
}

/// What all processes have; those who speak for none have brought nothing.
pub struct Council {
    shares: Vec<Option<Share>>,
}

impl Council {
    /// Of what all members have brought, in their order.
    pub fn of(values: &[Vec<u8>]) -> Result<Council> {
        let share = |value: &Vec<u8>| match value.is_empty() {
            true => Ok(None),
            false => Share::read(value).map(Some),
        };
        Ok(Council { shares: values.iter().map(share).collect::<Result<_>>()? })
    }

    /// Where all cut. As many instances take the ranges as have brought what is in them, and each
    /// range fits the one with the least room.
    pub fn borders(&self, cutting: Cutting) -> Vec<Border> {
        let all = || self.shares.iter().flatten();
        let sum = |of: fn(&Share) -> usize| all().map(of).sum::<usize>();
        let instance_bytes = all().map(|share| share.instance_bytes).min().unwrap_or(0);
        let disk_runs = sum(|share| share.disk_runs);
        let sizes = RangeSizes::new(self.shares.len(), instance_bytes, disk_runs);
        let row_bytes = sum(|share| share.bytes).div_ceil(sum(|share| share.rows).max(1)).max(1);
        let samples = all().zip(self.first_runs()).flat_map(|(share, first_run)| {
            let among_all =
                move |border: &Border| Border { run: first_run + border.run, ..border.clone() };
            share.samples.iter().map(move |(border, rows)| (among_all(border), *rows))
        });
        find_borders(samples.collect(), sizes, row_bytes, cutting)
    }

    /// Cuts what one process has, for which this member has spoken, as all others cut theirs.
    pub fn cut(&self, ranges: &mut Ranges, speaker: usize, cutting: Cutting) {
        let before = self.shares[..speaker].iter().flatten().count();
        let first_run = self.first_runs().nth(before).expect("who speaks has brought a share");
        ranges.cut_at(self.borders(cutting), first_run);
    }

    /// Of each share, the number of its first run among those of all.
    fn first_runs(&self) -> impl Iterator<Item = usize> {
        let sum = |sum: &mut usize, share: &Share| {
            *sum += share.runs;
            Some(*sum - share.runs)
        };
        self.shares.iter().flatten().scan(0, sum)
    }
}

/// What tells parts that are kept once from others; nothing is always the same.
fn address(part: &Arc<[u8]>) -> *const u8 {
    if part.is_empty() { std::ptr::null() } else { part.as_ptr() }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let (field, rest) = self.0.split_first_chunk().ok_or_else(torn)?;
        self.0 = rest;
        Ok(field)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(torn)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn numbers<const N: usize>(&mut self) -> Result<[usize; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = usize::try_from(u64::from_le_bytes(*self.take()?)).map_err(|_| torn())?;
        }
        Ok(numbers)
    }
}

fn torn() -> Error {
    Error::corrupt("what another process has told of its share is torn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bits: u128, whole: &[u8], rows: usize) -> Sample {
        let key = OwnedKey::whole(bits, whole);
        (Border { key, run: 1, position: bits as usize }, rows)
    }

    #[test]
    fn what_is_told_is_heard() {
        let samples = vec![sample(7, b"", 3), sample(9, b"a long key", 4)];
        let share = Share { runs: 2, rows: 7, bytes: 70, disk_runs: 1, instance_bytes: 9, samples };
        assert_eq!(Share::read(&share.write()).unwrap(), share);
        let text = share.write();
        assert!((1..text.len()).filter(|cut| Share::read(&text[..*cut]).is_ok()).count() <= 2);
    }

    #[test]
    fn what_keys_share_is_told_once() {
        let mut keeper = KeyKeeper::new(1 << 20);
        let key = |number: u8| [vec![7; 10_000], vec![number; 3]].concat();
        let samples = (0..100_u8).map(|number| {
            let before = number.checked_sub(1).map(key);
            let key = keeper.keep(7, &key(number), before.as_deref());
            (Border::before(key, (1, usize::from(number))), 1)
        });
        let share = Share { samples: samples.collect(), ..Share::default() };
        let text = share.write();
        assert!(text.len() < 40_000, "{}", text.len());
        assert_eq!(Share::read(&text).unwrap(), share);
    }
}
