//! The cache of remote data: ranges of objects and web servers' files, in the memory of a process.
//! The flow that started last sets its size.
//!
//! `euphrates_policy::caching` decides admission and eviction. The key of a range has the object's
//! version (entity tag), so a changed object misses. Concurrent reads of a range share one fetch
//! (single flight).

mod extents;
mod flight;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{CacheGrant, Result};
use euphrates_policy::caching::extents_kept::Reading;

pub(crate) use extents::ObjectVersion;
use extents::{ObjectName, RangePart, cache};
use flight::Flight;

/// Frees all that is kept in this process; returns the bytes.
///
/// ```
/// assert_eq!(euphrates_device::read_cache::clear(), 0, "nothing was read");
/// ```
pub fn clear() -> u64 {
    cache().lock().clear()
}

/// The bytes that this process keeps.
pub fn bytes() -> u64 {
    cache().lock().bytes()
}

/// Fetches a range from the origin, given its first byte and its length. Also returns whether the
/// response is of the version that was looked up.
pub(crate) type FetchRange<'a> = &'a dyn Fn(u64, usize) -> Result<(Bytes, bool)>;

/// Remote reads of one scan in this process, by where the bytes came from.
#[derive(Debug)]
pub struct RemoteReads {
    grant: Option<CacheGrant>,
    is_running: AtomicBool,
    /// The objects that stay while this exists.
    opened: Mutex<BTreeSet<u64>>,
    from_memory: AtomicU64,
    from_origin: AtomicU64,
}

/// Bytes by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBytes {
    /// From the memory of this process.
    pub memory: u64,
    /// From the store or server.
    pub origin: u64,
}

impl RemoteReads {
    /// Reads that use the cache as granted, or only count.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use bytes::Bytes;
    /// use euphrates_device::blob::Blob;
    /// use euphrates_device::read_cache::{ReadBytes, RemoteReads, clear};
    /// use euphrates_device::remote::Store;
    /// use euphrates_flow::CacheGrant;
    ///
    /// let object = Store::in_memory().object("days/1.csv")?;
    /// object.put(vec![Bytes::from("n\n7\n8\n")], true)?;
    /// let reads = Arc::new(RemoteReads::new(Some(CacheGrant::new(1 << 20))));
    /// let blob = Blob::open_remote(object.clone(), object.identity()?.unwrap(), Some(&reads));
    /// assert_eq!(blob.read_at(2, 2)?, "7\n");
    /// assert_eq!(blob.read_at(0, 6)?, "n\n7\n8\n", "the rest is read, and joined");
    /// assert_eq!(reads.take(), ReadBytes { memory: 2, origin: 6 });
    /// assert_eq!(clear(), 6);
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn new(grant: Option<CacheGrant>) -> RemoteReads {
        if let Some(grant) = grant {
            cache().lock().limit(grant.bytes_max);
        }
        RemoteReads {
            grant,
            is_running: AtomicBool::new(false),
            opened: Mutex::new(BTreeSet::new()),
            from_memory: AtomicU64::new(0),
            from_origin: AtomicU64::new(0),
        }
    }

    /// The flow runs from now on, and is not only checked.
    pub fn start(&self) {
        self.is_running.store(true, Relaxed);
    }

    /// The bytes read since the last call.
    pub fn take(&self) -> ReadBytes {
        let memory = self.from_memory.swap(0, Relaxed);
        ReadBytes { memory, origin: self.from_origin.swap(0, Relaxed) }
    }

    /// Pins the cached ranges of an object until this is dropped, and evicts those of its earlier
    /// versions. Returns the object's number, if there is a cache.
    pub(crate) fn open(&self, version: ObjectVersion) -> Option<u64> {
        let flow = self.grant?.flow;
        let mut state = cache().lock();
        let number = state.number(ObjectName::new(version, flow));
        if self.opened.lock().insert(number) {
            state.open(number);
        }
        Some(number)
    }

    /// Reads a range of an object, of which this is the number.
    pub(crate) fn read(
        &self,
        number: Option<u64>,
        (offset, bytes): (u64, usize),
        fetch: FetchRange<'_>,
    ) -> Result<Bytes> {
        let (Some(number), Some(grant)) = (number, self.grant) else {
            self.from_origin.fetch_add(bytes as u64, Relaxed);
            return fetch(offset, bytes).map(|(read, _)| read);
        };
        let is_running = self.is_running.load(Relaxed);
        let reading = Reading { object: number, flow: grant.flow, is_running };
        let pieces = cache().lock().pieces(reading, offset..offset + bytes as u64);
        let _landings: Vec<Landing> =
            pieces.iter().filter_map(|piece| Landing::of(number, piece)).collect();
        let mut parts = vec![Bytes::new(); pieces.len()];
        // Other threads may wait for these ranges, so they are fetched before this one waits.
        for (part, piece) in parts.iter_mut().zip(&pieces) {
            if let RangePart::Missing(flight) = piece {
                *part = self.fetch(fetch, reading, flight)?;
            }
        }
        for (part, piece) in parts.iter_mut().zip(pieces) {
            match piece {
                RangePart::Missing(_) => {}
                RangePart::Kept(bytes) => {
                    self.from_memory.fetch_add(bytes.len() as u64, Relaxed);
                    *part = bytes;
                }
                RangePart::Coming(flight, range) => {
                    let length = (range.end - range.start) as usize;
                    *part = match flight.wait() {
                        Some(bytes) => {
                            self.from_memory.fetch_add(length as u64, Relaxed);
                            let begin = (range.start - flight.range.start) as usize;
                            bytes.slice(begin..begin + length)
                        }
                        // What made it fail may concern its flow alone.
                        None => {
                            self.from_origin.fetch_add(length as u64, Relaxed);
                            fetch(range.start, length)?.0
                        }
                    };
                }
            }
        }
        Ok(joined(parts))
    }

    /// Fetches a range from the origin, for the cache and for the threads that wait for it.
    fn fetch(
        &self,
        fetch: FetchRange<'_>,
        reading: Reading,
        flight: &Arc<Flight>,
    ) -> Result<Bytes> {
        let length = (flight.range.end - flight.range.start) as usize;
        let (bytes, is_version) = fetch(flight.range.start, length)?;
        self.from_origin.fetch_add(length as u64, Relaxed);
        if is_version && cache().lock().admit(reading, flight.range.start, &bytes) {
            watch::start();
        }
        flight.land(bytes.clone());
        Ok(bytes)
    }
}

impl Drop for RemoteReads {
    fn drop(&mut self) {
        let Some(grant) = self.grant else { return };
        let mut state = cache().lock();
        self.opened.get_mut().iter().for_each(|&number| state.close(number, grant.flow));
    }
}

/// Ends a flight when it is dropped, also after an error.
struct Landing {
    number: u64,
    flight: Arc<Flight>,
}

impl Landing {
    fn of(number: u64, piece: &RangePart) -> Option<Landing> {
        let RangePart::Missing(flight) = piece else { return None };
        Some(Landing { number, flight: flight.clone() })
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        cache().lock().land(self.number, &self.flight);
        self.flight.fail();
    }
}

/// One part as it is, several copied into one.
fn joined(mut parts: Vec<Bytes>) -> Bytes {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let mut all = Vec::with_capacity(parts.iter().map(Bytes::len).sum());
    parts.iter().for_each(|part| all.extend_from_slice(part));
    Bytes::from(all)
}

#[cfg(test)]
mod tests;
