//! Finds the bytes of a text at which unquoted CSV fields may end.

use euphrates_flow::{BLOCK_BYTES, byte_mask};

/// The bytes to find.
#[derive(Clone, Copy)]
pub struct SpecialBytes([u8; 4]);

impl SpecialBytes {
    /// Line ends, the delimiter, and the quote, if there is one.
    pub fn new(delimiter: u8, quote: Option<u8>) -> SpecialBytes {
        SpecialBytes([delimiter, quote.unwrap_or(delimiter), b'\n', b'\r'])
    }

    /// The mask of the block at the beginning of `text`: bit *i* is set if its byte *i* is special.
    pub fn mask(&self, text: &[u8]) -> u64 {
        match text.first_chunk() {
            Some(block) => self.block_mask(block),
            None => {
                let mut block = [0; BLOCK_BYTES];
                block[..text.len()].copy_from_slice(text);
                self.block_mask(&block) & ((1 << text.len()) - 1)
            }
        }
    }

    #[inline]
    fn block_mask(&self, block: &[u8; BLOCK_BYTES]) -> u64 {
        let [a, b, c, d] = self.0;
        byte_mask(block, |byte| (byte == a) | (byte == b) | (byte == c) | (byte == d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mask_has_a_bit_for_each_special_byte(
            text in proptest::collection::vec(
                prop_oneof![Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), Just(0), any::<u8>()],
                0..100,
            ),
            has_quote: bool,
        ) {
            for delimiter in [b',', 0] {
                let quote = has_quote.then_some(b'"');
                let mask = SpecialBytes::new(delimiter, quote).mask(&text);
                let is_special = |byte: u8| {
                    byte == delimiter || Some(byte) == quote || byte == b'\n' || byte == b'\r'
                };
                for at in 0..BLOCK_BYTES {
                    let expected = text.get(at).is_some_and(|byte| is_special(*byte));
                    prop_assert_eq!(mask >> at & 1 == 1, expected);
                }
            }
        }
    }
}
