//! A network for tests: several processes in one, connected by channels.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use arrow::buffer::Buffer;
use euphrates_flow::{Cancel, Result};
use euphrates_wire::{Frame, Header};
use parking_lot::Mutex;

use super::{Carrier, Network};

/// Lanes between any two.
const LANES: usize = 3;
/// Delays that let lanes fall behind each other: every how many frames, and how long.
const PAUSES: [(usize, Duration); LANES] =
    [(2, Duration::from_micros(100)), (3, Duration::from_micros(200)), (1, Duration::ZERO)];

/// The frames for one process, by lane.
pub struct Mail(Vec<Receiver<Frame>>);

/// The networks of this many processes, with the cancel switch and the frames of each.
pub fn networks(workers: usize) -> Vec<(Arc<Network>, Arc<Cancel>, Mail)> {
    let boxes = || (0..LANES).map(|_| channel::<Frame>()).unzip();
    let (senders, mail): (Vec<Vec<_>>, Vec<Vec<_>>) = (0..workers).map(|_| boxes()).unzip();
    let connected = |(me, mail)| {
        let cancel = Arc::new(Cancel::default());
        let network = Network::new((7, 1), me, (workers, LANES), cancel.clone());
        for to in (0..workers).filter(|to| *to != me) {
            for (lane, sender) in senders[to].iter().enumerate() {
                network.connect(to, lane, Arc::new(Mutex::new(sender.clone())));
            }
        }
        (network, cancel, Mail(mail))
    };
    mail.into_iter().enumerate().map(connected).collect()
}

impl Mail {
    /// Passes frames to `handle` until `to` is dropped.
    pub fn deliver<T>(self, to: &Arc<T>, handle: fn(&T, &Frame) -> Result<()>)
    where
        T: Send + Sync + 'static,
    {
        for (mail, (frames, pause)) in self.0.into_iter().zip(PAUSES) {
            let to: Weak<T> = Arc::downgrade(to);
            thread::spawn(move || {
                for (number, frame) in mail.into_iter().enumerate() {
                    let Some(to) = to.upgrade() else { return };
                    if number % frames == 0 {
                        thread::sleep(pause);
                    }
                    handle(&to, &frame).unwrap();
                }
            });
        }
    }
}

/// Sends frames through a channel, with their body in one piece.
impl Carrier for Mutex<Sender<Frame>> {
    fn limit_rate(&self, _: Option<u64>) {}

    fn carry(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>) {
        let parts: Vec<u8> = body.iter().flat_map(|part| part.iter().copied()).collect();
        let header = Header { body_bytes: parts.len() as u64, ..header };
        let body = Buffer::from_slice_ref(&parts);
        // A process that has ended receives nothing.
        let _ = self.lock().send(Frame { header, meta, body });
    }

    fn end(&self) {}
}
