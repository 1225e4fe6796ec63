//! A chunk: a sequence of records that becomes durable as a whole, as blocks on several disks.
//!
//! A small chunk is stored as copies, since a write of a few hundred bytes to each of five disks
//! would cost five seeks; a larger one as data and parity blocks. Either survives the loss of as
//! many disks as the volume has parity blocks.

use euphrates_parity::ErasureCode;

use super::block::{BlockHeader, HEADER_BYTES, crc};
use crate::tree::{BytesIn, BytesOut};

/// Chunks shorter than this are copied.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// Where a chunk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    pub segment: u64,
    pub payload_bytes: u32,
    /// Data blocks; 1 if the blocks are copies.
    pub data: u8,
    /// The disk and the offset of each block's header; data blocks first.
    pub blocks: Vec<(u32, u64)>,
}

/// Makes the blocks of chunks.
#[derive(Debug)]
pub struct ChunkCode {
    code: ErasureCode,
}

impl ChunkPlace {
    /// Length of a block.
    pub fn block_bytes(&self) -> usize {
        (self.payload_bytes as usize).div_ceil(usize::from(self.data)).max(1)
    }

    pub fn encode(&self, out: &mut BytesOut) {
        out.u64(self.segment);
        out.u32(self.payload_bytes);
        out.u8(self.data);
        out.u8(self.blocks.len() as u8);
        for (disk, offset) in &self.blocks {
            out.u32(*disk);
            out.u64(*offset);
        }
    }

    pub fn decode(from: &mut BytesIn<'_>) -> Option<ChunkPlace> {
        let (segment, payload_bytes) = (from.u64()?, from.u32()?);
        let (data, count) = (from.u8().filter(|data| *data > 0)?, from.u8()?);
        let blocks = (0..count).map(|_| Some((from.u32()?, from.u64()?)));
        let blocks: Option<Vec<(u32, u64)>> = blocks.collect();
        Some(ChunkPlace { segment, payload_bytes, data, blocks: blocks? })
    }
}

impl ChunkCode {
    pub fn new(data: usize, parity: usize) -> Option<ChunkCode> {
        ErasureCode::new(data, parity).ok().map(|code| ChunkCode { code })
    }

    /// Data blocks and others of a chunk of this length.
    pub fn shape(&self, payload_bytes: usize) -> (usize, usize) {
        match payload_bytes < COPIED_BYTES_MAX {
            true => (1, self.code.parity()),
            false => (self.code.data(), self.code.parity()),
        }
    }

    /// The blocks of a payload, each with its header. `header` has volume, epoch, and numbers.
    pub fn blocks(&self, payload: &[u8], header: BlockHeader) -> Vec<Vec<u8>> {
        let (data, parity) = self.shape(payload.len());
        let block_bytes = payload.len().div_ceil(data).max(1);
        let mut bodies: Vec<Vec<u8>> = (0..data)
            .map(|n| {
                let start = (n * block_bytes).min(payload.len());
                let end = (start + block_bytes).min(payload.len());
                let mut body = payload[start..end].to_vec();
                body.resize(block_bytes, 0);
                body
            })
            .collect();
        if data == 1 {
            bodies.resize(1 + parity, bodies[0].clone());
        } else {
            let mut others = vec![vec![0; block_bytes]; parity];
            let from: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
            let mut to: Vec<&mut [u8]> = others.iter_mut().map(|body| &mut body[..]).collect();
            self.code.encode(&from, &mut to).expect("the blocks have one length");
            bodies.append(&mut others);
        }
        let payload_crc = crc(payload);
        let block = |(index, body): (usize, Vec<u8>)| {
            let header = BlockHeader {
                payload_bytes: payload.len() as u32,
                payload_crc,
                block_bytes: block_bytes as u32,
                block_crc: crc(&body),
                index: index as u8,
                data: data as u8,
                parity: parity as u8,
                ..header
            };
            let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
            bytes.extend(header.encode());
            bytes.extend(body);
            bytes
        };
        bodies.into_iter().enumerate().map(block).collect()
    }
}

/// The data block of a number from any blocks of its chunk; `None` if too few are left.
pub fn restore(
    wanted: usize,
    data: usize,
    parity: usize,
    blocks: &[(usize, Vec<u8>)],
) -> Option<Vec<u8>> {
    if data == 1 {
        return blocks.first().map(|(_, body)| body.clone());
    }
    if let Some((_, body)) = blocks.iter().find(|(index, _)| *index == wanted) {
        return Some(body.clone());
    }
    let code = ErasureCode::new(data, parity).ok()?;
    let left: Vec<(usize, &[u8])> =
        blocks.iter().map(|(index, body)| (*index, &body[..])).collect();
    let mut body = vec![0; blocks.first()?.1.len()];
    code.recover(&left, &mut [(wanted, &mut body)]).ok()?;
    Some(body)
}

/// The payload from any blocks of its chunk; `None` if too few are left.
pub fn assemble(
    payload_bytes: usize,
    data: usize,
    parity: usize,
    blocks: &[(usize, Vec<u8>)],
) -> Option<Vec<u8>> {
    let mut payload = Vec::with_capacity(payload_bytes);
    for index in 0..data {
        payload.extend(restore(index, data, parity, blocks)?);
    }
    payload.truncate(payload_bytes);
    (payload.len() == payload_bytes).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::find_blocks;

    fn header(chunk: u64) -> BlockHeader {
        BlockHeader { volume: 7, epoch: 2, chunk, durable: chunk, ..BlockHeader::default() }
    }

    #[test]
    fn any_data_blocks_restore_a_payload() {
        let code = ChunkCode::new(4, 2).unwrap();
        for bytes in [0, 1, 700, COPIED_BYTES_MAX - 1, COPIED_BYTES_MAX, 300_001] {
            let payload: Vec<u8> = (0..bytes).map(|n| (n * 31 % 251) as u8).collect();
            let stored = code.blocks(&payload, header(9));
            let bodies: Vec<(usize, Vec<u8>)> = (0..)
                .zip(&stored)
                .map(|(index, block)| {
                    let header = BlockHeader::decode(block).unwrap();
                    assert_eq!(usize::from(header.index), index);
                    assert_eq!(header.payload_crc, crc(&payload));
                    (index, block[HEADER_BYTES..].to_vec())
                })
                .collect();
            let (data, parity) = code.shape(bytes);
            for lost in 0..bodies.len() {
                for other in 0..bodies.len() {
                    let mut left = bodies.clone();
                    left.retain(|(index, _)| ![lost, other].contains(index));
                    assert_eq!(assemble(bytes, data, parity, &left).as_ref(), Some(&payload));
                }
            }
            assert_eq!(assemble(bytes, data, parity, &bodies[..data - 1]), None);
        }
    }

    #[test]
    fn blocks_behind_a_damaged_one_are_found() {
        let code = ChunkCode::new(1, 0).unwrap();
        let mut file = vec![];
        for chunk in 0..5 {
            let payload = vec![chunk as u8; 1000 * chunk];
            let blocks = code.blocks(&payload, header(chunk as u64));
            file.extend(&blocks[0]);
            file.resize(file.len().next_multiple_of(512), 0);
        }
        let whole = find_blocks(&file);
        assert_eq!(whole.len(), 5);
        for damaged in 0..file.len() {
            let mut bytes = file.clone();
            bytes[damaged] ^= 1;
            let found = find_blocks(&bytes);
            assert!(found.len() >= 4 && found.iter().all(|one| whole.contains(one)));
            let torn = find_blocks(&file[..damaged]);
            assert_eq!(torn, whole[..torn.len()]);
        }
    }
}
