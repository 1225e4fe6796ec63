//! The cache of remote data: ranges of objects and web servers' files, in the memory of a process.
//! The flow that started last sets its size.
//!
//! `euphrates_policy::caching` decides admission and eviction. The key of a range has the object's
//! version (entity tag), so a changed object misses. Concurrent reads of a range share one fetch
//! (single flight).

mod extents;
mod flight;
mod peers;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{CacheGrant, Result};
use euphrates_policy::caching::extents_kept::Reading;

pub(crate) use extents::ObjectVersion;
use extents::{ObjectName, RangePart, cache};
use flight::Flight;
pub use peers::{HomeAnswer, ObjectRange, PeerCaches};

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
    opened: Mutex<OpenedObjects>,
    /// The other workers of the flow, while it runs on several.
    peers: Mutex<Option<Arc<dyn PeerCaches>>>,
    from_memory: AtomicU64,
    from_peers: AtomicU64,
    from_origin: AtomicU64,
}

#[derive(Debug, Default)]
struct OpenedObjects {
    versions: HashMap<u64, ObjectVersion>,
    /// The number of the version that was opened last, by address.
    numbers: HashMap<String, u64>,
}

/// Bytes by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBytes {
    /// From the memory of this process.
    pub memory: u64,
    /// From the memory of other workers.
    pub peers: u64,
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
    /// assert_eq!(reads.take(), ReadBytes { memory: 2, peers: 0, origin: 6 });
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
            opened: Mutex::default(),
            peers: Mutex::new(None),
            from_memory: AtomicU64::new(0),
            from_peers: AtomicU64::new(0),
            from_origin: AtomicU64::new(0),
        }
    }

    /// The flow runs from now on, and is not only checked.
    pub fn start(&self) {
        self.is_running.store(true, Relaxed);
    }

    /// The bytes read since the last call.
    pub fn take(&self) -> ReadBytes {
        let [memory, peers, origin] = [&self.from_memory, &self.from_peers, &self.from_origin]
            .map(|bytes| bytes.swap(0, Relaxed));
        ReadBytes { memory, peers, origin }
    }

    /// Shares the cached ranges of these objects with other workers, or no more if there are none.
    /// Whoever shares them ends that, since they refer to each other.
    pub fn share(&self, peers: Option<Arc<dyn PeerCaches>>) {
        *self.peers.lock() = peers;
    }

    /// The parts of a range of which this process is the home, if all of it is cached; or else
    /// whether it would be.
    pub fn cached(&self, range: &ObjectRange) -> std::result::Result<Vec<Bytes>, bool> {
        let Some(reading) = self.reading_of(range) else { return Err(false) };
        let mut state = cache().lock();
        let parts = state.cached(reading, range.bytes.clone());
        parts.ok_or_else(|| state.wants(reading.object, &range.bytes))
    }

    /// Caches a range of which this process is the home, and which another worker has read from the
    /// origin, if it is still wanted.
    pub fn accept(&self, range: &ObjectRange, bytes: &Bytes) {
        let is_whole = range.bytes.end.checked_sub(range.bytes.start) == Some(bytes.len() as u64);
        let Some(reading) = self.reading_of(range).filter(|_| is_whole) else { return };
        // They may be part of a frame, which would be held as long.
        let own = Bytes::copy_from_slice(bytes);
        let mut state = cache().lock();
        let is_admitted = state.wants(reading.object, &range.bytes)
            && state.admit(reading, range.bytes.start, &own);
        drop(state);
        if is_admitted {
            watch::start();
        }
    }

    /// The object of a range, if this process has opened that version of it.
    fn reading_of(&self, range: &ObjectRange) -> Option<Reading> {
        let opened = self.opened.lock();
        let &object = opened.numbers.get(&range.address)?;
        let version = opened.versions.get(&object)?;
        let is_valid = range.bytes.start <= range.bytes.end;
        if !version.is_lasting || version.content != range.content || !is_valid {
            return None;
        }
        let is_running = self.is_running.load(Relaxed);
        Some(Reading { object, flow: self.grant?.flow, is_running })
    }

    /// Pins the cached ranges of an object until this is dropped, and evicts those of its earlier
    /// versions. Returns the object's number, if there is a cache.
    pub(crate) fn open(&self, version: ObjectVersion) -> Option<u64> {
        let flow = self.grant?.flow;
        let mut state = cache().lock();
        let number = state.number(ObjectName::new(version.clone(), flow));
        let mut opened = self.opened.lock();
        opened.numbers.insert(version.place.0.clone(), number);
        if opened.versions.insert(number, version).is_none() {
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

    /// Fetches a range from its home or from the origin, for the cache and for the threads that
    /// wait for it.
    fn fetch(
        &self,
        fetch: FetchRange<'_>,
        reading: Reading,
        flight: &Arc<Flight>,
    ) -> Result<Bytes> {
        let length = (flight.range.end - flight.range.start) as usize;
        let elsewhere = self.elsewhere(reading.object, flight);
        let mut is_wanted = false;
        if let Some((peers, home, range)) = &elsewhere {
            match peers.request(*home, range)? {
                HomeAnswer::Cached(bytes) if bytes.len() == length => {
                    self.from_peers.fetch_add(length as u64, Relaxed);
                    flight.land(bytes.clone());
                    return Ok(bytes);
                }
                HomeAnswer::Cached(_) => {}
                HomeAnswer::Missing { is_wanted: wanted } => is_wanted = wanted,
            }
        }
        let (bytes, is_version) = fetch(flight.range.start, length)?;
        self.from_origin.fetch_add(length as u64, Relaxed);
        match elsewhere {
            Some((peers, home, range)) if is_version && is_wanted => {
                peers.offer(home, &range, bytes.clone());
            }
            Some(_) => {}
            None => {
                if is_version && cache().lock().admit(reading, flight.range.start, &bytes) {
                    watch::start();
                }
            }
        }
        flight.land(bytes.clone());
        Ok(bytes)
    }

    /// The other worker that is the home of a range, if one is.
    fn elsewhere(
        &self,
        number: u64,
        flight: &Flight,
    ) -> Option<(Arc<dyn PeerCaches>, usize, ObjectRange)> {
        let peers = self.peers.lock().clone()?;
        let opened = self.opened.lock();
        let version = opened.versions.get(&number).filter(|version| version.is_lasting)?;
        let home = peers.home(&version.place.0, flight.range.start)?;
        let (address, content) = (version.place.0.clone(), version.content.clone());
        let bytes = flight.range.clone();
        Some((peers, home, ObjectRange { address, content, bytes }))
    }
}

impl Drop for RemoteReads {
    fn drop(&mut self) {
        let Some(grant) = self.grant else { return };
        let mut state = cache().lock();
        self.opened.get_mut().versions.keys().for_each(|&number| state.close(number, grant.flow));
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
