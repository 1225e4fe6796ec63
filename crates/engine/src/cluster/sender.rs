//! How control messages are sent: JSON, in frames that say which flow or launch they are about.

use std::marker::PhantomData;

use arrow::buffer::Buffer;
use euphrates_wire::{Header, Kind, Lane};
use serde::Serialize;

use super::control;

/// Sends messages of one type about one flow or launch, or about none.
pub struct ControlSender<T> {
    lane: Lane,
    header: Header,
    message: PhantomData<fn(&T)>,
}

impl<T> Clone for ControlSender<T> {
    fn clone(&self) -> ControlSender<T> {
        ControlSender::new(self.lane.clone(), self.header)
    }
}

impl<T: Serialize> ControlSender<T> {
    /// About the cluster itself.
    pub fn of_cluster(lane: &Lane) -> ControlSender<T> {
        ControlSender::new(lane.clone(), Header::of(Kind::Control))
    }

    /// About an attempt at a flow.
    pub fn of_attempt(lane: &Lane, (flow, epoch): (u64, u32)) -> ControlSender<T> {
        let header = Header { flow, epoch, ..Header::of(Kind::Control) };
        ControlSender::new(lane.clone(), header)
    }

    /// About a launch, or a question about programs.
    pub fn of_launch(lane: &Lane, number: u64) -> ControlSender<T> {
        let header = Header { flow: number, ..Header::of(Kind::Launch) };
        ControlSender::new(lane.clone(), header)
    }

    /// Sends a message, with what goes beside it. Never waits.
    pub fn send(&self, message: &T, body: Vec<Buffer>) {
        self.lane.send(self.header, control::write(message), body);
    }
}

impl<T> ControlSender<T> {
    fn new(lane: Lane, header: Header) -> ControlSender<T> {
        ControlSender { lane, header, message: PhantomData }
    }
}
