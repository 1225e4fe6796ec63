//! Starts the process of a program in a process group of its own.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use euphrates_flow::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::entry::LaunchOrder;
use crate::program::{Program, ProgramIdentity, ToMaster, kill_group};
use crate::pump::Pump;

/// Starts a program. The pump is to be run on a thread of its own.
pub fn start(
    order: &LaunchOrder,
    identity: ProgramIdentity,
    master: ToMaster,
) -> Result<(Arc<Program>, Pump)> {
    let mut child = spawn(order, &identity.env)?;
    let set_up = || -> std::io::Result<(OwnedFd, OwnedFd, Pid)> {
        let pid = Pid::from_child(&child);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok((bell, pidfd_open(pid, PidfdFlags::empty())?, pid))
    };
    let (bell, leader, group) = set_up().map_err(|error| {
        kill_group(Pid::from_child(&child));
        // It was killed, so this returns soon.
        let _ = child.wait();
        Error::os("follow", &order.program, &error)
    })?;
    let program = Arc::new(Program::new(order, identity, group, bell));
    let pump = Pump::new(program.clone(), child, leader, master)?;
    Ok((program, pump))
}

fn spawn(order: &LaunchOrder, env: &[(&'static str, String)]) -> Result<Child> {
    if let Some(cwd) = order.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let message = format!("no folder {cwd:?} to work in");
        return Err(Error::usage(message).remedy("give one that exists on every worker"));
    }
    let piped = |is_piped: bool| if is_piped { Stdio::piped() } else { Stdio::null() };
    // No code of this program runs in the child, so the system need not copy the worker.
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).envs(&order.env).envs(env.iter().cloned()).process_group(0);
    command.stdin(piped(order.has_stdin && !order.is_detached));
    command.stdout(piped(!order.is_detached)).stderr(piped(!order.is_detached));
    if let Some(cwd) = &order.cwd {
        command.current_dir(cwd);
    }
    command.spawn().map_err(|error| {
        let program = &order.program;
        match error.kind() {
            ErrorKind::NotFound => Error::usage(format!("no program `{program}`"))
                .remedy("install it on every worker, or give its whole path there"),
            ErrorKind::PermissionDenied => Error::usage(format!("`{program}` may not be run"))
                .remedy("check the owner and the mode of the file"),
            ErrorKind::InvalidInput => Error::usage(format!("`{program}` cannot be run: {error}"))
                .remedy("leave out zero bytes"),
            ErrorKind::ArgumentListTooLong => {
                Error::usage(format!("`{program}` cannot be run: {error}"))
                    .remedy("give fewer or shorter arguments")
            }
            _ => Error::resource(format!("`{program}` cannot be run: {error}")),
        }
    })
}
