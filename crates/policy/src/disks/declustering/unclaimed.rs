//! The unclaimed blocks of a segment, and the order in which copies claim them.
//!
//! A disk that alternates between two segments seeks (River 3.2.1), so each copy should read its
//! part of a segment sequentially. An unordered segment is cut into one stretch per copy; a copy
//! that has used up its stretch takes the back half of the longest other one (work stealing). A
//! copy thus jumps only a few times per segment at any speeds. An ordered stream is cut into short
//! stretches as its window advances.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::claiming::Claiming;

/// The blocks of a segment that no copy has claimed.
#[derive(Clone, Debug)]
pub(super) struct Unclaimed {
    /// The offset of each block, and the length of the segment.
    offsets: Vec<u64>,
    division: Division,
    /// The stretch of each copy.
    stretches: Vec<Stretch>,
    /// Blocks that were claimed and given back, because a copy failed.
    returned: BTreeSet<u32>,
    bytes: u64,
    /// Bytes that were never claimed.
    fresh_bytes: u64,
}

/// A range of consecutive blocks.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: u32,
    end: u32,
}

impl Stretch {
    fn len(self) -> u32 {
        self.end - self.start
    }

    fn next(&mut self, room: Room, offsets: &[u64]) -> Option<u32> {
        let block = self.start;
        if self.len() == 0 || !room.has(block, offsets) {
            return None;
        }
        self.start += 1;
        Some(block)
    }
}

/// A limit on the blocks that may be claimed for the first time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    /// Blocks of at most this size, in bytes.
    Bytes(u64),
    /// Blocks before this one.
    Before(u32),
}

impl Room {
    fn has(self, block: u32, offsets: &[u64]) -> bool {
        match self {
            Room::Bytes(bytes) => offsets[block as usize + 1] - offsets[block as usize] <= bytes,
            Room::Before(end) => block < end,
        }
    }
}

/// How blocks are divided among the copies.
#[derive(Clone, Debug)]
enum Division {
    /// One stretch per copy, cut again when one is used up.
    Whole,
    /// Short stretches within the window of a stream; `rest` is beyond the window.
    Window { blocks: u32, rest: Stretch },
    /// A fixed copy for each block; a stretch is the part that has not been searched.
    Fixed(Claiming),
}

impl Unclaimed {
    /// All blocks of a segment. For a stream, `stretch_blocks` is the length of a stretch.
    pub fn new(
        sizes: &[u64],
        copies: usize,
        claiming: Claiming,
        stretch_blocks: Option<u32>,
    ) -> Unclaimed {
        let mut offsets = Vec::with_capacity(sizes.len() + 1);
        offsets.push(0);
        for &bytes in sizes {
            offsets.push(offsets[offsets.len() - 1] + bytes);
        }
        let blocks = u32::try_from(sizes.len()).expect("blocks are counted in 32 bits");
        let bytes = offsets[sizes.len()];
        let bound =
            matches!(claiming, Claiming::One(_) | Claiming::Random(_) | Claiming::Alternate);
        let division = match stretch_blocks {
            _ if bound => Division::Fixed(claiming),
            Some(stretch) => {
                Division::Window { blocks: stretch.max(1), rest: Stretch { start: 0, end: blocks } }
            }
            None => Division::Whole,
        };
        let stretches = (0..copies as u64).map(|copy| {
            let border = |copy: u64| (u64::from(blocks) * copy / copies as u64) as u32;
            match division {
                Division::Whole => Stretch { start: border(copy), end: border(copy + 1) },
                Division::Window { .. } => Stretch { start: 0, end: 0 },
                Division::Fixed(_) => Stretch { start: 0, end: blocks },
            }
        });
        let stretches = stretches.collect();
        Unclaimed {
            offsets,
            division,
            stretches,
            returned: BTreeSet::new(),
            bytes,
            fresh_bytes: bytes,
        }
    }

    pub fn blocks(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that were never claimed by any copy.
    pub fn fresh_bytes(&self) -> u64 {
        self.fresh_bytes
    }

    pub fn bytes_of(&self, block: u32) -> u64 {
        self.offsets[block as usize + 1] - self.offsets[block as usize]
    }

    /// The limit to blocks that end within `bytes` from the beginning of `first`, and `first`
    /// itself.
    pub fn within(&self, first: u32, bytes: u64) -> Room {
        let end_bytes = self.offsets[first as usize].saturating_add(bytes);
        let end = self.offsets.partition_point(|&offset| offset <= end_bytes) as u32 - 1;
        Room::Before(end.max(first + 1))
    }

    /// Claims a block for a copy: one that was given back and `can` be read there, or else one
    /// within `room`. `is_lost` tells which copies are lost.
    pub fn take(
        &mut self,
        copy: usize,
        can: impl Fn(u32) -> bool,
        room: Room,
        is_lost: impl Fn(usize) -> bool,
    ) -> Option<u32> {
        if let Some(block) = self.returned.iter().copied().find(|&block| can(block)) {
            self.returned.remove(&block);
            self.bytes -= self.bytes_of(block);
            return Some(block);
        }
        let block = match &self.division {
            Division::Whole => self.take_whole(copy, room),
            Division::Window { .. } => self.take_window(copy, room),
            Division::Fixed(claiming) => self.take_fixed(copy, *claiming, room, &is_lost),
        }?;
        self.bytes -= self.bytes_of(block);
        self.fresh_bytes -= self.bytes_of(block);
        Some(block)
    }

    fn take_whole(&mut self, copy: usize, room: Room) -> Option<u32> {
        if self.stretches[copy].len() == 0 {
            let longest = (0..self.stretches.len()).max_by_key(|&at| self.stretches[at].len())?;
            let Stretch { start, end } = self.stretches[longest];
            let middle = start + (end - start) / 2;
            self.stretches[longest].end = middle;
            self.stretches[copy] = Stretch { start: middle, end };
        }
        self.stretches[copy].next(room, &self.offsets)
    }

    fn take_window(&mut self, copy: usize, room: Room) -> Option<u32> {
        let Unclaimed { offsets, division, stretches, .. } = self;
        let Division::Window { blocks, rest } = division else { unreachable!() };
        if stretches[copy].len() == 0 && rest.len() > 0 && room.has(rest.start, offsets) {
            let end = rest.end.min(rest.start + *blocks);
            stretches[copy] = Stretch { start: rest.start, end };
            rest.start = end;
        }
        let own = stretches[copy].next(room, offsets);
        own.or_else(|| {
            // The block that the stream needs first is taken from any copy's stretch.
            let others = stretches.iter_mut().filter(|stretch| stretch.len() > 0);
            others.min_by_key(|stretch| stretch.start)?.next(room, offsets)
        })
    }

    fn take_fixed(
        &mut self,
        copy: usize,
        claiming: Claiming,
        room: Room,
        is_lost: &impl Fn(usize) -> bool,
    ) -> Option<u32> {
        let copies = self.stretches.len();
        let heir = |of: usize| (of..of + copies).map(|at| at % copies).find(|&at| !is_lost(at));
        for of in (0..copies).filter(|&of| heir(of) == Some(copy)) {
            let stretch = &mut self.stretches[of];
            while stretch.len() > 0 && fixed_copy(claiming, stretch.start, copies) != of {
                stretch.start += 1;
            }
            let block = stretch.next(room, &self.offsets);
            if block.is_some() {
                return block;
            }
        }
        None
    }

    /// A claim has ended without the block being read.
    pub fn give_back(&mut self, block: u32) {
        let fresh = self.returned.insert(block);
        assert!(fresh, "block {block} came back twice");
        self.bytes += self.bytes_of(block);
    }

    /// Bytes of all unclaimed blocks, counted anew for checks.
    pub fn bytes_counted(&self) -> u64 {
        let copies = self.stretches.len();
        let sum = |stretch: Stretch| -> u64 {
            (stretch.start..stretch.end).map(|block| self.bytes_of(block)).sum()
        };
        let back: u64 = self.returned.iter().map(|&block| self.bytes_of(block)).sum();
        let stretches = self.stretches.iter().copied();
        back + match self.division {
            Division::Whole => stretches.map(sum).sum::<u64>(),
            Division::Window { rest, .. } => sum(rest) + stretches.map(sum).sum::<u64>(),
            Division::Fixed(claiming) => {
                let own = |(copy, stretch): (usize, Stretch)| {
                    let blocks = stretch.start..stretch.end;
                    blocks.filter(move |&block| fixed_copy(claiming, block, copies) == copy)
                };
                stretches.enumerate().flat_map(own).map(|block| self.bytes_of(block)).sum()
            }
        }
    }
}

/// The copy of a block in a fixed division.
fn fixed_copy(claiming: Claiming, block: u32, copies: usize) -> usize {
    match claiming {
        Claiming::One(copy) => copy % copies,
        Claiming::Random(seed) => (scatter(seed, block) % copies as u64) as usize,
        _ => block as usize % copies,
    }
}

/// A hash of seed and block (the output function of SplitMix64).
fn scatter(seed: u64, block: u32) -> u64 {
    let mut z = seed.wrapping_add(u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
