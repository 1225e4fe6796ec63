//! Lent memory: what this worker serves of its own, and what a part borrows from others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use euphrates_device::folder::DiskFolder;
use euphrates_device::lent_memory::{LendOptions, LentMemory};
use euphrates_flow::{Error, Result};
use euphrates_policy::lent_memory::{LendingWorker, lenders_of};
use euphrates_policy::striping::RequestOrder;
use euphrates_wire::served::{FileServer, lent_by};

use crate::cluster::control::AttemptPlan;
use crate::cluster::worker_context::WorkerSettings;
use crate::machine;

/// The server of files with the memory that a worker lends, if it lends some.
pub(in crate::cluster) fn with_lent_memory(
    files: Option<FileServer>,
    setting: &WorkerSettings,
) -> Result<Option<FileServer>> {
    let bytes_max = setting.member.lent_bytes;
    if bytes_max == 0 {
        return Ok(files);
    }
    check_lent(bytes_max)?;
    let scratch = setting.scratch.first().cloned();
    let scratch = scratch.or_else(|| machine::scratch(&machine::home()).into_iter().next());
    let scratch = scratch.unwrap_or_else(|| PathBuf::from("."));
    euphrates_device::scratch::reclaim(&scratch);
    let lent = LentMemory::new(LendOptions { bytes_max, scratch, run_id: machine::run_id() })?;
    let order = RequestOrder::Granted;
    let none = |lost_after: Option<Duration>| {
        FileServer::new(&machine::host(), Path::new(""), vec![], &order, lost_after)
    };
    let files = files.unwrap_or_else(|| none(setting.lost_after));
    Ok(Some(files.lending(Arc::new(lent))))
}

/// Fails if a worker cannot lend so much.
fn check_lent(bytes: u64) -> Result<()> {
    let all = machine::memory_bytes();
    if bytes < all {
        return Ok(());
    }
    let message = format!("{bytes} bytes are to be lent, but this machine has {all}");
    Err(Error::usage(message).remedy("lend less than the memory: --lend-memory BYTES"))
}

/// The memory from which a part of a flow may borrow.
pub(super) fn borrowed(
    plan: &AttemptPlan,
    setting: &WorkerSettings,
) -> Result<Vec<Arc<dyn DiskFolder>>> {
    let workers: Vec<LendingWorker> = plan
        .lending
        .iter()
        .map(|worker| LendingWorker { host: &worker.host, lent_bytes_max: worker.bytes })
        .collect();
    let access = (&setting.secret, setting.security);
    let me = &plan.names[plan.placement.me];
    lenders_of(&workers, plan.placement.me)
        .into_iter()
        .map(|at| lent_by(me, &plan.names[at], &plan.addresses[at], access, plan.lost_after))
        .collect()
}
