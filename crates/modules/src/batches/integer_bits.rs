//! How many bits the integers of a batch need, gathered by `or` without a branch for each.

/// The bits of a value that differ from its sign; together with those of others, the highest says
/// how large the largest is.
#[inline(always)]
pub(crate) fn magnitude_bits(value: i64) -> i64 {
    value ^ (value >> 63)
}

/// The bits of the upper half that differ from the sign of the lower half: none if the value has 64
/// bits.
#[inline(always)]
pub(crate) fn excess_bits(value: i128) -> i64 {
    (value >> 64) as i64 ^ (value as i64 >> 63)
}
