//! Regions of memory into which peers place the data of bulk messages.

use std::collections::HashMap;
use std::sync::Arc;

use euphrates_flow::{Error, Result};
use euphrates_policy::active_messages::ReturnReason;
use parking_lot::RwLock;

use super::message::RegionPlace;

/// Memory that peers write to, by its key. Clones are the same region.
#[derive(Clone, Debug)]
pub struct Region(Arc<RegionMemory>);

#[derive(Debug)]
struct RegionMemory {
    key: u64,
    bytes: RwLock<Vec<u8>>,
}

impl Region {
    /// The key by which peers name the region.
    pub fn key(&self) -> u64 {
        self.0.key
    }

    /// Calls `read` with the bytes. The endpoint places no data meanwhile, and waits if it has to.
    pub fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(&self.0.bytes.read())
    }

    /// Calls `write` with the bytes, as `read` does.
    pub fn write<T>(&self, write: impl FnOnce(&mut [u8]) -> T) -> T {
        write(&mut self.0.bytes.write())
    }
}

/// The regions of an endpoint.
#[derive(Debug, Default)]
pub(super) struct RegionTable {
    /// The last key; keys are not used again, so a message for an earlier region returns.
    last_key: u64,
    regions: HashMap<u64, Region>,
}

impl RegionTable {
    /// A region of zeros. Fails if the system has no memory for it.
    pub fn register(&mut self, bytes: usize) -> Result<Region> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(bytes).map_err(|_| {
            Error::resource(format!("no memory for a region of {bytes} bytes"))
                .remedy("register smaller regions")
        })?;
        memory.resize(bytes, 0);
        self.last_key += 1;
        let key = self.last_key;
        let region = Region(Arc::new(RegionMemory { key, bytes: RwLock::new(memory) }));
        self.regions.insert(key, region.clone());
        Ok(region)
    }

    /// Takes a region from peers; its handles keep the memory. False if it was taken before.
    pub fn unregister(&mut self, key: u64) -> bool {
        self.regions.remove(&key).is_some()
    }

    /// Copies data to its place, all of it or none.
    pub fn place(&self, place: RegionPlace, data: &[u8]) -> Result<(), ReturnReason> {
        let region = self.regions.get(&place.key).ok_or(ReturnReason::NoRegion)?;
        let mut bytes = region.0.bytes.write();
        let too_small = ReturnReason::RegionTooSmall { region_bytes: bytes.len() as u64 };
        let start = usize::try_from(place.offset).map_err(|_| too_small)?;
        let end = start.checked_add(data.len()).ok_or(too_small)?;
        bytes.get_mut(start..end).ok_or(too_small)?.copy_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_placed_whole_or_not_at_all() {
        let mut table = RegionTable::default();
        let region = table.register(10).unwrap();
        let place = |offset| RegionPlace { key: region.key(), offset };
        table.place(place(8), b"ab").unwrap();
        let too_small = Err(ReturnReason::RegionTooSmall { region_bytes: 10 });
        for offset in [9, 10, 11, u64::MAX] {
            assert_eq!(table.place(place(offset), b"xy"), too_small, "{offset}");
        }
        assert_eq!(region.read(<[u8]>::to_vec), b"\0\0\0\0\0\0\0\0ab");
        table.place(place(10), b"").unwrap();
        let none = RegionPlace { key: region.key() + 1, offset: 0 };
        assert_eq!(table.place(none, b""), Err(ReturnReason::NoRegion));
        assert!(table.unregister(region.key()) && !table.unregister(region.key()));
        assert_eq!(table.place(place(0), b"x"), Err(ReturnReason::NoRegion));
        assert_ne!(table.register(1).unwrap().key(), region.key());
    }
}
