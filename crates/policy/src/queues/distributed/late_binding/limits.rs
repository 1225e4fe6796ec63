//! Bounds of late binding, and the unit in which speeds are reported.

/// Bounds on the pieces and bytes of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pieces at a consumer, including requested ones, at most; at least 3.
    pub slots_max: u32,
    /// Bytes at a consumer, at most, where a requested piece counts as the largest seen. Three
    /// pieces are always allowed: in service, requested, waited for. A batch larger than all before
    /// it exceeds the bound by the difference.
    pub held_bytes_max: u64,
    /// Pieces per batch near the end of the queue, at most; 1 never cuts.
    pub pieces_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { slots_max: 32, held_bytes_max: 64 << 20, pieces_max: 16 }
    }
}

/// The unit of work in which consumers report their speed: 2^20 bytes.
pub(super) const MIB: u64 = 1 << 20;

/// The time of work on `bytes`, at a speed given as the time of 2^20 bytes.
pub(super) fn time_of(bytes: u64, mib_ns: u64) -> u64 {
    let ns = u128::from(bytes) * u128::from(mib_ns) / u128::from(MIB);
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}
