//! Writes past the page cache from buffers that know nothing of alignment.
//!
//! What a sort writes is rarely read again at once, must be durable before it is visible, and would
//! take as many fresh pages of cache as it has bytes. Past the cache it costs one copy into a slab
//! that has been used before, and the final sync finds nothing left to do. A direct request must
//! begin and end at multiples of the device's block, and an append does neither: so the middle goes
//! past the cache, and the ragged ends, less than a block each, through it. No page is written both
//! ways.

use std::io;

use arrow::buffer::Buffer;
use euphrates_flow::Result;
use euphrates_policy::device::Way;

use super::DiskFile;
use crate::buffer::{PooledBuffer, pool};

/// Bytes of one request.
const REQUEST_BYTES: usize = 4 << 20;
/// Smaller writes go through the cache: they are edges and footers.
const DIRECT_BYTES_MIN: usize = 256 << 10;

/// Writes all parts, one behind the other, from `offset` on.
pub fn write_past_cache(file: &DiskFile, offset: u64, parts: &[Buffer]) -> Result<io::Result<()>> {
    let bytes: usize = parts.iter().map(Buffer::len).sum();
    let align = match file.align_bytes() {
        Some(align) if bytes >= DIRECT_BYTES_MIN => align as u64,
        _ => return Ok(file.write_parts(offset, parts)),
    };
    let end = offset + bytes as u64;
    let (from, to) = (offset.next_multiple_of(align), end / align * align);
    let mut rest = Rest { parts, at: 0 };
    for (start, stop, way) in
        [(offset, from, Way::Buffered), (from, to, Way::Direct), (to, end, Way::Buffered)]
    {
        let mut at = start;
        while at < stop {
            let count = REQUEST_BYTES.min((stop - at) as usize);
            let slab = rest.take(count)?;
            if let Err(error) = file.write(way, at, &slab) {
                return Ok(Err(error));
            }
            at += count as u64;
        }
    }
    Ok(Ok(()))
}

/// The bytes of the parts that have not been written.
struct Rest<'a> {
    parts: &'a [Buffer],
    at: usize,
}

impl Rest<'_> {
    /// The next `count` bytes, in a slab.
    fn take(&mut self, count: usize) -> Result<PooledBuffer> {
        let mut slab = pool().take(count)?;
        let mut filled = 0;
        while filled < count {
            let part = &self.parts[0][self.at..];
            let now = part.len().min(count - filled);
            slab[filled..filled + now].copy_from_slice(&part[..now]);
            filled += now;
            self.at += now;
            if self.at == self.parts[0].len() {
                (self.parts, self.at) = (&self.parts[1..], 0);
            }
        }
        Ok(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Mode};

    #[test]
    fn appends_of_any_size_stand_one_behind_the_other() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disk = Disk::new("test", folder.path(), Mode::Auto).unwrap();
        let path = folder.path().join("appended");
        let file = disk.create(&path).unwrap();
        let mut expected = Vec::new();
        for (number, bytes) in [1, 5_000_001, 0, 1 << 20, 4096, 9_999_999, 3].iter().enumerate() {
            let parts: Vec<Buffer> = (0..3)
                .map(|part| Buffer::from_vec(vec![(number * 3 + part) as u8; bytes / 3 + part]))
                .collect();
            write_past_cache(&file, expected.len() as u64, &parts).unwrap().unwrap();
            parts.iter().for_each(|part| expected.extend_from_slice(part));
        }
        assert!(std::fs::read(&path).unwrap() == expected);
    }
}
