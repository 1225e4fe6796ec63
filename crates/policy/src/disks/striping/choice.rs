//! Policies that choose which `k` of the `n` blocks of a stripe a reader reads.

/// The blocks of a stripe that are read, of `n` of which `k` are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeChoice {
    /// Any `k`, decided when disks begin them.
    Late,
    /// Baseline: the data blocks, and parity only in place of lost ones.
    DataOnly,
    /// Baseline: `k` and some more, from the first disk on in turn; the first `k` to arrive count
    /// (EC-Cache, OSDI '16). Every block more costs bandwidth.
    Extra(usize),
}
