//! `doctor`: reports the version, processors, memory, file limit and disk speed of this machine.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use euphrates_device::private;
use euphrates_engine::observe::format::bytes_of;
use euphrates_engine::{Options, machine};
use euphrates_flow::Result;

use crate::terminal::print;

/// Bytes written by the disk test.
const TRIAL_BYTES: usize = 64 << 20;

/// Prints the report; tests the home and scratch folders by writing to them.
pub fn run() -> Result<()> {
    let home = machine::home();
    let mut text = format!("euphrates {}\n", env!("CARGO_PKG_VERSION"));
    text += &format!("cores         {}\n", machine::cores());
    text += &format!("memory        {}\n", bytes_of(machine::memory_bytes() as f64));
    text += &format!("budget        {}\n", bytes_of(Options::default().budget() as f64));
    text += &format!("open files    {}\n", open_files());
    text += &format!("home          {}: {}\n", home.display(), try_disk(&home));
    for scratch in machine::scratch(&home) {
        text += &format!("scratch       {}: {}\n", scratch.display(), try_disk(&scratch));
    }
    print(&text)
}

fn open_files() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or("no limit".into(), |limit| format!("at most {limit}"))
}

/// Writes and syncs a file, and describes the throughput or the failure.
fn try_disk(folder: &Path) -> String {
    let trial = || -> std::io::Result<f64> {
        private::make_folders(folder)?;
        let path = folder.join(format!(".doctor-{}", std::process::id()));
        let began = Instant::now();
        let outcome = fs::File::create(&path).and_then(|mut file| {
            let block = vec![0x5a; 1 << 20];
            (0..TRIAL_BYTES >> 20).try_for_each(|_| file.write_all(&block))?;
            file.sync_all()
        });
        let seconds = began.elapsed().as_secs_f64();
        fs::remove_file(&path)?;
        outcome.map(|()| seconds)
    };
    match trial() {
        Ok(seconds) => format!("writes {}/s, synced", bytes_of(TRIAL_BYTES as f64 / seconds)),
        Err(error) => format!("NOT WRITABLE: {error}"),
    }
}
