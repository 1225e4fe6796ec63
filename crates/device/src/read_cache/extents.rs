//! The bytes of the cache: extents of objects, without overlaps, and the fetches in progress.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use euphrates_flow::PerProcess;
use euphrates_flow::sync::Mutex;
use euphrates_policy::caching::extents_kept::{KeptExtents, Reading, Victim};

use super::flight::Flight;

/// Ranges below this size are copied: they may be parts of a larger buffer of the connection.
const COPIED_BYTES_MAX: usize = 1 << 20;

static CACHE: PerProcess<Mutex<State>> = PerProcess::new();

/// The cache of this process.
pub(super) fn cache() -> &'static Mutex<State> {
    CACHE.get(Mutex::default)
}

/// A version of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectVersion {
    /// Its address, and the options of its store, which may be another endpoint.
    pub(crate) place: (String, String),
    /// What distinguishes its bytes from those of other versions.
    pub(crate) content: String,
    /// Whether it does so for ever, or only while one flow reads it.
    pub(crate) is_lasting: bool,
}

/// Names a version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectName {
    /// Its address, and the options of its store, which may be another endpoint.
    place: (String, String),
    content: String,
    /// The flow that alone may use it, if its successor might have the same name.
    flow: Option<u64>,
}

impl ObjectName {
    pub(super) fn new(version: ObjectVersion, flow: u64) -> ObjectName {
        let ObjectVersion { place, content, is_lasting } = version;
        ObjectName { place, content, flow: (!is_lasting).then_some(flow) }
    }
}

/// A part of a range, and where it is.
pub(super) enum RangePart {
    Kept(Bytes),
    /// Another thread fetches a range around this one.
    Coming(Arc<Flight>, Range<u64>),
    /// The caller has to fetch it.
    Missing(Arc<Flight>),
}

#[derive(Default)]
pub(super) struct State {
    kept: KeptExtents,
    /// The versions of each place, with their numbers.
    names: HashMap<(String, String), Vec<(ObjectName, u64)>>,
    objects: HashMap<u64, Object>,
    next_number: u64,
    /// Bytes that may be admitted before the memory of the machine is looked at again.
    pub(super) admissible_bytes: u64,
    pub(super) is_watched: bool,
}

#[derive(Default)]
struct Object {
    place: (String, String),
    extents: BTreeMap<u64, Bytes>,
    flights: Vec<Arc<Flight>>,
}

impl State {
    pub(super) fn bytes(&self) -> u64 {
        self.objects.values().flat_map(|it| it.extents.values()).map(|it| it.len() as u64).sum()
    }

    /// The bytes that count towards the bound.
    pub(super) fn used_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    pub(super) fn limit(&mut self, bytes_max: u64) {
        let victims = self.kept.limit(bytes_max);
        self.drop_all(&victims);
    }

    /// Evicts at least these bytes.
    pub(super) fn release(&mut self, bytes: u64) {
        let victims = self.kept.release(bytes);
        self.drop_all(&victims);
    }

    /// Frees all; returns how many bytes these were.
    pub(super) fn clear(&mut self) -> u64 {
        let bytes = self.bytes();
        let numbers: Vec<u64> = self.objects.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.forget(number));
        bytes
    }

    /// The number of a version. The bytes of earlier versions are dropped.
    pub(super) fn number(&mut self, name: ObjectName) -> u64 {
        let versions = self.names.entry(name.place.clone()).or_default();
        let known = versions.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        let is_old = |other: &ObjectName| other.content != name.content;
        let old: Vec<u64> =
            versions.iter().filter(|(other, _)| is_old(other)).map(|(_, number)| *number).collect();
        let number = known.unwrap_or_else(|| {
            self.next_number += 1;
            let object = Object { place: name.place.clone(), ..Object::default() };
            self.objects.insert(self.next_number, object);
            versions.push((name, self.next_number));
            self.next_number
        });
        for number in old {
            self.forget(number);
        }
        number
    }

    pub(super) fn open(&mut self, number: u64) {
        self.kept.on_open(number);
    }

    pub(super) fn close(&mut self, number: u64, flow: u64) {
        self.kept.on_close(number, flow);
        let of_flow = |(name, of): &(ObjectName, u64)| *of == number && name.flow.is_some();
        let place = self.objects.get(&number).map(|object| &object.place);
        let versions = place.and_then(|place| self.names.get(place));
        let is_of_flow = versions.is_some_and(|versions| versions.iter().any(of_flow));
        if is_of_flow && !self.kept.is_open(number) {
            self.forget(number);
        }
        self.tidy(number);
    }

    /// The parts of a range. Those that are missing are fetched by the caller, which ends their
    /// flights by `land`.
    pub(super) fn pieces(&mut self, reading: Reading, range: Range<u64>) -> Vec<RangePart> {
        let Some(object) = self.objects.get_mut(&reading.object) else {
            return vec![RangePart::Missing(Arc::new(Flight::new(range)))];
        };
        let (mut pieces, mut at) = (vec![], range.start);
        while at < range.end {
            let before = object.extents.range(..=at).next_back();
            let before = before.filter(|(start, bytes)| *start + bytes.len() as u64 > at);
            if let Some((&start, bytes)) = before {
                let end = range.end.min(start + bytes.len() as u64);
                pieces.push(RangePart::Kept(
                    bytes.slice((at - start) as usize..(end - start) as usize),
                ));
                self.kept.on_used(reading, start);
                at = end;
                continue;
            }
            if let Some(flight) = object.flights.iter().find(|it| it.range.contains(&at)) {
                let end = range.end.min(flight.range.end);
                pieces.push(RangePart::Coming(flight.clone(), at..end));
                at = end;
                continue;
            }
            let next = object.extents.range(at..).next().map(|(start, _)| *start);
            let flights = object.flights.iter().map(|flight| flight.range.start);
            let next = flights.filter(|start| *start > at).chain(next).min();
            let end = next.map_or(range.end, |next| next.min(range.end));
            let flight = Arc::new(Flight::new(at..end));
            object.flights.push(flight.clone());
            pieces.push(RangePart::Missing(flight));
            at = end;
        }
        pieces
    }

    /// The parts of a range, if all of it is cached.
    pub(super) fn cached(&mut self, reading: Reading, range: Range<u64>) -> Option<Vec<Bytes>> {
        let object = self.objects.get(&reading.object)?;
        let (mut parts, mut starts, mut at) = (vec![], vec![], range.start);
        while at < range.end {
            let (&start, bytes) = object.extents.range(..=at).next_back()?;
            let end = range.end.min(start + bytes.len() as u64);
            if end <= at {
                return None;
            }
            parts.push(bytes.slice((at - start) as usize..(end - start) as usize));
            starts.push(start);
            at = end;
        }
        starts.into_iter().for_each(|start| self.kept.on_used(reading, start));
        Some(parts)
    }

    /// Whether a range would be admitted, of which nothing is cached or comes.
    pub(super) fn wants(&self, number: u64, range: &Range<u64>) -> bool {
        let length = range.end - range.start;
        let is_short = self.is_watched && self.admissible_bytes < length;
        let Some(object) = self.objects.get(&number).filter(|_| !is_short) else { return false };
        let before = object.extents.range(..range.end).next_back();
        let is_cached = before.is_some_and(|(start, it)| start + it.len() as u64 > range.start);
        let overlaps = |it: &Arc<Flight>| it.range.start < range.end && range.start < it.range.end;
        let is_coming = object.flights.iter().any(overlaps);
        !is_cached && !is_coming && self.kept.has_room(length)
    }

    /// Ends a flight.
    pub(super) fn land(&mut self, number: u64, flight: &Arc<Flight>) {
        if let Some(object) = self.objects.get_mut(&number) {
            object.flights.retain(|other| !Arc::ptr_eq(other, flight));
        }
    }

    /// Caches a range, if the policy admits it; returns whether it does.
    pub(super) fn admit(&mut self, reading: Reading, start: u64, bytes: &Bytes) -> bool {
        let length = bytes.len() as u64;
        let is_short = self.is_watched && self.admissible_bytes < length;
        if is_short || !self.objects.contains_key(&reading.object) {
            return false;
        }
        let admission = self.kept.admit(reading, start, length);
        self.drop_all(&admission.evicted);
        if admission.is_admitted
            && let Some(object) = self.objects.get_mut(&reading.object)
        {
            let is_small = bytes.len() < COPIED_BYTES_MAX;
            let own = if is_small { Bytes::copy_from_slice(bytes) } else { bytes.clone() };
            object.extents.insert(start, own);
            self.admissible_bytes = self.admissible_bytes.saturating_sub(length);
        }
        admission.is_admitted
    }

    fn forget(&mut self, number: u64) {
        self.kept.forget(number);
        if let Some(object) = self.objects.get_mut(&number) {
            object.extents.clear();
        }
        self.tidy(number);
    }

    fn drop_all(&mut self, victims: &[Victim]) {
        for victim in victims {
            if let Some(object) = self.objects.get_mut(&victim.object) {
                object.extents.remove(&victim.start);
            }
            self.tidy(victim.object);
        }
    }

    /// Forgets the name of an object without bytes that nobody reads.
    fn tidy(&mut self, number: u64) {
        if self.kept.is_known(number) {
            return;
        }
        let Some(object) = self.objects.remove(&number) else { return };
        if let Some(versions) = self.names.get_mut(&object.place) {
            versions.retain(|(_, other)| *other != number);
            if versions.is_empty() {
                self.names.remove(&object.place);
            }
        }
    }
}
