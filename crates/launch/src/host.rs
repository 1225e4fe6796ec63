//! Names of this machine and of the user of this process.

use std::fs;

/// The host name of this machine.
pub fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name of this process's user; the number if it has no name.
pub fn user_name() -> String {
    let number = rustix::process::getuid().as_raw().to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = known.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2) == Some(&number.as_str()));
    found.map_or(number.clone(), |fields| fields[0].to_string())
}
