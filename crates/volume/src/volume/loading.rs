//! Opening a volume: the root, the tree of the last checkpoint, and the log behind it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use euphrates_flow::{Error, Result};
use euphrates_store::striped::{StripedOptions, disks_for};
use parking_lot::Mutex;

use super::checkpoint_codec::{Loaded, decode};
use super::core::{Core, VolumeState, WriterEnd};
use super::handle::Volume;
use super::maintenance::Threads;
use crate::disks::{
    ChunkReader, LogWriter, Roots, VolumeDisks, VolumeLease, VolumeRoot, WriterName,
};
use crate::log::{LogDamage, LogEnd, in_order};

/// How often a reader begins again because the writer has removed what it was about to open.
const TRIES_MAX: usize = 8;

/// What to open, and how.
#[derive(Clone)]
pub struct VolumeOptions {
    /// The home of the volume.
    pub home: PathBuf,
    /// Its name.
    pub name: String,
    /// Data and parity blocks of a chunk, and the names of the disks, of a new volume.
    pub data: usize,
    /// See `data`.
    pub parity: usize,
    /// See `data`.
    pub disks: Vec<String>,
    /// Whether to read the last checkpoint only.
    pub read_only: bool,
    /// Where messages go.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Volume {
    /// Opens a volume. Without `read_only` it makes one that does not exist, takes the lease, and
    /// replays the log; this fails if another process writes the volume, or the log is damaged.
    pub fn open(options: VolumeOptions) -> Result<Volume> {
        let roots = Roots::of(&options.home, &options.name)?;
        let opened = match options.read_only {
            true => open_checkpoint(&options, roots),
            false => open_log(&options, roots),
        };
        opened.map_err(|error| error.at(format!("volume {}", options.name)))
    }
}

fn open_checkpoint(options: &VolumeOptions, roots: Roots) -> Result<Volume> {
    allow_files();
    let mut last = None;
    for _ in 0..TRIES_MAX {
        let Some(root) = roots.newest()? else {
            let error = Error::usage(format!("there is no volume `{}`", roots.name));
            return Err(error.remedy("mount it without --read-only, which makes it"));
        };
        let disks = VolumeDisks::of(&options.home, &root, false)?;
        let reader = ChunkReader::new(root.volume, disks.clone());
        match read_checkpoint(&reader, &root) {
            Ok(mut loaded) => {
                if root.writer.as_ref().is_some_and(|one| VolumeLease::is_abandoned(&roots, one)) {
                    replay_for_reading(options, &mut loaded, &reader, &root, &disks);
                }
                loaded.tree.drop_orphans();
                // A removed segment means that there is a newer checkpoint.
                let is_whole = reader.hold(loaded.places.values());
                if is_whole || roots.newest()?.is_some_and(|one| one.version == root.version) {
                    warn_of_missing(options, &disks);
                    let state = loaded.into_state(root.next_chunk);
                    return Ok(volume(options, roots, disks, reader, state, None, root));
                }
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::resource("the volume changes too fast to be opened")))
}

/// Applies what a killed writer has left behind the checkpoint, if it is whole.
fn replay_for_reading(
    options: &VolumeOptions,
    loaded: &mut Loaded,
    reader: &ChunkReader,
    root: &VolumeRoot,
    disks: &VolumeDisks,
) {
    let mut longer = loaded.clone();
    match replay(&mut longer, reader, root, disks.list().into_keys()) {
        Ok(_) => *loaded = longer,
        Err(error) => (options.say)(&format!("warning: the last checkpoint is shown: {error}")),
    }
}

fn open_log(options: &VolumeOptions, roots: Roots) -> Result<Volume> {
    let before = roots.newest()?;
    let lease = VolumeLease::take(&roots, before.as_ref().and_then(|root| root.writer.as_ref()))?;
    // The holder may have published another one before it ended.
    let before = roots.newest()?;
    let is_new = before.is_none();
    let before = before.map_or_else(|| new_root(options), Ok)?;
    let disks = VolumeDisks::of(&options.home, &before, is_new)?;
    let reader = ChunkReader::new(before.volume, disks.clone());
    let layout = (before.data, before.parity);
    let mut loaded = match before.checkpoint {
        Some(_) => read_checkpoint(&reader, &before)?,
        None => Loaded::empty(),
    };
    let segments = disks.list();
    let last = segments.keys().next_back().map_or(0, |last| last + 1);
    let next_segment = last.max(before.log_segment);
    let next = replay(&mut loaded, &reader, &before, segments.keys().copied())?;
    loaded.tree.drop_orphans();
    let epoch = before.epoch + 1;
    let log = LogWriter::start(&disks, layout, (before.volume, epoch), next_segment, next)?;
    warn_of_missing(options, &disks);
    let end = WriterEnd { log, lease, has_ended: AtomicBool::new(false) };
    let root = VolumeRoot { epoch, writer: Some(WriterName::here()), ..before };
    let state = loaded.into_state(next);
    let volume = volume(options, roots, disks, reader, state, Some(end), root);
    // From here on blocks of earlier epochs behind the checkpoint do not count.
    volume.core.checkpoint(true)?;
    *volume.threads.lock() = Some(Threads::start(&volume.core)?);
    Ok(volume)
}

fn volume(
    options: &VolumeOptions,
    roots: Roots,
    disks: VolumeDisks,
    reader: ChunkReader,
    state: VolumeState,
    writer: Option<WriterEnd>,
    root: VolumeRoot,
) -> Volume {
    let space = Mutex::new(disks.space().unwrap_or_default());
    let (layout, say) = ((root.data, root.parity), options.say.clone());
    let (state, root) = (Mutex::new(state), Mutex::new(root));
    let core = Core { roots, disks, reader, state, writer, root, layout, space, say };
    Volume { core: Arc::new(core), threads: Mutex::new(None) }
}

fn new_root(options: &VolumeOptions) -> Result<VolumeRoot> {
    let VolumeOptions { data, parity, .. } = *options;
    let striped =
        StripedOptions { data, parity, disks: options.disks.clone(), ..StripedOptions::default() };
    let disks = disks_for(&options.home, &striped)?;
    let mut number = [0; 8];
    let random = getrandom::getrandom(&mut number);
    random.map_err(|error| Error::failed(format!("no random number: {error}")))?;
    Ok(VolumeRoot {
        version: 0,
        name: options.name.clone(),
        volume: u64::from_le_bytes(number),
        data,
        parity,
        disks,
        epoch: 0,
        checkpoint: None,
        next_chunk: 0,
        log_segment: 0,
        written: 0,
        writer: None,
    })
}

/// A reader keeps all segments open, so that the writer may remove them.
fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn warn_of_missing(options: &VolumeOptions, disks: &VolumeDisks) {
    let missing = disks.missing();
    if !missing.is_empty() {
        (options.say)(&format!("warning: missing disks: {}", missing.join(", ")));
    }
}

/// Applies the log behind the checkpoint. Returns the number of the next chunk.
fn replay(
    loaded: &mut Loaded,
    reader: &ChunkReader,
    root: &VolumeRoot,
    segments: impl Iterator<Item = u64>,
) -> Result<u64> {
    let mut end = LogEnd::from(root.next_chunk);
    for segment in segments.filter(|segment| *segment >= root.log_segment) {
        let found = reader.scan(segment)?;
        let chunks = in_order(&mut end, root.epoch, found);
        for chunk in chunks.map_err(|damage| damaged(segment, root, damage))? {
            loaded.apply(segment, chunk)?;
        }
    }
    Ok(end.next)
}

fn damaged(segment: u64, root: &VolumeRoot, damage: LogDamage) -> Error {
    let LogDamage { chunk, found, needed } = damage;
    let error = format!(
        "chunk {chunk} of the log is damaged: {found} of its blocks are left, and it needs \
         {needed}, though it was durable"
    );
    let place = format!("before the end of segment {segment}");
    let until = format!("checkpoint {}, before chunk {}", root.version, root.next_chunk);
    Error::corrupt(error).at(place).remedy(format!(
        "mount the missing disks, if there are any; `--read-only` shows the tree of {until}"
    ))
}

/// The tree of the newest checkpoint.
fn read_checkpoint(reader: &ChunkReader, root: &VolumeRoot) -> Result<Loaded> {
    let Some(place) = root.checkpoint else {
        return Err(Error::corrupt("the volume has no checkpoint"));
    };
    let found = reader.scan(place.segment)?;
    let (mut end, segment) = (LogEnd::from(0), place.segment);
    let chunks = in_order(&mut end, place.epoch, found);
    let chunks = chunks.ok().filter(|_| end.next >= place.chunks).ok_or_else(|| {
        let (version, next, all) = (root.version, end.next, place.chunks);
        let error = format!("checkpoint {version} is damaged: {next} of {all} chunks can be read");
        Error::corrupt(error).at(format!("segment {segment}")).remedy("mount the missing disks")
    })?;
    let bytes: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.payload).collect();
    decode(&bytes).ok_or_else(|| {
        let error = format!("checkpoint {} cannot be decoded", root.version);
        Error::corrupt(error).at(format!("segment {segment}"))
    })
}
