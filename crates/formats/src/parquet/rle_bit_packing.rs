//! Encodes dictionary codes, levels and truth values in Parquet's hybrid of run-length encoding and
//! bit packing.
//!
//! The crate's encoder takes one value at a time; this one takes eight.

use arrow::buffer::NullBuffer;

use super::thrift::put_varint;

/// Number of values in a bit-packed group.
const GROUP: usize = 8;

/// Bits per code where codes are below `codes`.
pub fn bit_width(codes: usize) -> u32 {
    usize::BITS - codes.saturating_sub(1).leading_zeros()
}

/// Appends the encoding of codes that are each below `1 << width`.
pub fn encode(codes: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut packed_from = 0;
    let mut at = 0;
    while at < codes.len() {
        let group = &codes[at..codes.len().min(at + GROUP)];
        let first = group[0];
        let differ = group.iter().fold(0, |differ, code| differ | (code ^ first));
        if differ != 0 || group.len() < GROUP {
            at += group.len();
            continue;
        }
        let rest = &codes[at + GROUP..];
        let run = GROUP + rest.iter().position(|code| *code != first).unwrap_or(rest.len());
        pack(&codes[packed_from..at], width, out);
        put_varint(out, (run as u32) << 1);
        out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
        at += run;
        packed_from = at;
    }
    pack(&codes[packed_from..], width, out);
}

/// Appends a bit-packed run; zeros fill its last group.
fn pack(codes: &[u32], width: u32, out: &mut Vec<u8>) {
    if codes.is_empty() {
        return;
    }
    let groups = codes.len().div_ceil(GROUP);
    put_varint(out, (groups as u32) << 1 | 1);
    let end = out.len() + groups * width as usize;
    out.reserve(groups * width as usize + size_of::<u64>());
    match width {
        0 => {}
        // A group of eight fits a 64-bit word.
        1..=8 => {
            for group in codes.chunks(GROUP) {
                let mut word = 0;
                for code in group.iter().rev() {
                    word = word << width | u64::from(*code);
                }
                out.extend_from_slice(&word.to_le_bytes());
                out.truncate(out.len() - size_of::<u64>() + width as usize);
            }
        }
        _ => {
            let (mut word, mut bits) = (0, 0);
            for code in codes {
                word |= u64::from(*code) << bits;
                bits += width;
                if bits >= u32::BITS {
                    out.extend_from_slice(&(word as u32).to_le_bytes());
                    word >>= u32::BITS;
                    bits -= u32::BITS;
                }
            }
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    out.resize(end, 0);
}

/// Bytes up to which a run takes no less than its packed bits: it also ends and begins packed ones.
const RUN_BYTES: usize = 4;

/// Appends the encoding of levels that are each below `1 << width`, with at most 8 bits. A group of
/// eight is one word.
pub fn encode_levels(levels: &[u8], width: u32, out: &mut Vec<u8>) {
    let (groups, rest) = levels.as_chunks::<GROUP>();
    let mut packed_from = 0;
    let mut at = 0;
    while at < groups.len() {
        let group = groups[at];
        if group != [group[0]; GROUP] {
            at += 1;
            continue;
        }
        let end = groups[at..].iter().position(|next| *next != group);
        let end = end.map_or(groups.len(), |count| at + count);
        if (end - at) * width as usize <= RUN_BYTES {
            at = end;
            continue;
        }
        pack_levels(&groups[packed_from..at], &[], width, out);
        put_varint(out, ((end - at) * GROUP) as u32 * 2);
        out.push(group[0]);
        at = end;
        packed_from = end;
    }
    pack_levels(&groups[packed_from..], rest, width, out);
}

/// Appends a bit-packed run; zeros fill the group of the `rest`.
fn pack_levels(groups: &[[u8; GROUP]], rest: &[u8], width: u32, out: &mut Vec<u8>) {
    let count = groups.len() + rest.len().div_ceil(GROUP);
    if count == 0 {
        return;
    }
    put_varint(out, (count as u32) << 1 | 1);
    out.reserve(count * width as usize + size_of::<u64>());
    let mut last = [0; GROUP];
    last[..rest.len()].copy_from_slice(rest);
    for group in groups.iter().chain((!rest.is_empty()).then_some(&last)) {
        let word = packed(u64::from_le_bytes(*group), width);
        out.extend_from_slice(&word.to_le_bytes());
        out.truncate(out.len() - size_of::<u64>() + width as usize);
    }
}

/// Moves the low bits of each of the eight bytes of a word together: those of two neighbours, then
/// those of two pairs, then those of both halves.
fn packed(word: u64, width: u32) -> u64 {
    const LOW_BYTES: u64 = 0x00ff_00ff_00ff_00ff;
    const LOW_PAIRS: u64 = 0x0000_ffff_0000_ffff;
    const LOW_HALF: u64 = 0x0000_0000_ffff_ffff;
    let word = word & LOW_BYTES | (word & !LOW_BYTES) >> (8 - width);
    let word = word & LOW_PAIRS | (word & !LOW_PAIRS) >> (16 - 2 * width);
    word & LOW_HALF | (word & !LOW_HALF) >> (32 - 4 * width)
}

/// Bytes of equal bits from which on a run takes less space than the bits.
const RUN_BYTES_MIN: usize = 6;

/// Appends the encoding of bits, of which the last byte is filled up with zeros.
pub fn encode_bits(bits: &[u8], out: &mut Vec<u8>) {
    // Only complete bytes are part of a run.
    let complete = bits.len().saturating_sub(1);
    let (mut packed_from, mut at) = (0, 0);
    while at < complete {
        let byte = bits[at];
        let run = match byte {
            0 | u8::MAX => bits[at..complete].iter().take_while(|next| **next == byte).count(),
            _ => 1,
        };
        if run >= RUN_BYTES_MIN {
            pack_bits(&bits[packed_from..at], out);
            put_varint(out, (run * GROUP) as u32 * 2);
            out.push(byte & 1);
            packed_from = at + run;
        }
        at += run;
    }
    pack_bits(&bits[packed_from..], out);
}

fn pack_bits(bits: &[u8], out: &mut Vec<u8>) {
    if !bits.is_empty() {
        put_varint(out, (bits.len() as u32) << 1 | 1);
        out.extend_from_slice(bits);
    }
}

/// The definition levels of a flat column in a data page: their length, then one run of ones or the
/// bit-packed validity.
pub fn validity_levels(rows: usize, nulls: Option<&NullBuffer>) -> Vec<u8> {
    let mut runs = vec![];
    match nulls {
        None => {
            put_varint(&mut runs, (rows as u32) << 1);
            runs.push(1);
        }
        Some(nulls) => {
            let bits = nulls.inner().sliced();
            pack_bits(&bits[..rows.div_ceil(GROUP)], &mut runs);
        }
    }
    let mut levels = (runs.len() as u32).to_le_bytes().to_vec();
    levels.append(&mut runs);
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::buffer::BooleanBuffer;
    use proptest::prelude::*;

    /// Decodes one bit at a time, straight from the format's definition.
    fn decode(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut codes = vec![];
        while codes.len() < count {
            let (mut header, mut shift) = (0, 0);
            loop {
                header |= u32::from(bytes[0] & 0x7f) << shift;
                shift += 7;
                let is_last = bytes[0] < 0x80;
                bytes = &bytes[1..];
                if is_last {
                    break;
                }
            }
            let width_bytes = width.div_ceil(8) as usize;
            if header & 1 == 0 {
                let mut code = [0; 4];
                code[..width_bytes].copy_from_slice(&bytes[..width_bytes]);
                bytes = &bytes[width_bytes..];
                codes.extend(vec![u32::from_le_bytes(code); (header >> 1) as usize]);
                continue;
            }
            let (packed, rest) = bytes.split_at((header >> 1) as usize * width as usize);
            bytes = rest;
            for code in 0..(header >> 1) * GROUP as u32 {
                let bits = (code * width..(code + 1) * width).rev();
                let bit = |bit: u32| u32::from(packed[bit as usize / 8] >> (bit % 8) & 1);
                codes.push(bits.fold(0, |value, at| value << 1 | bit(at)));
            }
        }
        assert!(bytes.is_empty());
        assert!(codes.len() < count + GROUP, "only the last group is filled up");
        codes.truncate(count);
        codes
    }

    #[test]
    fn codes_need_as_many_bits_as_the_largest() {
        for (codes, bits) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8), (257, 9)] {
            assert_eq!(bit_width(codes), bits, "{codes}");
        }
    }

    proptest! {
        #[test]
        fn encoded_codes_decode_to_the_same(
            width in 0u32..=20,
            runs in prop::collection::vec((any::<u32>(), 1usize..40, any::<bool>()), 0..60),
        ) {
            let mask = (1u32 << width) - 1;
            let codes: Vec<u32> = runs
                .iter()
                .flat_map(|&(code, length, is_run)| {
                    let step = u32::from(!is_run);
                    (0..length as u32).map(move |at| code.wrapping_add(step * at * 7) & mask)
                })
                .collect();
            let mut bytes = vec![];
            encode(&codes, width, &mut bytes);
            prop_assert_eq!(decode(&bytes, width, codes.len()), codes);
        }

        #[test]
        fn encoded_levels_decode_to_the_same(
            width in 1u32..=8,
            runs in prop::collection::vec((any::<u8>(), 1usize..40, any::<bool>()), 0..60),
        ) {
            let mask = u8::MAX >> (8 - width);
            let levels: Vec<u8> = runs
                .iter()
                .flat_map(|&(level, length, is_run)| {
                    let step = u8::from(!is_run);
                    (0..length as u8).map(move |at| level.wrapping_add(step * at) & mask)
                })
                .collect();
            let mut bytes = vec![];
            encode_levels(&levels, width, &mut bytes);
            let found = decode(&bytes, width, levels.len());
            prop_assert!(found.into_iter().eq(levels.iter().map(|level| u32::from(*level))));
        }

        #[test]
        fn encoded_bits_decode_to_the_same(
            runs in prop::collection::vec((any::<u64>(), 1usize..200, any::<bool>()), 0..20),
        ) {
            let bits: BooleanBuffer = runs
                .iter()
                .flat_map(|&(pattern, length, is_run)| {
                    let step = usize::from(!is_run);
                    let bit = move |at: usize| pattern >> (step * at % 64) & 1 > 0;
                    (0..length).map(bit)
                })
                .collect();
            let mut bytes = vec![];
            encode_bits(&bits.sliced()[..bits.len().div_ceil(GROUP)], &mut bytes);
            let found = decode(&bytes, 1, bits.len());
            prop_assert!(found.iter().map(|bit| *bit > 0).eq(&bits));
            prop_assert!(bytes.len() <= bits.len().div_ceil(GROUP) + 4);
        }
    }
}
