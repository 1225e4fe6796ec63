//! Options of a cluster besides its text form.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use euphrates_flow::{Error, Result};
use euphrates_policy::failure_detector::{CONFIGURED_TIMEOUT_MAX, CONFIGURED_TIMEOUT_MIN};
use euphrates_wire::{Secret, Security};

/// How to start workers, and how to reach them.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The command that starts a worker, without the arguments that identify it.
    pub worker_command: Vec<OsString>,
    /// Environment variables of that command, besides those of this program.
    pub worker_environment: Vec<(OsString, OsString)>,
    /// A file with the cluster's token.
    pub token_file: Option<PathBuf>,
    /// The number of workers to wait for.
    pub workers: Option<usize>,
    /// How long to wait for them.
    pub within: Option<Duration>,
    /// Of a persistent cluster, uses only the workers with one of these names or labels; all, if
    /// empty. The others need not answer.
    pub on: Vec<String>,
    /// The security of connections between machines; TLS by default.
    pub security: Option<Security>,
    /// The limit on silence of any process, if not the default.
    pub lost_after: Option<Duration>,
}

impl ClusterOptions {
    /// The token in `token_file`.
    pub(super) fn secret(&self) -> Result<Secret> {
        let file = self.token_file.as_ref().ok_or_else(|| {
            Error::usage("workers and their master must know the same token, and none is given")
                .remedy("make one (`euphrates token FILE`), and give the file: `--token-file FILE`")
        })?;
        Secret::read(file)
    }

    /// The limit on silence, checked.
    pub(super) fn lost_after(&self) -> Result<Option<Duration>> {
        self.lost_after.map(check_lost_after).transpose()
    }

    /// The security of connections; TLS by default.
    pub(super) fn security(&self) -> Security {
        self.security.unwrap_or(Security::Tls)
    }
}

/// Refuses limits on silence that are too short or too long.
///
/// ```
/// use euphrates_engine::cluster::options::check_lost_after;
/// use std::time::Duration;
///
/// assert!(check_lost_after(Duration::from_secs(60)).is_ok());
/// let error = check_lost_after(Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.advice(), Some("give 2 to 3600 seconds"));
/// ```
pub fn check_lost_after(asked: Duration) -> Result<Duration> {
    if (CONFIGURED_TIMEOUT_MIN..=CONFIGURED_TIMEOUT_MAX).contains(&asked) {
        return Ok(asked);
    }
    let (least, most) = (CONFIGURED_TIMEOUT_MIN.as_secs(), CONFIGURED_TIMEOUT_MAX.as_secs());
    let message = format!("a limit of {} s on silence is out of range", asked.as_secs_f64());
    Err(Error::usage(message).remedy(format!("give {least} to {most} seconds")))
}
