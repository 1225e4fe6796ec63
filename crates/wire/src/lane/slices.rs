//! Scheduler hints: short time slices for threads that do little work but must do it in time.

/// The requested time slice. The scheduler rounds it up to its minimum.
const SLICE_NS: u64 = 100_000;

/// Asks for short slices for this thread: of the threads that wait for a processor, Linux (6.12,
/// EEVDF) runs the one whose slice would end first. In a process with a thirtieth of a processor
/// and fifteen computing threads, a thread that sleeps for a quarter of a second wakes after up to
/// six seconds without the hint, and after half of that with it. Older kernels ignore the hint.
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
    // SAFETY: the kernel reads `size` bytes, the size of the structure.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
