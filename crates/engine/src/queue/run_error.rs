//! Errors for producers that violate the protocol of numbered runs.

use euphrates_flow::Error;
use euphrates_policy::runs::Broken;

/// The error for a broken rule, with its remedy.
pub fn run_error(broken: Broken) -> Error {
    match broken {
        Broken::Gap(run) => Error::failed(format!("a run before run {run} never came"))
            .remedy("number the runs 0, 1, 2, … without gaps, over all instances"),
        Broken::Twice(run) => Error::failed(format!("run {run} was begun twice"))
            .remedy("number the runs once over all instances: each begins some of them"),
        Broken::Cut(run) => Error::failed(format!("run {run} never ended"))
            .remedy("call end_run after the last batch of it"),
    }
}

/// The error for a batch that is in no run.
pub fn outside_of_runs() -> Error {
    Error::failed("a batch of an ordered stream was put outside of its runs")
        .remedy("put it between begin_run and end_run, or declare the order `any`")
}
