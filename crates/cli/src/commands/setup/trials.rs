//! Short measurements of a machine: processors, memory, disks and connections, each of a fraction
//! of a second.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use euphrates_device::private;
use rustix::fs::{Advice, fadvise, fstatfs, fstatvfs};

/// Bytes that the trial of a disk writes and reads.
const DISK_BYTES: usize = 64 << 20;
/// Syncs of which the mean is taken.
const SYNCS: u32 = 5;
/// Bytes that each thread copies in the trial of the memory.
const COPY_BYTES: usize = 64 << 20;
/// Bytes that the trial of a connection sends.
const WIRE_BYTES: usize = 256 << 20;
/// Steps of one thread in the trial of the processors: about a twentieth of a second.
const SPIN_STEPS: u64 = 100_000_000;

/// The magic numbers of file systems in memory (tmpfs, ramfs), and on servers (NFS, SMB, Ceph,
/// FUSE).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
const REMOTE: [u64; 5] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x6573_5546];

/// What was measured of a folder.
pub struct DiskTrial {
    /// Bytes per second, synced.
    pub writes: f64,
    /// Bytes per second of what is not in the page cache.
    pub reads: f64,
    /// The mean time of a sync of four kilobytes.
    pub sync: Duration,
    /// Bytes that are free.
    pub free: u64,
    /// Where the folder is, unless on a local disk.
    pub place: Option<&'static str>,
}

/// How often all processors together do the work of one.
pub fn processors(cores: usize) -> f64 {
    let spin = || {
        let began = Instant::now();
        let mut value = 1u64;
        for step in 0..SPIN_STEPS {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        }
        black_box(value);
        began.elapsed().as_secs_f64()
    };
    let alone = spin();
    let together = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(spin)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f64::INFINITY)).fold(0.0, f64::max)
    });
    cores as f64 * alone / together
}

/// Bytes per second that all processors copy in memory.
pub fn memory(cores: usize) -> f64 {
    let copy = || {
        let from = vec![1u8; COPY_BYTES];
        let mut to = vec![0u8; COPY_BYTES];
        let began = Instant::now();
        for _ in 0..2 {
            to.copy_from_slice(black_box(&from));
            black_box(&to);
        }
        2.0 * COPY_BYTES as f64 / began.elapsed().as_secs_f64()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(copy)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    })
}

/// Bytes per second over one connection of this machine with itself.
pub fn wire() -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let sender = thread::spawn(move || -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let block = vec![0x5au8; 1 << 20];
        (0..WIRE_BYTES >> 20).try_for_each(|_| stream.write_all(&block))
    });
    let (mut stream, _) = listener.accept()?;
    let mut block = vec![0u8; 1 << 20];
    let began = Instant::now();
    let mut received = 0;
    while let read @ 1.. = stream.read(&mut block)? {
        received += read;
    }
    let seconds = began.elapsed().as_secs_f64();
    sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
    Ok(received as f64 / seconds)
}

/// Writes, syncs and reads a file in a folder, and removes it.
pub fn disk(folder: &Path) -> io::Result<DiskTrial> {
    private::make_folders(folder)?;
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    let outcome = disk_at(&path);
    // If it could not be made, that is the error to show.
    let _ = fs::remove_file(&path);
    outcome
}

fn disk_at(path: &Path) -> io::Result<DiskTrial> {
    let mut file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
    let block = vec![0x5a; 1 << 20];
    let began = Instant::now();
    (0..DISK_BYTES >> 20).try_for_each(|_| file.write_all(&block))?;
    file.sync_all()?;
    let writes = DISK_BYTES as f64 / began.elapsed().as_secs_f64();
    // What is synced can leave the page cache, so that reading it takes the disk.
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut again = File::open(path)?;
    let mut read = vec![0u8; 1 << 20];
    let began = Instant::now();
    while again.read(&mut read)? > 0 {}
    let reads = DISK_BYTES as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&block[..4096])?;
        file.sync_all()?;
    }
    let sync = began.elapsed() / SYNCS;
    let system = fstatfs(&file)?;
    let kind = u64::from(system.f_type as u32);
    let place = match kind {
        kind if IN_MEMORY.contains(&kind) => Some("in memory"),
        kind if REMOTE.contains(&kind) => Some("on a server"),
        _ => None,
    };
    let space = fstatvfs(&file)?;
    let free = space.f_bavail * space.f_frsize;
    Ok(DiskTrial { writes, reads, sync, free, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_of_a_disk_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let trial = disk(folder.path()).unwrap();
        assert!(trial.writes > 0.0 && trial.reads > 0.0 && trial.free > 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
