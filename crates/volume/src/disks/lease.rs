//! The lease: a lock that the holder has as long as it lives, and a heartbeat for other machines.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use euphrates_device::durable::make_folder;
use euphrates_flow::{Error, Result};
use euphrates_policy::leases::{HEARTBEAT_NS, Holder, Takeover, may_write, take_over};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::root::{Roots, WriterName};

/// The right to write a volume. The lock ends with it.
#[derive(Debug)]
pub struct VolumeLease {
    _lock: File,
    heartbeat: PathBuf,
    beats: Mutex<u64>,
    renewed: Mutex<Instant>,
}

impl VolumeLease {
    /// Takes the lease from nobody, or from a holder that is gone or silent. Waits as long as it
    /// watches one on another machine. Publishing the next root document makes it valid.
    pub fn take(roots: &Roots, holder: Option<&WriterName>) -> Result<VolumeLease> {
        make_folder(&roots.folder)?;
        let path = roots.folder.join("writer.lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|error| Error::os("open", &path, &error))?;
        let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let has_lock = locked.is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK);
        if has_lock && holder.is_none() {
            // That process is taking or releasing the lease.
            return Err(refused(&roots.name, "another process"));
        }
        let heartbeat = roots.folder.join("heartbeat");
        let first = fs::read(&heartbeat).unwrap_or_default();
        let (here, began) = (WriterName::here(), Instant::now());
        loop {
            let has_beaten = fs::read(&heartbeat).unwrap_or_default() != first;
            let facts = holder.map(|holder| Holder {
                is_here: holder.machine == here.machine,
                has_lock,
                silent_ns: began.elapsed().as_nanos() as u64,
            });
            match take_over(facts, has_beaten) {
                Takeover::Now => break,
                Takeover::Watch => std::thread::sleep(Duration::from_millis(200)),
                Takeover::Refused => {
                    let holder = holder.expect("only a holder refuses");
                    let named = format!("process {} on host {}", holder.pid, holder.host);
                    return Err(refused(&roots.name, &named));
                }
            }
        }
        let (beats, renewed) = (Mutex::new(0), Mutex::new(Instant::now()));
        let lease = VolumeLease { _lock: lock, heartbeat, beats, renewed };
        lease.renew()?;
        Ok(lease)
    }

    /// Whether the holder ran on this machine, and is gone.
    pub fn is_abandoned(roots: &Roots, holder: &WriterName) -> bool {
        let lock = File::open(roots.folder.join("writer.lock"));
        let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
        holder.machine == WriterName::here().machine && lock.is_ok_and(is_free)
    }

    /// Beats once.
    pub fn renew(&self) -> Result<()> {
        let (began, mut beats) = (Instant::now(), self.beats.lock());
        *beats += 1;
        let here = WriterName::here();
        let text = format!("{} {} {}\n", here.machine, here.pid, *beats);
        let written = fs::write(&self.heartbeat, text);
        written.map_err(|error| Error::os("write", &self.heartbeat, &error))?;
        *self.renewed.lock() = began;
        Ok(())
    }

    /// Whether no other process can have taken it.
    pub fn is_valid(&self) -> bool {
        may_write(self.renewed.lock().elapsed().as_nanos() as u64)
    }

    /// How often to renew it.
    pub const INTERVAL: Duration = Duration::from_nanos(HEARTBEAT_NS);
}

fn refused(name: &str, holder: &str) -> Error {
    let error = format!("volume `{name}` is mounted for writing by {holder}");
    Error::failed(error).remedy("unmount it there; or mount it with `--read-only`")
}
