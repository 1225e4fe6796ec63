//! The connections between the parts of an attempt: which worker dials, and when all are connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{iter, thread};

use euphrates_flow::{Cause, Error, Kind, Result};
use euphrates_wire::{Connection, Security, dial};

use super::Part;
use super::runner::Runner;
use crate::cluster::control::{AttemptPlan, Outcome};
use crate::cluster::identity::{greeting, parted};
use crate::run::wiring::peers;

/// How long to wait for the next connection.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long to wait before calling again.
const CALL_AGAIN: Duration = Duration::from_millis(20);
/// The most calls at one time.
const CALLERS_MAX: usize = 8;

/// Calls other workers for a part.
struct PartCaller<'a> {
    plan: &'a AttemptPlan,
    part: &'a Arc<Part>,
    security: Security,
}

impl Runner {
    /// Connects to every process with a lower number that shares a queue or module with this one:
    /// the closest number first, so that no worker is called by all at once, and several at a
    /// time, since some may be slow to answer.
    pub(super) fn call_others(&self) -> Result<()> {
        let Some(flow) = &self.flow else { return Err(Error::failed("it is not prepared")) };
        let me = self.plan.placement.me;
        let others = peers(flow, &self.plan.placement).into_iter().filter(|other| *other < me);
        let lanes = 0..self.plan.lanes;
        let calls = others.rev().flat_map(|other| lanes.clone().map(move |lane| (other, lane)));
        let calls: Vec<(usize, usize)> = calls.collect();
        let security = self.context.setting.security;
        let caller = PartCaller { plan: &self.plan, part: &self.part, security };
        let next = AtomicUsize::new(0);
        let call_some = || {
            iter::from_fn(|| calls.get(next.fetch_add(1, Relaxed)))
                .try_for_each(|(other, lane)| caller.connect(*other, *lane))
        };
        thread::scope(|scope| {
            let threads = 0..calls.len().min(CALLERS_MAX);
            let threads: Vec<_> = threads.map(|_| scope.spawn(call_some)).collect();
            let panicked = |_| Err(Error::failed("calling panicked"));
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
        })
    }

    /// Restarts the limit: while connections are made, missing ones may still come.
    pub(super) fn on_connected(&mut self) {
        self.connecting = self.connecting.map(|_| Instant::now());
        self.check_connections();
    }

    pub(super) fn check_connections(&mut self) {
        let (Some(since), Some(flow)) = (self.connecting, &self.flow) else { return };
        let others = peers(flow, &self.plan.placement);
        let missing = others.iter().find(|other| !self.part.network.is_connected(**other));
        match missing {
            None => self.answer(Ok(Outcome::default())),
            Some(other) if since.elapsed() > CONNECT_WAIT => {
                let name = &self.plan.names[*other];
                let me = &self.plan.names[self.plan.placement.me];
                let error = Error::resource(format!("worker {name} has not connected"))
                    .remedy("look at the network between the workers")
                    .because(Cause::link(me, name, true));
                self.answer(Err(error));
            }
            Some(_) => return,
        }
        self.connecting = None;
    }
}

impl PartCaller<'_> {
    fn connect(&self, other: usize, lane: usize) -> Result<()> {
        let names = &self.plan.names;
        let me = &names[self.plan.placement.me];
        let called = self.call(other, lane).map_err(|error| parted(me, &names[other], error))?;
        self.part.welcome(other, lane, called)
    }

    /// Calls until there is an answer: a worker that many call may be busy.
    fn call(&self, other: usize, lane: usize) -> Result<Connection> {
        let PartCaller { plan, part, security } = self;
        let name = &plan.names[plan.placement.me];
        let greeting = greeting(name, "batches", part.network.attempt()).on_lane(lane);
        let deadline = Instant::now() + CONNECT_WAIT;
        loop {
            match dial(&plan.addresses[other], &greeting, part.secret(), *security, CONNECT_WAIT) {
                Err(error) if error.kind() == Kind::Resource && Instant::now() < deadline => {
                    part.cancel.check()?;
                    thread::sleep(CALL_AGAIN);
                }
                called => return called,
            }
        }
    }
}
