//! Claiming policies: the copy at which a reader claims each block.

/// Where a reader claims the blocks of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    /// All at one copy, and at the next if that is lost. With copy 0, mirrors serve only
    /// availability ("a non-adaptive mirroring system", River 3.2.2); with the copy on the fastest
    /// disk, this is *fastest copy*.
    One(usize),
    /// Each block at a random copy, drawn from a seed.
    Random(u64),
    /// Blocks alternate between the copies: an even split, as 3FS reads its chains.
    Alternate,
    /// At any copy with room for a request, up to a limit per copy. A request is bound when sent.
    Room(usize),
    /// At every copy, bound when the disk begins: waiting claims are withdrawn for a copy that
    /// would begin them sooner.
    Late,
}
