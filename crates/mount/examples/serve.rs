//! Mounts a home as `euphrates mount` does: for trials without the whole program.
//!
//! `cargo run --release -p euphrates-mount --example serve -- FOLDER HOME`

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use euphrates_mount::{MountOptions, mount};
use euphrates_store::striped::StripedOptions;

static ENDS: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_: libc::c_int) {
    ENDS.store(true, Relaxed);
}

fn run_id() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("serve-{:x}-{:x}", std::process::id(), NUMBER.fetch_add(1, Relaxed))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| one != "mount").collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|one| one == name)?;
        arguments.get(at + 1).cloned()
    };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler stores a flag, and nothing else.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
    let data = option("--data").map_or(4, |text| text.parse().unwrap());
    let options = MountOptions {
        folder: PathBuf::from(&arguments[0]),
        home: PathBuf::from(option("--home").unwrap()),
        volume: option("--volume"),
        striped: StripedOptions { data, ..StripedOptions::default() },
        allow_other: false,
        read_only: arguments.iter().any(|one| one == "--read-only"),
        deadline: Duration::from_secs_f64(
            option("--timeout").map_or(60.0, |text| text.parse().unwrap()),
        ),
        new_run_id: run_id,
        say: Box::new(|text| eprintln!("{text}")),
    };
    let done = mount(options, || ENDS.swap(false, Relaxed));
    if let Err(error) = &done {
        let advice = error.advice().unwrap_or_default();
        eprintln!("error: {error} {advice}");
    }
    std::process::exit(done.map_or_else(|error| error.kind().exit_code().into(), |()| 0));
}
