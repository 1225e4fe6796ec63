//! The exchange of samples between the processes of a sort: each contributes its sizes and samples,
//! and all compute the same splitters from them.

use std::collections::HashMap;
use std::sync::Arc;

use euphrates_flow::{Error, Result};
use euphrates_policy::sampling::Sampling;
use euphrates_policy::sort::RangeSizes;
use parking_lot::Mutex;

use super::keys::owned_keys::{KeyInterner, OwnedKey};
use super::ranges::SortedRuns;
use super::splitters::{SplitPolicy, Splitter, SplitterCandidate, choose_splitters};

/// The sizes and samples of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LocalSamples {
    runs: usize,
    rows: usize,
    bytes: usize,
    disk_runs: usize,
    instance_bytes: usize,
    /// The layout of keys; empty if no key has been encoded.
    key_layout: Vec<u8>,
    samples: Vec<SplitterCandidate>,
}

impl LocalSamples {
    /// The contribution of this process: its sizes, and its share of the samples that all processes
    /// take. `process` must be unique. An instance may hold `instance_bytes` here.
    pub(crate) fn of(
        ranges: &SortedRuns,
        (disk_runs, instance_bytes): (usize, usize),
        (process, processes): (usize, usize),
        interner: &Mutex<KeyInterner>,
    ) -> LocalSamples {
        let (runs, rows, bytes) = ranges.size();
        let sampling = Sampling::among(processes, process, rows, ranges.row_bytes());
        let samples = ranges.samples(sampling, interner);
        let key_layout = vec![];
        LocalSamples { runs, rows, bytes, disk_runs, instance_bytes, key_layout, samples }
    }

    pub(crate) fn with_key_layout(self, key_layout: Vec<u8>) -> LocalSamples {
        LocalSamples { key_layout, ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 96 * self.samples.len());
        let mut numbers = |numbers: &[usize], bytes: &[u8]| {
            numbers.iter().for_each(|number| out.extend((*number as u64).to_le_bytes()));
            out.extend_from_slice(bytes);
        };
        numbers(&[self.runs, self.rows, self.bytes, self.disk_runs, self.instance_bytes], &[]);
        numbers(&[self.key_layout.len()], &self.key_layout);
        let mut shared: Vec<&Arc<[u8]>> = vec![];
        let mut indexes: HashMap<*const u8, usize> = HashMap::new();
        for (splitter, _) in &self.samples {
            let (part, ..) = splitter.key.parts();
            indexes.entry(address(part)).or_insert_with(|| {
                shared.push(part);
                shared.len() - 1
            });
        }
        numbers(&[shared.len()], &[]);
        shared.iter().for_each(|part| numbers(&[part.len()], part));
        for (Splitter { key, run, position }, rows) in &self.samples {
            let (part, length, rest) = key.parts();
            let index = indexes[&address(part)];
            let is_whole = usize::from(key.is_whole);
            let all = [*run, *position, *rows, is_whole, index, length, rest.len()];
            numbers(&[], &key.bits.to_le_bytes());
            numbers(&all, rest);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<LocalSamples> {
        let mut rest = UndecodedBytes(bytes);
        let [runs, rows, bytes, disk_runs, instance_bytes] = rest.numbers()?;
        let [length] = rest.numbers()?;
        let key_layout = rest.bytes(length)?.to_vec();
        let (mut shared, mut samples): (Vec<Arc<[u8]>>, _) = (vec![], vec![]);
        let [parts] = rest.numbers()?;
        for _ in 0..parts {
            let [length] = rest.numbers()?;
            shared.push(rest.bytes(length)?.into());
        }
        while !rest.0.is_empty() {
            let bits = u128::from_le_bytes(*rest.take()?);
            let [run, position, rows, is_whole, index, length, behind] = rest.numbers()?;
            let part =
                shared.get(index).filter(|part| length <= part.len()).ok_or_else(malformed)?;
            let part = (part.clone(), length);
            let key = OwnedKey::of_parts(bits, is_whole != 0, part, rest.bytes(behind)?);
            samples.push((Splitter { key, run, position }, rows));
        }
        Ok(LocalSamples { runs, rows, bytes, disk_runs, instance_bytes, key_layout, samples })
    }
}

/// The contributions of all processes, by contributing instance; `None` for other instances.
pub(crate) struct GatheredSamples {
    locals: Vec<Option<LocalSamples>>,
}

impl GatheredSamples {
    /// Decodes the values of all instances, in their order.
    pub(crate) fn of(values: &[Vec<u8>]) -> Result<GatheredSamples> {
        let share = |value: &Vec<u8>| match value.is_empty() {
            true => Ok(None),
            false => LocalSamples::decode(value).map(Some),
        };
        Ok(GatheredSamples { locals: values.iter().map(share).collect::<Result<_>>()? })
    }

    /// The layout of keys, if any process has encoded some.
    pub(crate) fn key_layout(&self) -> Option<&[u8]> {
        let layouts = self.locals.iter().flatten().map(|local| &local.key_layout[..]);
        layouts.into_iter().find(|layout| !layout.is_empty())
    }

    /// The splitters. Ranges are sized for all instances to claim, and fit the instance with the
    /// least memory.
    pub(crate) fn splitters(&self, split_policy: SplitPolicy) -> Vec<Splitter> {
        let all = || self.locals.iter().flatten();
        let sum = |of: fn(&LocalSamples) -> usize| all().map(of).sum::<usize>();
        let instance_bytes = all().map(|share| share.instance_bytes).min().unwrap_or(0);
        let disk_runs = sum(|share| share.disk_runs);
        let sizes = RangeSizes::new(self.locals.len(), instance_bytes, disk_runs);
        let row_bytes = sum(|share| share.bytes).div_ceil(sum(|share| share.rows).max(1)).max(1);
        let samples = all().zip(self.first_runs()).flat_map(|(share, first_run)| {
            let among_all = move |splitter: &Splitter| Splitter {
                run: first_run + splitter.run,
                ..splitter.clone()
            };
            share.samples.iter().map(move |(splitter, rows)| (among_all(splitter), *rows))
        });
        choose_splitters(samples.collect(), sizes, row_bytes, split_policy)
    }

    /// Cuts the runs of one process, whose samples instance `contributor` contributed, at the
    /// common splitters.
    pub(crate) fn cut(
        &self,
        ranges: &mut SortedRuns,
        contributor: usize,
        split_policy: SplitPolicy,
    ) {
        let before = self.locals[..contributor].iter().flatten().count();
        let first_run = self.first_runs().nth(before).expect("who speaks has brought a share");
        ranges.cut_at(self.splitters(split_policy), first_run);
    }

    /// For each process, the number of its first run among all runs.
    fn first_runs(&self) -> impl Iterator<Item = usize> {
        let sum = |sum: &mut usize, share: &LocalSamples| {
            *sum += share.runs;
            Some(*sum - share.runs)
        };
        self.locals.iter().flatten().scan(0, sum)
    }
}

/// Identifies a shared prefix; the empty one is always the same.
fn address(part: &Arc<[u8]>) -> *const u8 {
    if part.is_empty() { std::ptr::null() } else { part.as_ptr() }
}

struct UndecodedBytes<'a>(&'a [u8]);

impl<'a> UndecodedBytes<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let (field, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(field)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn numbers<const N: usize>(&mut self) -> Result<[usize; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number =
                usize::try_from(u64::from_le_bytes(*self.take()?)).map_err(|_| malformed())?;
        }
        Ok(numbers)
    }
}

fn malformed() -> Error {
    Error::corrupt("what another process has told of its share is torn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bits: u128, whole: &[u8], rows: usize) -> SplitterCandidate {
        let key = OwnedKey::whole(bits, whole);
        (Splitter { key, run: 1, position: bits as usize }, rows)
    }

    #[test]
    fn samples_roundtrip() {
        let samples = vec![sample(7, b"", 3), sample(9, b"a long key", 4)];
        let share = LocalSamples {
            runs: 2,
            rows: 7,
            bytes: 70,
            disk_runs: 1,
            instance_bytes: 9,
            key_layout: b"bits".to_vec(),
            samples,
        };
        assert_eq!(LocalSamples::decode(&share.encode()).unwrap(), share);
        let text = share.encode();
        assert!(
            (1..text.len()).filter(|cut| LocalSamples::decode(&text[..*cut]).is_ok()).count() <= 2
        );
    }

    #[test]
    fn shared_prefixes_are_encoded_once() {
        let mut interner = KeyInterner::new(1 << 20);
        let key = |number: u8| [vec![7; 10_000], vec![number; 3]].concat();
        let samples = (0..100_u8).map(|number| {
            let before = number.checked_sub(1).map(key);
            let key = interner.intern(7, &key(number), before.as_deref());
            (Splitter::before(key, (1, usize::from(number))), 1)
        });
        let share = LocalSamples { samples: samples.collect(), ..LocalSamples::default() };
        let text = share.encode();
        assert!(text.len() < 40_000, "{}", text.len());
        assert_eq!(LocalSamples::decode(&text).unwrap(), share);
    }
}
