//! Processes of tests: several in one, whose lanes are channels.

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
/// Lanes fall behind each other: each of them for a moment, once in so many frames.
const PAUSES: [(usize, Duration); LANES] =
    [(2, Duration::from_micros(100)), (3, Duration::from_micros(200)), (1, Duration::ZERO)];

/// What comes for one process, by lane.
pub struct Mail(Vec<Receiver<Frame>>);

/// So many processes, each with a switch that ends its flow.
pub fn networks(workers: usize) -> Vec<(Arc<Network>, Arc<Cancel>, Mail)> {
    let boxes = || (0..LANES).map(|_| channel::<Frame>()).unzip();
    let (letters, mail): (Vec<Vec<_>>, Vec<Vec<_>>) = (0..workers).map(|_| boxes()).unzip();
    let connected = |(me, mail)| {
        let cancel = Arc::new(Cancel::default());
        let network = Network::new((7, 1), me, (workers, LANES), cancel.clone());
        for to in (0..workers).filter(|to| *to != me) {
            for (lane, letters) in letters[to].iter().enumerate() {
                network.connect(to, lane, Arc::new(Mutex::new(letters.clone())));
            }
        }
        (network, cancel, Mail(mail))
    };
    mail.into_iter().enumerate().map(connected).collect()
}

impl Mail {
    /// Hands over what comes, for as long as somebody is there to have it.
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

/// Frames go into a box, and come out with their body in one piece.
impl Carrier for Mutex<Sender<Frame>> {
    fn hold(&self, _: Option<u64>) {}

    fn carry(&self, header: Header, meta: Vec<u8>, body: Vec<Buffer>) {
        let parts: Vec<u8> = body.iter().flat_map(|part| part.iter().copied()).collect();
        let header = Header { body_bytes: parts.len() as u64, ..header };
        let body = Buffer::from_slice_ref(&parts);
        // A process that has ended gets no letters.
        let _ = self.lock().send(Frame { header, meta, body });
    }

    fn end(&self) {}
}
