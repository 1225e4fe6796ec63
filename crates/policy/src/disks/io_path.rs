//! Disk I/O: through the page cache or past it (direct I/O), and rate limits.
//!
//! Cached pages are read at memory speed, so a reader tries the cache first. Pages that are not
//! cached are read past the cache if the file exceeds a sixteenth of the available memory: with
//! several requests in flight that is faster, and it evicts nothing. Measurements: `bench/results`.

/// The mode that the user has set for a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Decide from the facts.
    #[default]
    Auto,
    /// Always past the cache, where the file system supports it.
    Direct,
    /// Always through the cache.
    Buffered,
}

/// The path of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPath {
    /// Read from the cache without waiting; on a miss, use `ReadPath::cold`.
    Cached,
    /// Through the page cache.
    Buffered,
    /// Past the page cache.
    Direct,
}

/// The facts about a file and its disk when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// The length of the file, or its expected length; 0 if unknown.
    pub file_bytes: u64,
    /// Available memory, page cache included.
    pub memory_available_bytes: u64,
    /// The mode that the user has set.
    pub mode: Mode,
    /// Whether the file supports direct I/O.
    pub can_direct: bool,
    /// Whether the disk has a rate limit, which the cache must not bypass.
    pub is_limited: bool,
}

/// A file larger than one in this many of the available memory is read past the cache. Cold reads
/// are twice as fast that way, so the cache pays only for files that are read repeatedly.
const LARGE_PART: u64 = 16;
/// Requests that skip the cache after its first miss; each further miss doubles them.
const BACKOFF_FIRST: u32 = 16;
/// Requests that skip the cache after a miss, at most.
const BACKOFF_MAX: u32 = 256;

/// Chooses the path of each request of one reader.
///
/// ```
/// use euphrates_policy::io_path::{FileFacts, Mode, ReadPath, IoPath};
///
/// let facts = FileFacts {
///     file_bytes: 100 << 30,
///     memory_available_bytes: 8 << 30,
///     mode: Mode::Auto,
///     can_direct: true,
///     is_limited: false,
/// };
/// let mut path = ReadPath::new(facts);
/// assert_eq!(path.next_path(), IoPath::Cached);
/// path.on_cache(false);
/// assert_eq!(path.next_path(), IoPath::Direct);
/// ```
#[derive(Clone, Debug)]
pub struct ReadPath {
    cold: IoPath,
    asks_cache: bool,
    skip: u32,
    backoff: u32,
}

impl ReadPath {
    /// A reader that begins with a file.
    pub fn new(facts: FileFacts) -> ReadPath {
        let asks_cache = asks_cache(facts);
        ReadPath { cold: cold_path(facts), asks_cache, skip: 0, backoff: BACKOFF_FIRST }
    }

    /// The reader continues with another file, which is assumed to be cached if the last one was,
    /// so the back-off continues.
    pub fn on_file(&mut self, facts: FileFacts) {
        self.cold = cold_path(facts);
        self.asks_cache = asks_cache(facts);
        self.check();
    }

    /// Whether the next request skips the cache, so that it can be sent ahead of need.
    pub fn is_cold(&self) -> bool {
        !self.asks_cache || self.skip > 0
    }

    /// The path of the next request.
    pub fn next_path(&mut self) -> IoPath {
        if !self.is_cold() {
            return IoPath::Cached;
        }
        self.skip = self.skip.saturating_sub(1);
        self.cold
    }

    /// The path of a request that the cache could not serve.
    pub fn cold(&self) -> IoPath {
        self.cold
    }

    /// A request has tried the cache: a hit if it was served completely.
    pub fn on_cache(&mut self, hit: bool) {
        if hit {
            self.backoff = BACKOFF_FIRST;
            return;
        }
        self.skip = self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        self.check();
    }

    fn check(&self) {
        debug_assert!(self.cold != IoPath::Cached);
        debug_assert!(self.skip <= BACKOFF_MAX && self.backoff <= BACKOFF_MAX);
    }
}

/// Writes smaller than this, edges and footers, go through the cache.
const DIRECT_WRITE_BYTES_MIN: usize = 256 << 10;

/// The path of a write: past the cache, unless the user has set otherwise. Written data is rarely
/// read again at once, and fresh pages for it cost more than waiting for the device.
///
/// ```
/// use euphrates_policy::io_path::{IoPath, Mode, write_path};
///
/// assert_eq!(write_path(Mode::Auto, true, 1 << 20), IoPath::Direct);
/// assert_eq!(write_path(Mode::Auto, false, 1 << 20), IoPath::Buffered, "not supported");
/// assert_eq!(write_path(Mode::Auto, true, 4096), IoPath::Buffered, "a footer");
/// ```
pub fn write_path(mode: Mode, can_direct: bool, bytes: usize) -> IoPath {
    match mode {
        Mode::Auto | Mode::Direct if can_direct && bytes >= DIRECT_WRITE_BYTES_MIN => {
            IoPath::Direct
        }
        _ => IoPath::Buffered,
    }
}

fn asks_cache(facts: FileFacts) -> bool {
    !facts.is_limited && (facts.mode != Mode::Direct || !facts.can_direct)
}

fn cold_path(facts: FileFacts) -> IoPath {
    let large = facts.file_bytes > facts.memory_available_bytes / LARGE_PART;
    match facts.mode {
        _ if !facts.can_direct => IoPath::Buffered,
        Mode::Direct => IoPath::Direct,
        Mode::Auto if large => IoPath::Direct,
        Mode::Auto | Mode::Buffered => IoPath::Buffered,
    }
}

/// A rate limit of a device. One request may always start at once, so that the smallest rate makes
/// progress; the next starts when the one before would be done.
///
/// ```
/// let mut rate = euphrates_policy::io_path::Rate::new(1000);
/// assert_eq!([rate.done_at(0, 500), rate.done_at(0, 500)], [500_000_000, 1_000_000_000]);
/// ```
#[derive(Clone, Debug)]
pub struct Rate {
    bytes_per_second: u64,
    free_at_ns: u64,
}

impl Rate {
    /// A limit of `bytes_per_second`, at least 1.
    pub fn new(bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second: bytes_per_second.max(1), free_at_ns: 0 }
    }

    /// When a request of `bytes` that arrives at `now_ns` is done, in nanoseconds of the caller's
    /// clock. Requests are served one after the other, as by a disk.
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

    const SMALL: FileFacts = FileFacts {
        file_bytes: 1 << 30,
        memory_available_bytes: 32 << 30,
        mode: Mode::Auto,
        can_direct: true,
        is_limited: false,
    };
    const LARGE: FileFacts = FileFacts { file_bytes: 5 << 30, ..SMALL };

    #[test]
    fn large_files_are_read_past_the_cache_by_default() {
        let cases = [
            (SMALL, IoPath::Buffered),
            (LARGE, IoPath::Direct),
            (FileFacts { mode: Mode::Direct, ..SMALL }, IoPath::Direct),
            (FileFacts { mode: Mode::Buffered, ..LARGE }, IoPath::Buffered),
            (FileFacts { can_direct: false, ..LARGE }, IoPath::Buffered),
            (FileFacts { mode: Mode::Direct, can_direct: false, ..LARGE }, IoPath::Buffered),
        ];
        for (facts, way) in cases {
            assert_eq!(ReadPath::new(facts).cold(), way, "{facts:?}");
        }
    }

    #[test]
    fn large_writes_go_past_the_cache() {
        assert_eq!(write_path(Mode::Auto, true, 1 << 20), IoPath::Direct);
        assert_eq!(write_path(Mode::Auto, true, 1000), IoPath::Buffered);
        assert_eq!(write_path(Mode::Auto, false, 1 << 20), IoPath::Buffered);
        assert_eq!(write_path(Mode::Buffered, true, 1 << 20), IoPath::Buffered);
    }

    #[test]
    fn cached_file_is_read_from_the_cache_to_its_end() {
        let mut path = ReadPath::new(LARGE);
        for _ in 0..100 {
            assert_eq!(path.next_path(), IoPath::Cached);
            path.on_cache(true);
        }
    }

    #[test]
    fn cold_file_tries_the_cache_ever_more_rarely() {
        let mut path = ReadPath::new(LARGE);
        let mut asked = 0;
        for _ in 0..10_000 {
            if path.next_path() == IoPath::Cached {
                asked += 1;
                path.on_cache(false);
            }
        }
        let asked_max = 10_000 / BACKOFF_MAX + 6;
        assert!((2..=asked_max).contains(&asked), "{asked}");
    }

    #[test]
    fn direct_mode_skips_the_cache_if_the_file_supports_it() {
        let direct = FileFacts { mode: Mode::Direct, ..SMALL };
        assert_eq!(ReadPath::new(direct).next_path(), IoPath::Direct);
        assert_eq!(
            ReadPath::new(FileFacts { can_direct: false, ..direct }).next_path(),
            IoPath::Cached
        );
        assert_eq!(
            ReadPath::new(FileFacts { is_limited: true, ..SMALL }).next_path(),
            IoPath::Buffered
        );
    }

    #[test]
    fn requests_of_any_size_obey_the_rate() {
        for bytes in [1, 1000, 4 << 20] {
            let mut rate = Rate::new(1_000_000);
            let ends: alloc::vec::Vec<u64> = (0..100).map(|_| rate.done_at(7, bytes)).collect();
            assert_eq!(ends[0] - 7, bytes * 1000);
            assert_eq!(ends[99] - 7, 100 * bytes * 1000);
        }
        let mut idle = Rate::new(1);
        idle.done_at(0, 1);
        assert_eq!(idle.done_at(9_000_000_000, 1), 10_000_000_000, "idle time is not saved up");
        assert_eq!(Rate::new(0).done_at(0, u64::MAX), u64::MAX);
    }
}
