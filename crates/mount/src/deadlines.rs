//! Deadlines of requests: a home or a disk that does not answer must not hang the programs that use
//! the mount.
//!
//! A program that waits for a FUSE request cannot be killed. So a request that takes longer than
//! the limit is answered with `EIO`, while its thread still waits in the system call that hangs.
//! When all threads do, nobody would receive further requests, and the mount has to be aborted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fuser::{
    Errno, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};
use parking_lot::Mutex;

/// A reply that can be an error.
pub trait Refusable: Send + 'static {
    /// Answers with an error.
    fn refuse(self, errno: Errno);
}

macro_rules! refusable {
    ($($reply:ty),*) => {
        $(impl Refusable for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

refusable!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyEmpty,
    ReplyEntry,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// The requests that are being served.
pub struct Deadlines {
    limit: Duration,
    pending: Mutex<HashMap<u64, Pending>>,
    next: AtomicU64,
}

struct Pending {
    began: Instant,
    what: &'static str,
    /// `None` if it has been refused.
    refuse: Option<Box<dyn FnOnce() + Send>>,
}

/// The reply to a request, until it is sent.
pub struct PendingReply<R> {
    reply: Arc<Mutex<Option<R>>>,
    number: u64,
    deadlines: Arc<Deadlines>,
}

impl Deadlines {
    pub fn new(limit: Duration) -> Arc<Deadlines> {
        let (pending, next) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Deadlines { limit, pending, next })
    }

    /// Begins a request.
    pub fn begin<R: Refusable>(self: &Arc<Self>, what: &'static str, reply: R) -> PendingReply<R> {
        let reply = Arc::new(Mutex::new(Some(reply)));
        let later = reply.clone();
        let refuse = Box::new(move || {
            let reply = later.lock().take();
            if let Some(reply) = reply {
                reply.refuse(Errno::EIO);
            }
        });
        let number = self.next.fetch_add(1, Relaxed);
        let pending = Pending { began: Instant::now(), what, refuse: Some(refuse) };
        self.pending.lock().insert(number, pending);
        PendingReply { reply, number, deadlines: self.clone() }
    }

    /// Refuses the requests whose time is over. Returns what they are.
    pub fn refuse_overdue(&self, now: Instant) -> Vec<&'static str> {
        let mut pending = self.pending.lock();
        let is_late = |one: &&mut Pending| now.duration_since(one.began) > self.limit;
        let late = pending.values_mut().filter(is_late);
        let late: Vec<_> =
            late.filter_map(|one| one.refuse.take().map(|refuse| (one.what, refuse))).collect();
        drop(pending);
        late.into_iter()
            .map(|(what, refuse)| {
                refuse();
                what
            })
            .collect()
    }

    /// Whether there are requests, and all of them have been refused.
    pub fn are_all_stuck(&self) -> bool {
        let pending = self.pending.lock();
        !pending.is_empty() && pending.values().all(|one| one.refuse.is_none())
    }

    /// The number of threads that still wait in a request that has been refused.
    pub fn stuck(&self) -> usize {
        self.pending.lock().values().filter(|one| one.refuse.is_none()).count()
    }
}

impl<R: Refusable> PendingReply<R> {
    /// Sends the result, unless the request has been refused.
    pub fn send<T>(self, done: Result<T, Errno>, send: impl FnOnce(R, T)) {
        self.send_or(done, send, |_| ());
    }

    /// As `send`; a result that came after the request had been refused goes to `undo`.
    pub fn send_or<T>(self, done: Result<T, Errno>, send: impl FnOnce(R, T), undo: impl FnOnce(T)) {
        let reply = self.reply.lock().take();
        match (reply, done) {
            (Some(reply), Ok(value)) => send(reply, value),
            (Some(reply), Err(errno)) => reply.refuse(errno),
            (None, Ok(value)) => undo(value),
            (None, Err(_)) => {}
        }
    }
}

impl<R> Drop for PendingReply<R> {
    fn drop(&mut self) {
        self.deadlines.pending.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct Told(Sender<&'static str>);

    impl Refusable for Told {
        fn refuse(self, _: Errno) {
            self.0.send("refused").unwrap();
        }
    }

    #[test]
    fn overdue_request_is_refused_once_and_its_late_result_is_dropped() {
        let (told, replies) = channel();
        let deadlines = Deadlines::new(Duration::from_secs(60));
        let answer = deadlines.begin("read", Told(told.clone()));
        let soon = Instant::now() + Duration::from_secs(50);
        assert!(deadlines.refuse_overdue(soon).is_empty());
        assert_eq!(deadlines.refuse_overdue(soon + Duration::from_secs(20)), ["read"]);
        assert!(deadlines.refuse_overdue(soon + Duration::from_secs(40)).is_empty());
        assert_eq!(deadlines.stuck(), 1);
        assert!(deadlines.are_all_stuck());
        let other = deadlines.begin("read", Told(told.clone()));
        assert!(!deadlines.are_all_stuck());
        other.send(Ok(()), |_, ()| ());
        let mut undone = 0;
        answer.send_or(Ok(7), |_, _| panic!("it was refused"), |handle| undone = handle);
        assert_eq!((undone, deadlines.are_all_stuck()), (7, false));
        assert_eq!(
            (deadlines.stuck(), replies.try_iter().collect::<Vec<_>>()),
            (0, vec!["refused"])
        );
        let answer = deadlines.begin("write", Told(told));
        answer.send(Ok(()), |reply, ()| reply.0.send("answered").unwrap());
        assert!(deadlines.refuse_overdue(soon + Duration::from_secs(900)).is_empty());
        assert_eq!(replies.try_iter().collect::<Vec<_>>(), ["answered"]);
    }
}
