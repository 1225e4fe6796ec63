//! Block reader: reads cached blocks from the page cache, others ahead through the device queue.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use euphrates_flow::Result;
use euphrates_policy::io_path::{IoPath, ReadPath};

use super::{Block, BlockDecoder, Segment};
use euphrates_device::disk::{DiskFile, PendingRead, THREADS_MAX};

/// The most bytes of one read from the page cache: they stay in the processor's cache until they
/// are used.
const CACHED_BYTES_MAX: usize = 1 << 20;

/// How to read blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockReadOptions {
    /// Adjacent blocks are read together up to this many bytes; a larger block is read alone. The
    /// batches of one request share its memory. Requests to the page cache are smaller.
    pub request_bytes_max: usize,
    /// The most requests in flight when the device has to be waited for.
    pub requests_max: usize,
    /// The columns to read, by position; all if `None`.
    pub columns: Option<Vec<usize>>,
}

impl Default for BlockReadOptions {
    fn default() -> BlockReadOptions {
        BlockReadOptions { request_bytes_max: 4 << 20, requests_max: THREADS_MAX, columns: None }
    }
}

/// Blocks of a segment that a reader has claimed.
#[derive(Clone, Debug)]
pub struct BlockClaim {
    /// The segment that contains them.
    pub segment: Arc<Segment>,
    /// The range of their indices.
    pub blocks: Range<usize>,
    /// The number of their run, where runs are numbered.
    pub run: u64,
}

/// A block that has been read.
#[derive(Clone, Debug)]
pub struct ReadBlock {
    /// The records of the block.
    pub batch: RecordBatch,
    /// Its bytes in the file.
    pub bytes: u64,
    /// The run of its claim.
    pub run: u64,
    /// Whether it is the last of its claim.
    pub last: bool,
}

/// Reads the blocks of one claim after the other. After an error it ends.
pub struct BlockReader {
    claims: Box<dyn FnMut() -> Result<Option<BlockClaim>> + Send>,
    options: BlockReadOptions,
    current: Option<(BlockClaim, Arc<Open>)>,
    path: Option<ReadPath>,
    pending: VecDeque<(AdjacentBlocks, PendingRead)>,
    ready: Option<(AdjacentBlocks, Buffer)>,
}

/// The segment that is being read.
struct Open {
    segment: Arc<Segment>,
    file: Arc<DiskFile>,
    decoder: BlockDecoder,
}

/// Adjacent blocks that one request reads.
struct AdjacentBlocks {
    open: Arc<Open>,
    blocks: Range<usize>,
    start: u64,
    run: u64,
    ends_claim: bool,
}

impl BlockReader {
    /// A reader of the claims that `claims` returns, one at a time and not before they are needed,
    /// until it returns none.
    pub fn new(
        claims: impl FnMut() -> Result<Option<BlockClaim>> + Send + 'static,
        options: BlockReadOptions,
    ) -> BlockReader {
        let claims = Box::new(claims);
        BlockReader {
            claims,
            options,
            current: None,
            path: None,
            pending: VecDeque::new(),
            ready: None,
        }
    }

    /// The next block, `None` after the last.
    pub fn next_block(&mut self) -> Result<Option<ReadBlock>> {
        let read = self.read_block();
        if read.is_err() {
            self.claims = Box::new(|| Ok(None));
            (self.current, self.ready) = (None, None);
            self.pending.clear();
        }
        read
    }

    fn read_block(&mut self) -> Result<Option<ReadBlock>> {
        loop {
            if let Some((chunk, bytes)) = &mut self.ready
                && let Some(index) = chunk.blocks.next()
            {
                let block = chunk.open.segment.blocks()[index];
                let start = (block.offset - chunk.start) as usize;
                let slice = bytes.slice_with_length(start, block.bytes as usize);
                let batch = chunk.open.decode(index, &block, &slice)?;
                let last = chunk.ends_claim && chunk.blocks.is_empty();
                return Ok(Some(ReadBlock { batch, bytes: block.bytes, run: chunk.run, last }));
            }
            self.ready = None;
            match self.fetch()? {
                Some(ready) => self.ready = Some(ready),
                None => return Ok(None),
            }
        }
    }

    /// The bytes of the next chunk: at once if they are cached; else it waits for them, with the
    /// chunks after it already in flight.
    fn fetch(&mut self) -> Result<Option<(AdjacentBlocks, Buffer)>> {
        if self.pending.is_empty() {
            let Some(chunk) = self.next_chunk()? else { return Ok(None) };
            if let Some(bytes) = self.begin(chunk)? {
                return Ok(Some(bytes));
            }
        }
        while self.pending.len() < self.options.requests_max.max(1) && self.is_cold() {
            let Some(chunk) = self.next_chunk()? else { break };
            let at_once = self.begin(chunk)?;
            debug_assert!(at_once.is_none(), "what is under way already comes first");
        }
        let (chunk, pending) = self.pending.pop_front().expect("one was begun");
        let bytes = pending.wait()?;
        Ok(Some((chunk, bytes)))
    }

    fn is_cold(&self) -> bool {
        self.path.as_ref().is_some_and(ReadPath::is_cold)
    }

    /// Reads the chunk from the cache, or submits the request for it.
    fn begin(&mut self, chunk: AdjacentBlocks) -> Result<Option<(AdjacentBlocks, Buffer)>> {
        let path = self.path.as_mut().expect("set with the first chunk");
        let disk = chunk.open.segment.disk();
        let len = chunk.bytes();
        let mut way = path.next_path();
        if way == IoPath::Cached && self.pending.is_empty() {
            let cached = disk.read_cached(&chunk.open.file, chunk.start, len)?;
            path.on_cache(cached.is_some());
            if let Some(bytes) = cached {
                return Ok(Some((chunk, bytes)));
            }
        }
        if way == IoPath::Cached {
            way = path.cold();
        }
        let pending = disk.read_at(&chunk.open.file, chunk.start, len, way)?;
        self.pending.push_back((chunk, pending));
        Ok(None)
    }

    fn next_chunk(&mut self) -> Result<Option<AdjacentBlocks>> {
        while self.current.as_ref().is_none_or(|(claim, _)| claim.blocks.is_empty()) {
            let Some(claim) = (self.claims)()? else { return Ok(None) };
            let open = self.open(&claim)?;
            self.current = Some((claim, open));
        }
        let wanted = self.options.request_bytes_max;
        let bytes_max = if self.is_cold() { wanted } else { wanted.min(CACHED_BYTES_MAX) };
        let (claim, open) = self.current.as_mut().expect("just set");
        let blocks = &open.segment.blocks()[claim.blocks.clone()];
        let start = blocks[0].offset;
        let mut end = start;
        let fits = |block: &&Block| {
            let is_adjacent = block.offset == std::mem::replace(&mut end, block.end());
            is_adjacent && (block.end() - start) as usize <= bytes_max
        };
        let count = blocks.iter().take_while(fits).count().max(1);
        let first = claim.blocks.start;
        claim.blocks.start += count;
        let ends_claim = claim.blocks.is_empty();
        let blocks = first..first + count;
        Ok(Some(AdjacentBlocks { open: open.clone(), blocks, start, run: claim.run, ends_claim }))
    }

    fn open(&mut self, claim: &BlockClaim) -> Result<Arc<Open>> {
        if let Some((_, open)) = &self.current
            && Arc::ptr_eq(&open.segment, &claim.segment)
        {
            return Ok(open.clone());
        }
        let segment = claim.segment.clone();
        let file = segment.file()?;
        let facts = segment.disk().facts(&file, segment.bytes());
        match &mut self.path {
            Some(path) => path.on_file(facts),
            none => *none = Some(ReadPath::new(facts)),
        }
        let decoder = BlockDecoder::new(segment.schema(), self.options.columns.clone());
        Ok(Arc::new(Open { segment, file, decoder }))
    }
}

impl Iterator for BlockReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.next_block().map(|read| read.map(|block| block.batch)).transpose()
    }
}

impl AdjacentBlocks {
    fn bytes(&self) -> usize {
        let last = self.open.segment.blocks()[self.blocks.end - 1];
        (last.end() - self.start) as usize
    }
}

impl Open {
    /// Checks a block, then decodes it in place.
    fn decode(&self, index: usize, block: &Block, bytes: &Buffer) -> Result<RecordBatch> {
        let decoded = block.check(bytes).and_then(|()| self.decoder.decode(block, bytes));
        decoded.map_err(|error| {
            let index = self.segment.toc().index_in_segment(index as u32);
            error
                .at(format!("block {index}"))
                .at(self.segment.path().display())
                .remedy("run `euphrates verify` to learn what is left, and write it again")
        })
    }
}

impl Segment {
    /// Reads these blocks in order, with read-ahead.
    pub fn read(self: &Arc<Self>, blocks: Range<usize>) -> BlockReader {
        self.read_with(blocks, BlockReadOptions::default())
    }

    /// As `read`, with the given read-ahead and columns.
    pub fn read_with(
        self: &Arc<Self>,
        blocks: Range<usize>,
        options: BlockReadOptions,
    ) -> BlockReader {
        let mut claim = Some(BlockClaim { segment: self.clone(), blocks, run: 0 });
        BlockReader::new(move || Ok(claim.take()), options)
    }
}
