//! SIGINT and SIGTERM end a command that waits for input.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Whether the process has a handler for the signal.
fn has_handler(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    caught.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

#[test]
fn signal_ends_the_wait_for_the_first_bytes() {
    let home = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        for format in ["csv", "jsonl", "arrow", "lines"] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_euphrates"))
                .args(["copy-in", "never", "--log", "quiet", "--format", format])
                .env("EUPHRATES_HOME", home.path())
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let pid = Pid::from_child(&child);
            while !has_handler(child.id(), signal.as_raw()) {
                std::thread::yield_now();
            }
            // The first signal may arrive before the command waits for input.
            let status = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break status,
                    None => kill_process(pid, signal).unwrap(),
                }
                std::thread::yield_now();
            };
            assert_eq!(status.code(), Some(130), "{format} {signal:?}");
        }
    }
}
