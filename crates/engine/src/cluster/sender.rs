//! Sends control messages: JSON, in frames with the number of a flow or launch.

use std::marker::PhantomData;

use arrow::buffer::Buffer;
use euphrates_wire::{FrameKind, Header, Lane};
use serde::Serialize;

use super::control;

/// Sends messages of one type about one flow, about one launch, or about neither.
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
    /// For messages about the cluster itself.
    pub fn of_cluster(lane: &Lane) -> ControlSender<T> {
        ControlSender::new(lane.clone(), Header::of(FrameKind::Control))
    }

    /// For messages about an attempt at a flow.
    pub fn of_attempt(lane: &Lane, (flow, epoch): (u64, u32)) -> ControlSender<T> {
        let header = Header { flow, epoch, ..Header::of(FrameKind::Control) };
        ControlSender::new(lane.clone(), header)
    }

    /// For messages about a launch, or about programs.
    pub fn of_launch(lane: &Lane, number: u64) -> ControlSender<T> {
        let header = Header { flow: number, ..Header::of(FrameKind::Launch) };
        ControlSender::new(lane.clone(), header)
    }

    /// Sends a message with its body. Never waits.
    pub fn send(&self, message: &T, body: Vec<Buffer>) {
        self.lane.send(self.header, control::write(message), body);
    }
}

impl<T> ControlSender<T> {
    fn new(lane: Lane, header: Header) -> ControlSender<T> {
        ControlSender { lane, header, message: PhantomData }
    }
}
