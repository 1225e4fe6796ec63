//! The layout of a sort key in an integer: how many bits each of its columns gets.
//!
//! A key that is packed into an integer is compared by one instruction or two, and needs no further
//! comparison if all of its columns fit. Columns seldom use the whole range of their types, so the
//! numbers of bits are chosen from the values of the first batch. Unused bits widen the ranges,
//! because later values may be outside of them.

use alloc::vec::Vec;

/// The bits that a column of a key can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBits {
    /// Bits that tell apart the values seen so far; `None` if no number of bits does.
    pub least: Option<u32>,
    /// Bits beyond which more are of no use.
    pub most: u32,
}

/// How a column is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitShare {
    /// In this number of bits, which tell its values apart.
    Exact(u32),
    /// By its most significant bits only: columns behind it have none.
    Prefix(u32),
    /// Not at all, as it is behind a prefix.
    Absent,
}

/// Divides `bits` among the columns of a key, the most significant first.
///
/// Columns are exact as long as all before them are, and their `least` bits fit. The first that
/// does not fit gets what is left. If all fit, each gets an equal share of the rest, and one that
/// cannot use it leaves it to those behind.
///
/// ```
/// use euphrates_policy::key_bits::{BitShare, KeyBits, key_bit_shares};
///
/// let number = KeyBits { least: Some(10), most: 64 };
/// let text = KeyBits { least: None, most: 95 };
/// assert_eq!(key_bit_shares(&[number, number], 96), [BitShare::Exact(48); 2]);
/// assert_eq!(
///     key_bit_shares(&[number, text, number], 96),
///     [BitShare::Exact(10), BitShare::Prefix(86), BitShare::Absent]
/// );
/// ```
pub fn key_bit_shares(columns: &[KeyBits], bits: u32) -> Vec<BitShare> {
    let mut left = Some(bits);
    let mut shares: Vec<BitShare> = columns
        .iter()
        .map(|column| {
            let Some(bits) = left else { return BitShare::Absent };
            left = column.least.and_then(|least| bits.checked_sub(least));
            match column.least.filter(|_| left.is_some()) {
                Some(least) => BitShare::Exact(least),
                None => BitShare::Prefix(bits),
            }
        })
        .collect();
    // A prefix has taken the rest.
    let mut left = left.unwrap_or(0);
    let behind = (1..=columns.len() as u32).rev();
    for ((share, column), behind) in shares.iter_mut().zip(columns).zip(behind) {
        if let BitShare::Exact(own) = share {
            let more = (left / behind).min(column.most.saturating_sub(*own));
            *own += more;
            left -= more;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns() -> impl Strategy<Value = Vec<KeyBits>> {
        let column = (prop::option::weighted(0.8, 1u32..70), 0u32..130)
            .prop_map(|(least, more)| KeyBits { least, most: least.unwrap_or(0) + more });
        prop::collection::vec(column, 1..6)
    }

    proptest! {
        #[test]
        fn shares_fit_and_exact_columns_have_what_they_need(
            columns in columns(),
            bits in 1u32..97,
        ) {
            let shares = key_bit_shares(&columns, bits);
            prop_assert_eq!(shares.len(), columns.len());
            let used = shares.iter().map(|share| match share {
                BitShare::Exact(bits) | BitShare::Prefix(bits) => *bits,
                BitShare::Absent => 0,
            });
            prop_assert!(used.sum::<u32>() <= bits);
            for (share, column) in shares.iter().zip(&columns) {
                if let BitShare::Exact(own) = share {
                    prop_assert!(column.least.is_some_and(|least| least <= *own));
                    prop_assert!(*own <= column.most);
                }
            }
            // Exact columns, then at most one prefix, then nothing.
            let kinds = shares.iter().map(|share| match share {
                BitShare::Exact(_) => 0,
                BitShare::Prefix(_) => 1,
                BitShare::Absent => 2,
            });
            let kinds: Vec<u32> = kinds.collect();
            prop_assert!(kinds.is_sorted() && kinds.iter().filter(|kind| **kind == 1).count() < 2);
            let needed: Option<u32> = columns.iter().map(|column| column.least).sum();
            prop_assert_eq!(needed.is_some_and(|all| all <= bits), kinds.iter().all(|k| *k == 0));
        }
    }
}
