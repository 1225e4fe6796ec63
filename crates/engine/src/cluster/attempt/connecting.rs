//! The connections of an attempt: between workers, and between them and the master.

use std::sync::Arc;
use std::time::Duration;

use euphrates_flow::check::CheckedFlow;
use euphrates_flow::{Cause, Error, Result};
use euphrates_wire::{Frame, Lane, Secret, dial};

use super::{Attempt, MasterCommand, STEP_WAIT};
use crate::cluster::Cluster;
use crate::cluster::control_connection::loss_detection_time;
use crate::cluster::identity::{MASTER, batch_lane_timeout, greeting, parted};
use crate::run::wiring::peers;

impl Attempt {
    /// Tells workers that share queues to connect to each other; connects the master, if it shares
    /// some. `connected` waits for that.
    pub fn connect(
        &self,
        cluster: &Cluster,
        flow: &CheckedFlow,
        secret: &Secret,
        on_lost: impl Fn(Error) + Clone + Send + 'static,
    ) -> Result<()> {
        self.command_all(|_| MasterCommand::Connect);
        let lanes = 0..self.network.lanes();
        let calls = peers(flow, &self.placement).into_iter();
        for (worker, lane) in calls.flat_map(|worker| lanes.clone().map(move |lane| (worker, lane)))
        {
            let handle = &self.handles[worker];
            let name = handle.member().name.clone();
            let me = greeting(MASTER, "batches", self.id).on_lane(lane);
            let called = dial(handle.address(), &me, secret, cluster.security, STEP_WAIT);
            let connection = called.map_err(|error| parted(MASTER, &name, error))?;
            let (dispatch, peer) = (self.dispatch.clone(), name.clone());
            let on_frame = move |frame: Frame| dispatch.on_frame(&frame, MASTER, &peer);
            let (called, on_lost) = (format!("batches {name}"), on_lost.clone());
            let on_end = move |result: Result<()>| {
                if let Err(error) = result {
                    let link = Cause::link(MASTER, &name, false);
                    on_lost(error.at(format!("worker {name}")).because(link));
                }
            };
            let patience = self.batch_lane_timeout();
            let carrier = Lane::start_patient(patience, connection, &called, on_frame, on_end)?;
            self.network.connect(worker, lane, Arc::new(carrier));
        }
        Ok(())
    }

    /// Waits until all are connected, unless interrupted.
    pub fn connected(&self, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.answers(STEP_WAIT, is_interrupted).map(drop)
    }

    /// How long it takes to detect the loss of a worker.
    pub fn loss_detection_time(&self) -> Duration {
        loss_detection_time(&self.handles)
    }

    /// The limit on silence of connections for batches.
    pub fn batch_lane_timeout(&self) -> Duration {
        batch_lane_timeout(self.lost_after)
    }
}
