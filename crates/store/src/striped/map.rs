//! The map of a striped file: where each block of each stripe lies, and its checksum.
//!
//! The map is binary, little-endian, and ends with the CRC-32C of all bytes before. A copy lies on
//! every disk of the file; the manifest has the checksum of the copies.

use euphrates_flow::{Error, Result};

const MAGIC: &[u8; 8] = b"EUSTRIPE";
const FORMAT: u32 = 1;

/// The stripes of a file, in order. All but the last contain as many bytes of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StripeMap {
    /// Blocks of each stripe, data and parity.
    pub width: usize,
    /// Length of the file.
    pub bytes: u64,
    pub stripes: Vec<StripeEntry>,
}

/// A stripe. What lies beyond its data blocks is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StripeEntry {
    /// Length of each block.
    pub block_bytes: u32,
    /// The data blocks, then the parity blocks; none for a stripe of zeros.
    pub blocks: Vec<BlockPlace>,
}

/// The place of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockPlace {
    /// The number of the segment.
    pub segment: u32,
    pub offset: u64,
    pub crc: u32,
}

impl StripeMap {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend((self.width as u32).to_le_bytes());
        bytes.extend(self.bytes.to_le_bytes());
        bytes.extend((self.stripes.len() as u64).to_le_bytes());
        for StripeEntry { block_bytes, blocks } in &self.stripes {
            let block_bytes = if blocks.is_empty() { 0 } else { *block_bytes };
            bytes.extend(block_bytes.to_le_bytes());
            for BlockPlace { segment, offset, crc } in blocks {
                bytes.extend(segment.to_le_bytes());
                bytes.extend(offset.to_le_bytes());
                bytes.extend(crc.to_le_bytes());
            }
        }
        bytes.extend(crc_fast::crc32_iscsi(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a map; fails with `Corrupt` unless it is whole and unchanged, has blocks of this
    /// number of segments, and stripes for a file of its length.
    pub fn decode(bytes: &[u8], segments: usize, stripe_bytes: u64) -> Result<StripeMap> {
        let (body, crc) =
            bytes.split_at_checked(bytes.len().wrapping_sub(4)).ok_or_else(|| damaged("cut"))?;
        if crc_fast::crc32_iscsi(body).to_le_bytes() != crc {
            return Err(damaged("its checksum is wrong"));
        }
        let mut fields = MapFields(body);
        if fields.take::<8>()? != *MAGIC || fields.u32()? != FORMAT {
            return Err(damaged("its format is unknown"));
        }
        let (width, bytes, count) = (fields.u32()? as usize, fields.u64()?, fields.u64()?);
        if width == 0 || count != bytes.div_ceil(stripe_bytes) {
            return Err(damaged("it has stripes for a file of another length"));
        }
        let mut stripes = vec![];
        for _ in 0..count {
            let block_bytes = fields.u32()?;
            if u64::from(block_bytes) > stripe_bytes {
                return Err(damaged("a block is too long"));
            }
            let blocks = if block_bytes == 0 { 0 } else { width };
            let block = |_| {
                let (segment, offset) = (fields.u32()?, fields.u64()?);
                let is_known = (segment as usize) < segments;
                let crc = fields.u32()?;
                let place = BlockPlace { segment, offset, crc };
                is_known.then_some(place).ok_or_else(|| damaged("a segment is unknown"))
            };
            let blocks = (0..blocks).map(block).collect::<Result<_>>()?;
            stripes.push(StripeEntry { block_bytes, blocks });
        }
        match fields.0 {
            [] => Ok(StripeMap { width, bytes, stripes }),
            _ => Err(damaged("it is too long")),
        }
    }
}

/// The fields of a map that have not been read.
struct MapFields<'a>(&'a [u8]);

impl MapFields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| damaged("it is cut"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

fn damaged(why: &str) -> Error {
    Error::corrupt(format!("the map is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> StripeMap {
        let place = |at: u32| BlockPlace { segment: at, offset: u64::from(at) << 20, crc: at * 7 };
        let full = StripeEntry { block_bytes: 10, blocks: (0..3).map(place).collect() };
        let hole = StripeEntry::default();
        StripeMap { width: 3, bytes: 45, stripes: vec![full.clone(), hole, full] }
    }

    #[test]
    fn map_is_decoded_as_it_was_encoded() {
        assert_eq!(StripeMap::decode(&map().encode(), 3, 20).unwrap(), map());
        assert!(StripeMap::decode(&map().encode(), 2, 20).is_err(), "segment 2 is unknown");
        assert!(StripeMap::decode(&map().encode(), 3, 10).is_err(), "it would have five stripes");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_of_a_map_is_detected() {
        let good = map().encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(StripeMap::decode(&bad, 3, 20).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(StripeMap::decode(&good[..cut], 3, 20).is_err(), "cut at {cut}");
        }
    }
}
