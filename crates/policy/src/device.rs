//! How bytes go to and from a device: through the page cache or past it, and how fast at most.
//!
//! Pages already in the cache are read at memory speed, so a reader looks there first. A file that
//! would not fit beside everything else in memory goes past the cache, with several requests in
//! flight, and evicts nothing. Measurements: `bench/results`.

/// What the user said about a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Decide by the facts.
    #[default]
    Auto,
    /// Always past the cache, where the file system can.
    Direct,
    /// Always through the cache.
    Buffered,
}

/// The way of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Take what is in the cache without waiting; if that is not all, ask `cold`.
    Cached,
    /// Through the page cache.
    Buffered,
    /// Past the page cache.
    Direct,
}

/// What is known of a file and its disk when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Length of the file, or what it is expected to become; 0 if unknown.
    pub file_bytes: u64,
    /// Memory that could still be used, the page cache counted as usable.
    pub memory_available_bytes: u64,
    /// What the user said.
    pub mode: Mode,
    /// Whether the file can be read and written past the cache at all.
    pub can_direct: bool,
    /// Whether the disk is held to a rate, which the cache must not get round.
    pub is_limited: bool,
}

/// A file larger than this part of the available memory goes past the cache: what is read cold
/// comes twice as fast that way, so the cache pays only for what is read again and again.
const LARGE_PART: u64 = 16;
/// After the cache has missed, this many requests go without asking it; doubled at every miss.
const PATIENCE_FIRST: u32 = 16;
const PATIENCE_MAX: u32 = 256;

/// The way of the next request of one reader.
#[derive(Clone, Debug)]
pub struct ReadPath {
    cold: Way,
    asks_cache: bool,
    skip: u32,
    patience: u32,
}

impl ReadPath {
    /// A reader that begins with this file.
    pub fn new(facts: Facts) -> ReadPath {
        let asks_cache = asks_cache(facts);
        ReadPath { cold: cold_way(facts), asks_cache, skip: 0, patience: PATIENCE_FIRST }
    }

    /// The reader goes on with another file, which is likely to be as warm as the one before.
    pub fn on_file(&mut self, facts: Facts) {
        self.cold = cold_way(facts);
        self.asks_cache = asks_cache(facts);
        self.check();
    }

    /// Whether the next request will not ask the cache, so that it can be sent ahead.
    pub fn is_cold(&self) -> bool {
        !self.asks_cache || self.skip > 0
    }

    /// The way of the next request.
    pub fn next_way(&mut self) -> Way {
        if !self.is_cold() {
            return Way::Cached;
        }
        self.skip = self.skip.saturating_sub(1);
        self.cold
    }

    /// The way of a request that the cache could not serve.
    pub fn cold(&self) -> Way {
        self.cold
    }

    /// The cache was asked, and had everything or not.
    pub fn on_cache(&mut self, hit: bool) {
        if hit {
            self.patience = PATIENCE_FIRST;
            return;
        }
        self.skip = self.patience;
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
        self.check();
    }

    fn check(&self) {
        debug_assert!(self.cold != Way::Cached);
        debug_assert!(self.skip <= PATIENCE_MAX && self.patience <= PATIENCE_MAX);
    }
}

/// Smaller writes go through the cache: they are edges and footers.
const DIRECT_WRITE_BYTES_MIN: usize = 256 << 10;

/// The way of a write: past the cache, unless the user said otherwise. What is written is rarely
/// read again at once, and fresh pages for all of it cost more than waiting for the device.
pub fn write_way(mode: Mode, can_direct: bool, bytes: usize) -> Way {
    match mode {
        Mode::Auto | Mode::Direct if can_direct && bytes >= DIRECT_WRITE_BYTES_MIN => Way::Direct,
        _ => Way::Buffered,
    }
}

fn asks_cache(facts: Facts) -> bool {
    !facts.is_limited && (facts.mode != Mode::Direct || !facts.can_direct)
}

fn cold_way(facts: Facts) -> Way {
    let large = facts.file_bytes > facts.memory_available_bytes / LARGE_PART;
    match facts.mode {
        _ if !facts.can_direct => Way::Buffered,
        Mode::Direct => Way::Direct,
        Mode::Auto if large => Way::Direct,
        Mode::Auto | Mode::Buffered => Way::Buffered,
    }
}

/// A device no faster than its rate. One request may always start at once, so that the smallest
/// rate still makes progress; the next starts when the one before would have been done.
#[derive(Clone, Debug)]
pub struct Rate {
    bytes_per_second: u64,
    free_at_ns: u64,
}

impl Rate {
    /// At most this many bytes per second, at least one.
    pub fn new(bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second: bytes_per_second.max(1), free_at_ns: 0 }
    }

    /// When, in nanoseconds of the caller's clock, a request of `bytes` is done that came `now`:
    /// one after the other, each after its own time, as a disk does it.
    pub fn done_at(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let start = self.free_at_ns.max(now_ns);
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let lasts = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        self.free_at_ns = start.saturating_add(lasts);
        debug_assert!(start >= now_ns && self.free_at_ns >= start);
        self.free_at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Facts = Facts {
        file_bytes: 1 << 30,
        memory_available_bytes: 32 << 30,
        mode: Mode::Auto,
        can_direct: true,
        is_limited: false,
    };
    const LARGE: Facts = Facts { file_bytes: 5 << 30, ..SMALL };

    #[test]
    fn only_large_files_are_read_past_the_cache_unless_told_otherwise() {
        let cases = [
            (SMALL, Way::Buffered),
            (LARGE, Way::Direct),
            (Facts { mode: Mode::Direct, ..SMALL }, Way::Direct),
            (Facts { mode: Mode::Buffered, ..LARGE }, Way::Buffered),
            (Facts { can_direct: false, ..LARGE }, Way::Buffered),
            (Facts { mode: Mode::Direct, can_direct: false, ..LARGE }, Way::Buffered),
        ];
        for (facts, way) in cases {
            assert_eq!(ReadPath::new(facts).cold(), way, "{facts:?}");
        }
    }

    #[test]
    fn what_is_written_goes_past_the_cache_but_for_small_pieces() {
        assert_eq!(write_way(Mode::Auto, true, 1 << 20), Way::Direct);
        assert_eq!(write_way(Mode::Auto, true, 1000), Way::Buffered);
        assert_eq!(write_way(Mode::Auto, false, 1 << 20), Way::Buffered);
        assert_eq!(write_way(Mode::Buffered, true, 1 << 20), Way::Buffered);
    }

    #[test]
    fn a_warm_file_is_read_from_the_cache_to_its_end() {
        let mut path = ReadPath::new(LARGE);
        for _ in 0..100 {
            assert_eq!(path.next_way(), Way::Cached);
            path.on_cache(true);
        }
    }

    #[test]
    fn a_cold_file_asks_the_cache_ever_more_rarely() {
        let mut path = ReadPath::new(LARGE);
        let mut asked = 0;
        for _ in 0..10_000 {
            if path.next_way() == Way::Cached {
                asked += 1;
                path.on_cache(false);
            }
        }
        let asked_max = 10_000 / PATIENCE_MAX + 6;
        assert!((2..=asked_max).contains(&asked), "{asked}");
    }

    #[test]
    fn direct_never_asks_the_cache_unless_it_has_to_use_it() {
        let direct = Facts { mode: Mode::Direct, ..SMALL };
        assert_eq!(ReadPath::new(direct).next_way(), Way::Direct);
        assert_eq!(ReadPath::new(Facts { can_direct: false, ..direct }).next_way(), Way::Cached);
        assert_eq!(ReadPath::new(Facts { is_limited: true, ..SMALL }).next_way(), Way::Buffered);
    }

    #[test]
    fn requests_of_any_size_keep_the_rate() {
        for bytes in [1, 1000, 4 << 20] {
            let mut rate = Rate::new(1_000_000);
            let ends: alloc::vec::Vec<u64> = (0..100).map(|_| rate.done_at(7, bytes)).collect();
            assert_eq!(ends[0] - 7, bytes * 1000);
            assert_eq!(ends[99] - 7, 100 * bytes * 1000);
        }
        let mut idle = Rate::new(1);
        idle.done_at(0, 1);
        assert_eq!(idle.done_at(9_000_000_000, 1), 10_000_000_000, "rest is not saved up");
        assert_eq!(Rate::new(0).done_at(0, u64::MAX), u64::MAX);
    }
}
