//! The memory file of a lender: slots of equal size, which files take and return.

use std::fs::File;
use std::io;

use euphrates_flow::sync::Mutex;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

/// Bytes of a slot: of a request of a spilled file.
pub(super) const SLOT_BYTES: usize = 1 << 20;

/// A memory file of a bounded number of slots.
#[derive(Debug)]
pub(super) struct Arena {
    file: File,
    slots_max: u64,
    state: Mutex<FreeSlots>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    /// Slots that have been used before.
    free: Vec<u64>,
    /// Slots from here on were never used.
    next: u64,
}

impl Arena {
    /// An arena that holds no page yet.
    pub fn new(slots_max: u64) -> io::Result<Arena> {
        let file = memfd_create("euphrates-lent", MemfdFlags::CLOEXEC)?;
        Ok(Arena { file: file.into(), slots_max, state: Mutex::default() })
    }

    /// The bytes of all slots in use.
    pub fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        (state.next - state.free.len() as u64) * SLOT_BYTES as u64
    }

    /// Takes a slot; `None` if all are in use.
    pub fn take(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if let Some(slot) = state.free.pop() {
            return Some(slot);
        }
        let slot = state.next;
        (slot < self.slots_max).then(|| {
            state.next += 1;
            slot
        })
    }

    /// Returns slots, and their pages to the system.
    pub fn give_back(&self, slots: impl Iterator<Item = u64>) {
        for slot in slots {
            let (start, flags) = (slot * SLOT_BYTES as u64, FallocateFlags::PUNCH_HOLE);
            let flags = flags | FallocateFlags::KEEP_SIZE;
            // Memory files have holes; without one, the pages stay with the slot.
            let _ = fallocate(&self.file, flags, start, SLOT_BYTES as u64);
            self.state.lock().free.push(slot);
        }
    }

    /// Fills the buffer from a range of a slot. What was never written is zero.
    pub fn read(&self, slot: u64, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        let start = slot * SLOT_BYTES as u64 + offset as u64;
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&self.file, &mut buffer[filled..], start + filled as u64) {
                Ok(0) => {
                    buffer[filled..].fill(0);
                    break;
                }
                Ok(read) => filled += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes a range of a slot.
    pub fn write(&self, slot: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let start = slot * SLOT_BYTES as u64 + offset as u64;
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[written..], start + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn returned_slots_hold_no_pages_and_are_taken_again() {
        let arena = Arena::new(3).unwrap();
        let slots: Vec<u64> = std::iter::from_fn(|| arena.take()).collect();
        assert_eq!((slots.len(), arena.used_bytes()), (3, 3 * SLOT_BYTES as u64));
        let content = vec![7; SLOT_BYTES];
        slots.iter().for_each(|slot| arena.write(*slot, 0, &content).unwrap());
        let held = || arena.file.metadata().unwrap().blocks() * 512;
        assert_eq!(held(), 3 * SLOT_BYTES as u64);
        arena.give_back(slots.into_iter().skip(1));
        assert_eq!((held(), arena.used_bytes()), (SLOT_BYTES as u64, SLOT_BYTES as u64));
        let again = arena.take().unwrap();
        let mut buffer = [1; 100];
        arena.read(again, 5, &mut buffer).unwrap();
        assert_eq!(buffer, [0; 100], "nobody reads what another file had there");
    }
}
