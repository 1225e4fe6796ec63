//! Has threads that have little to do, but in time, run before those that compute.

/// How long a thread runs before others may have their turn.
const SLICE_NS: u64 = 100_000;

/// Asks for short slices for this thread: of those that wait for a processor, Linux (6.12, EEVDF)
/// runs the one whose slice would end first. Otherwise where a process is allowed a thirtieth of a
/// processor, and fifteen of its threads compute, a thread that sleeps for a quarter of a second
/// wakes after up to six; so half of that. Older kernels give all the same.
pub(super) fn ask_short() {
    let Ok(nice) = rustix::process::getpriority_process(None) else { return };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads as many bytes as the structure says it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
