//! The producer's end of a broadcast: puts every batch into the queue of every consumer.

use euphrates_flow::ports::Producer;
use euphrates_flow::{Error, Kind, Parcel, Result, RunIndex};

use super::any_queue::AnyQueue;

/// One producer of every queue. Skips consumers that have left; closed when all have.
pub struct Broadcast(Vec<Option<Box<dyn Producer>>>);

impl Broadcast {
    /// The ends of this instance at the queues of an edge.
    pub fn new(queues: &[AnyQueue], instance: usize) -> Broadcast {
        Broadcast(queues.iter().map(|queue| Some(queue.producer(instance))).collect())
    }

    fn each(&mut self, mut act: impl FnMut(&mut dyn Producer) -> Result<()>) -> Result<()> {
        for end in &mut self.0 {
            match end.as_mut().map(|end| act(end.as_mut())) {
                Some(Err(error)) if error.kind() == Kind::Closed => *end = None,
                Some(Err(error)) => return Err(error),
                _ => {}
            }
        }
        if self.0.iter().all(Option::is_none) { Err(Error::closed()) } else { Ok(()) }
    }
}

impl Producer for Broadcast {
    fn put(&mut self, parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        // All or none: a put that does not wait must not reach some queues while others are full.
        if !wait && !self.has_room(&parcel) {
            return Ok(Some(parcel));
        }
        self.each(|end| end.put(parcel.clone(), true).map(|_| ()))?;
        Ok(None)
    }

    fn has_room(&mut self, parcel: &Parcel) -> bool {
        self.0.iter_mut().flatten().all(|end| end.has_room(parcel))
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        self.each(|end| end.begin_run(run))
    }

    fn end_run(&mut self, run: RunIndex) -> Result<()> {
        self.each(|end| end.end_run(run))
    }
}
